"""The GPUs of one node, as far as tables or the author of a stack file know them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_pools.hardware.models import GpuModel


@dataclass(frozen=True)
class Hardware:
    """The GPUs of one node.

    Attributes:
        model: the GPU model.
        product: what NVML answers, where the form factor is known; else None.
        gpus: GPUs per node.
        source: where the declaration comes from, for messages, e.g. ``vmSize Standard_NC24ads_A100_v4``.
        mig_offered: False where the cloud does not offer MIG on it although the GPU may have it.
        known_size: False where no table has the VM size, so that only its author can tell what it has.
    """

    model: GpuModel
    product: str | None
    gpus: int
    source: str
    mig_offered: bool = True
    known_size: bool = True
