"""Why a MIG layout does not fit on a GPU, in terms of placements, and the legal layouts that come nearest to it.

Both are exact: they look through all legal layouts of the model (gpu_pools/mig/geometry.py), not through a list of known ones.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from gpu_pools.mig.geometry import known_profiles, legal_layouts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.mig.geometry import Arrangement, Layout

MOST_SUGGESTIONS: Final = 3


def nearest_profile(gpu: GpuModel, name: str) -> str | None:
    """The profile of the model that somebody means who writes that of another GPU: as many slices, as many attributes.

    Of several the one of which most fit: ``1g.5gb`` of a smaller GPU is ``1g.10gb`` on 80 GB, not the rarer ``1g.20gb``.
    """
    profiles = known_profiles(gpu)
    alike = [other for other in profiles if _kind(other) == _kind(name)]
    if alike:
        return max(alike, key=lambda other: profiles[other].max_instances)
    near = difflib.get_close_matches(name, [*profiles, *gpu.other_names], n=1, cutoff=0.3)
    return near[0] if near else None


def _kind(profile: str) -> tuple[str, str | None] | None:
    """(slices, attributes) of a profile's name: what is left of it without the memory."""
    match = re.fullmatch(r"(\d+)g\.\d+gb([-+].*)?", profile)
    return (match[1], match[2]) if match else None


def layout_text(layout: Mapping[str, int]) -> str:
    """A layout in words, e.g. ``3g.20gb + 2x 2g.10gb``."""
    return " + ".join(f"{count}x {profile}" if count > 1 else profile for profile, count in layout.items()) or "whole GPU"


def why_not(gpu: GpuModel, layout: Mapping[str, int]) -> str:
    """Why no placement realises an illegal layout, in one sentence without its full stop.

    Args:
        gpu: a model whose profiles are known.
        layout: profile -> instances, each known to the model, for which gpu_pools.mig.geometry.place finds nothing.
    """
    profiles = known_profiles(gpu)
    reasons = [
        f"{count}x {name} is more than the {profiles[name].max_instances} that one GPU holds"
        for name, count in layout.items()
        if count > profiles[name].max_instances
    ]
    slices = sum(profiles[name].compute_slices * count for name, count in layout.items())
    if slices > gpu.compute_slices:
        reasons.append(f"it takes {slices} compute slices of {gpu.compute_slices}")
    return " and ".join(reasons) or _no_place(gpu, layout)


def nearest(gpu: GpuModel, layout: Mapping[str, int], most: int = MOST_SUGGESTIONS) -> tuple[dict[str, int], ...]:
    """The legal layouts with the fewest instances removed or replaced, the best first.

    Among equals those win that keep the compute slices, bring no variants into play (media, graphics), only remove, keep the
    memory.
    """
    profiles = known_profiles(gpu)
    wanted, slices, units = sum(layout.values()), _slices(gpu, layout), _units(gpu, tuple(layout.items()))

    def rank(candidate: Layout) -> tuple[int, int, int, int, int, list[tuple[int, str]]]:
        kept = sum(min(count, layout.get(name, 0)) for name, count in candidate)
        total = sum(count for _, count in candidate)
        # Media and graphics variants are for those who ask for them.
        variants = sum(count for name, count in candidate if name not in layout and re.search(r"gb[+-]", name))
        large_first = sorted((-profiles[name].size, name) for name, count in candidate for _ in range(count))
        return (
            wanted - kept,
            abs(slices - _slices(gpu, dict(candidate))),
            variants,
            total - kept,
            abs(units - _units(gpu, candidate)),
            large_first,
        )

    candidates = [legal for legal in legal_layouts(gpu) if legal and sum(count for _, count in legal) <= wanted]
    return tuple(dict(candidate) for candidate in sorted(candidates, key=rank)[:most])


def _slices(gpu: GpuModel, layout: Mapping[str, int]) -> int:
    profiles = known_profiles(gpu)
    return sum(profiles[name].compute_slices * count for name, count in layout.items())


def _units(gpu: GpuModel, layout: Layout) -> int:
    profiles = known_profiles(gpu)
    return sum(profiles[name].size * count for name, count in layout)


def _no_place(gpu: GpuModel, layout: Mapping[str, int]) -> str:
    """The largest part of the layout that fits, and why the next instance does not."""
    part, name = _largest_part(gpu, layout)
    profile = known_profiles(gpu)[name]
    units = f"{profile.size} unit{'s' if profile.size > 1 else ''}"
    taken = _in_the_way(legal_layouts(gpu)[part], profile.starts, profile.size)
    where = f"{name} covers {units} and can start at {_starts(profile.starts)}"
    return f"{where}: however the others are placed, nothing is free, e.g. beside {taken}"


def _largest_part(gpu: GpuModel, layout: Mapping[str, int]) -> tuple[Layout, str]:
    """(a largest legal part, an instance of the rest that cannot be added to it)."""
    parts = [legal for legal in legal_layouts(gpu) if all(count <= layout.get(name, 0) for name, count in legal)]
    best = max(parts, key=lambda part: (sum(count for _, count in part), _slices(gpu, dict(part)), part))
    # With any of the rest it would be a larger part.
    return best, next(name for name, count in layout.items() if count > dict(best).get(name, 0))


def _starts(starts: tuple[int, ...]) -> str:
    """In words, e.g. ``0``, ``0 or 4``, ``0 to 6``."""
    if len(starts) > 2 and starts == tuple(range(starts[0], starts[-1] + 1)):  # noqa: PLR2004 - two are not worth a range
        return f"{starts[0]} to {starts[-1]}"
    *first, last = map(str, starts)
    return f"{', '.join(first)} or {last}" if first else last


def _in_the_way(arrangement: Arrangement, starts: tuple[int, ...], size: int) -> str:
    blocking = [placed for placed in arrangement if any(start < placed.end and placed.start < start + size for start in starts)]
    return ", ".join(f"{placed.profile} at {units_of(placed.start, placed.end)}" for placed in blocking)


def units_of(start: int, end: int) -> str:
    """The units from start to before end, e.g. ``0-3`` or ``6``."""
    return str(start) if end == start + 1 else f"{start}-{end - 1}"
