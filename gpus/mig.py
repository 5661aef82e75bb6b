"""MIG geometry: does a layout fit on a GPU, and where would its instances sit.

The search is exact: it tries every placement that the model allows and respects the GPU's compute slices and each profile's
own limit. It does not say what the hardware has now, and does not know driver versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from gpus.models import model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpus.models import GpuModel, MigProfile


@dataclass(frozen=True, order=True)
class Placement:
    """Where one instance sits, in the model's placement units."""

    start: int
    size: int
    profile: str


def place(gpu: GpuModel, layout: Mapping[str, int]) -> tuple[Placement, ...] | None:
    """Placements that realise the layout on one GPU, or None where none do.

    Args:
        gpu: a known model whose profiles are known.
        layout: profile name -> instances, each known to the model and at least 1.
    """
    return _place(gpu.key, tuple(sorted(layout.items())))


def most_of(gpu: GpuModel, profile: str) -> int:
    """How many instances of one profile fit on one GPU by themselves."""
    count = 0
    while place(gpu, {profile: count + 1}) is not None:
        count += 1
    return count


@lru_cache(maxsize=4096)
def _place(key: str, layout: tuple[tuple[str, int], ...]) -> tuple[Placement, ...] | None:
    gpu = model(key)
    profiles = gpu.profiles or {}
    # Checked first: the count is whatever somebody typed, and the search below writes every instance out.
    if any(count > profiles[name].max_instances for name, count in layout):
        return None
    wanted = [profiles[name] for name, count in layout for _ in range(count)]
    if sum(profile.compute_slices for profile in wanted) > gpu.compute_slices:
        return None
    # Large instances first: they have the fewest places, so dead ends show early.
    wanted.sort(key=lambda profile: (-profile.size, len(profile.starts), profile.name))
    found = _search(wanted, 0, occupied=0)
    return None if found is None else tuple(sorted(found))


def _search(wanted: list[MigProfile], index: int, occupied: int, not_before: int = 0) -> list[Placement] | None:
    """Place wanted[index:] into the units that are free; `occupied` is a bit mask of units."""
    if index == len(wanted):
        return []
    profile = wanted[index]
    for start in profile.starts:
        mask = ((1 << profile.size) - 1) << start
        # Equal instances are interchangeable: placing them in rising order leaves out the permutations.
        if start < not_before or occupied & mask:
            continue
        same_next = index + 1 < len(wanted) and wanted[index + 1] is profile
        rest = _search(wanted, index + 1, occupied | mask, start + 1 if same_next else 0)
        if rest is not None:
            return [Placement(start, profile.size, profile.name), *rest]
    return None
