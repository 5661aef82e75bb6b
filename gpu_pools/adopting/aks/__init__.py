"""Adopting agent pools of an AKS cluster."""
