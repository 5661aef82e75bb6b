"""Every key of every table of settings: what it takes, what it refuses and with which words, and what it sets in the cloud.

tests/golden/keys.txt has it key by key, so that whoever changes a row reads what that does to people. After a wanted change:
``UPDATE_GOLDEN=1 venv/bin/pytest tests/unit/test_every_key.py``, then read the difference. What holds between keys is not here.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools import stack
from gpu_pools.stack import fields
from gpu_pools.stack.section import Section
from gpu_pools.text.errors import Problems, show
from tests.unit.golden import golden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.stack.fields import Row
    from gpu_pools.text.errors import Problem

#: Values of every kind; none of the texts means anything anywhere.
PROBES: Final[tuple[Any, ...]] = (True, -5, 0, 10**9, 0.5, "~ ~", [], ["~ ~"], {}, {"~": "~ ~"})
#: Keys that are read together with the rest of the stack.
IN_CONTEXT: Final = {
    "placements.MagnumPlacement.flavor",
    *(f"pools.Pool.{key}" for key in ("name", "count", "sharing", "labels", "taints", "protect", "adopted")),
}


def _keys() -> dict[str, Row]:
    found = {}
    for info in pkgutil.iter_modules(stack.__path__):
        module = importlib.import_module(f"{stack.__name__}.{info.name}")
        for name, one in vars(module).items():
            if dataclasses.is_dataclass(one) and isinstance(one, type) and one.__module__ == module.__name__:
                found |= {f"{info.name}.{name}.{row.key}": row for row in fields.rows(one)}
    return found


KEYS: Final = _keys()
ALONE: Final = {name: row for name, row in KEYS.items() if name not in IN_CONTEXT}


def read(row: Row, value: object) -> tuple[object, tuple[Problem, ...]]:
    """What becomes of a value that is written under a key, and what is wrong with it."""
    problems = Problems()
    return row.kind.read(Section({} if value is None else {row.key: value}, "", problems), row), problems.found


def _shown(row: Row) -> Iterator[str]:
    taken, refusals = [], []
    for probe in PROBES:
        value, problems = read(row, probe)
        # Of the same kind of mistake one is enough.
        refusals += [f"{one.message.replace(show(probe), '…')}: {one.allowed}" for one in problems]
        if not problems:
            taken.append(repr(probe) if value == probe else f"{probe!r} as {value!r}")
    absent, missing = read(row, None)
    yield f"  default {row.default!r}"
    if absent is not None:
        yield f"  absent {absent!r}"
    yield from (f"  missing: {one.allowed}" for one in missing)
    yield from (f"  {name} {value}" for name in ("either", "sets", "change") if (value := getattr(row, name)))
    yield from (f"  takes {one}" for one in taken)
    yield from (f"  refuses {one}" for one in dict.fromkeys(refusals))


def test_each_key_takes_refuses_and_sets_what_it_did() -> None:
    golden("keys.txt", "".join(f"{line}\n" for name, row in ALONE.items() for line in (name, *_shown(row))))


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=5,
)


@given(name=st.sampled_from(sorted(ALONE)), value=JSON)
def test_whatever_is_written_is_taken_or_refused_at_its_place(name: str, value: object) -> None:
    row = KEYS[name]
    for one in read(row, value)[1]:
        assert one.path.startswith(f".{row.key}")
        assert one.allowed


def _allowed(row: Row) -> list[str]:
    """What is said to be allowed to whoever writes something else."""
    problems = [one for probe in ("~ ~", -(10**9)) for one in read(row, probe)[1]]
    return list(dict.fromkeys(one.allowed for one in problems if one.path == f".{row.key}"))


_BOUNDS: Final = re.compile(r"a (?:whole )?number, at least (-?\d+)(?: and at most (\d+))?")
BOUNDED: Final = {
    name: [int(bound) if bound else None for bound in match.groups()]
    for name, row in ALONE.items()
    for allowed in _allowed(row)
    if (match := _BOUNDS.fullmatch(allowed))
}
CHOOSING: Final = {
    name: allowed.split(" | ")
    for name, row in ALONE.items()
    for allowed in _allowed(row)
    if isinstance(row.kind.type, str) and re.fullmatch(r"[\w+-]+( \| [\w+-]+)+", allowed)
}


def test_there_are_keys_with_bounds_and_with_choices() -> None:
    assert len(BOUNDED) > 20
    assert len(CHOOSING) > 20


@pytest.mark.parametrize("name", BOUNDED)
def test_a_number_may_be_as_small_and_as_large_as_is_said(name: str) -> None:
    row, (least, most) = KEYS[name], BOUNDED[name]
    assert least is not None
    assert not read(row, least)[1]
    assert read(row, least - 1)[1]
    if most is not None:
        assert not read(row, most)[1]
        assert read(row, most + 1)[1]


@pytest.mark.parametrize("name", CHOOSING)
def test_each_choice_that_is_told_is_taken_as_it_is(name: str) -> None:
    for choice in CHOOSING[name]:
        assert read(KEYS[name], choice) == (choice, ())
        assert read(KEYS[name], f"{choice}~")[1]
