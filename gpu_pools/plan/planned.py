"""What a plan is: of each pool, and of the cluster; and what follows from a pool's plan for those who use or pay for its shares.

gpu_pools/plan/planning.py makes plans, and everything here only reads one:

- what a pod writes to get a share, and which key a ResourceQuota must have to count it. It follows from the advertised names.
  An extended resource is counted as ``requests.<name>`` only: a quota on the plain name, or on ``limits.<name>``, has no effect
  and says nothing (Kubernetes documentation, Resource Quotas; incident D17);
- what a node costs, and which part of it a share is. Somebody else pays for the nodes of an existing cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_pools.allocation.mig_parted import mig_parted_file
from gpu_pools.hardware.resource_names import WHOLE_GPU, mig_resource
from gpu_pools.platforms.known import PLATFORMS
from gpu_pools.stack.allocation import DEVICE_PLUGIN
from gpu_pools.stack.kubernetes_names import ALLOCATION_LABELS, CHANGED_LABELS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.allocation.dra import Devices, DraPlan
    from gpu_pools.hardware.node import Hardware
    from gpu_pools.hardware.platforms import Platform
    from gpu_pools.hardware.prices import Prices
    from gpu_pools.plan.expectation import NvmlExpectation
    from gpu_pools.sharing.mode import Replicated, Sharing
    from gpu_pools.stack.allocation import Allocation
    from gpu_pools.stack.charts import MigStrategy
    from gpu_pools.stack.cluster import MigOwner
    from gpu_pools.stack.kubernetes_names import Taint
    from gpu_pools.stack.pools import DriverOwner, Pool
    from gpu_pools.stack.settings import Settings


@dataclass(frozen=True)
class PoolPlan:
    """One pool, planned.

    Attributes:
        pool: as declared.
        hardware: the GPUs of each node.
        platform: the cloud.
        sharing: the declaration.
        config_key: key of the device plugin's config.
        config: its YAML text.
        mig_config_key: key of the mig-parted config; None where the operator's mig-manager has no say on these nodes.
        labels: every label that must reach the nodes.
        taints: the declared taints, and those that the cloud adds.
        startup_taint: what new nodes register with until the verifier has passed them; None: nothing.
        driver: who installs driver and toolkit.
        mig_owner: who partitions.
        gpu_instance_profile: what AKS is told where AKS partitions.
        advertises: resource -> count per node.
        gfd_labels: what gpu-feature-discovery will write, as far as it can be known.
        nvml: what NVML must say.
        other_strategy: (the other MIG strategy, resource now -> resource then); None where it would rename nothing here.
        refuses_two: whether the device plugin refuses requests for two although the declaration allows them.
        warnings: what works, but with a catch.
        change: id of becoming what is planned here (gpu_pools/stack/acknowledged.py).
        protect: whether the engine must refuse to delete or replace it: as declared, unless this very change is acknowledged.
        pull_secrets: as of its labellers' pods: Secrets to pull images with.
        imported: whether it is only held as it was imported (gpu_pools/stack/imported.py).
        allocation: through what pods get the GPUs: ``devicePlugin`` or ``dra``.
        devices: what the DRA driver must announce of each node; empty with the device plugin.
        replacement_id: which of those that replace each other under its name (gpu_pools/plan/placing.py); empty: only one.
    """

    pool: Pool
    hardware: Hardware
    platform: Platform
    sharing: Sharing
    config_key: str
    config: str
    mig_config_key: str | None
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    startup_taint: Taint | None
    driver: DriverOwner
    mig_owner: MigOwner
    gpu_instance_profile: str | None
    advertises: Mapping[str, int]
    gfd_labels: Mapping[str, str]
    nvml: NvmlExpectation
    other_strategy: tuple[MigStrategy, Mapping[str, str]] | None
    refuses_two: bool
    warnings: tuple[str, ...]
    change: str = ""
    protect: bool = False
    pull_secrets: tuple[Mapping[str, str], ...] = ()
    imported: bool = False
    replacement_id: str = ""
    allocation: Allocation = DEVICE_PLUGIN
    devices: tuple[Devices, ...] = ()

    @property
    def changed_labels(self) -> dict[str, str]:
        """The labels that a rollout sets on each node by itself; none without `rollout`."""
        changed = {*CHANGED_LABELS, *ALLOCATION_LABELS} if self.pool.rollout else set()
        return {key: value for key, value in self.labels.items() if key in changed}

    @property
    def placed_labels(self) -> dict[str, str]:
        """The labels that all nodes get at once, from the cloud or from NFD."""
        return {key: value for key, value in self.labels.items() if key not in self.changed_labels}

    @property
    def pod_requests(self) -> tuple[PodRequest, ...]:
        """What pods write to get a share of this pool."""
        if self.devices:
            # A claim gets each of its devices once: two shares are of two GPUs.
            return tuple(PodRequest(one.resource, one.count) for one in self.devices)
        return pod_requests(self.sharing, self.advertises, refuses_two=self.refuses_two)

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.pool.name

    @property
    def made_name(self) -> str:
        """What the cloud calls a pool that is made now; one that was there before ``replace: surge`` keeps its name."""
        if self.pool.replacement != "surge":
            return self.name
        return f"{self.stem}{self.replacement_id}"

    @property
    def stem(self) -> str:
        """What comes before the digits in the names that the cloud has of such a pool."""
        longest, dash = PLATFORMS[self.platform].made_names
        # No two dashes in a row: of these capi-helm makes one (driver_utils.py, sanitized_name), and labels the nodes with that.
        return self.name[: longest - len(dash) - len(self.replacement_id)].rstrip("-") + dash


@dataclass(frozen=True)
class Plan:
    """A stack, planned.

    Attributes:
        settings: what was declared.
        pools: in file order.
        mig_strategy: how MIG nodes name their resources.
        cluster_mig_strategy: what the ClusterPolicy says; empty: each node's config file decides.
        device_plugin_configs: key -> YAML text.
        default_config_key: what nodes without our label get: exclusive use.
        mig_parted_entries: key -> YAML text of each named config of the mig-parted file.
        tolerations: what NFD's workers, labellers and verifiers tolerate: the taints of the pools.
        operand_tolerations: what the operator's DaemonSets tolerate: more, so that a new taint does not change them.
        driver: who installs driver and toolkit in this cluster.
        operator_values: final values of the gpu-operator chart.
        nfd_values: final values of the NFD chart.
        change: id of the cluster's becoming what is planned here.
        protect: whether the engine must refuse to delete or replace the cluster; as of a pool.
        dra: what pods need that get GPUs through claims; None where no pool's do.
    """

    settings: Settings
    pools: tuple[PoolPlan, ...]
    mig_strategy: MigStrategy
    cluster_mig_strategy: str
    device_plugin_configs: Mapping[str, str]
    default_config_key: str
    mig_parted_entries: Mapping[str, str]
    tolerations: tuple[Mapping[str, str], ...]
    operand_tolerations: tuple[Mapping[str, str], ...]
    driver: DriverOwner
    operator_values: Mapping[str, Any]
    nfd_values: Mapping[str, Any]
    change: str
    protect: bool
    dra: DraPlan | None = None

    @property
    def platform(self) -> Platform:
        """The cloud."""
        return self.settings.cluster.platform

    @property
    def mig_parted_config(self) -> str:
        """The mig-parted file, of what is declared."""
        return mig_parted_file(self.mig_parted_entries)


# --- what pods write ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PodRequest:
    """One resource of a pool, as pods ask for it.

    Attributes:
        resource: the name below ``resources.limits`` of a container.
        most: how many of it one pod can get: 1 where the plugin refuses more (failRequestsGreaterThanOne), else a node's all.
    """

    resource: str
    most: int

    @property
    def quota(self) -> str:
        """The key in a ResourceQuota's ``hard``."""
        return f"requests.{self.resource}"

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"resource": self.resource, "mostPerPod": self.most, "quota": self.quota}


def pod_requests(sharing: Sharing, advertises: Mapping[str, int], *, refuses_two: bool) -> tuple[PodRequest, ...]:
    """What pods can ask for on a node that advertises these resources (name -> count).

    `refuses_two`: the device plugin refuses requests for two or more whatever the declaration says.
    """
    return tuple(PodRequest(name, 1 if refuses_two or _one_only(sharing, name) else count) for name, count in advertises.items())


def _one_only(sharing: Sharing, resource: str) -> bool:
    """Whether a resource is shared and a request for two is refused; what is not shared is never refused."""
    shared = _shared_by(sharing, resource.removesuffix(".shared"))
    return shared is not None and shared.fail_requests_greater_than_one


def _shared_by(sharing: Sharing, resource: str) -> Replicated | None:
    """How the units of a resource are shared; under MIG strategy single all instances are nvidia.com/gpu, else whole GPUs are."""
    if resource == WHOLE_GPU:
        return sharing.replication_of(sharing.uniform_profile)
    profiles = {mig_resource(profile): profile for layout in sharing.layouts for profile, _ in layout}
    return sharing.replication_of(profiles[resource])


# --- what a node costs --------------------------------------------------------------------------------------------


def node_price(pool: PoolPlan, prices: Prices | None) -> float | None:
    """Of a node and hour; None where nobody gave one."""
    placed = pool.pool.placement
    return prices.of(placed.machine, spot=placed.is_spot) if prices is not None and placed.machine else None


def share_of_node(pool: PoolPlan) -> Mapping[str, float]:
    """Resource -> the part of a node that one share of it is; all shares of a node together are 1.

    By compute slices, divided among those who take turns on them. Slices that a layout leaves unused are paid by all alike.
    """
    if len(pool.advertises) == 1:
        return {name: 1 / count for name, count in pool.advertises.items()}
    slices: dict[str, int] = {}
    for gpu in pool.nvml.gpus:
        for profile, count in gpu.instances.items():
            slices[mig_resource(profile)] = slices.get(mig_resource(profile), 0) + count * int(profile.partition("g.")[0])
        if not gpu.instances:
            slices[WHOLE_GPU] = slices.get(WHOLE_GPU, 0) + pool.hardware.model.compute_slices
    whole = sum(slices.values())
    return {name: slices[name.removesuffix(".shared")] / whole / count for name, count in pool.advertises.items()}
