"""Clusters of the sandbox: the control plane, and what its nodes are made of."""
