"""What is advised where a MIG layout or a profile does not fit: in whole sentences, for cases that a reader can check by hand."""

from __future__ import annotations

import pytest

from gpu_pools.hardware.models import model
from gpu_pools.mig import advice as mig_advice
from gpu_pools.mig.advice import layout_text, nearest, nearest_profile, why_not
from gpu_pools.mig.geometry import Placement

A30, A100, RTX = "a30-24gb", "a100-40gb", "rtx-pro-6000-blackwell"


@pytest.mark.parametrize(
    ("key", "layout", "why"),
    [
        (A100, {"4g.20gb": 2}, "2x 4g.20gb is more than the 1 that one GPU holds and it takes 8 compute slices of 7"),
        (A100, {"7g.40gb": 1, "1g.5gb": 1}, "it takes 8 compute slices of 7"),
        (RTX, {"1g.24gb+me": 2}, "2x 1g.24gb+me is more than the 1 that one GPU holds"),
        (
            A100,
            {"3g.20gb": 2, "1g.5gb": 1},
            (
                "1g.5gb covers 1 unit and can start at 0 to 6: however the others are placed, nothing is free, e.g. beside "
                "3g.20gb at 0-3, 3g.20gb at 4-7"
            ),
        ),
        (
            A100,
            {"3g.20gb": 1, "1g.10gb": 3},
            (
                "1g.10gb covers 2 units and can start at 0, 2, 4 or 6: however the others are placed, nothing is free, e.g. "
                "beside 1g.10gb at 0-1, 1g.10gb at 2-3, 3g.20gb at 4-7"
            ),
        ),
    ],
)
def test_why_a_layout_does_not_fit(key: str, layout: dict[str, int], why: str) -> None:
    assert why_not(model(key), layout) == why


@pytest.mark.parametrize(
    ("key", "layout", "expected"),
    [
        # One instance goes; what stays keeps the compute slices as far as it can.
        (A100, {"4g.20gb": 2}, ({"3g.20gb": 1, "4g.20gb": 1}, {"2g.10gb": 1, "4g.20gb": 1}, {"1g.10gb": 1, "4g.20gb": 1})),
        (
            A100,
            {"3g.20gb": 2, "1g.5gb": 1},
            ({"3g.20gb": 2}, {"1g.5gb": 1, "2g.10gb": 1, "3g.20gb": 1}, {"1g.10gb": 1, "1g.5gb": 1, "3g.20gb": 1}),
        ),
        (A100, {"1g.5gb": 8}, ({"1g.5gb": 7}, {"1g.10gb": 1, "1g.5gb": 6}, {"1g.5gb": 6, "1g.5gb+me": 1})),
        # Media and graphics come last, unless they were asked for.
        (
            RTX,
            {"2g.48gb": 2, "1g.24gb": 1},
            ({"2g.48gb": 2}, {"1g.24gb": 2, "2g.48gb": 1}, {"1g.24gb": 1, "1g.24gb+gfx": 1, "2g.48gb": 1}),
        ),
        (
            RTX,
            {"1g.24gb+me": 2},
            ({"1g.24gb": 1, "1g.24gb+me": 1}, {"1g.24gb+gfx": 1, "1g.24gb+me": 1}, {"1g.24gb+me": 1, "1g.24gb+me.all": 1}),
        ),
        (A100, {"1g.5gb+me": 1, "1g.5gb": 7}, ({"1g.5gb": 7}, {"1g.5gb": 6, "1g.5gb+me": 1}, {"1g.10gb": 1, "1g.5gb": 6})),
        # What was asked for is no variant that comes into play.
        (A30, {"2g.12gb+me": 2, "1g.6gb": 2}, ({"1g.6gb": 2, "2g.12gb+me": 1}, {"1g.6gb": 2, "2g.12gb": 1}, {"1g.6gb": 4})),
        (
            A30,
            {"2g.12gb+me": 2, "1g.6gb+me": 1, "1g.6gb": 2},
            ({"1g.6gb": 2, "2g.12gb+me": 1}, {"1g.6gb": 1, "1g.6gb+me": 1, "2g.12gb+me": 1}, {"1g.6gb": 3, "1g.6gb+me": 1}),
        ),
        # Large instances come before small ones.
        (
            A30,
            {"1g.6gb": 1, "2g.12gb+me": 1, "1g.6gb+me": 2},
            (
                {"1g.6gb": 1, "1g.6gb+me": 1, "2g.12gb+me": 1},
                {"1g.6gb": 1, "1g.6gb+me": 1, "2g.12gb": 1},
                {"1g.6gb": 2, "2g.12gb+me": 1},
            ),
        ),
        # The memory decides between equals.
        (
            A100,
            {"3g.20gb": 2, "1g.10gb": 1},
            ({"3g.20gb": 2}, {"1g.10gb": 1, "2g.10gb": 1, "3g.20gb": 1}, {"1g.10gb": 2, "3g.20gb": 1}),
        ),
    ],
)
def test_the_nearest_layouts_are_the_best_first(key: str, layout: dict[str, int], expected: tuple[dict[str, int], ...]) -> None:
    assert nearest(model(key), layout) == expected


@pytest.mark.parametrize(
    ("key", "name", "meant"),
    [
        ("a100-80gb", "1g.5gb", "1g.10gb"),
        ("a100-80gb", "1g.5gb+me", "1g.10gb+me"),
        ("a100-80gb", "3g.20gb", "3g.40gb"),
        (RTX, "1g.12gb+gfx", "1g.24gb+gfx"),
        ("h200-141gb", "1g.17gb", "1g.18gb"),
        # What has no such kind there, or no form of a profile's name, is compared by its letters.
        ("a30-24gb", "7g.40gb", "4g.24gb"),
        ("a100-80gb", "1g10gb", "1g.10gb"),
        ("a100-80gb", "banana", None),
    ],
)
def test_the_profile_that_was_meant(key: str, name: str, meant: str | None) -> None:
    assert nearest_profile(model(key), name) == meant


def test_layouts_starts_and_units_in_words() -> None:
    assert [layout_text(layout) for layout in ({}, {"1g.5gb": 1}, {"3g.20gb": 1, "2g.10gb": 2})] == [
        "whole GPU",
        "1g.5gb",
        "3g.20gb + 2x 2g.10gb",
    ]
    starts = [(0,), (0, 4), (0, 1), (0, 1, 2), (0, 2, 4), (0, 1, 3)]
    assert [mig_advice._starts(one) for one in starts] == ["0", "0 or 4", "0 or 1", "0 to 2", "0, 2 or 4", "0, 1 or 3"]
    assert [mig_advice.units_of(0, 1), mig_advice.units_of(2, 4)] == ["0", "2-3"]


def test_only_what_overlaps_is_in_the_way() -> None:
    arrangement = (Placement(0, 2, "a"), Placement(2, 2, "b"), Placement(4, 4, "c"))
    assert mig_advice._in_the_way(arrangement, (2,), 2) == "b at 2-3"
    assert mig_advice._in_the_way(arrangement, (1,), 1) == "a at 0-1"
    assert mig_advice._in_the_way(arrangement, (0, 3), 1) == "a at 0-1, b at 2-3"
    assert mig_advice._in_the_way(arrangement, (1,), 4) == "a at 0-1, b at 2-3, c at 4-7"
