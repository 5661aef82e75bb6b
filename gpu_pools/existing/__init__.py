"""Files that people have already: checked against what the real software does with them, and turned into a stack's section."""
