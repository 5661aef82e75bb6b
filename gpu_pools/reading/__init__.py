"""Reading the sections of a stack file strictly: typed values out, each problem with its path."""
