"""Reading a stack file: every section, each problem with its path."""
