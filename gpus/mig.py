"""MIG geometry: which layouts a GPU can hold, and where their instances sit.

The answer is exact. Every arrangement of non-overlapping instances of a model is walked once, left to right (some thousands at
most), within the GPU's compute slices and each profile's own limit; a layout is legal if at least one arrangement realises it.
This does not say what the hardware has now, and does not know driver versions or media engines. Why a layout is illegal and
what comes nearest to it is gpus/mig_advice.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from gpus.models import model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpus.models import GpuModel, MigProfile

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


def place(gpu: GpuModel, layout: Mapping[str, int]) -> Arrangement | None:
    """Placements that realise the layout on one GPU, or None where none do.

    Args:
        gpu: a known model whose profiles are known.
        layout: profile name -> instances, each known to the model and at least 1.
    """
    found = legal_layouts(gpu).get(tuple(sorted(layout.items())))
    return None if found is None else found[0]


def most_of(gpu: GpuModel, profile: str) -> int:
    """How many instances of one profile fit on one GPU by themselves."""
    count = 0
    while place(gpu, {profile: count + 1}) is not None:
        count += 1
    return count


def legal_layouts(gpu: GpuModel) -> Mapping[Layout, tuple[Arrangement, ...]]:
    """Every legal layout of a model with all arrangements that realise it, the leftmost first; the empty layout is one."""
    return _legal(gpu.key)


def maximal_layouts(gpu: GpuModel) -> tuple[Layout, ...]:
    """The legal layouts to which no instance can be added, however the others are placed; those of large instances first."""
    legal = legal_layouts(gpu)
    names = tuple(gpu.profiles or {})
    maximal = [layout for layout in legal if layout and not any(with_one_more(layout, name) in legal for name in names)]
    return tuple(sorted(maximal, key=lambda layout: _large_first(gpu, layout)))


def with_one_more(layout: Layout, profile: str) -> Layout:
    """The layout and one instance of a profile."""
    counts = dict(layout)
    counts[profile] = counts.get(profile, 0) + 1
    return tuple(sorted(counts.items()))


def _large_first(gpu: GpuModel, layout: Layout) -> tuple[tuple[int, int, str], ...]:
    profiles = gpu.profiles or {}
    instances = [profiles[name] for name, count in layout for _ in range(count)]
    return tuple(sorted((-kind.compute_slices, -kind.size, kind.name) for kind in instances))


@lru_cache(maxsize=64)
def _legal(key: str) -> Mapping[Layout, tuple[Arrangement, ...]]:
    gpu = model(key)
    # Rising starts, and the plain profile before its variants: the first arrangement of a layout is the one to show.
    choices = sorted(
        ((start, kind) for kind in (gpu.profiles or {}).values() for start in kind.starts),
        key=lambda choice: (choice[0], -choice[1].size, choice[1].name),
    )
    found: dict[Layout, list[Arrangement]] = {}
    for arrangement in _arrangements(tuple(choices), gpu.compute_slices, ()):
        counts: dict[str, int] = {}
        for placement in arrangement:
            counts[placement.profile] = counts.get(placement.profile, 0) + 1
        found.setdefault(tuple(sorted(counts.items())), []).append(arrangement)
    return {layout: tuple(sorted(arrangements)) for layout, arrangements in found.items()}


def _arrangements(choices: tuple[tuple[int, MigProfile], ...], slices: int, placed: Arrangement) -> Iterator[Arrangement]:
    """`placed`, and all that more instances to the right of it can make, with that many compute slices left."""
    yield placed
    free_from = placed[-1].end if placed else 0
    for start, kind in choices:
        if start < free_from or kind.compute_slices > slices:
            continue
        if sum(placement.profile == kind.name for placement in placed) >= kind.max_instances:
            continue
        yield from _arrangements(choices, slices - kind.compute_slices, (*placed, Placement(start, kind.size, kind.name)))
