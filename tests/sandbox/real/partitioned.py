"""GPUs of the simulated machine with MIG instances on them, put there without any program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_pools.hardware.models import model
from gpu_pools.mig.geometry import place
from sandbox.nvml import simulated

if TYPE_CHECKING:
    from collections.abc import Mapping


def partitioned(key: str, gpu: simulated.Gpu, layout: Mapping[str, int]) -> simulated.Gpu:
    """A GPU of that model in MIG mode, with a legal layout where the plan places it; an empty layout is not an instance."""
    arrangement = place(model(key), layout)
    assert arrangement is not None
    return simulated.partitioned(gpu, [(at.profile, at.start) for at in arrangement])
