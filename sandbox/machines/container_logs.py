"""The last words of containers that ended with an error: in files of their machine, since no kubelet here serves logs.

On a cluster `kubectl logs --previous` shows them; a pod's status does not, unless the container asks for that. One file for each
container: machines/<node>/logs/<namespace>_<pod>_<uid>/<container>.log of the cluster's folder.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from sandbox.machines import objects
from sandbox.system.files import make_folder, write_atomic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from sandbox.machines.objects import Json

_FOLDER: Final = "logs"


def folder_of(machine_folder: Path, pod: Json) -> Path:
    """Where the last words of a pod's containers are."""
    return machine_folder / _FOLDER / f"{objects.namespace(pod)}_{objects.name(pod)}_{objects.uid(pod)}"


def keep(machine_folder: Path, pod: Json, words: Mapping[str, tuple[int, str]]) -> None:
    """Write down how containers of a pod have ended: exit code and last words."""
    for container, (code, text) in words.items():
        write_atomic(make_folder(folder_of(machine_folder, pod)) / f"{container}.log", f"{text}\nended with {code}\n")


def forget(machine_folder: Path, uids: Collection[str]) -> None:
    """Remove what is there of pods other than these."""
    for folder in (machine_folder / _FOLDER).glob("*"):
        if folder.name.rpartition("_")[2] not in uids:
            shutil.rmtree(folder, ignore_errors=True)
