"""How the shares of a GPU reach Kubernetes: one module per mechanism."""
