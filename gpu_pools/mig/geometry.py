"""MIG geometry: which layouts a GPU can hold, and where their instances sit.

The answer is exact. All arrangements of non-overlapping instances of a model are walked once, left to right, within the GPU's
compute slices and each profile's own limit; a layout is legal if at least one arrangement realises it. What can follow depends
only on the instances so far and on where the last one ends, so that of equal beginnings only the first is followed: some
hundreds are left. This does not say what the hardware has now, and does not know driver versions or media engines. Why a
layout is illegal and what comes nearest to it is gpu_pools/mig/advice.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.hardware.models import GpuModel, MigProfile

#: (profile, instances), sorted by profile.
Layout = tuple[tuple[str, int], ...]


@dataclass(frozen=True, order=True)
class Placement:
    """Where one instance sits, in the model's placement units."""

    start: int
    size: int
    profile: str

    @property
    def end(self) -> int:
        """The first unit behind it."""
        return self.start + self.size


#: Instances by rising start that do not overlap.
Arrangement = tuple[Placement, ...]


def known_profiles(gpu: GpuModel) -> Mapping[str, MigProfile]:
    """The profiles of a model by their names; none where its geometry is unknown."""
    return gpu.profiles or {}


def place(gpu: GpuModel, layout: Mapping[str, int]) -> Arrangement | None:
    """Placements that realise the layout on one GPU, or None where none do.

    Args:
        gpu: a known model whose profiles are known.
        layout: profile name -> instances, each known to the model and at least 1.
    """
    return legal_layouts(gpu).get(tuple(sorted(layout.items())))


def most_of(gpu: GpuModel, profile: str) -> int:
    """How many instances of one profile fit on one GPU by themselves."""
    count = 0
    while place(gpu, {profile: count + 1}) is not None:
        count += 1
    return count


def legal_layouts(gpu: GpuModel) -> Mapping[Layout, Arrangement]:
    """Every legal layout of a model with its leftmost arrangement; the empty layout is one."""
    return _legal(gpu.compute_slices, tuple(known_profiles(gpu).values()))


def arrangements(gpu: GpuModel, layout: Mapping[str, int]) -> Iterator[Arrangement]:
    """Every arrangement that realises a layout, the leftmost first; none if it is not legal.

    Args:
        gpu: a model whose profiles are known.
        layout: profile name -> instances, each known to the model.
    """
    if place(gpu, layout) is not None:
        kinds = tuple(known_profiles(gpu).values())
        choices = [(start, kind) for start, kind in _choices(kinds) if kind.name in layout]
        yield from _arrangements(tuple(choices), dict(layout), ())


def maximal_layouts(gpu: GpuModel) -> tuple[Layout, ...]:
    """The legal layouts to which no instance can be added, however the others are placed; those of large instances first."""
    legal = legal_layouts(gpu)
    names = tuple(known_profiles(gpu))
    maximal = [layout for layout in legal if not any(with_one_more(layout, name) in legal for name in names)]
    return tuple(sorted(maximal, key=lambda layout: _large_first(gpu, layout)))


def with_one_more(layout: Layout, profile: str) -> Layout:
    """The layout and one instance of a profile."""
    counts = dict(layout)
    counts[profile] = counts.get(profile, 0) + 1
    return tuple(sorted(counts.items()))


def _large_first(gpu: GpuModel, layout: Layout) -> tuple[tuple[int, int, str], ...]:
    profiles = known_profiles(gpu)
    instances = [profiles[name] for name, count in layout for _ in range(count)]
    return tuple(sorted((-kind.compute_slices, -kind.size, kind.name) for kind in instances))


def _choices(profiles: tuple[MigProfile, ...]) -> list[tuple[int, MigProfile]]:
    """Where an instance may be, from left to right: (start, profile)."""
    found = [(start, kind) for kind in profiles for start in kind.starts]
    return sorted(found, key=lambda choice: (choice[0], choice[1].size, choice[1].name))


@lru_cache(maxsize=64)
def _legal(compute_slices: int, profiles: tuple[MigProfile, ...]) -> Mapping[Layout, Arrangement]:
    kinds = sorted(profile.name for profile in profiles)
    choices = [
        (start, kind, kinds.index(kind.name), Placement(start, kind.size, kind.name)) for start, kind in _choices(profiles)
    ]
    found: dict[tuple[int, ...], Arrangement] = {}
    followed: set[tuple[int, tuple[int, ...]]] = set()

    def follow(free_from: int, slices: int, counts: tuple[int, ...], placed: Arrangement) -> None:
        found.setdefault(counts, placed)
        if (free_from, counts) in followed:
            return
        followed.add((free_from, counts))
        for start, kind, index, placement in choices:
            if start >= free_from and kind.compute_slices <= slices and counts[index] < kind.max_instances:
                more = (*counts[:index], counts[index] + 1, *counts[index + 1 :])
                follow(start + kind.size, slices - kind.compute_slices, more, (*placed, placement))

    follow(0, compute_slices, (0,) * len(kinds), ())
    return {
        tuple((name, count) for name, count in zip(kinds, counts, strict=True) if count): placed
        for counts, placed in found.items()
    }


def _arrangements(
    choices: tuple[tuple[int, MigProfile], ...], left: dict[str, int], placed: Arrangement
) -> Iterator[Arrangement]:
    """`placed`, continued to the right with exactly the instances that are left."""
    if not any(left.values()):
        yield placed
        return
    free_from = placed[-1].end if placed else 0
    for start, kind in choices:
        if start >= free_from and left[kind.name]:
            less = {**left, kind.name: left[kind.name] - 1}
            yield from _arrangements(choices, less, (*placed, Placement(start, kind.size, kind.name)))
