"""The picture of the packages shows what is there, and can be read."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tools import architecture_picture as drawn

CORE = Path(__file__).parents[2] / "gpu_pools"
PACKAGES = {path.parent.name for path in CORE.glob("*/__init__.py")}


@pytest.fixture(scope="module")
def edges() -> drawn.Edges:
    return drawn.read_edges(PACKAGES)


def test_the_committed_picture_is_that_of_the_code() -> None:
    assert drawn.PICTURE.read_text(encoding="utf-8") == drawn.picture(), "run `python -m tools.architecture_picture`"


def test_it_has_every_package_once() -> None:
    picture = drawn.picture()
    assert {package: picture.count(f">{package}</text>") for package in PACKAGES} == dict.fromkeys(PACKAGES, 1)


def test_no_two_boxes_touch_and_all_are_inside(edges: drawn.Edges) -> None:
    rows, paths = drawn.find_paths(drawn.find_rows(edges), edges)
    boxes = sorted(drawn.place(rows, paths).values(), key=lambda box: (box.top, box.left))
    assert all(one.left + one.width < other.left for one, other in pairwise(boxes) if one.top == other.top)
    assert all(box.left > 0 for box in boxes)
    assert max(box.left + box.width for box in boxes) < 980


def test_an_arrow_that_follows_from_others_is_left_out(edges: drawn.Edges) -> None:
    assert "plan" in edges["changes"]
    assert "text" not in edges["changes"]


def test_arrows_go_down(edges: drawn.Edges) -> None:
    row_of = {name: number for number, row in enumerate(drawn.find_rows(edges)) for name in row}
    assert [(one, other) for one, others in edges.items() for other in others if row_of[other] <= row_of[one]] == []


def test_rows_with_fewer_crossings_are_found() -> None:
    rows, links = [["a", "b"], ["c", "d"]], [("a", "d"), ("b", "c")]
    assert drawn.crossings(rows, links) == 1
    assert drawn.crossings(drawn.order(rows, links), links) == 0
