"""From declared pools to everything that follows from them, without any cloud."""
