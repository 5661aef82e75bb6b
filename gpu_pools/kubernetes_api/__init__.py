"""The one client of clusters: logs in with a kubeconfig, sends requests to the Kubernetes API, and explains what went wrong."""
