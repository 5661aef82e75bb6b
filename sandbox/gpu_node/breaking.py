"""What is broken on a node in a play, and put right again; nothing of it touches a GPU, or what is outside the node.

Each function breaks one thing and returns what repairs it, where somebody has to.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
from typing import TYPE_CHECKING, Final

from sandbox.real_node.node import entering
from sandbox.system import cgroups
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sandbox.real_node.place import Place

#: Where a real node has the driver, as NVIDIA's toolkit was told.
_LIBRARIES: Final = f"/run/nvidia/driver/usr/lib/{platform.machine()}-linux-gnu"


def freeze(place: Place, uid: str) -> Callable[[], None]:
    """Stop all processes of a pod, as a machine does that has hung; they are there, and say nothing.

    Raises:
        SandboxError: the pod has no process.
    """
    stopped = _found(place, uid)
    _signal(stopped, signal.SIGSTOP)
    return lambda: _signal(stopped, signal.SIGCONT)


def kill(place: Place, uid: str) -> None:
    """Kill all processes of a pod, without a word to them; its kubelet starts them anew.

    Raises:
        SandboxError: the pod has no process.
    """
    _signal(_found(place, uid), signal.SIGKILL)


def hide_driver(place: Place) -> Callable[[], None]:
    """Take the driver's libraries away from containers that start from now on: an empty folder lies over theirs.

    Raises:
        SandboxError: the node refuses it.
    """
    _run(place, ["mount", "-t", "tmpfs", "-o", "ro", "hidden", _LIBRARIES])
    return lambda: _run(place, ["umount", _LIBRARIES])


def _found(place: Place, uid: str) -> list[int]:
    found = sorted(_processes(place, uid))
    if not found:
        message = f"no process of the pod {uid} is in a control group of {place.node}."
        raise SandboxError(message, f"Look what runs there: python -m sandbox.real_node log {place.cluster}.")
    return found


def _processes(place: Place, uid: str) -> Iterator[int]:
    """Of a pod, by the numbers that they have outside the node. The kubelet names a pod's control group after its uid."""
    for group in cgroups.groups(place.group)[:1]:
        for pod in group.rglob(f"*pod{uid}"):
            for file in pod.rglob("cgroup.procs"):
                yield from map(int, file.read_text("ascii").split())


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _run(place: Place, command: list[str]) -> None:
    done = subprocess.run([*entering(place), *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = f"{place.node}: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}"
        raise SandboxError(message, "This breaks a node on purpose; what it could not break it leaves as it was.")
