"""GPUs of the simulated machine with MIG instances on them, put there without any program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpus.mig import place
from gpus.models import model
from sandbox.nvml import state

if TYPE_CHECKING:
    from collections.abc import Mapping


def partitioned(key: str, gpu: state.Gpu, layout: Mapping[str, int]) -> state.Gpu:
    """A GPU of that model in MIG mode, with a legal layout where the plan places it; an empty layout is no instance."""
    assert gpu.mig is not None
    arrangement = place(model(key), layout)
    assert arrangement is not None
    kinds = {profile.name: profile for profile in gpu.mig.profiles}
    instances = tuple(
        state.GpuInstance(number, kinds[at.profile].id, at.start, (state.ComputeInstance(0, kinds[at.profile].slices, 0),))
        for number, at in enumerate(arrangement, start=1)
    )
    return replace(gpu, mig=replace(gpu.mig, current=True, pending=True, instances=instances))
