"""Adopting node groups of a Magnum cluster."""
