"""Slow tests are spread over processes, and only those that share nothing are parted from their file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from unittest.mock import Mock

import pytest

from tests.spread import INDEPENDENT, SLOWEST, Spread, put_slowest_first

PROJECT: Final = Path(__file__).resolve().parents[2]
#: What makes the tests of a file share something.
SHARED: Final = re.compile(r"\bshared_sandbox\b|scope=\"(module|class|package|session)\"")


@pytest.mark.parametrize("file", INDEPENDENT)
def test_tests_that_are_parted_share_nothing(file: str) -> None:
    assert not SHARED.search((PROJECT / file).read_text(encoding="utf-8"))


def test_the_slowest_files_are_there() -> None:
    assert [file for file in SLOWEST if not (PROJECT / file).is_file()] == []


def test_other_files_stay_whole() -> None:
    spread = Spread.__new__(Spread)
    parted = [f"{INDEPENDENT[0]}::test_a[{number}]" for number in (1, 2)]
    whole = [f"tests/unit/test_a.py::{name}" for name in ("T::test_a", "test_b")]
    assert len({spread._split_scope(name) for name in (*parted, *whole)}) == 3


def test_the_slowest_begin_and_the_rest_keeps_its_order() -> None:
    first, second = SLOWEST[:2]
    names = ["tests/unit/b.py::x", f"{second}::z", "tests/unit/a.py::y", f"{first}::b", f"{second}::a", f"{first}::a"]
    items = [Mock(nodeid=name) for name in names]
    put_slowest_first(items)  # type: ignore[arg-type]
    assert [item.nodeid for item in items] == [names[3], names[5], names[1], names[4], names[0], names[2]]
