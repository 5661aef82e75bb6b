"""AKS: clusters that are made and clusters that exist, node pools, the check before a deploy, and the session with Azure."""
