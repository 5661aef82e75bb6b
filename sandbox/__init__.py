"""The embedded platform: the same Pulumi program, run without a cloud and without a GPU.

The engine, the Kubernetes control plane, helm and NFD's master are the real programs; clouds, nodes and GPUs
are stand-ins that refuse what the real thing refuses. Nothing outside this package may import it.
"""
