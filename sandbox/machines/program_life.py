"""One life of a program of a pod as a process: when it began, what it has said, why it ended. Others start and end it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sandbox.machines.program_logs import last_line

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Hashable
    from pathlib import Path

#: What the programs log first once signals reach them.
PLUGIN_LISTENS: Final = "Starting Plugins."
MPS_LISTENS: Final = "Starting Daemons."


class ProgramLife:
    """One life of a program: a pod's container from its start to its end."""

    def __init__(self, life: Hashable, log: Path, listens: str) -> None:
        """Not started yet.

        Args:
            life: what tells it from the next one.
            log: where its output goes.
            listens: what it logs once signals reach it.
        """
        self.life, self.log, self._listens = life, log, listens
        self.began = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = None
        self.failure = ""
        #: Whether it has registered anything.
        self.seen = False

    @property
    def last_line(self) -> str | None:
        """Why it ended; None while it has not."""
        if self.failure:
            return self.failure
        if self.process is None or self.process.poll() is None:
            return None
        return last_line(self.said) or f"ended with {self.process.returncode}"

    @property
    def code(self) -> int:
        """The exit code of one that has ended."""
        returned = self.process.poll() if self.process is not None else None
        return 1 if returned is None else container_code(returned)

    @property
    def listens(self) -> bool:
        """Whether signals reach it; one that has ended hears none, and nobody is to wait for it."""
        return self.last_line is not None or self._listens in self.said

    @property
    def said(self) -> str:
        """Its log."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""


def container_code(returned: int) -> int:
    """A process's end as a container's exit code: 128 and the signal's number for one that was ended by a signal."""
    return 128 - returned if returned < 0 else returned
