"""NVIDIA's mps-control-daemon in its pod on one machine: from its container's start to its end, and what it leaves on the node.

The program is the real one; nvidia-cuda-mps-control, which it starts and asks, and nvidia-smi are stand-ins. As with a real
container in the node's process namespace, whatever it has started ends with it. Where it serves is said by its own mark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.machines import mps_control, process_list
from sandbox.machines.config_pod import MPS_FOLDER
from sandbox.machines.program_life import MPS_LISTENS, ProgramLife
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from sandbox.machines.config_pod import ConfigPod

PROGRAM: Final = "mps-control-daemon"
#: It writes this when its daemons have started, and removes it when it stops them.
_READY: Final = ".ready"
_HUNG_UP: Final = "Received SIGHUP, restarting."
_HAS_READ: Final = "Retrieving MPS daemons."
#: What the stand-in for nvidia-cuda-mps-control runs.
CONTROL: Final = Path(mps_control.__file__).resolve()
_POLL_SECONDS: Final = 0.1
#: As long as a pod's end may take.
_GRACE_SECONDS: Final = 30.0


class MpsDaemon(ProgramLife):
    """One life of mps-control-daemon. All that starts or ends processes is done by the machine's thread."""

    def __init__(
        self, life: Hashable, folder: Path, pod: ConfigPod, serves: Callable[[], None], wake: Callable[[], None]
    ) -> None:
        """Not started yet.

        Args:
            life: what tells it from the next one.
            folder: of the machine.
            pod: where it runs.
            serves: called, by a thread of its own, each time that its daemons have started.
            wake: called when something has changed.
        """
        super().__init__(life, folder / "mps-control-daemon.log", MPS_LISTENS)
        self._folder, self._pod, self._serves, self._wake = folder, pod, serves, wake
        self._mark = folder / MPS_FOLDER / _READY
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    @property
    def has_read(self) -> bool:
        """Whether it has read its configuration."""
        return self.process is not None and _HAS_READ in self.said

    @property
    def signals(self) -> int:
        """How often it was told to read it again."""
        # Before it runs, the log is that of its forerunner.
        return self.said.count(_HUNG_UP) if self.process is not None else 0

    def start(self, environment: Mapping[str, str]) -> None:
        """Start it."""
        self.log.unlink(missing_ok=True)
        try:
            self.process = self._pod.start((PROGRAM,), self.log, environment)
        except (SandboxError, OSError) as error:
            self.failure = str(error)
            self._wake()
            return
        self._pod.program_started(lambda: self.listens)
        self._watcher.start()

    def stop(self, send: Callable[[subprocess.Popen[bytes], int], None]) -> None:
        """Have it end, as the kubelet does; it tells its daemons to quit, and gives the GPUs back.

        Args:
            send: sends a signal to a program.
        """
        process = self.process
        if process is None:
            return
        send(process, signal.SIGTERM)
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._watcher.join()

    def _watch(self) -> None:
        """Follow its mark and its daemons as long as it runs."""
        process, seen, shown = self.process, self._marked(), dict[int, tuple[str, ...]]()
        while process is not None and process.poll() is None:
            daemons = self._daemons()
            if daemons != shown:
                shown = daemons
                process_list.show_daemons(self._folder, self._pod.pod, shown)
            if (marked := self._marked()) != seen:
                seen = marked
                if marked:
                    self._serves()
                self._wake()
            time.sleep(_POLL_SECONDS)
        for left in self._pod.left_over():
            with contextlib.suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        process_list.show_daemons(self._folder, self._pod.pod, ())
        self._wake()

    def _daemons(self) -> dict[int, tuple[str, ...]]:
        """The control daemons that it has started."""
        return {pid: words for pid, words in self._pod.left_over().items() if words[-1] == "-d" and str(CONTROL) in words}

    def _marked(self) -> int:
        try:
            return self._mark.stat().st_mtime_ns
        except OSError:
            return 0
