"""What the command lines print and read: messages without control characters, tables, YAML, problems; nothing of GPUs."""
