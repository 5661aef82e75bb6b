"""How long building will still take: recorded times, scaled by how fast this machine turns out to be.

The times in `programs` are of two cores that had nothing else to do. Until the first program is built this machine is taken for
one that has as much of a core as those, and as many as it has.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_RECORDED_CORES: Final = 2
#: A program that takes longer than its share is not taken for done.
_NEARLY: Final = 0.95
_MINUTE: Final = 60


class Remaining:
    """What is still to be built, by several builds at a time; told when each begins and ends."""

    def __init__(self, recorded: Mapping[str, float], lanes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing built.

        Args:
            recorded: all that are to be built, in the order of their turns, and how many seconds each took on two cores.
            lanes: how many are built at a time: each has that part of the machine.
            clock: tells seconds.
        """
        self._open = dict(recorded)
        self._lanes = lanes
        self._clock = clock
        self._began: dict[str, float] = {}
        self._recorded = self._taken = 0.0
        self._lock = threading.Lock()

    def begin(self, name: str) -> None:
        """A program is being built from now on."""
        with self._lock:
            self._began[name] = self._clock()

    def end(self, name: str) -> None:
        """A program is built."""
        with self._lock:
            self._recorded += self._open.pop(name)
            self._taken += self._clock() - self._began.pop(name)

    def seconds(self) -> float:
        """How long all will still take, about."""
        with self._lock:
            # Of a machine that does several at a time each takes as many times as long.
            slowness = self._taken / self._recorded / self._lanes if self._recorded else _RECORDED_CORES / (os.cpu_count() or 1)
            now = self._clock()
            done = {name: (now - began) / slowness / self._lanes for name, began in self._began.items()}
            left = sum(seconds - min(done.get(name, 0.0), _NEARLY * seconds) for name, seconds in self._open.items())
            return slowness * left

    def lines(self) -> list[str]:
        """What remains, for people."""
        seconds = self.seconds()
        with self._lock:
            now, later = list(self._began), [name for name in self._open if name not in self._began]
        then = f"; then {', '.join(later)}" if later else ""
        return [f"about {duration(seconds)} left: {', '.join(now)}{then}"] if now else []


def duration(seconds: float) -> str:
    """Seconds in words: no more exact than an estimate is."""
    return f"{round(seconds / 10) * 10 or 10:.0f} s" if seconds < 2 * _MINUTE else f"{seconds / _MINUTE:.0f} min"
