"""How a pool shares its GPUs that AKS partitions by itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpu_pools.adopting.sharing import Shared
from gpu_pools.mig.geometry import known_profiles

if TYPE_CHECKING:
    from gpu_pools.hardware.models import GpuModel


def by_azure(profile: str, model: GpuModel) -> Shared:
    """From what AKS partitions by itself: one full uniform layout.

    Args:
        profile: its `gpuInstanceProfile`, e.g. ``MIG1g``.
        model: of the GPUs.
    """
    slices = profile.removeprefix("MIG")
    fitting = sorted(
        (one for name, one in known_profiles(model).items() if re.fullmatch(rf"{re.escape(slices)}\.\d+gb", name)),
        key=lambda one: -one.max_instances,
    )
    return Shared(tuple((f"mig-{one.name}", {"mig": {"layout": {one.name: one.max_instances}}}) for one in fitting), ())
