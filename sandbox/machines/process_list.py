"""A simulated node's list of processes, as a container sees it that mounts the node's /proc.

What really runs for a node are processes of the machine that the sandbox runs on, beside those of all other nodes: none of them
is shown. In the list are the kernel, by which a reader knows a node's list, and the MPS control daemon while it runs. The real
list has everything else, too, and tells the daemon's pod.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER: Final = "host/proc"
_KERNEL, _DAEMON = "2", "4242"


def begin(machine_folder: Path) -> None:
    """What is in every node's list."""
    write_atomic(make_folder(machine_folder / _FOLDER / _KERNEL) / "comm", "kthreadd\n")


def show_daemon(machine_folder: Path, *, on: bool) -> None:
    """The MPS control daemon has started, or has ended."""
    place = machine_folder / _FOLDER / _DAEMON
    if on:
        write_atomic(make_folder(place) / "cmdline", "nvidia-cuda-mps-control\0-d\0")
    else:
        shutil.rmtree(place, ignore_errors=True)
