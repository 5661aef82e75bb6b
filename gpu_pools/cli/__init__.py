"""The command lines of `gpu-pools`."""
