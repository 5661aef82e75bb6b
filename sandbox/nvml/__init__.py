"""The simulated GPU: a libnvidia-ml.so.1 of our own, and the state file that tells it which machine to be.

Programs that ask NVML (pynvml, gpu-feature-discovery, nvidia-device-plugin, nvidia-mig-parted) load it unchanged. What it
answers, and what it does not, is in README.md beside this file.
"""
