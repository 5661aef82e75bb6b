"""The machines of a cluster: stand-ins for kubelets, GPUs and the GPU operator, and what runs on the machines.

One daemon per simulated cluster (``python -m sandbox.machines <cluster folder>``) turns machine groups into nodes of a real API
server and behaves as the programs on them would. The control plane, nfd-master and nfd-worker are the real programs; so are
device plugin, gpu-feature-discovery and mig-parted where the machine allows it (node_programs). Every other module here says
which real program it stands in for, and what of it is missing.

How it is built: watches fill a cache (store), one loop (daemon) wakes when something changed, and each step of it is
idempotent. What a program would decide where it cannot run is in pure functions (gpu, mig_parted, plugin_config, device_plugin,
gfd), which are tested without a cluster; the other modules only carry answers to the API.
"""
