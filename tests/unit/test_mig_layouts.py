"""The listing of a model's layouts, for machines and in a picture, each wholly for cases that a reader can check by hand."""

from __future__ import annotations

import io
from typing import Any

import pytest

from gpu_pools.hardware.models import model
from gpu_pools.mig.change import change
from gpu_pools.mig.geometry import Placement, maximal_layouts, place
from gpu_pools.mig.layouts import document, doubts, views
from gpu_pools.mig.picture import Pen, draw, ruler, unit_width
from gpu_pools.text.terminal import coloured
from tests.unit.golden import golden_object


@pytest.mark.parametrize("key", ["a30-24gb", "t4-16gb", "rtx-pro-5000-blackwell", "rtx-pro-6000-blackwell"])
def test_the_listing_for_machines(key: str) -> None:
    listing = document(model(key), "a product")
    # Of a model that can be cut in a hundred ways the first and the last say how it looks.
    listing["layouts"][3:-2] = []
    golden_object(f"mig/{key}.yaml", listing)


INFERRED = "the placements of {} are inferred from GPUs of the same geometry; the node has the last word"


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("h100-80gb", ()),
        ("t4-16gb", ("t4-16gb has no MIG",)),
        (
            "jetson-thor-igpu",
            ("the MIG geometry of jetson-thor-igpu is unknown: no layout can be checked before the deploy",),
        ),
        (
            "a800-40gb",
            (INFERRED.format("a800-40gb"), "some need a driver at least as new: 1g.5gb+me 470, 1g.10gb 525"),
        ),
        (
            "gb200-186gb",
            (
                INFERRED.format("gb200-186gb"),
                "other drivers or GPUs name 1g.23gb as 1g.24gb, 3g.93gb as 3g.95gb, 4g.93gb as 4g.95gb, 7g.186gb as 7g.189gb",
            ),
        ),
        (
            "rtx-pro-6000-blackwell",
            (
                "some need a driver at least as new: rtx-pro-6000-blackwell 575.51.3",
                "media engines are not counted: beside +me.all the driver may allow -me profiles only",
            ),
        ),
    ],
)
def test_what_should_be_known_before_one_relies_on_it(key: str, told: tuple[str, ...]) -> None:
    assert doubts(model(key)) == told


def test_what_a_layout_leaves_unused() -> None:
    found = {tuple(view.layout.items()): view for view in views(model("a100-80gb"))}
    halves = found[(("3g.40gb", 2),)]
    assert (halves.unused_units, halves.unused_slices, halves.unused_sm) == ((), 1, 108 - 2 * 42)
    small = found[(("1g.10gb", 7),)]
    assert (small.unused_units, small.unused_slices, small.unused_sm) == ((7,), 0, 108 - 7 * 14)
    # Of some nobody says how many multiprocessors they have.
    assert {view.unused_sm for view in views(model("h800-80gb"))} == {None}
    assert views(model("t4-16gb")) == views(model("jetson-thor-igpu")) == ()


def test_the_layouts_of_large_instances_come_first() -> None:
    first, second, *_, last = maximal_layouts(model("a30-24gb"))
    assert (first, second, last) == ((("4g.24gb", 1),), (("2g.12gb", 2),), (("1g.6gb", 3), ("1g.6gb+me", 1)))


def test_of_as_many_slices_those_with_more_memory_come_first() -> None:
    order = maximal_layouts(model("a100-80gb"))
    assert order.index((("1g.20gb", 4),)) < order.index((("1g.10gb", 7),))


# ---------------------------------------------------------------- pictures


class _Stream(io.StringIO):
    """A stream that carries what it is told."""

    def __init__(self, encoding: str | None, *, terminal: bool) -> None:
        super().__init__()
        self._encoding, self._terminal = encoding, terminal

    @property
    def encoding(self) -> Any:
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("encoding", "wall", "free"),
    [("UTF-8", "│", "·"), ("utf8", "│", "·"), ("ascii", "|", "."), ("iso-8859-1", "|", "."), (None, "|", ".")],
)
def test_box_characters_are_drawn_where_the_output_can_carry_them(encoding: str | None, wall: str, free: str) -> None:
    assert Pen.of(_Stream(encoding, terminal=False)) == Pen(wall, free, colour=False)


@pytest.mark.parametrize(
    ("terminal", "variables", "colour"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {}, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "0"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals_whose_users_did_not_forbid_them(
    terminal: bool,  # noqa: FBT001
    variables: dict[str, str],
    colour: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Pen.of(_Stream("ascii", terminal=terminal)).colour is colour


@pytest.mark.parametrize(
    ("layout", "cells"),
    [
        ({"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}, [("1g.10gb", 1, 32), (None, 1, 0), ("2g.20gb", 2, 36), ("3g.40gb", 4, 34)]),
        ({"4g.40gb": 1}, [("4g.40gb", 4, 35), (None, 4, 0)]),
        ({"7g.80gb": 1}, [("7g.80gb", 8, 33)]),
        ({}, [(None, 8, 0)]),
    ],
)
def test_equal_sizes_have_equal_colours(layout: dict[str, int], cells: list[tuple[str | None, int, int]]) -> None:
    gpu, width = model("a100-80gb"), 9
    placed = place(gpu, layout)
    assert placed is not None
    plain = "".join(f"|{name}".ljust(units * width) if name else ("|" + "." * 8) * units for name, units, _ in cells) + "|"
    assert draw(gpu, placed, width, Pen("|", ".", colour=False)) == plain
    shown = "".join(
        "|" + coloured(name.ljust(units * width - 1), colour) if name else ("|" + "." * 8) * units
        for name, units, colour in cells
    )
    assert draw(gpu, placed, width, Pen("|", ".", colour=True)) == f"{shown}|"


def test_a_unit_is_as_wide_as_the_longest_name_needs() -> None:
    gpu = model("a100-80gb")
    assert [unit_width(gpu, names) for names in ([], ["7g.80gb"], ["3g.40gb"], ["1g.10gb"], ["3g.40gb", "1g.10gb+me"])] == [
        2,
        1,
        2,
        8,
        11,
    ]
    assert ruler(gpu, 3) == " 0  1  2  3  4  5  6  7  "


# ---------------------------------------------------------------- changes


def test_what_really_sits_there_is_told_from_left_to_right() -> None:
    gpu = model("a100-80gb")
    placed = (Placement(5, 1, "1g.10gb"), Placement(0, 4, "3g.40gb"))
    changed = change(gpu, {"3g.40gb": 1, "1g.10gb": 1}, {}, placed=placed)
    assert changed.goes == (Placement(0, 4, "3g.40gb"), Placement(5, 1, "1g.10gb"))


def test_a_layout_is_the_same_in_any_order() -> None:
    gpu = model("a100-80gb")
    one, other = {"3g.40gb": 1, "1g.10gb": 2}, {"1g.10gb": 2, "3g.40gb": 1}
    assert change(gpu, one, {}).goes == change(gpu, other, {}).goes
    assert change(gpu, {}, one).comes == change(gpu, {}, other).comes


def test_the_document_of_a_change() -> None:
    changed = change(model("a100-40gb"), {}, {"7g.40gb": 1}, virtual=False)
    assert changed.as_json() == {
        "from": {},
        "to": {"7g.40gb": 1},
        "goes": [],
        "stays": [],
        "comes": [{"profile": "7g.40gb", "start": 0, "size": 8}],
        "migMode": {"from": "disabled", "to": "enabled", "changes": True, "needs": "gpu-reset-or-reboot"},
    }


def test_of_an_illegal_layout_the_layout_is_told() -> None:
    with pytest.raises(KeyError, match=r"3g\.40gb"):
        change(model("a100-80gb"), {"3g.40gb": 3}, {})
    with pytest.raises(KeyError, match=r"2g\.20gb"):
        change(model("a100-80gb"), {}, {"2g.20gb": 4})
