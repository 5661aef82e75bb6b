"""Brings real nodes up and down, from outside: programs, images, keys, the warden, and the wait for the node to be ready."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.stack.charts import DEFAULT_LABELLER_IMAGE
from gpu_pools.stack.verification import DEFAULT_IMAGE, DEFAULT_SMOKE_TEST_IMAGE
from sandbox.cluster import control_plane
from sandbox.cluster.api import Api
from sandbox.cluster.gpu_host import put_pci
from sandbox.nvml.library import find_library
from sandbox.real_node import allowed, egress, images, operand_images, registry, settings
from sandbox.real_node.place import IMAGES, Place, Record, places, write
from sandbox.real_node.settings import PAUSE_IMAGE
from sandbox.real_node.warden import clear
from sandbox.system import cgroups, processes
from sandbox.system.errors import SandboxError
from sandbox.system.files import make_folder
from sandbox.system.pki import Pki, short_lived_client
from sandbox.toolchain import config_manager
from sandbox.toolchain.find import find_built, find_tools
from sandbox.toolchain.obtain import made, obtain
from sandbox.toolchain.programs import DRA_CHART, DRA_DRIVER, DRA_DRIVER_CHART, DRA_PRESTART, REAL_NODE, program
from sandbox.toolchain.tools import GPU_TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.real_node.gpus import Gpus
    from sandbox.system.progress import Progress
    from sandbox.toolchain.tools import Tools

_PROJECT: Final = Path(__file__).resolve().parents[2]
_READY_SECONDS: Final = 120.0
_LIFETIME: Final = dt.timedelta(days=365)
_API: Final = "kube-apiserver"
_NODES: Final = "/api/v1/nodes"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
#: nfd-worker is not root, and looks at the bus.
_FOR_ALL, _TO_READ = 0o755, 0o644
_TOOLS: Final = GPU_TOOLS - {"nvidia_mig_parted"} | {"nfd_worker", "nfd_master"}


@dataclass(frozen=True)
class Role:
    """What a node is in its cluster.

    Attributes:
        labels: that it registers with.
        taints: that it registers with, each as key=value:Effect.
        gpus: its GPUs; None without.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    gpus: Gpus | None = None


def up(place: Place, progress: Progress, role: Role | None = None) -> None:
    """Start a node, and wait until it is ready; one that runs is left alone.

    Args:
        place: where.
        progress: told about builds, and about the wait.
        role: what it is; None: nothing but a node.

    Raises:
        SandboxError: the machine does not allow it, or the node does not become ready.
    """
    if place.process in processes.running(place.cluster):
        return
    allowed.require()
    cluster = control_plane.load(place.cluster)
    obtain(REAL_NODE, progress)
    programs = {one.name: find_built(one.name, progress) for one in REAL_NODE}
    tools, library = find_tools(progress, only=_TOOLS), find_library(progress)
    down(place)
    with progress.step(f"Starting the real node {place.node}"):
        for folder in (place.folder, place.logs, place.registry):
            make_folder(folder)
        _write_images(place, programs, tools, library)
        write(place, _record(place, programs, role or Role()))
        command = [sys.executable, "-m", "sandbox.real_node.warden", str(place.cluster), place.node]
        search = os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH", "")]))
        processes.spawn(place.cluster, place.process, command, env={**os.environ, "PYTHONPATH": search})
        egress.start(place.cluster)
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
    egress.stop(place.cluster)


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


def _record(place: Place, programs: Mapping[str, Path], role: Role) -> Record:
    pki = Pki(place.cluster / "pki")
    certificate, key, _ = short_lived_client(pki, "ca", f"system:node:{place.node}", ["system:nodes"], _LIFETIME)
    kind = allowed.snapshotter(place.folder)
    files = settings.files(kind, pki.text("ca.crt"), certificate, key)
    folders = {name: str(folder) for name, folder in programs.items()}
    arguments = [f"--node-labels={','.join(f'{key}={value}' for key, value in role.labels.items())}"] if role.labels else []
    arguments += [f"--register-with-taints={','.join(role.taints)}"] if role.taints else []
    if role.gpus is None:
        return Record(folders, kind, files, arguments=tuple(arguments))
    gpus = role.gpus
    bus = _make_bus(place, gpus) if gpus.bus else ""
    return Record(folders, kind, {**files, **gpus.files}, gpus.devices, tuple(arguments), bus, gpus.shown)


def _make_bus(place: Place, gpus: Gpus) -> str:
    bus = make_folder(place.folder / "bus" / "pci")
    put_pci(bus, gpus.bus)
    for path in (bus, *bus.rglob("*")):
        path.chmod(_FOR_ALL if path.is_dir() else _TO_READ)
    return str(bus)


def _write_images(place: Place, programs: Mapping[str, Path], found: Tools, library: Path) -> None:
    tools, python, packed = images.tools(), images.python(), images.Packed()
    pause = images.Layer({"/pause": programs["cni-plugins"] / "pause"})
    base, interpreter = images.Image((), (tools,)), images.Image((), (tools, python), ("python3",))
    archive = place.root / IMAGES.lstrip("/") / "images.tar"
    archive.parent.mkdir(parents=True)
    pinned = [
        images.Image((PAUSE_IMAGE,), (pause,), ("/pause",)),
        replace(base, names=(images.by_digest(DEFAULT_LABELLER_IMAGE),)),
        replace(interpreter, names=(images.by_digest(DEFAULT_IMAGE),)),
        operand_images.cuda_sample(DEFAULT_SMOKE_TEST_IMAGE, tools, python),
    ]
    images.write(archive, pinned, packed)
    operands = operand_images.Programs(
        library,
        *operand_images.build_driver(place.folder),
        found.gpu_feature_discovery,
        found.nvidia_device_plugin,
        found.mps_control_daemon,
        config_manager.find() or found.config_manager,
        found.nfd_worker,
        found.nfd_master,
    )
    families = {**operand_images.families(operands, tools, python), "busybox": base, "python": interpreter}
    driver, chart = made(program(DRA_DRIVER)), made(program(DRA_DRIVER_CHART))
    if driver is not None and chart is not None:
        hook = programs["nvidia-container-toolkit"] / "nvidia-cdi-hook"
        families[DRA_CHART] = operand_images.dra_driver(driver / "gpu-kubelet-plugin", chart / DRA_PRESTART, hook, tools)
    registry.write(place.registry, families, packed)


def _is_ready(place: Place, api: Api) -> bool:
    if place.process not in processes.running(place.cluster):
        said = processes.describe_end(place.cluster, place.process)
        message = f"{place.node}: it ended while it was starting. Its last output:\n{said}"
        raise SandboxError(message, f"What its programs said is below {place.logs}.")
    node: dict[str, Any] = api.get(f"{_NODES}/{place.node}") or {}
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
