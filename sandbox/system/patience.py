"""How long to wait on a machine that others use too: seconds of an idle machine, stretched by the share of a core that one gets.

A wait that gives up after a fixed number of seconds fails on a busy machine, where nothing is wrong. So the share is measured: a
short computation compares the processor time that it got with the time that it took. It is measured again and again during the
wait, since load comes and goes. Not measured: disks and networks that are slow; limits have to leave room for those.
"""

from __future__ import annotations

import time
from typing import Final

#: Long enough that a scheduler gives others their turn in it: its slices are 3 to 10 ms.
_PROBE_SECONDS: Final = 0.03
_EVERY_SECONDS: Final = 2.0
#: A process that is stopped and continued sees a gap; it must not count for hours.
_SMALLEST_SHARE: Final = 0.02


def share_of_a_core() -> float:
    """Measure which part of a core this thread gets, from 0.02 to 1: it computes for 30 ms."""
    begun, computed = time.monotonic(), time.thread_time()
    while time.monotonic() - begun < _PROBE_SECONDS:
        pass
    share = (time.thread_time() - computed) / (time.monotonic() - begun)
    return min(1.0, max(_SMALLEST_SHARE, share))


class Patience:
    """A limit for a wait.

    Args:
        seconds: how long the wait may take on an idle machine.
    """

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._share = 1.0
        self._begun = self._seen = time.monotonic()
        # The first wait of two seconds costs no probe: most waits end before.
        self._measured = self._begun

    @property
    def waited(self) -> float:
        """Seconds since the wait began."""
        return time.monotonic() - self._begun

    def is_over(self) -> bool:
        """Whether it has taken too long; ask again and again."""
        now = time.monotonic()
        if now - self._measured >= _EVERY_SECONDS:
            self._share, self._measured = share_of_a_core(), now
        self._left -= (now - self._seen) * self._share
        self._seen = now
        return self._left < 0
