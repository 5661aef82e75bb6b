"""MIG placement: the exact search against a reference that tries everything, and layouts known from real GPUs."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.hardware.models import model, model_keys
from gpu_pools.mig.geometry import most_of, place
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.hardware.models import GpuModel

WITH_GEOMETRY = [model(key) for key in model_keys() if model(key).profiles]
#: The largest instance that a 7-slice, a 4-slice and a 12-unit GPU can hold is 7 of one kind.
MOST = 8


def _ways(gpu: GpuModel, profile: str, count: int) -> Iterator[int]:
    """Bit masks of the units that `count` instances of one profile can take together."""
    kind = gpu.profiles[profile]
    for starts in combinations(kind.starts, count):
        units = [unit for start in starts for unit in range(start, start + kind.size)]
        if len(units) == len(set(units)):
            yield sum(1 << unit for unit in units)


def _fits(gpu: GpuModel, layout: Mapping[str, int]) -> bool:
    """By brute force: every combination of places of every profile."""
    if any(count > gpu.profiles[profile].max_instances for profile, count in layout.items()):
        return False
    if sum(gpu.profiles[profile].compute_slices * count for profile, count in layout.items()) > gpu.compute_slices:
        return False
    ways = [list(_ways(gpu, profile, count)) for profile, count in layout.items()]
    return any(sum(mask.bit_count() for mask in masks) == _union(masks).bit_count() for masks in product(*ways))


def _union(masks: tuple[int, ...]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


@st.composite
def _gpu_and_layout(draw: st.DrawFn) -> tuple[GpuModel, dict[str, int]]:
    gpu = draw(st.sampled_from(WITH_GEOMETRY))
    profiles = draw(st.lists(st.sampled_from(sorted(gpu.profiles)), min_size=1, max_size=4, unique=True))
    # Mostly small counts: a layout that breaks every bound says little about the search.
    counts = st.one_of(st.integers(1, 3), st.integers(1, MOST))
    return gpu, {profile: draw(counts) for profile in profiles}


@settings(max_examples=examples(300), deadline=None)
@given(_gpu_and_layout())
def test_place_agrees_with_brute_force(case: tuple[GpuModel, dict[str, int]]) -> None:
    gpu, layout = case
    placed = place(gpu, layout)
    assert (placed is not None) == _fits(gpu, layout)
    if placed is not None:
        _check(gpu, layout, placed)


def _check(gpu: GpuModel, layout: Mapping[str, int], placed: tuple) -> None:
    taken: set[int] = set()
    for placement in placed:
        kind = gpu.profiles[placement.profile]
        assert placement.start in kind.starts
        assert placement.size == kind.size
        units = set(range(placement.start, placement.start + placement.size))
        assert max(units) < gpu.placement_units
        assert not units & taken
        taken |= units
    names = [placement.profile for placement in placed]
    assert {name: names.count(name) for name in names} == dict(layout)
    assert placed == tuple(sorted(placed))


@pytest.mark.parametrize("key", ["a30-24gb", "a100-80gb", "rtx-pro-6000-blackwell"])
def test_every_small_layout_agrees_with_brute_force(key: str) -> None:
    """Exhaustive over the plain profiles, one GPU for each geometry (4, 8 and 12 units)."""
    gpu = model(key)
    plain = [name for name in gpu.profiles if "+" not in name and not name.endswith("-me")]
    for counts in product(*(range(gpu.profiles[name].max_instances + 2) for name in plain)):
        layout = {name: count for name, count in zip(plain, counts, strict=True) if count}
        if not layout:
            continue
        placed = place(gpu, layout)
        assert (placed is not None) == _fits(gpu, layout), layout
        if placed is not None:
            _check(gpu, layout, placed)


@pytest.mark.parametrize("gpu", WITH_GEOMETRY, ids=lambda gpu: gpu.key)
def test_most_of_a_profile_is_what_the_driver_lists(gpu: GpuModel) -> None:
    for profile in gpu.profiles.values():
        assert most_of(gpu, profile.name) == profile.max_instances, profile.name


@pytest.mark.parametrize(
    ("key", "layout"),
    [
        ("a100-40gb", {"1g.5gb": 7}),
        ("a100-40gb", {"1g.5gb+me": 1, "1g.5gb": 6}),
        ("a100-40gb", {"1g.10gb": 4}),
        ("a100-40gb", {"2g.10gb": 3, "1g.5gb": 1}),
        ("a100-40gb", {"3g.20gb": 1, "2g.10gb": 2}),
        ("a100-40gb", {"3g.20gb": 1, "1g.5gb": 4}),
        ("a100-40gb", {"3g.20gb": 2}),
        ("a100-40gb", {"4g.20gb": 1, "3g.20gb": 1}),
        ("a100-40gb", {"4g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}),
        ("a100-40gb", {"7g.40gb": 1}),
        ("a100-80gb", {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}),
        ("a30-24gb", {"1g.6gb": 4}),
        ("a30-24gb", {"2g.12gb": 1, "1g.6gb": 2}),
        ("a30-24gb", {"2g.12gb": 2}),
        ("a30-24gb", {"4g.24gb": 1}),
        ("h100-80gb", {"1g.10gb": 7}),
        ("h100-80gb", {"1g.20gb": 4}),
        ("h100-80gb", {"4g.40gb": 1, "3g.40gb": 1}),
        ("h100-94gb", {"3g.47gb": 2}),
        ("rtx-pro-6000-blackwell", {"1g.24gb": 4}),
        ("rtx-pro-6000-blackwell", {"2g.48gb": 1, "1g.24gb": 2}),
        ("rtx-pro-6000-blackwell", {"2g.48gb+gfx": 2}),
        ("rtx-pro-6000-blackwell", {"4g.96gb": 1}),
    ],
    ids=str,
)
def test_a_well_known_layout_fits(key: str, layout: dict[str, int]) -> None:
    assert place(model(key), layout) is not None


@pytest.mark.parametrize(
    ("key", "layout"),
    [
        ("a100-40gb", {"1g.5gb": 8}),
        ("a100-40gb", {"2g.10gb": 4}),
        ("a100-40gb", {"3g.20gb": 2, "1g.5gb": 1}),  # 7 slices, but two 3g take all eight units
        ("a100-40gb", {"3g.20gb": 3}),
        ("a100-40gb", {"4g.20gb": 2}),
        ("a100-40gb", {"7g.40gb": 1, "1g.5gb": 1}),
        ("a100-40gb", {"1g.5gb+me": 2}),
        ("a100-40gb", {"1g.10gb": 5}),
        ("a30-24gb", {"1g.6gb": 5}),
        ("a30-24gb", {"2g.12gb": 1, "1g.6gb": 3}),
        ("a30-24gb", {"4g.24gb": 1, "1g.6gb": 1}),
        ("h100-80gb", {"4g.40gb": 1, "3g.40gb": 1, "1g.10gb": 1}),
        ("rtx-pro-6000-blackwell", {"1g.24gb": 5}),
        ("rtx-pro-6000-blackwell", {"2g.48gb": 2, "1g.24gb": 1}),
    ],
    ids=str,
)
def test_a_layout_that_no_card_can_hold_does_not_fit(key: str, layout: dict[str, int]) -> None:
    assert place(model(key), layout) is None


def test_where_the_instances_sit() -> None:
    """3g.40gb only starts at 0 or 4; a search that took 0 first would leave no place for 4g.40gb."""
    placed = place(model("a100-80gb"), {"3g.40gb": 1, "4g.40gb": 1})
    assert [(placement.start, placement.size, placement.profile) for placement in placed] == [
        (0, 4, "4g.40gb"),
        (4, 4, "3g.40gb"),
    ]


def test_an_absurd_count_is_answered_at_once() -> None:
    assert place(model("a100-80gb"), {"1g.10gb": 10**12}) is None
