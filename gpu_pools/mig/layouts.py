"""Every maximal MIG layout of a GPU model, with what it leaves unused: data for machines, rows for the picture.

A layout is maximal if no instance of any profile can be added to it, however its instances are placed. Media engines are not
counted, and inferred placements are said to be so. How it looks in a terminal is gpu_pools/mig/picture.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_pools.hardware.operands import version_text
from gpu_pools.mig.geometry import known_profiles, legal_layouts, maximal_layouts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.mig.geometry import Arrangement, Layout


@dataclass(frozen=True)
class LayoutView:
    """One legal layout.

    Attributes:
        layout: profile -> instances.
        placements: one way to place them, the leftmost.
        unused_units: placement units that no instance covers.
        unused_slices: compute slices that no instance has.
        unused_sm: multiprocessors that no instance has; None where those of the GPU or of an instance are unknown.
    """

    layout: Mapping[str, int]
    placements: Arrangement
    unused_units: tuple[int, ...]
    unused_slices: int
    unused_sm: int | None

    def as_json(self) -> dict[str, Any]:
        """One entry of ``layouts --json``."""
        return {
            "layout": dict(self.layout),
            "placements": placements_json(self.placements),
            "unused": {"units": list(self.unused_units), "computeSlices": self.unused_slices, "sm": self.unused_sm},
        }


def placements_json(placements: Arrangement) -> list[dict[str, Any]]:
    """Placements as documents."""
    return [{"profile": placed.profile, "start": placed.start, "size": placed.size} for placed in placements]


def views(gpu: GpuModel) -> tuple[LayoutView, ...]:
    """The maximal layouts, those of large instances first; none where the GPU has no MIG or its geometry is unknown."""
    if not gpu.profiles:
        return ()
    legal = legal_layouts(gpu)
    return tuple(_view(gpu, layout, legal[layout]) for layout in maximal_layouts(gpu))


def doubts(gpu: GpuModel) -> tuple[str, ...]:
    """What should be known of the listing of a model before one relies on it."""
    if not gpu.mig_capable:
        return (f"{gpu.key} has no MIG",)
    if gpu.profiles is None:
        listed = f"; sources list {', '.join(sorted(gpu.listed_names))}" if gpu.listed_names else ""
        return (f"the MIG geometry of {gpu.key} is unknown: no layout can be checked before the deploy{listed}",)
    found = [f"the profiles of {gpu.key} are as the stack declares them (read in: {gpu.mig_source})"] if gpu.declared else []
    if not all(profile.placements_measured for profile in gpu.profiles.values()):
        found.append(f"the placements of {gpu.key} are inferred from GPUs of the same geometry; the node has the last word")
    if gpu.other_names:
        names = ", ".join(f"{name} as {other}" for other, name in gpu.other_names.items())
        found.append(f"other drivers or GPUs name {names}")
    drivers = {gpu.key: gpu.min_driver, **{name: profile.min_driver for name, profile in gpu.profiles.items()}}
    if needed := ", ".join(f"{what} {version_text(first)}" for what, first in drivers.items() if first):
        found.append(f"some need a driver at least as new: {needed}")
    if any(profile.engines for profile in gpu.profiles.values()):
        found.append("media engines are not counted: beside +me.all the driver may allow -me profiles only")
    return tuple(found)


def document(gpu: GpuModel, product: str | None) -> dict[str, Any]:
    """The document of ``layouts --json``."""
    return {
        "model": gpu.key,
        "product": product,
        "computeSlices": gpu.compute_slices or None,
        "placementUnits": gpu.placement_units,
        "sm": gpu.sm,
        "layouts": [view.as_json() for view in views(gpu)],
        "warnings": list(doubts(gpu)),
    }


def _view(gpu: GpuModel, layout: Layout, placements: Arrangement) -> LayoutView:
    profiles = known_profiles(gpu)
    kinds = [profiles[placed.profile] for placed in placements]
    covered = {unit for placed in placements for unit in range(placed.start, placed.end)}
    known = [kind.sm for kind in kinds if kind.sm is not None]
    return LayoutView(
        layout=dict(layout),
        placements=placements,
        unused_units=tuple(unit for unit in range(gpu.placement_units or 0) if unit not in covered),
        unused_slices=gpu.compute_slices - sum(kind.compute_slices for kind in kinds),
        unused_sm=gpu.sm - sum(known) if gpu.sm is not None and len(known) == len(kinds) else None,
    )
