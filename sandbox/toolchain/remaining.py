"""How long building will still take, from the processor time that is spent and that is still needed.

The time that is left is the processor time that is still needed, divided by how much of it a second has brought so far. What
each program needs was recorded (`programs`). How much more or less this machine's processor needs is known from the programs
that are built already.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

from sandbox.toolchain.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Of each core that many seconds a second are used: what was recorded on two cores.
_USED: Final = 0.85
#: For that many seconds what is usual counts as much as what was seen.
_USUAL_SECONDS: Final = 15.0
#: A program that needs more than was recorded is not taken for done.
_AT_LEAST: Final = 0.05
#: Who needed less than that of what was recorded found its packages in Go's own cache.
_CACHED: Final = 0.3
#: An estimate that differs by more than that from what is shown replaces it at once.
_LONGER: Final = 1.25
_SHORTER: Final = 0.5
_DIFFERENT_SECONDS: Final = 10.0
_MINUTE: Final = 60


class Remaining:
    """What is still to be built, by several builds at a time. Whoever builds reports when each program begins and ends."""

    def __init__(self, recorded: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing built.

        Args:
            recorded: all that are to be built, in the order of their turns, and how many seconds of processor time each needs.
            clock: returns seconds.
        """
        self._open = dict(recorded)
        self._clock = clock
        self._meters: dict[str, Meter] = {}
        self._began: float | None = None
        self._spent = self._measured = self._measured_recorded = 0.0
        self._shown: tuple[float, float] | None = None
        self._lock = threading.Lock()

    def begin(self, name: str) -> Meter:
        """A program is being built from now on.

        Returns:
            What its commands are to be measured with.
        """
        with self._lock:
            if self._began is None:
                self._began = self._clock()
            self._meters[name] = Meter()
            return self._meters[name]

    def end(self, name: str) -> None:
        """A program is built."""
        with self._lock:
            spent, recorded = self._meters.pop(name).seconds(), self._open.pop(name)
            self._spent += spent
            if spent > _CACHED * recorded:
                self._measured += spent
                self._measured_recorded += recorded

    def seconds(self) -> float:
        """About how many seconds it takes until all is built, as it is to be shown: a countdown that does not jump."""
        with self._lock:
            now = self._clock()
            spent = {name: meter.seconds() for name, meter in self._meters.items()}
            left = self._still_needed(spent) / self._rate(now, sum(spent.values()))
            self._shown = now, self._steadied(now, left)
            return self._shown[1]

    def describe(self) -> str:
        """What remains, for people: the time, what is being built and what comes then."""
        seconds = self.seconds()
        with self._lock:
            current, later = list(self._meters), [name for name in self._open if name not in self._meters]
        then = f"; then {', '.join(later)}" if later else ""
        return f"about {duration(seconds)} left: {', '.join(current)}{then}" if current else ""

    def _still_needed(self, spent: Mapping[str, float]) -> float:
        """Seconds of this machine's processor time."""
        slowness = self._measured / self._measured_recorded if self._measured_recorded else 1.0
        # A program that has already needed more than was recorded says more than those before it.
        slowness = max([slowness, *(seconds / self._open[name] for name, seconds in spent.items())])
        needed = {name: slowness * recorded for name, recorded in self._open.items()}
        return sum(max(seconds - spent.get(name, 0.0), _AT_LEAST * seconds) for name, seconds in needed.items())

    def _rate(self, now: float, spent_now: float) -> float:
        """Seconds of processor time that a second brings."""
        elapsed = 0.0 if self._began is None else now - self._began
        usual = _USED * (os.cpu_count() or 1)
        return (usual * _USUAL_SECONDS + self._spent + spent_now) / (_USUAL_SECONDS + elapsed)

    def _steadied(self, now: float, left: float) -> float:
        """The countdown: it stands still or runs twice as fast to meet the estimate, and jumps only where it is far from it."""
        if self._shown is None:
            return left
        before, shown = self._shown
        due = max(shown - (now - before), 0.0)
        if left > _LONGER * due + _DIFFERENT_SECONDS or left < _SHORTER * due - _DIFFERENT_SECONDS:
            return left
        return min(shown, left) if left > due else max(left, due - (now - before))


def duration(seconds: float) -> str:
    """Seconds in words: no more exact than an estimate is."""
    return f"{round(seconds / 10) * 10 or 10:.0f} s" if seconds < 2 * _MINUTE else f"{seconds / _MINUTE:.0f} min"
