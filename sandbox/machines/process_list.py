"""A simulated node's list of processes, as a container sees it that mounts the node's /proc.

What really runs for a node are processes of the machine that the sandbox runs on, beside those of all other nodes: they are not
shown as they are. In the list are the kernel, by which a reader knows a node's list, and the MPS control daemons of pods while
they run, with their pod and where they have the node's folder for pipes. The real list has everything else, too.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_FOLDER: Final = "host/proc"
_KERNEL: Final = "2"
#: Under which number earlier versions of the sandbox showed their stand-in of the daemon.
_EARLIER: Final = "4242"
_CONTROL: Final = "nvidia-cuda-mps-control\0-d\0"
#: As systemd's driver of control groups names a pod's.
_CGROUP: Final = "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{pod}.slice\n"
_MOUNT: Final = "1 1 8:1 /run/nvidia/mps /mps rw - ext4 /dev/sda1 rw\n"
#: What shows that a process is of a pod, and so written here.
_OF_A_POD: Final = "mountinfo"


def begin(machine_folder: Path) -> None:
    """What is in every node's list; without the daemon that a sandbox before NVIDIA's own ran has left there."""
    shutil.rmtree(machine_folder / _FOLDER / _EARLIER, ignore_errors=True)
    write_atomic(make_folder(machine_folder / _FOLDER / _KERNEL) / "comm", "kthreadd\n")


def show_daemons(machine_folder: Path, pod: str, pids: Collection[int]) -> None:
    """These are the MPS control daemons of pods now.

    Args:
        machine_folder: of the machine.
        pod: uid of the pod that they run in.
        pids: their process ids.
    """
    folder = make_folder(machine_folder / _FOLDER)
    shown = {int(path.name) for path in folder.iterdir() if (path / _OF_A_POD).exists()}
    for pid in shown - set(pids):
        shutil.rmtree(folder / str(pid), ignore_errors=True)
    for pid in set(pids) - shown:
        place = make_folder(folder / str(pid))
        write_atomic(place / "cgroup", _CGROUP.format(pod=pod.replace("-", "_")))
        write_atomic(place / _OF_A_POD, _MOUNT)
        write_atomic(place / "cmdline", _CONTROL)
