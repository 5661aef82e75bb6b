"""Where the file begins: starts the process that reads NVML, and only then loads everything else.

Loading takes most of the time of an assertion. So both processes do their part of it at the same time.
"""

from __future__ import annotations

import os
import sys

from .process import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_CANNOT_TELL = 2


def run() -> int:
    """The program; returns the exit code."""
    try:
        child = Process(fork=True)
    except OSError as error:
        # Python would end with 1, which says that the node differs.
        sys.stderr.write(f"cannot tell: no process can be started: {error.strerror}\n")
        return _CANNOT_TELL
    from . import __main__ as program  # noqa: PLC0415 - see above

    return program.run(child)


def end(code: int) -> NoReturn:
    """End without what Python does at its end: to take apart what was loaded takes a third of the time of a reading."""
    try:
        print(end="", flush=True)  # noqa: T201 - it minds that standard output may be closed
    except OSError:
        code = _CANNOT_TELL  # nobody takes the verdict
    os._exit(code)
