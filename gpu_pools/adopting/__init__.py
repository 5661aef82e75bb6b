"""From pools that people have made by hand to a stack file and an import file, and back: what a stack leaves when it lets go."""
