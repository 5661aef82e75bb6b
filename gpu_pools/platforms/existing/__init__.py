"""A cluster that is there already: which nodes are its pools, and how it is reached."""
