"""A simulated node's list of processes, as a container sees it that mounts the node's /proc.

What really runs for a node are processes of the machine that the sandbox runs on, beside those of all other nodes: they are not
shown as they are. In the list are the kernel, by which a reader knows a node's list, the first process with the node's mounts,
and the MPS control daemons of pods while they run, with their pod and where they have its folder for pipes. The real list has
everything else, too.
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
_INIT: Final = "1"
#: What the node's first process has mounted: the disk, and the folder in memory that systemd makes (file-hierarchy(7)).
_NODE_MOUNTS: Final = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:25 / /run rw,nosuid - tmpfs tmpfs rw\n"
#: Under which number earlier versions of the sandbox showed their stand-in of the daemon.
_EARLIER: Final = "4242"
_CONTROL: Final = "nvidia-cuda-mps-control\0-d\0"
#: As systemd's driver of control groups names a pod's.
_CGROUP: Final = "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{pod}.slice\n"
_MOUNT: Final = "23 1 0:25 /nvidia/mps /mps rw - tmpfs tmpfs rw\n"
#: The file that marks a process as one of a pod, which `show_daemons` wrote.
_OF_A_POD: Final = "cgroup"


def begin(machine_folder: Path) -> None:
    """What is in every node's list; without the daemon that a sandbox before NVIDIA's own ran has left there."""
    shutil.rmtree(machine_folder / _FOLDER / _EARLIER, ignore_errors=True)
    write_atomic(make_folder(machine_folder / _FOLDER / _KERNEL) / "comm", "kthreadd\n")
    write_atomic(make_folder(machine_folder / _FOLDER / _INIT) / "mountinfo", _NODE_MOUNTS)


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
        write_atomic(place / _OF_A_POD, _CGROUP.format(pod=pod.replace("-", "_")))
        write_atomic(place / "mountinfo", _MOUNT)
        write_atomic(place / "cmdline", _CONTROL)
