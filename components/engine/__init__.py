"""What components need of Pulumi's engine: options of children, messages, outputs, replacement."""
