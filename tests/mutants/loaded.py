"""A process that has collected all the tests: for a mutant it is forked, and the fork runs the chosen tests at once.

Collecting takes longer than most mutants live. Only mutants that can be put into loaded functions are tried here (swapping.py).
"""

from __future__ import annotations

import gc
import multiprocessing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.mutants import suite
from tests.mutants.swapping import Functions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

#: How a fork ends that could not take the mutant.
_NOT_HERE = 75


class Loaded:
    """The process, for one copy of the project.

    Raises:
        EOFError: if the tests cannot be collected there.
    """

    def __init__(self, tree: Path, paths: Sequence[str]) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        suite.begun(lambda: self._served(tree, paths, theirs))
        theirs.close()
        # Before that, no mutant may be in the copy.
        self._ours.recv()

    def _served(self, tree: Path, paths: Sequence[str], asked: Connection) -> int:
        self._ours.close()
        return suite.run_there(tree, paths, _Serving(tree, asked))

    def tried(self, file: str, whole: str, source: str, names: Sequence[str], seconds: float) -> int | None:
        """The exit code of these tests, in this order; None if they had to be ended.

        Args:
            file: below the root of the project.
            whole: its text without the mutant.
            source: with it, or the same text without one.
            names: tests.
            seconds: how long they may take.

        Raises:
            LookupError: if that mutant cannot be tried here.
        """
        # Plain values: classes of ours have other copies there.
        self._ours.send((file, whole, source, names, seconds))
        code = self._ours.recv()
        if code == _NOT_HERE:
            raise LookupError(file)
        found: int | None = code
        return found


class _Serving:
    """Instead of running the tests that were collected, runs those that are asked for, each time in a fork."""

    def __init__(self, tree: Path, asked: Connection) -> None:
        self._tree, self._asked = tree, asked

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        functions = Functions(self._tree)
        gc.collect()
        gc.freeze()
        self._asked.send("ready")
        while True:
            try:
                file, whole, changed, names, seconds = self._asked.recv()
            except EOFError:
                return True
            chosen = [items.get(name) for name in names]
            run = partial(_run, session, chosen, partial(functions.put, file, whole, changed))
            self._asked.send(suite.forked(seconds, suite.scratch(self._tree), run))


def _run(session: pytest.Session, chosen: Sequence[pytest.Item | None], put: Callable[[], bool]) -> int:
    if None in chosen or not put():
        return _NOT_HERE
    for item, following in zip(chosen, [*chosen[1:], None], strict=True):
        assert item is not None
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except MemoryError:
            raise
        # A mutant may fail a test while that has replaced what pytest reports with (`ast.parse`), or interrupt it: `pytest.main`
        # would end so.
        except BaseException:  # noqa: BLE001
            return int(pytest.ExitCode.INTERNAL_ERROR)
        if session.testsfailed:
            return int(pytest.ExitCode.TESTS_FAILED)
    return int(pytest.ExitCode.OK)
