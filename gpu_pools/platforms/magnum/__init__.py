"""OpenStack Magnum: what a stack declares of it, and what its drivers make of that."""
