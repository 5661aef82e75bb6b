"""How the GPUs of a pool are shared: one module per mode, behind the interface of gpu_pools/sharing/mode.py."""
