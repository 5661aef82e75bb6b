"""What a cloud wants to exist: groups of equal machines of one simulated cluster.

The stand-in clouds write here and nothing else of a cluster's machines; the machines daemon (sandbox.machines) reads it
and makes it so. Nothing here talks to a cluster or waits for a node: as in a cloud, the record comes first and the nodes
join later. Whether a request is legal is the cloud's business, so nothing is judged here but what would be unreadable.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sandbox.nvml import known_models
from sandbox.system.errors import SandboxError
from sandbox.system.files import locked, read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

_RECORD = "machines.json"


@dataclass(frozen=True)
class Hardware:
    """What one machine of a group is made of.

    Attributes:
        cpus: virtual CPUs.
        memory_gib: RAM in GiB.
        gpu_model: key of gpu_pools.hardware.models, None on machines without a GPU.
        gpu_product: what NVML names the GPU; None takes the model's first name.
        gpus: GPUs per machine.
        declared: what a stack declares of a model that no table has.
    """

    cpus: int
    memory_gib: float
    gpu_model: str | None = None
    gpu_product: str | None = None
    gpus: int = 0
    declared: dict[str, Any] | None = None


@dataclass(frozen=True)
class RealNodes:
    """Which nodes of a group are real ones (sandbox/real_node), which nobody simulates.

    Attributes:
        count: how many, from the first.
        own_gpus: they have the GPUs of the machine that this runs on, whatever the group's hardware says.
    """

    count: int = 0
    own_gpus: bool = False


@dataclass(frozen=True)
class MachineGroup:
    """Machines that a cloud keeps equal: an agent pool, a node group, a set of existing nodes.

    Attributes:
        id: unique in the cluster.
        node_prefix: node names are this and an index from 0.
        count: how many machines there should be.
        labels: node labels that the cloud sets, and keeps in step.
        taints: node taints that the cloud sets, each {"key", "value", "effect"}.
        hardware: what each machine is made of.
        driver_preinstalled: the machine's image carries the NVIDIA driver and container runtime.
        cloud_mig_profile: AKS gpuInstanceProfile such as ``MIG1g``: the machine registers partitioned.
        control_plane: the machines carry the cluster's control plane.
        guarded: nobody but the cloud may change these labels and taints on the nodes, as on AKS.
        real: how many of them are real nodes.
        own_gpus: as of RealNodes.
    """

    id: str
    node_prefix: str
    count: int
    hardware: Hardware
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    driver_preinstalled: bool = False
    cloud_mig_profile: str | None = None
    control_plane: bool = False
    guarded: bool = False
    real: int = 0
    own_gpus: bool = False

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes that should exist, lowest index first."""
        return tuple(f"{self.node_prefix}{index}" for index in range(self.count))

    @property
    def simulated_names(self) -> tuple[str, ...]:
        """The names of those that are simulated."""
        return self.node_names[self.real :]


def put(cluster_folder: Path, group: MachineGroup) -> None:
    """Create or replace a group.

    Raises:
        SandboxError: if a node name would belong to two groups.
    """
    with locked(record_path(cluster_folder)):
        known = groups(cluster_folder)
        for other in known.values():
            if other.id != group.id and other.node_prefix == group.node_prefix:
                shared = f"groups {other.id} and {group.id} share the node prefix {group.node_prefix!r}"
                message = f"{record_path(cluster_folder)}: {shared}."
                raise SandboxError(message, "Give each group of a cluster its own node_prefix.")
        _write(cluster_folder, {**known, group.id: group})


def remove(cluster_folder: Path, group_id: str) -> None:
    """Remove a group and with it its machines; a group that is not there is fine."""
    with locked(record_path(cluster_folder)):
        known = groups(cluster_folder)
        if known.pop(group_id, None) is not None:
            _write(cluster_folder, known)


def scale(cluster_folder: Path, group_id: str, count: int) -> None:
    """Change how many machines a group has; the highest indexes go first.

    Raises:
        SandboxError: if there is no such group or the count is negative.
    """
    with locked(record_path(cluster_folder)):
        known = groups(cluster_folder)
        if group_id not in known or count < 0:
            message = f"{record_path(cluster_folder)}: cannot scale group {group_id!r} to {count}."
            raise SandboxError(message, f"Use a count of 0 or more and one of the groups: {', '.join(known) or 'none'}.")
        _write(cluster_folder, {**known, group_id: replace(known[group_id], count=count)})


def groups(cluster_folder: Path) -> dict[str, MachineGroup]:
    """All groups of a cluster by id; empty where none was ever put. GPU models that they bring are known from then on."""
    return {key: _group(value) for key, value in read_json(record_path(cluster_folder)).items()}


def record_path(cluster_folder: Path) -> Path:
    """The file that holds the groups, for those who watch it change."""
    return cluster_folder / _RECORD


def _write(cluster_folder: Path, known: dict[str, MachineGroup]) -> None:
    write_json(record_path(cluster_folder), {key: asdict(group) for key, group in known.items()})


def _group(raw: dict[str, Any]) -> MachineGroup:
    hardware = Hardware(**raw["hardware"])
    if hardware.declared:
        known_models.remember(hardware.declared)
    return MachineGroup(**{**raw, "hardware": hardware})
