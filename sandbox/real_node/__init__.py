"""A real node for a simulated cluster: kubelet, containerd, runc and CNI, in namespaces of their own.

It joins the control plane of a cluster's folder beside the simulated machines. Its root folder is its own, its cgroups, processes
and network too; NVML is the simulated library. Linux only, as root. Not here: the simulated machines (sandbox/machines), and what
NVIDIA's operator puts on a node.
"""
