"""How long a test waits: seconds of an idle machine, stretched by what this machine is measured to give.

sandbox/system/patience.py measures it. Waits in a loop use its Patience; here is what waits for processes.
"""

from __future__ import annotations

import subprocess
from typing import Final, TypeVar

from sandbox.system.patience import Patience, share_of_a_core

_SLICE_SECONDS: Final = 2.0

T = TypeVar("T", str, bytes)


def scaled(seconds: float) -> float:
    """Seconds of an idle machine as seconds of this one, now: for limits that guard against a wait without end."""
    return seconds / share_of_a_core()


def output_of(process: subprocess.Popen[T], seconds: float, given: T | None = None) -> tuple[T, T]:
    """Wait for the end of a process and return its output and its errors, as `communicate` does.

    Args:
        process: it.
        seconds: how long it may take on an idle machine.
        given: its input.

    Raises:
        subprocess.TimeoutExpired: it has taken longer; it still runs.
    """
    patience = Patience(seconds)
    while True:
        try:
            return process.communicate(given, timeout=_SLICE_SECONDS)
        except subprocess.TimeoutExpired:
            # What was given is remembered by the process object; it must not be given twice.
            given = None
            if patience.is_over():
                raise
