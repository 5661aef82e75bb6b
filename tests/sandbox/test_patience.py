"""Waits are as long as the machine is busy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from sandbox.system import patience
from sandbox.system.patience import Patience, share_of_a_core
from tests.clock import set_clock
from tests.patience import output_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOGS = 4


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    set_clock(monkeypatch, patience, monotonic=found)
    return found


@pytest.mark.parametrize(("share", "ends_after"), [(1.0, 60), (0.5, 119), (0.1, 591)])
def test_a_wait_is_stretched_by_the_share_of_a_core(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, share: float, ends_after: int
) -> None:
    monkeypatch.setattr(patience, "share_of_a_core", lambda: share)
    wait = Patience(60)
    while not wait.is_over():
        clock.now += 1
    assert wait.waited == pytest.approx(ends_after, abs=2)


def test_load_that_ends_is_noticed(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.1, 0.1, 0.1, 0.1, 0.1, *[1.0] * 100])
    monkeypatch.setattr(patience, "share_of_a_core", lambda: next(shares))
    wait, seconds = Patience(20), 0
    while not wait.is_over():
        clock.now += 2
        seconds += 2
    assert seconds == 10 + 20


@pytest.fixture
def hogs() -> Iterator[None]:
    """Processes that compute all the time on one core, and the test on that core, too."""
    before = os.sched_getaffinity(0)
    core = min(before)
    command = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile os.getppid() != 1: pass"]
    started = [subprocess.Popen(command) for _ in range(_HOGS)]
    os.sched_setaffinity(0, {core})
    # Python has started in all of them by then, however busy the machine is: they are on this core.
    time.sleep(1)
    yield
    os.sched_setaffinity(0, before)
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("hogs")
def test_the_share_is_measured() -> None:
    assert min(share_of_a_core() for _ in range(5)) < 2 / (_HOGS + 1)


def test_output_is_taken_whole_and_a_process_that_hangs_is_told() -> None:
    command = [sys.executable, "-c", "import sys, time; said = sys.stdin.read(); time.sleep(2.5); print(said * 2)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert output_of(process, 60, "twice ") == ("twice twice \n", "")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.PIPE) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            output_of(process, 1)
        process.kill()
