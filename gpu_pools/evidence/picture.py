"""Draws a GPU as NVML shows it: what the page of the evidence has for each (gpu_pools/mig/svg.py draws)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.evidence.shared_text import plain
from gpu_pools.hardware.models import model, model_keys
from gpu_pools.mig.geometry import Placement
from gpu_pools.mig.svg import gpu_svg

if TYPE_CHECKING:
    from gpu_pools.evidence.reports import Gpu
    from gpu_pools.text.markup import Html

_NAME_CHARACTERS: Final = 24
_ENABLED: Final = "enabled"


def picture(gpu: Gpu, gpu_model: str) -> Html:
    """The picture of a GPU.

    Args:
        gpu: as NVML shows it.
        gpu_model: this project's key of the model; says how many placement units there are.
    """
    instances = tuple(Placement(one.start, one.size, plain(one.profile, _NAME_CHARACTERS)) for one in gpu.instances)
    return gpu_svg(_label(gpu), instances, _units(gpu_model), parted=gpu.mig.startswith(_ENABLED))


def _label(gpu: Gpu) -> str:
    """What the picture shows, for who cannot see it."""
    if not gpu.instances and not gpu.mig.startswith(_ENABLED):
        return plain(f"GPU {gpu.index}: whole, MIG {gpu.mig}")
    placed = ", ".join(f"{one.profile} at {one.start}" for one in gpu.instances) or "no instance"
    return plain(f"GPU {gpu.index}: {placed}")


def _units(gpu_model: str) -> int:
    known = model(gpu_model).placement_units if gpu_model in model_keys() else None
    return known or 1
