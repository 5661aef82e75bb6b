"""What `python -m sandbox` does: its commands, and what they show."""
