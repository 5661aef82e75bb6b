"""Times until now, as command lines take them (`24h`), and the steps in which Prometheus is asked about them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_MINUTE: Final = 60
_MOST_STEPS: Final = 1440
_UNITS: Final = {"m": _MINUTE, "h": 3600, "d": 86400, "w": 604800}
#: Minutes that a time may have.
_LEAST, _MOST = 5, 60 * 24 * 92


@dataclass(frozen=True)
class Window:
    """A time between two moments, in seconds since the epoch; it is asked about at each step, both ends included."""

    start: int
    end: int
    step: int


@dataclass(frozen=True)
class Span:
    """A time until now, in steps of seconds; `text`: as it was written."""

    seconds: int
    text: str

    @property
    def step(self) -> int:
        """In whole minutes."""
        return self._step(_MOST_STEPS)

    @property
    def steps(self) -> int:
        """How many."""
        return self.seconds // self.step

    def hours(self, steps: float) -> float:
        """So many steps as hours."""
        return steps * self.step / 3600

    def window(self, now: float, most_steps: int) -> Window:
        """It, until the last whole minute, in so many steps at most."""
        end, step = int(now) // _MINUTE * _MINUTE, self._step(most_steps)
        return Window(end - self.seconds // step * step, end, step)

    def _step(self, most: int) -> int:
        minutes = -(-self.seconds // _MINUTE)
        return max(1, -(-minutes // most)) * _MINUTE


def span(text: str) -> Span:
    """Of such a text as 90m, 24h, 7d, 2w.

    Raises:
        ValueError: where it is another.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhdw])", text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not _LEAST * _MINUTE <= seconds <= _MOST * _MINUTE:
        message = f"{text!r}: a time as 90m, 24h, 7d or 2w is needed, from five minutes to 92 days"
        raise ValueError(message)
    return Span(seconds, text)
