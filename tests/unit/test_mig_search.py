"""MIG legality of 10,000 random layouts for every model against brute force, and advice on illegal layouts.

The brute force knows nothing of the search: it tries all ways to put the instances of each kind side by side, one kind after the
other, over sets of occupied units.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from itertools import combinations, product

import pytest

from gpu_pools.hardware.models import model, model_keys
from gpu_pools.mig.advice import MOST_SUGGESTIONS, nearest, why_not
from gpu_pools.mig.geometry import Placement, arrangements, legal_layouts, maximal_layouts, place

WITH_GEOMETRY = [key for key in model_keys() if model(key).profiles]
RANDOM_LAYOUTS = 10_000


@cache
def _masks(key: str, profile: str, count: int) -> frozenset[int]:
    """The units that `count` instances of one profile can take together, as bit masks."""
    kind = model(key).profiles[profile]
    one = (1 << kind.size) - 1
    return frozenset(
        sum(one << start for start in starts)
        for starts in combinations(kind.starts, count)
        if all(abs(a - b) >= kind.size for a, b in combinations(starts, 2))
    )


def _fits(key: str, layout: dict[str, int]) -> bool:
    gpu = model(key)
    kinds = [(gpu.profiles[name], count) for name, count in layout.items()]
    if any(count > kind.max_instances for kind, count in kinds):
        return False
    if sum(kind.compute_slices * count for kind, count in kinds) > gpu.compute_slices:
        return False
    occupied = {0}
    for kind, count in kinds:
        occupied = {taken | mask for taken, mask in product(occupied, _masks(key, kind.name, count)) if not taken & mask}
    return bool(occupied)


def _random_layout(key: str, chance: random.Random) -> dict[str, int]:
    """Up to four kinds in small numbers: about as many layouts fit as do not."""
    kinds = chance.sample(sorted(model(key).profiles), k=chance.randint(1, 4))
    return {kind: chance.choice((1, 1, 1, 2, 2, 3, 4, 7)) for kind in kinds}


@pytest.mark.parametrize("key", WITH_GEOMETRY)
def test_10_000_random_layouts_agree_with_brute_force(key: str) -> None:
    chance = random.Random(key)  # noqa: S311 - the same layouts in every run
    legal = 0
    for _ in range(RANDOM_LAYOUTS):
        layout = _random_layout(key, chance)
        fits = place(model(key), layout) is not None
        assert fits == _fits(key, layout), layout
        legal += fits
    assert RANDOM_LAYOUTS / 20 < legal < RANDOM_LAYOUTS / 2


@pytest.mark.parametrize("key", ["a30-24gb", "h100-80gb", "rtx-pro-6000-blackwell"])
def test_the_arrangements_are_all_that_there_are(key: str) -> None:
    """Against all sets of placements, which know nothing of left and right."""
    gpu = model(key)
    every = [Placement(start, kind.size, kind.name) for kind in gpu.profiles.values() for start in kind.starts]
    expected: dict[tuple[tuple[str, int], ...], set[frozenset[Placement]]] = {}
    pending: list[tuple[frozenset[Placement], int]] = [(frozenset(), 0)]
    while pending:
        chosen, index = pending.pop()
        if index == len(every):
            layout = tuple(sorted(Counter(placed.profile for placed in chosen).items()))
            if _fits(key, dict(layout)):
                expected.setdefault(layout, set()).add(chosen)
            continue
        pending.append((chosen, index + 1))
        new = every[index]
        if all(new.end <= other.start or other.end <= new.start for other in chosen):
            pending.append((chosen | {new}, index + 1))
    assert set(legal_layouts(gpu)) == set(expected)
    for layout, sets in expected.items():
        found = list(arrangements(gpu, dict(layout)))
        assert len(found) == len(sets)
        assert {frozenset(arrangement) for arrangement in found} == sets
        assert found == sorted(found)
        assert legal_layouts(gpu)[layout] == found[0]


@pytest.mark.parametrize("key", WITH_GEOMETRY)
def test_every_legal_layout_is_part_of_a_maximal_one_and_no_maximal_one_of_another(key: str) -> None:
    maximal = [dict(layout) for layout in maximal_layouts(model(key))]
    for legal in legal_layouts(model(key)):
        assert any(all(count <= most.get(name, 0) for name, count in legal) for most in maximal)
    for one, other in product(maximal, maximal):
        assert one == other or not all(count <= other.get(name, 0) for name, count in one.items())


@pytest.mark.parametrize("key", ["a30-24gb", "h100-80gb", "rtx-pro-6000-blackwell"])
def test_the_nearest_layouts_are_legal_and_nothing_legal_is_nearer(key: str) -> None:
    gpu, chance = model(key), random.Random(key)  # noqa: S311 - the same layouts in every run
    for _ in range(200):
        layout = _random_layout(key, chance)
        if place(gpu, layout) is not None:
            continue
        suggested = nearest(gpu, layout)
        assert 0 < len(suggested) <= MOST_SUGGESTIONS
        assert suggested == nearest(gpu, dict(reversed(layout.items())))
        assert all(place(gpu, other) is not None for other in suggested)
        kept = [sum(min(count, other.get(name, 0)) for name, count in layout.items()) for other in suggested]
        assert kept == sorted(kept, reverse=True)
        wanted = sum(layout.values())
        best = max(
            sum(min(count, layout.get(name, 0)) for name, count in legal)
            for legal in legal_layouts(gpu)
            if sum(count for _, count in legal) <= wanted
        )
        assert kept[0] == best
        assert why_not(gpu, layout)


@pytest.mark.parametrize(
    ("key", "layout", "suggested"),
    [
        ("a100-80gb", {"3g.40gb": 2, "1g.10gb": 1}, [{"3g.40gb": 2}, {"1g.10gb": 1, "2g.20gb": 1, "3g.40gb": 1}]),
        ("a100-80gb", {"1g.10gb+me": 2}, [{"1g.10gb": 1, "1g.10gb+me": 1}]),
        ("a100-80gb", {"1g.10gb": 10**12}, [{"1g.10gb": 7}]),
        ("a30-24gb", {"4g.24gb": 1, "1g.6gb": 1}, [{"4g.24gb": 1}]),
    ],
    ids=str,
)
def test_what_is_suggested_first(key: str, layout: dict[str, int], suggested: list[dict[str, int]]) -> None:
    assert list(nearest(model(key), layout))[: len(suggested)] == suggested


@pytest.mark.parametrize(
    ("key", "layout", "reason"),
    [
        ("a100-80gb", {"1g.10gb+me": 2}, "2x 1g.10gb+me is more than the 1 that one GPU holds"),
        ("a100-80gb", {"4g.40gb": 1, "2g.20gb": 2}, "it takes 8 compute slices of 7"),
        (
            "a100-80gb",
            {"3g.40gb": 1, "1g.20gb": 3},
            (
                "1g.20gb covers 2 units and can start at 0, 2, 4 or 6: however the others are placed, nothing is free, "
                "e.g. beside 1g.20gb at 0-1, 1g.20gb at 2-3, 3g.40gb at 4-7"
            ),
        ),
        (
            "rtx-pro-6000-blackwell",
            {"4g.96gb": 2},
            "2x 4g.96gb is more than the 1 that one GPU holds and it takes 8 compute slices of 4",
        ),
    ],
    ids=str,
)
def test_why_a_layout_does_not_fit(key: str, layout: dict[str, int], reason: str) -> None:
    assert why_not(model(key), layout) == reason


def test_the_layouts_of_the_seeds() -> None:
    """1g.10gb x7, 2g.20gb x3, 3g.40gb x2 on an A100 80GB; 3g.20gb and two 2g.10gb on an A100 40GB."""
    for layout in ({"1g.10gb": 7}, {"2g.20gb": 3}, {"3g.40gb": 2}):
        assert place(model("a100-80gb"), layout) is not None
    placed = place(model("a100-40gb"), {"3g.20gb": 1, "2g.10gb": 2})
    assert sorted((instance.profile, instance.size) for instance in placed) == [("2g.10gb", 2), ("2g.10gb", 2), ("3g.20gb", 4)]
