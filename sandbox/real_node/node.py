"""Brings real nodes up and down, from outside: programs, images, keys, the warden, and the wait for the node to be ready."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster import control_plane
from sandbox.cluster.api import Api
from sandbox.real_node import allowed, images, settings
from sandbox.real_node.place import IMAGES, Place, Record, places, write
from sandbox.real_node.settings import PAUSE_IMAGE
from sandbox.real_node.warden import clear
from sandbox.system import cgroups, processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder
from sandbox.system.pki import Pki, short_lived_client
from sandbox.toolchain.find import find_built
from sandbox.toolchain.obtain import obtain
from sandbox.toolchain.programs import REAL_NODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.real_node.images import Image
    from sandbox.system.progress import Progress

_PROJECT: Final = Path(__file__).resolve().parents[2]
_READY_SECONDS: Final = 120.0
_LIFETIME: Final = dt.timedelta(days=365)
_API: Final = "kube-apiserver"
_NODES: Final = "/api/v1/nodes"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
BASE_IMAGES: Final = ("docker.io/library/busybox:1.37",)
PYTHON_IMAGES: Final = ("docker.io/library/python:3.11-slim",)


def up(place: Place, progress: Progress, more: Sequence[Image] = ()) -> None:
    """Start a node, and wait until it is ready; one that runs is left alone.

    Args:
        place: where.
        progress: told about builds, and about the wait.
        more: images besides those that every node has.

    Raises:
        SandboxError: the machine does not allow it, or the node does not become ready.
    """
    if place.process in processes.running(place.cluster):
        return
    allowed.require()
    cluster = control_plane.load(place.cluster)
    obtain(REAL_NODE, progress)
    programs = {one.name: find_built(one.name, progress) for one in REAL_NODE}
    down(place)
    with progress.step(f"Starting the real node {place.node}"):
        _prepare(place, programs, more)
        command = [sys.executable, "-m", "sandbox.real_node.warden", str(place.cluster), place.node]
        search = os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH", "")]))
        processes.spawn(place.cluster, place.process, command, env={**os.environ, "PYTHONPATH": search})
        api = Api.at(cluster.kubeconfig)
        try:
            processes.wait_until(
                lambda: _is_ready(place, api), timeout=_READY_SECONDS, what=f"The real node {place.node} is ready"
            )
        except SandboxError:
            stop(place)
            raise


def down(place: Place) -> None:
    """Stop a node and remove it from its cluster, and everything that it has; one that is not there is fine.

    Raises:
        SandboxError: when something of it does not end.
    """
    stop(place)
    if not place.folder.exists():
        return
    if _API in processes.running(place.cluster):
        api = Api.at(place.cluster / "kubeconfig")
        for path in (f"{_NODES}/{place.node}", f"{_LEASES}/{place.node}"):
            api.delete(path)
    shutil.rmtree(place.folder)


def stop(place: Place) -> None:
    """End what runs of a node; its record and its logs in the cluster's folder stay."""
    processes.stop(place.cluster, [place.process])
    clear(place)


def down_all(cluster: Path) -> list[str]:
    """Take all real nodes of a cluster down; returns which there were."""
    found = places(cluster)
    for place in found:
        down(place)
    cgroups.remove(cluster)
    return [place.node for place in found]


def entering(place: Place) -> list[str]:
    """The beginning of a command line that runs on the node.

    Raises:
        SandboxError: it does not run.
    """
    if place.process not in processes.running(place.cluster):
        message = f"{place.cluster}: there is no real node {place.node!r} that runs."
        raise SandboxError(message, f"Start it: python -m sandbox.real_node up {place.cluster}.")
    pid = (place.folder / "pid").read_text("ascii")
    inside = ("--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--root", "--wd")
    return ["nsenter", "--target", pid, *inside, "--"]


def _prepare(place: Place, programs: dict[str, Path], more: Sequence[Image]) -> None:
    for folder in (place.folder, place.logs):
        make_folder(folder)
    pki = Pki(place.cluster / "pki")
    certificate, key, _ = short_lived_client(pki, "ca", f"system:node:{place.node}", ["system:nodes"], _LIFETIME)
    kind = allowed.snapshotter(place.folder)
    folders = {name: str(folder) for name, folder in programs.items()}
    write(place, Record(folders, kind, settings.files(kind, pki.text("ca.crt"), certificate, key)))
    tools, python = images.tools(), images.python()
    pause = images.Layer({"/pause": programs["cni-plugins"] / "pause"})
    archive = place.root / IMAGES.lstrip("/") / "images.tar"
    archive.parent.mkdir(parents=True)
    images.write(
        archive,
        [
            images.Image((PAUSE_IMAGE,), (pause,), ("/pause",)),
            images.Image(BASE_IMAGES, (tools,)),
            images.Image(PYTHON_IMAGES, (tools, python), ("python3",)),
            *more,
        ],
    )


def _is_ready(place: Place, api: Api) -> bool:
    if place.process not in processes.running(place.cluster):
        said = processes.log_tail(place.cluster, place.process)
        message = f"{place.node}: it ended while it was starting. Its last output:\n{said}"
        raise SandboxError(message, f"What its programs said is below {place.logs}.")
    node: dict[str, Any] = api.get(f"{_NODES}/{place.node}") or {}
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
