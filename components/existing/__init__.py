"""A cluster that exists and is reached through a kubeconfig: nothing of it is made here."""
