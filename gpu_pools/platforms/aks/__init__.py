"""Azure Kubernetes Service: what a stack declares of it, and what Azure makes of that."""
