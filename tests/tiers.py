"""Which cases of a sweep `make test` tries, and which are left to `make test-rest`: those are marked `sweep`.

A sweep repeats with more cases what one case of each kind shows already. The choice is the same in each run: by seed, or by name;
what a run tried must not depend on chance. `make test-all` tries all but those for the nights.

What would take a pipeline too long is for the nights (`make test-night`), which set GPU_POOLS_TEST_ALL=1: the same on another
platform, more cases of the same, and what first has to build programs that nothing else needs.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest

#: Whether what is for the nights is tried, too.
ALL = os.environ.get("GPU_POOLS_TEST_ALL") == "1"

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable

    from _pytest.mark import ParameterSet


def at_night(why: str) -> pytest.MarkDecorator:
    """Of a test that no pipeline waits for; why. tests/conftest.py leaves it out."""
    return pytest.mark.night(why)


def one_of_each(
    cases: Iterable[Any], kind: Callable[[Any], Hashable], seed: int = 0, by_day: int | None = None
) -> list[ParameterSet]:
    """All cases as parameters; of each kind one is in `make test`.

    Args:
        cases: all of them.
        kind: what kind a case is of.
        seed: draws the one of each kind.
        by_day: how many of the others there are by day, the first ones; the rest is for the nights. None: all.
    """
    known, kinds = list(cases), {}
    for number, case in enumerate(known):
        kinds.setdefault(kind(case), []).append(number)
    draw = random.Random(seed)  # noqa: S311 the same every time
    chosen = {draw.choice(numbers) for numbers in kinds.values()}
    left = [number for number in range(len(known)) if number not in chosen]
    nightly = set() if by_day is None else set(left[by_day:])
    return [_parameter(case, fast=number in chosen, night=number in nightly) for number, case in enumerate(known)]


def these(cases: Iterable[Any], fast: Collection[Any], by_day: int | None = None) -> list[ParameterSet]:
    """All cases as parameters; those that are named are in `make test`.

    Args:
        cases: all of them.
        fast: those that are in `make test`.
        by_day: how many there are at most, of the first; the others are for the nights.

    Raises:
        ValueError: one that is named is no case, so that nothing leaves `make test` by a renaming.
    """
    known = list(cases)
    missing = [one for one in fast if one not in known]
    if missing:
        raise ValueError(f"no such case: {missing}; there are: {known}")
    by_day = len(known) if by_day is None else by_day
    return [_parameter(case, fast=case in fast, night=number >= by_day) for number, case in enumerate(known)]


def _parameter(case: Any, *, fast: bool, night: bool = False) -> ParameterSet:
    values = case if isinstance(case, tuple) else (case,)
    marks = [*([] if fast else [pytest.mark.sweep]), *([at_night("more cases of the same")] if night else [])]
    return pytest.param(*values, marks=marks)
