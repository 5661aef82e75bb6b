"""The platforms: one folder per cloud, behind the interface of gpu_pools/stack/cluster.py."""
