"""When a pool's changes may begin: windows of the week, in a fixed offset from UTC.

The words are those of Azure's maintenance windows, whose offset is fixed, too. So there is no daylight saving, which would need
a database of time zones on every node. What is begun within a window goes on to its end after it. Pure: whoever asks says when.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MINUTE, _HOUR, _DAY, _WEEK = 60, 3600, 86_400, 7 * 86_400
#: The first Monday of the epoch, which began on a Thursday.
_MONDAY: Final = 4 * _DAY
_EVERY_DAY: Final = "daily"
_WRITTEN: Final = re.compile(rf"({'|'.join(DAYS)}|{_EVERY_DAY}) (\d\d):(\d\d) (\d+)h ([+-])(\d\d):(\d\d)")


@dataclass(frozen=True)
class Window:
    """A window.

    Attributes:
        day: of the week, Monday is 0; None: every day.
        start: seconds after midnight.
        seconds: how long it is open.
        offset: seconds from UTC.
    """

    day: int | None
    start: int
    seconds: int
    offset: int

    def since(self, at: float) -> float:
        """Seconds since it was opened last.

        Args:
            at: seconds since the epoch.
        """
        opened = self.start - self.offset if self.day is None else _MONDAY + self.day * _DAY + self.start - self.offset
        return (at - opened) % self._period

    def opens_in(self, at: float) -> float:
        """Seconds until it is open; 0 while it is."""
        since = self.since(at)
        return 0.0 if since < self.seconds else self._period - since

    @property
    def _period(self) -> int:
        return _DAY if self.day is None else _WEEK


def read_window(text: str) -> Window:
    """A window as a command line has it, such as ``Saturday 22:00 6h +01:00`` or ``daily 02:00 4h +00:00``.

    Raises:
        ValueError: it is not one.
    """
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    day, hour, minute, hours, sign, ahead, beside = found.groups()
    offset = (int(ahead) * _HOUR + int(beside) * _MINUTE) * (-1 if sign == "-" else 1)
    start = int(hour) * _HOUR + int(minute) * _MINUTE
    return Window(None if day == _EVERY_DAY else DAYS.index(day), start, int(hours) * _HOUR, offset)


def written(day: str | None, start_time: str, hours: int, offset: str) -> str:
    """What `read_window` reads."""
    return f"{day or _EVERY_DAY} {start_time} {hours}h {offset}"


def opens_in(windows: Sequence[Window], at: float) -> float:
    """Seconds until a change may begin; 0 while it may, and where there are no windows.

    Args:
        windows: of the pool.
        at: seconds since the epoch.
    """
    return min((one.opens_in(at) for one in windows), default=0.0)
