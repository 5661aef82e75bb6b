"""The simulated GPUs of a real node: device files, PCI devices, and the state file that the simulated NVML reads.

What a driver brings is not here: the operand images have it (operand_images).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sandbox.nvml import from_tables, state

if TYPE_CHECKING:
    from sandbox.nvml.simulated import Machine

#: In the node. A container gets it by the runtime, with NVML.
STATE: Final = "/run/nvidia/simulated/state"
_CONTROL, _MEMORY = 195, 511
_CONTROL_MINOR: Final = 255
#: Newer than what the driver container then says: nothing here runs CUDA.
_CUDA: Final = "13.2"


def machine(node: str, model: str, product: str, count: int) -> Machine:
    """A node's GPUs as they are before there is a driver.

    Args:
        node: its name, from which the GPUs' ids follow.
        model: key of gpu_pools.hardware.models.
        product: what NVML names it.
        count: how many.
    """
    return from_tables.machine_state(model, product, count, cuda=_CUDA, node=node)


def devices(found: Machine) -> dict[str, tuple[int, int]]:
    """Path in the node -> major and minor number."""
    return {
        **{f"/dev/nvidia{gpu.minor}": (_CONTROL, gpu.minor) for gpu in found.gpus},
        "/dev/nvidiactl": (_CONTROL, _CONTROL_MINOR),
        "/dev/nvidia-uvm": (_MEMORY, 0),
        "/dev/nvidia-uvm-tools": (_MEMORY, 1),
    }


def files(found: Machine) -> dict[str, str]:
    """Path in the node -> text."""
    return {STATE: state.text(found)}
