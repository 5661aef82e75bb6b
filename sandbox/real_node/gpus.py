"""The GPUs of a real node: device files, PCI devices, and what their driver needs.

Simulated ones have a state file that the simulated NVML reads; what their driver brings is in the operands' images. The machine's
own have its driver, which is shown in the node where a driver container's would be (own_gpus).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sandbox.nvml import from_tables, state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.nvml.simulated import Gpu, Machine

#: In the node. A container gets it by the runtime, with NVML.
STATE: Final = "/run/nvidia/simulated/state"
_CONTROL, _MEMORY = 195, 511
_CONTROL_MINOR: Final = 255
#: Newer than what the driver container then says; what runs CUDA here is a library that computes on the processor.
_CUDA: Final = "13.2"


@dataclass(frozen=True)
class Gpus:
    """What a node with GPUs has that another one has not.

    Attributes:
        devices: path in the node -> major and minor number.
        files: path in the node -> text.
        bus: the GPUs of a PCI bus that is made for the node; empty: it has the machine's.
        shown: path in the node -> folder of this machine that is shown there.
    """

    devices: Mapping[str, tuple[int, int]]
    files: Mapping[str, str] = field(default_factory=dict)
    bus: tuple[Gpu, ...] = ()
    shown: Mapping[str, str] = field(default_factory=dict)


def simulated(node: str, model: str, product: str, count: int) -> Gpus:
    """A node's simulated GPUs as they are before there is a driver.

    Args:
        node: its name, from which the GPUs' ids follow.
        model: key of gpu_pools.hardware.models.
        product: what NVML names it.
        count: how many.
    """
    return of_state(from_tables.machine_state(model, product, count, cuda=_CUDA, node=node))


def of_state(found: Machine) -> Gpus:
    """The GPUs of a simulated machine."""
    return Gpus(_devices(found), {STATE: state.text(found)}, found.gpus)


def _devices(found: Machine) -> dict[str, tuple[int, int]]:
    return {
        **{f"/dev/nvidia{gpu.minor}": (_CONTROL, gpu.minor) for gpu in found.gpus},
        "/dev/nvidiactl": (_CONTROL, _CONTROL_MINOR),
        "/dev/nvidia-uvm": (_MEMORY, 0),
        "/dev/nvidia-uvm-tools": (_MEMORY, 1),
    }
