"""Stand-in for the cloud's virtual machines and for the part of a kubelet that registers and reports a node.

Makes a node for each machine of each group, keeps the cloud's labels and taints in step on live nodes (removing only what
was set before), renews leases, and removes the nodes of machines that are gone, with their pods. Real machines take
minutes to join and leave; there is no operating system, no cloud provider's node controller, and images, disk and memory
pressure never change.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from sandbox.cluster import machine_groups
from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError
from sandbox.machines import objects
from sandbox.machines.machine import Machine, MachineFiles
from sandbox.machines.nfd_view import KERNEL
from sandbox.machines.objects import micro_timestamp, timestamp
from sandbox.machines.pool_guard import AKS, PoolGuard
from sandbox.machines.store import KINDS
from sandbox.machines.world import LOG

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.cluster.machine_groups import MachineGroup
    from sandbox.machines.node_programs import NodePrograms
    from sandbox.machines.objects import Json
    from sandbox.machines.store import Store
    from sandbox.machines.world import World

KUBELET_VERSION = "v1.36.3"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_SECONDS, _RENEW_SECONDS = 40, 10.0
_MAX_PODS = 110
_EPHEMERAL = "128Gi"
_MIB_PER_GIB = 1024
_GROUP_ANNOTATION = "sandbox.gpu-pools/machine-group"


class Nodes:
    """The machines of one cluster and their nodes."""

    def __init__(self, api: Api, store: Store, folder: Path, programs: NodePrograms) -> None:
        """Load the machines that there were."""
        self._api, self._store, self._folder, self._programs = api, store, folder, programs
        self._guard = PoolGuard(api)
        self._files = MachineFiles(folder)
        self._groups: dict[str, MachineGroup] = {}
        self._read: tuple[int, ...] | None = None
        self._renewed = -_RENEW_SECONDS
        self.machines: dict[str, Machine] = {}

    @cached_property
    def _aks(self) -> Api:
        """AKS' own access, which alone may change what it guards."""
        return Api.at(self._folder / "kubeconfig", acting_as=AKS)

    def groups_changed(self) -> bool:
        """Read the record of groups where it was written since, and say whether it was."""
        path = machine_groups.record_path(self._folder)
        found = path.stat() if path.exists() else None
        # Two writes may share one tick of the file system's clock, but each leaves a file of its own.
        written = (found.st_mtime_ns, found.st_ino, found.st_size) if found else ()
        if written == self._read:
            return False
        self._groups = machine_groups.groups(self._folder)
        self._read = written
        return True

    def step(self) -> None:
        """Create, update and remove nodes until they are what the groups say."""
        self._guard.step(self._groups.values())
        wanted = {node: group for group in self._groups.values() for node in group.simulated_names}
        nodes = self._store.by_name("nodes")
        for node in {*self.machines, *self._files.known()} - set(wanted):
            self._remove(node, nodes.get(node))
        for node, group in wanted.items():
            if self._files.is_other(node, group):
                self._remove(node, nodes.pop(node, None))
            machine = self._machine(node, group)
            present = nodes.get(node)
            try:
                if present is None:
                    self._create(machine)
                else:
                    self._follow_group(machine, present)
                    self._report_ready(machine, present)
            except ApiError as error:
                LOG.info("node %s: %s", node, error)

    def save(self) -> bool:
        """Write the machines that changed; say whether any did."""
        saved = [self._files.save(machine) for machine in self.machines.values()]
        return any(saved)

    def heartbeat(self, now: float) -> float:
        """Renew the leases that are due; seconds until the next time."""
        if now - self._renewed >= _RENEW_SECONDS:
            self._renewed = now
            for node in self._store.by_name("nodes").keys() & self.machines.keys():
                self._renew(node)
        return self._renewed + _RENEW_SECONDS - now

    def publish(self, world: World) -> None:
        """Report capacity and allocatable of every machine where they changed."""
        for node, machine in self.machines.items():
            present = world.nodes.get(node)
            if present is None:
                continue
            capacity, allocatable = resources(machine)
            status = present.get("status") or {}
            if status.get("capacity") == capacity and status.get("allocatable") == allocatable:
                continue
            gone = dict.fromkeys({**(status.get("capacity") or {}), **(status.get("allocatable") or {})})
            body = {"status": {"capacity": {**gone, **capacity}, "allocatable": {**gone, **allocatable}}}
            self._store.wrote("nodes", self._api.patch(f"{KINDS['nodes']}/{node}/status", body))

    def _machine(self, node: str, group: MachineGroup) -> Machine:
        machine = self.machines.get(node)
        if machine is None:
            machine = self.machines[node] = self._files.load(node, group)
        machine.group = group
        return machine

    def _create(self, machine: Machine) -> None:
        group = machine.group
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": machine.node,
                "labels": {**_own_labels(machine), **group.labels},
                "annotations": {_GROUP_ANNOTATION: group.id},
            },
            "spec": {"taints": group.taints} if group.taints else {},
        }
        # Whoever asks who has set what finds the kubelet, as on a real node.
        self._store.wrote("nodes", self._api.create(f"{KINDS['nodes']}?fieldManager=kubelet", body))
        machine.applied_labels, machine.applied_taints = dict(group.labels), list(group.taints)
        self._report(machine, [])
        self._renew(machine.node)
        LOG.info("node %s joined", machine.node)

    def _follow_group(self, machine: Machine, node: Json) -> None:
        """Bring the labels and taints that the cloud owns up to date, when the group has changed.

        What somebody changes on a node by hand stays so until then, as on a cloud's nodes.
        """
        group = machine.group
        if machine.applied_labels == group.labels and machine.applied_taints == group.taints:
            return
        labels: dict[str, str | None] = {key: None for key in machine.applied_labels if key not in group.labels}
        labels.update(group.labels)
        ours = {_taint_id(taint) for taint in [*machine.applied_taints, *group.taints]}
        others = [taint for taint in node["spec"].get("taints") or [] if _taint_id(taint) not in ours]
        patch = {
            # The list of taints is replaced whole, so it must not have changed meanwhile.
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"], "labels": labels},
            "spec": {"taints": [*others, *group.taints] or None},
        }
        path = f"{KINDS['nodes']}/{machine.node}?fieldManager=cloud-node-manager"
        self._store.wrote("nodes", (self._aks if group.guarded else self._api).patch(path, patch))
        machine.applied_labels, machine.applied_taints = dict(group.labels), list(group.taints)

    def _report_ready(self, machine: Machine, node: Json) -> None:
        """Report again after the controller manager has given a silent machine up."""
        if objects.condition(node, "Ready").get("status") == "True":
            return
        self._renew(machine.node)
        self._report(
            machine, [item for item in (node.get("status") or {}).get("conditions") or [] if item["type"] not in _READY_TYPES]
        )

    def _report(self, machine: Machine, other_conditions: list[Json]) -> None:
        """Post the whole status."""
        capacity, allocatable = resources(machine)
        status = {
            "capacity": capacity,
            "allocatable": allocatable,
            "conditions": [*_conditions(), *other_conditions],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": machine.node}],
            "nodeInfo": _node_info(machine),
        }
        self._store.wrote("nodes", self._api.patch(f"{KINDS['nodes']}/{machine.node}/status", {"status": status}))

    def _remove(self, node: str, present: Json | None) -> None:
        if present is not None:
            self._api.delete(f"{KINDS['nodes']}/{node}")
            self._store.removed("nodes", present)
            for pod in self._store.all("pods"):
                if objects.node_of(pod) == node:
                    self._api.delete(
                        f"/api/v1/namespaces/{objects.namespace(pod)}/pods/{objects.name(pod)}",
                        uid=objects.uid(pod),
                        grace_seconds=0,
                    )
                    self._store.removed("pods", pod)
            self._api.delete(f"{_LEASES}/{node}")
            LOG.info("node %s left", node)
        self.machines.pop(node, None)
        self._programs.forget(node)
        self._files.remove(node)

    def _renew(self, node: str) -> None:
        spec = {"holderIdentity": node, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": micro_timestamp()}
        try:
            self._api.patch(f"{_LEASES}/{node}", {"spec": spec})
        except ApiError as error:
            if error.missing:
                self._create_lease(node, spec)

    def _create_lease(self, node: str, spec: Json) -> None:
        try:
            self._api.create(
                _LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node}, "spec": spec}
            )
        except ApiError as error:
            # The namespace is the API server's own, and comes a moment after it.
            LOG.info("lease of %s: %s", node, error)


_READY_TYPES = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}


def resources(machine: Machine) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity and allocatable: a resource whose plugin is gone stays in capacity with nothing allocatable."""
    hardware = machine.group.hardware
    base = {
        "cpu": str(hardware.cpus),
        "memory": _memory(hardware.memory_gib),
        "pods": str(_MAX_PODS),
        "ephemeral-storage": _EPHEMERAL,
    }
    capacity = {**base, **{name: str(count) for name, count in machine.registered.items()}}
    return capacity, {**base, **{name: str(machine.advertised.get(name, 0)) for name in machine.registered}}


def _memory(gib: float) -> str:
    """The API server rewrites quantities to their shortest form; another one would never compare equal to it."""
    return f"{int(gib)}Gi" if gib == int(gib) else f"{int(gib * _MIB_PER_GIB)}Mi"


def _own_labels(machine: Machine) -> dict[str, str]:
    system = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
    }
    role = {"node-role.kubernetes.io/control-plane": ""} if machine.group.control_plane else {}
    return {"kubernetes.io/hostname": machine.node, **system, **role}


def _conditions() -> list[Json]:
    now = timestamp()
    states = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "simulated kubelet is posting ready status"),
    ]
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status, reason, message in states
    ]


def _node_info(machine: Machine) -> Json:
    return {
        "architecture": "amd64", "operatingSystem": "linux", "osImage": "Simulated machine", "kernelVersion": KERNEL,
        "containerRuntimeVersion": "containerd://simulated", "kubeletVersion": KUBELET_VERSION, "kubeProxyVersion": "",
        "machineID": machine.node, "systemUUID": machine.node, "bootID": machine.node,
    }  # fmt: skip


def _taint_id(taint: Json) -> str:
    return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
