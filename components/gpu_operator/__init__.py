"""What runs in the cluster so that its nodes share GPUs: NFD, labels, the GPU operator with its configs, the startup taint."""
