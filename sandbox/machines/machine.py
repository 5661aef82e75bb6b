"""One simulated machine: what survives a reboot of the daemon, kept as JSON in the cluster's folder.

Holds state only. Who changes it: nodes (labels and taints that were set), the programs that run on the machine (driver,
toolkit, GPUs, features.d, advertised resources). One file per machine, machines/<node>.json, written when it changed;
other parts of the sandbox may read it to show what NVML would say. Beside it, machines/<node>/ belongs to the real programs
where these run (gpu_node): there the GPUs are what the state file in it says, and the record follows.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sandbox.machines.device_plugin import Advertised
from sandbox.machines.gfd import Driver
from sandbox.machines.gpu import Gpu, from_json, new_gpus, to_json
from sandbox.system.files import read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.cluster.machine_groups import MachineGroup

PREINSTALLED_DRIVER = Driver("580.95.05", "13.0")
_AKS_LABEL_PREFIX = "kubernetes.azure.com/"


@dataclass
class Loaded:
    """What a program read when it started or was signalled.

    Attributes:
        pod: uid of its pod.
        attempt: how often its container had been restarted.
        signals: how often config-manager had told it to read again.
        text: the configuration, empty for the empty one; None where there was no such file.
        gpus: the GPUs as they were then.
    """

    pod: str
    attempt: int
    signals: int
    text: str | None
    gpus: tuple[Gpu, ...]


@dataclass
class MigRun:
    """Where mig-manager stands.

    Attributes:
        pod: uid of its pod.
        attempt: how often its container was started again.
        label: the node's label when it last looked.
        seen: the label value that it has dealt with, or deals with.
        target: the value that it is applying; None when idle.
        pausing: whether it has paused its clients for that.
        deployed: client -> its deploy label before that.
        message: why the last value failed; empty where it did not.
        ended: whether it has just become idle.
        succeeded: whether its process has ever changed a layout.
    """

    pod: str = ""
    attempt: int = 0
    label: str = ""
    seen: str = ""
    target: str | None = None
    pausing: bool = False
    deployed: dict[str, str] = field(default_factory=dict)
    message: str = ""
    ended: bool = False
    succeeded: bool = False


@dataclass
class Machine:
    """One machine.

    Attributes:
        node: name of its node.
        group: the group that it belongs to.
        gpus: its GPUs.
        driver: the NVIDIA driver that is loaded, None without one.
        toolkit: whether the operator's toolkit has configured the container runtime.
        features: features.d file -> text, what NFD's local source reads.
        advertised: resource -> count that a device plugin has registered now.
        one_per_request: resources of which the plugin gives one unit per container.
        registered: resource -> the last count; kubelets keep a name in capacity after its plugin is gone.
        mps_replicas: clients per GPU of a running MPS daemon, None without one.
        loaded: program -> what it has read.
        mig: where mig-manager stands.
    """

    node: str
    group: MachineGroup
    gpus: tuple[Gpu, ...] = ()
    driver: Driver | None = None
    toolkit: bool = False
    features: dict[str, str] = field(default_factory=dict)
    advertised: dict[str, int] = field(default_factory=dict)
    one_per_request: tuple[str, ...] = ()
    registered: dict[str, int] = field(default_factory=dict)
    mps_replicas: int | None = None
    loaded: dict[str, Loaded] = field(default_factory=dict)
    mig: MigRun = field(default_factory=MigRun)
    applied_labels: dict[str, str] = field(default_factory=dict)
    applied_taints: list[dict[str, str]] = field(default_factory=list)

    @property
    def gpu_usable(self) -> bool:
        """Whether containers can have a GPU: a driver is loaded and the runtime knows how to inject it."""
        return self.driver is not None and (self.toolkit or self.group.driver_preinstalled)

    @property
    def runtime_handlers(self) -> frozenset[str]:
        """The container runtime's handlers: AKS images bring one name, the toolkit and other images another."""
        handlers = {"runc"}
        if self.group.driver_preinstalled:
            aks = any(key.startswith(_AKS_LABEL_PREFIX) for key in self.group.labels)
            handlers.add("nvidia-container-runtime" if aks else "nvidia")
        if self.toolkit:
            handlers.add("nvidia")
        return frozenset(handlers)

    def advertise(self, found: Advertised | None) -> None:
        """Take over what the device plugin has registered, None where it is gone; what it no longer offers stays known."""
        offered = found or Advertised({})
        self.registered.update({name: count + offered.unhealthy.get(name, 0) for name, count in offered.resources.items()})
        self.advertised = dict(offered.resources)
        self.one_per_request = tuple(sorted(offered.one_per_request))


class MachineFiles:
    """The machines' files of one cluster."""

    def __init__(self, cluster_folder: Path) -> None:
        """Use the folder machines/ of a cluster."""
        self.folder = cluster_folder / "machines"
        self._written: dict[str, dict[str, Any]] = {}

    def load(self, node: str, group: MachineGroup) -> Machine:
        """The machine as it was, or a new one."""
        raw = read_json(self._path(node))
        if not raw:
            driver = PREINSTALLED_DRIVER if group.driver_preinstalled and group.hardware.gpus else None
            return Machine(node, group, new_gpus(node, group.hardware, group.cloud_mig_profile), driver)
        self._written[node] = raw
        return Machine(
            node, group, from_json(raw["gpus"]), Driver(**raw["driver"]) if raw["driver"] else None, raw["toolkit"],
            raw["features"], raw["advertised"], tuple(raw["onePerRequest"]), raw["registered"], raw["mpsReplicas"],
            {
                key: Loaded(**{**value, "gpus": from_json(value["gpus"])})
                for key, value in raw["loaded"].items()
                # One that an earlier version of the sandbox wrote is not known any more: the program reads anew.
                if "signals" in value
            },
            MigRun(**raw["mig"]), raw["appliedLabels"], raw["appliedTaints"],
        )  # fmt: skip

    def is_other(self, node: str, group: MachineGroup) -> bool:
        """Whether the machine of that name is made of something else than the group now says."""
        raw = self._written.get(node) or read_json(self._path(node))
        return bool(raw) and (raw["group"], raw["madeOf"]) != (group.id, _made_of(group))

    def save(self, machine: Machine) -> bool:
        """Write a machine where it has changed, and say whether it had."""
        raw = _to_json(machine)
        if self._written.get(machine.node) == raw:
            return False
        write_json(self._path(machine.node), raw)
        self._written[machine.node] = raw
        return True

    def remove(self, node: str) -> None:
        """Forget a machine that is gone for good: another one of that name is a new one."""
        self._written.pop(node, None)
        self._path(node).unlink(missing_ok=True)
        shutil.rmtree(self.folder / node, ignore_errors=True)

    def known(self) -> list[str]:
        """The nodes that have a file."""
        return [path.stem for path in self.folder.glob("*.json")]

    def _path(self, node: str) -> Path:
        return self.folder / f"{node}.json"


def _to_json(machine: Machine) -> dict[str, Any]:
    loaded = {key: {**vars(value), "gpus": to_json(value.gpus)} for key, value in machine.loaded.items()}
    return {
        "node": machine.node,
        "group": machine.group.id,
        "madeOf": _made_of(machine.group),
        "gpus": _plain(to_json(machine.gpus)),
        "driver": {"version": machine.driver.version, "cuda": machine.driver.cuda} if machine.driver else None,
        "toolkit": machine.toolkit,
        "features": dict(machine.features),
        "advertised": dict(machine.advertised),
        "onePerRequest": list(machine.one_per_request),
        "registered": dict(machine.registered),
        "mpsReplicas": machine.mps_replicas,
        "loaded": _plain(loaded),
        "mig": vars(machine.mig).copy(),
        "appliedLabels": dict(machine.applied_labels),
        "appliedTaints": list(machine.applied_taints),
    }


def _made_of(group: MachineGroup) -> dict[str, Any]:
    """What cannot change in a machine's life."""
    return {**asdict(group.hardware), "mig": group.cloud_mig_profile, "driver": group.driver_preinstalled}


def _plain(value: object) -> Any:  # noqa: ANN401 JSON in, JSON out
    """Tuples as lists, so that what was written equals what is read."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
