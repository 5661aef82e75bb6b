"""Does any test notice one mutant? The quickest few are asked first: nearly every mutant ends there."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from tests.mutants import suite

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.mutants.covering import Covering
    from tests.mutants.mutations import Mutant

_FIRST_TESTS, _FIRST_SECONDS = 40, 1.5
#: A mutant that takes so much longer than the tests did is one that does not end.
_SLOWER, _AT_LEAST_SECONDS = 8, 15.0


class Ended(Enum):
    """How it went with a mutant."""

    NOTICED = "noticed"
    UNENDING = "unending"
    MISSED = "missed"
    UNTESTED = "untested"


class _Chosen:
    """Runs these tests only, in this order."""

    def __init__(self, names: list[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if item.nodeid in self._place]
        items[:] = sorted(kept, key=lambda item: self._place[item.nodeid])


def ended(mutant: Mutant, covering: Covering, tree: Path, patience: float) -> Ended:
    """Put a mutant into that copy of the project, run its tests there, and take it out again.

    Args:
        mutant: the change.
        covering: what the tests run.
        tree: the copy.
        patience: seconds of tests, as measured, that are asked at most.
    """
    names = _within(covering.tests_of(mutant.file, mutant.line), covering, patience)
    if not names:
        return Ended.UNTESTED
    first = _within(names[:_FIRST_TESTS], covering, _FIRST_SECONDS)
    file = tree / mutant.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(mutant.source, encoding="utf-8")
    try:
        for part in (first, names[len(first) :]):
            if part and (how := _asked(part, covering, tree)) is not Ended.MISSED:
                return how
    finally:
        file.write_text(whole, encoding="utf-8")
    return Ended.MISSED


def _within(names: list[str], covering: Covering, seconds: float) -> list[str]:
    """The first of them that take so long; one at least."""
    kept: list[str] = []
    for name in names:
        seconds -= covering.seconds[name]
        if kept and seconds < 0:
            break
        kept.append(name)
    return kept


def _asked(names: list[str], covering: Covering, tree: Path) -> Ended:
    files = sorted({name.partition("::")[0] for name in names})
    seconds = _AT_LEAST_SECONDS + _SLOWER * sum(covering.seconds[name] for name in names)
    code = suite.forked(seconds, tree, lambda: suite.tests(files, _Chosen(names)))
    return Ended.UNENDING if code is None else Ended.MISSED if code == 0 else Ended.NOTICED
