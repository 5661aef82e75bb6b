"""How long building will still take: recorded times, scaled by how fast this machine turns out to be.

The times in `programs` are of two cores that had nothing else to do. Until something is built its cores are taken to be
like those; Go's own library, which goes first, tells within half a minute.
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
_CACHED: Final = 0.2
_MINUTE: Final = 60


class Remaining:
    """What is still to be built, by several builds at a time; told when each begins and ends."""

    def __init__(self, recorded: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing built.

        Args:
            recorded: all that are to be built, in the order of their turns, and how many seconds each took on two cores.
            clock: tells seconds.
        """
        self._open = dict(recorded)
        self._clock = clock
        self._began: dict[str, tuple[float, int]] = {}
        self._recorded = self._taken = 0.0
        self._lock = threading.Lock()

    def begin(self, name: str, lanes: int) -> None:
        """Something is being built from now on, with that part of the machine."""
        with self._lock:
            self._began[name] = self._clock(), lanes

    def end(self, name: str) -> None:
        """Something is built."""
        with self._lock:
            taken, recorded = self._so_far(name), self._open.pop(name)
            del self._began[name]
            # What was in Go's own cache says nothing of this machine.
            if taken > _CACHED * recorded * _usual_slowness():
                self._taken += taken
                self._recorded += recorded

    def seconds(self) -> float:
        """How long all will still take, about."""
        with self._lock:
            slowness = self._taken / self._recorded if self._recorded else _usual_slowness()
            # What takes longer than it should says more than what went before.
            slowness = max([slowness, *(self._so_far(name) / self._open[name] for name in self._began)])
            done = {name: min(self._so_far(name) / slowness, _NEARLY * self._open[name]) for name in self._began}
            return slowness * (sum(self._open.values()) - sum(done.values()))

    def _so_far(self, name: str) -> float:
        """For how long it has had the whole machine, as it were."""
        began, lanes = self._began[name]
        return (self._clock() - began) / lanes

    def lines(self) -> list[str]:
        """What remains, for people."""
        seconds = self.seconds()
        with self._lock:
            now, later = list(self._began), [name for name in self._open if name not in self._began]
        then = f"; then {', '.join(later)}" if later else ""
        return [f"about {duration(seconds)} left: {', '.join(now)}{then}"] if now else []


def _usual_slowness() -> float:
    return _RECORDED_CORES / (os.cpu_count() or 1)


def duration(seconds: float) -> str:
    """Seconds in words: no more exact than an estimate is."""
    return f"{round(seconds / 10) * 10 or 10:.0f} s" if seconds < 2 * _MINUTE else f"{seconds / _MINUTE:.0f} min"
