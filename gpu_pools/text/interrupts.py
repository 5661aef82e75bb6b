"""How the command lines answer Ctrl-C while they load, and where nothing has to be put in order: they end, without a word.

Python answers it with a traceback from the moment on that its interpreter runs; loading a program takes a third of a second, and
in that time nobody would catch it. Here the process ends by the signal itself, which a shell tells as 130. What Python does in
its own first 40 ms is out of our reach: the Makefile holds the signal back for so long.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED: Final = 130
_SIGNALLED: Final = 128


def end_at_once() -> None:
    """End at Ctrl-C from now on, and at one that was held back."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def raise_again() -> None:
    """Raise KeyboardInterrupt at Ctrl-C from now on: there is something to put in order."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def terminate_in_order() -> None:
    """Raise SystemExit at a SIGTERM from now on: there is something to take away."""
    signal.signal(signal.SIGTERM, _terminated)


def _terminated(number: int, frame: object) -> None:
    del frame
    sys.exit(_SIGNALLED + number)


def answered(run: Callable[[], int]) -> int:
    """Run a command that has something to put in order, and end as an interrupted one does, without a traceback."""
    try:
        raise_again()
        code = run()
        end_at_once()
    except KeyboardInterrupt:
        return INTERRUPTED
    return code
