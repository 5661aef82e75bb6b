"""Types of arguments, and the way from them to the stack file's keys."""
