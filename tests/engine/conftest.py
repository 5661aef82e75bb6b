"""Stacks on the embedded platform for tests, always taken away again; a failed test shows their logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_LIVE: list[Trial] = []


def _trials(factory: pytest.TempPathFactory) -> Iterator[Callable[..., Trial]]:
    mine: list[Trial] = []

    def make(text: str, stack: str = "small") -> Trial:
        trial = Trial(factory.mktemp("trial"), text, stack)
        mine.append(trial)
        _LIVE.append(trial)
        return trial

    try:
        yield make
    finally:
        for trial in mine:
            trial.end()
            _LIVE.remove(trial)


@pytest.fixture
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Trial]]:
    """Makes a trial of a stack text, for one test: ``sandbox(text, stack="small")``."""
    yield from _trials(tmp_path_factory)


@pytest.fixture(scope="module")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Trial]]:
    """The same for all tests of a file, which then run in the order they are written."""
    yield from _trials(tmp_path_factory)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Attach the logs to what is shown of a failed test."""
    report = yield
    if report.failed and report.when in {"setup", "call"}:
        report.sections += [(f"sandbox {trial.stack} of {item.name}", trial.logs()) for trial in _LIVE]
    return report
