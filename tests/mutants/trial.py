"""Does any test notice one mutant? The quickest few are asked first: nearly every mutant ends there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pytest

from tests.mutants import suite
from tests.mutants.covering import remembered_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.mutants.covering import Covering
    from tests.mutants.loaded import Loaded
    from tests.mutants.mutations import Mutant

_FIRST_TESTS, _FIRST_SECONDS = 40, 1.5
#: A mutant that takes so much longer than the tests did is one that does not end.
_SLOWER, _AT_LEAST_SECONDS = 8, 6.0


class Ended(Enum):
    """How it went with a mutant."""

    NOTICED = "noticed"
    UNENDING = "unending"
    MISSED = "missed"
    UNTESTED = "untested"


class _Chosen:
    """Runs these tests only, in this order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._place = {name: place for place, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if item.nodeid in self._place]
        items[:] = sorted(kept, key=lambda item: self._place[item.nodeid])


@dataclass(frozen=True)
class Trials:
    """One copy of the project, and what is known of its tests.

    Attributes:
        tree: the copy.
        covering: what the tests run.
        loaded: a process that has collected them.
        patience: seconds of tests, as measured, that are asked at most.
    """

    tree: Path
    covering: Covering
    loaded: Loaded
    patience: float

    def ended(self, mutant: Mutant) -> Ended:
        """Put a mutant into the copy, run its tests there, and take it out again."""
        file = self.tree / mutant.file
        whole = file.read_text(encoding="utf-8")
        remembered = mutant.line in remembered_lines(whole)
        names = self._within(self.covering.tests_of(mutant.file, mutant.line, remembered=remembered), self.patience)
        if not names:
            return Ended.UNTESTED
        first = self._within(names[:_FIRST_TESTS], _FIRST_SECONDS)
        file.write_text(mutant.source, encoding="utf-8")
        try:
            for part in (first, names[len(first) :]):
                if part and (how := self._asked(mutant, whole, part)) is not Ended.MISSED:
                    return how
        finally:
            file.write_text(whole, encoding="utf-8")
        return Ended.MISSED

    def _within(self, names: Sequence[str], seconds: float) -> list[str]:
        """The first of them that take so long; one at least."""
        kept: list[str] = []
        for name in names:
            seconds -= self.covering.seconds[name]
            if kept and seconds < 0:
                break
            kept.append(name)
        return kept

    def _asked(self, mutant: Mutant, whole: str, names: Sequence[str]) -> Ended:
        seconds = _AT_LEAST_SECONDS + _SLOWER * sum(self.covering.seconds[name] for name in names)
        match self._code(mutant, whole, names, seconds):
            case None | suite.EXHAUSTED:
                return Ended.UNENDING
            case suite.BROKEN:
                raise RuntimeError(f"no test could be run: {mutant.identity}")
            # The tests that would have been asked have other names now, and none was run.
            case pytest.ExitCode.OK | pytest.ExitCode.NO_TESTS_COLLECTED:
                return Ended.MISSED
        return Ended.NOTICED

    def _code(self, mutant: Mutant, whole: str, names: Sequence[str], seconds: float) -> int | None:
        if mutant.line not in self.covering.loading.get(mutant.file, ()):
            try:
                return self.loaded.tried(mutant, whole, names, seconds)
            except LookupError:
                pass
        files = sorted({name.partition("::")[0] for name in names})
        return suite.forked(seconds, suite.scratch(self.tree), lambda: suite.run_there(self.tree, files, _Chosen(names)))
