"""Stand-in for NVIDIA's MPS daemon, which needs a GPU: its control program, and the limits that it tells.

A file on the machine says that the daemon runs, and holds its limits; who writes it is gpu_node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sandbox.nvml import simulated

#: What is asked of nvidia-cuda-mps-control here: the plugin asks a daemon that runs for a number, the verifier for its limits.
CONTROL: Final = """\
#!/bin/sh
# Stand-in for NVIDIA's MPS control program: answers while the machine's MPS daemon is said to run.
daemon="${0%/*}/../mps-daemon"
read -r command gpu
test -e "$daemon" || { echo "Cannot find MPS control daemon process"; exit 1; }
case "$command" in
get_default_active_thread_percentage) sed -n 1p "$daemon" ;;
get_default_device_pinned_mem_limit) sed -n "$((gpu + 2))p" "$daemon" ;;
esac
"""
_MIB_PER_GIB: Final = 1024


def limits(machine: simulated.Machine, replicas: int) -> str:
    """The daemon's limits as it prints them: the percentage, then a line for each GPU.

    They are those that the device plugin's daemon sets (k8s-device-plugin v0.17.4, cmd/mps-control-daemon/mps/daemon.go). Memory
    comes back in whole GiB, rounded down (seen on an H100 with driver 580; what less than one looks like is assumed).
    """
    shares = [(gpu.memory_mib or 0) // replicas for gpu in machine.gpus]
    lines = [f"{share // _MIB_PER_GIB}G" if share >= _MIB_PER_GIB else f"{share}M" for share in shares]
    return "\n".join([f"{100 // replicas:.1f}", *lines]) + "\n"
