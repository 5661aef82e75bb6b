"""Stand-in for the machines of a cluster: kubelets, GPUs, the GPU operator and its operands, and NFD's workers.

One daemon per simulated cluster (``python -m sandbox.machines <cluster folder>``) turns machine groups into nodes of a
real API server and behaves as the programs on them would. The control plane and nfd-master are the real programs; every
module here says which real program it stands in for, and what of it is missing.

How it is built: watches fill a cache (store), one loop (daemon) wakes when something changed, and each step of it is
idempotent. What a program would decide is in pure functions (gpu, mig_parted, plugin_config, device_plugin, gfd), which
are tested without a cluster; the other modules only carry their answers to the API.
"""
