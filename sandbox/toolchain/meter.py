"""The processor time that the commands of one build take, read while they run.

Processor time says how much work is done. Unlike time by the clock it does not depend on what else the machine does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: utime, stime, cutime and cstime of proc_pid_stat(5), counted from the field after the command's name.
_TIMES: Final = slice(11, 15)
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


class Meter:
    """Adds up the processor seconds of commands that run one after the other."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._ended = 0.0
        self._process: int | None = None

    def follow(self, process: int) -> None:
        """Count a process that has started, with its children that have ended."""
        self._process = process

    def stop(self) -> None:
        """Take the last reading of the process. It must have ended, and its parent must not have waited for it yet."""
        self._ended, self._process = self.seconds(), None

    def seconds(self) -> float:
        """How much was taken until now; 0 where the system does not say."""
        process = self._process
        return self._ended + (0.0 if process is None else _processor_seconds(process))


def _processor_seconds(process: int) -> float:
    try:
        stat = Path(f"/proc/{process}/stat").read_text("ascii", errors="replace")
    except OSError:
        return 0.0
    # The command's name may hold spaces and brackets.
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[_TIMES])) / _TICKS_A_SECOND
