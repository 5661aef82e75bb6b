"""Adopting nodes of any cluster, by its Kubernetes objects."""
