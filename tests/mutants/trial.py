"""Does any test notice one mutant? The quickest few are asked first: nearly every mutant ends there.

Tests may also fail, or take for ever, because the machine is busy. So what took suspiciously long is held against the same tests
without the mutant, at once and the same way: only where these pass, and soon, was it the mutant.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pytest

from tests.mutants import suite
from tests.mutants.covering import remembered_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.mutants.covering import Covering
    from tests.mutants.loaded import Loaded
    from tests.mutants.mutations import Mutant

_FIRST_TESTS, _FIRST_SECONDS = 40, 1.5
#: A mutant that takes so much longer than the tests did is one that does not end.
_SLOWER, _AT_LEAST_SECONDS = 8, 6.0
#: Quicker than that, a failure is not one of a busy machine.
_SOON_SLOWER, _SOON_SECONDS = 2, 3.0
#: How often tests are asked whose answer may be the machine's, and how much longer each time.
_ATTEMPTS, _LONGER = 4, 4


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
        whole = (self.tree / mutant.file).read_text(encoding="utf-8")
        remembered = mutant.line in remembered_lines(whole)
        names = self._within(self.covering.tests_of(mutant.file, mutant.line, remembered=remembered), self.patience)
        if not names:
            return Ended.UNTESTED
        first = self._within(names[:_FIRST_TESTS], _FIRST_SECONDS)
        for part in (first, names[len(first) :]):
            if part and (how := self._asked(mutant, whole, part)) is not Ended.MISSED:
                return how
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
        measured = sum(self.covering.seconds[name] for name in names)
        seconds = _AT_LEAST_SECONDS + _SLOWER * measured
        for _ in range(_ATTEMPTS):
            code, took = self._timed(mutant, whole, mutant.source, names, seconds)
            # With none collected the tests that would have been asked have other names now.
            if code in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
                return Ended.MISSED
            ended = Ended.UNENDING if code in {None, suite.EXHAUSTED} else Ended.NOTICED
            if code not in {None, suite.BROKEN} and took < _SOON_SECONDS + _SOON_SLOWER * measured:
                return ended
            without, then = self._timed(mutant, whole, whole, names, seconds)
            if without == pytest.ExitCode.OK and (code is not None or then * _LONGER < took):
                return ended
            seconds *= _LONGER
        # What nobody can tell is not claimed.
        return Ended.MISSED

    def _timed(self, mutant: Mutant, whole: str, source: str, names: Sequence[str], seconds: float) -> tuple[int | None, float]:
        """How the tests end with that as the mutant's file, asked in the way that the mutant needs; and after how long."""
        began = time.monotonic()
        with self._placed(mutant.file, whole, source):
            code = self._code(mutant, whole, source, names, seconds)
        return code, time.monotonic() - began

    @contextmanager
    def _placed(self, name: str, whole: str, source: str) -> Iterator[None]:
        file = self.tree / name
        file.write_text(source, encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(whole, encoding="utf-8")

    def _code(self, mutant: Mutant, whole: str, source: str, names: Sequence[str], seconds: float) -> int | None:
        if mutant.line not in self.covering.loading.get(mutant.file, ()):
            try:
                return self.loaded.tried(mutant.file, whole, source, names, seconds)
            except LookupError:
                pass
        files = sorted({name.partition("::")[0] for name in names})
        return suite.forked(seconds, suite.scratch(self.tree), lambda: suite.run_there(self.tree, files, _Chosen(names)))
