"""One life of the device plugin as a process: when it began, what it has said, why it ended. gpu_node starts and ends it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sandbox.machines.program_logs import last_line

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Hashable
    from pathlib import Path

#: What the programs log first once signals reach them.
_LISTENS: Final = "Starting Plugins."


class PluginLife:
    """One life of the device plugin: a pod's container from its start to its end."""

    def __init__(self, life: Hashable, log: Path) -> None:
        """Not started yet."""
        self.life, self.log = life, log
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
    def listens(self) -> bool:
        """Whether signals reach it; one that has ended hears none, and nobody is to wait for it."""
        return self.last_line is not None or _LISTENS in self.said

    @property
    def said(self) -> str:
        """Its log."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
