"""The sandbox of one pod on a simulated machine: namespaces that its containers share, with folders at paths of their own.

As a pod with ``shareProcessNamespace``: its containers see each other's processes and nobody else's. A pod with ``hostPID`` sees
a process without a command line before all others, as a node's kernel threads are, and of the node's processes no more than
that. Its root folder is the machine's, with what the pod mounts beside: nothing is made on the machine that all this runs on. A
process keeps it that does nothing but reap what has lost its parent, as the pause container does; whoever ends that ends all
that runs inside.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.cluster.gpu_host import children
from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from sandbox.cluster.gpu_host import GpuHost

_READY: Final = "ready"
_READY_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.002
# Reaps whatever has lost its parent: what has ended and is not reaped is a process without a command line.
_REAP: Final = "while :; do sleep 3600 & wait $!; done"
# $1: an empty folder; $2: whether there is to be a process without a command line, which is one that its parent never reaps; then
# pairs of folder and path in the pod. Where a path leads below a link of the new root it is a path of the machine, whose folders
# below /run are its own.
_PAUSE: Final = f"""
set -eu
root=$1
test "$2" = "" || (: & exec sleep infinity) &
shift 2
mount -t tmpfs -o mode=755 pod "$root"
mkdir "$root/.under"
mount --rbind / "$root/.under"
(cd "$root" && ln -s .under/* .)
while [ $# -gt 0 ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    shift 2
done
echo {_READY}
exec chroot "$root" sh -c '{_REAP}'
"""

# What looks for processes finds those of the pod.
_OWN_PROC: Final = 'mount -t proc proc /proc && exec "$@"'


class PodSandbox:
    """A pod's namespaces."""

    def __init__(
        self, host: GpuHost, folder: Path, mounts: Mapping[str, Path], mark: Mapping[str, str], *, nameless: bool = False
    ) -> None:
        """Make them.

        Args:
            host: the machine.
            folder: for the sandbox alone.
            mounts: path in the pod -> folder.
            mark: variables by which the project knows its processes.
            nameless: whether there is to be a process without a command line before all others.

        Raises:
            SandboxError: where that is not possible.
        """
        self._host, self._mark = host, mark
        log = make_folder(folder) / "pause.log"
        log.unlink(missing_ok=True)
        pairs = [word for path, source in mounts.items() for word in (source, path)]
        unshare = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
        argv = [*unshare, "sh", "-c", _PAUSE, "pod", make_folder(folder / "root"), "nameless" if nameless else "", *pairs]
        self._pause = host.start(argv, log, environment=mark)
        self._pid = self._ready(log)

    def run(self, argv: Sequence[str | Path], environment: Mapping[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
        """Run a container to its end; see GpuHost.run."""
        return self._host.run(
            _container(argv), seconds=seconds, environment={**environment, **self._mark}, beside=self._pid
        )  # fmt: skip

    def start(
        self, argv: Sequence[str | Path], log: Path, environment: Mapping[str, str], *, own_proc: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a container; see GpuHost.start.

        Args:
            argv: the program and its arguments.
            log: where its output goes.
            environment: its variables.
            own_proc: whether /proc is to show the pod's processes; else it is the machine's, with the driver in it.
        """
        command = _container(argv) if own_proc else argv
        return self._host.start(command, log, environment={**environment, **self._mark}, beside=self._pid)

    @property
    def lives(self) -> bool:
        """Whether it is there."""
        return self._pause.poll() is None

    def left_over(self) -> dict[int, tuple[str, ...]]:
        """Process -> command line of what runs here although whoever started it has ended, such as a daemon."""
        found = {pid: _command_line(pid) for pid in children(self._pid)}
        return {pid: tuple(words) for pid, words in found.items() if words and words[0] != "sleep"}

    def end(self) -> None:
        """End it, and all that runs in it."""
        self._pause.kill()
        self._pause.wait()

    def _ready(self, log: Path) -> int:
        """The pause process, as it is numbered here."""
        end = time.monotonic() + _READY_SECONDS
        while True:
            said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            found = [pause for child in children(self._pause.pid) for pause in children(child)]
            if said.strip() == _READY and found:
                return found[0]
            if self._pause.poll() is not None or time.monotonic() > end:
                self.end()
                message = f"{log.parent}: the sandbox of a pod cannot be made: {said.strip()}"
                raise SandboxError(message, "See sandbox/machines/pod_sandbox.py for what it needs.")
            time.sleep(_POLL_SECONDS)


def _command_line(pid: int) -> list[str]:
    """Empty where the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _container(argv: Sequence[str | Path]) -> list[str | Path]:
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", _OWN_PROC, "container", *argv]
