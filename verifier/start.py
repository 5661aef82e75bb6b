"""Where the file begins: starts the process that reads NVML, and only then loads everything else.

Loading takes most of the time of an assertion. So both processes do their part of it at the same time.
"""

from __future__ import annotations

import sys

from verifier.process import Process

_CANNOT_TELL = 2


def run() -> int:
    """The program; returns the exit code."""
    try:
        child = Process()
    except OSError as error:
        # Python would end with 1, which says that the node differs.
        sys.stderr.write(f"cannot tell: no process can be started: {error.strerror}\n")
        return _CANNOT_TELL
    from verifier import __main__ as program  # noqa: PLC0415 - see above

    return program.run(child)
