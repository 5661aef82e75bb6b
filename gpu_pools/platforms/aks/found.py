"""An AKS cluster as it was found, and what of a stack does not go together with it. Pure: what was read comes in.

Azure would refuse all of this, some of it minutes into a deploy. Not here: reading it (components/aks/existing.py); quotas, sizes
and zones of the region (gpu_pools/platforms/aks/cloud.py).
Sources: azure-aks-docs at fb060abe (create-node-pools, start-stop-cluster, upgrade-aks-control-plane); Azure's answers to others,
as sandbox/clouds/azure_networks.py names them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from gpu_pools.platforms.aks.placement import placement_of
from gpu_pools.platforms.aks.together import check_aks
from gpu_pools.platforms.aks.versions import OLDEST_FOR_IMAGE, numbers
from gpu_pools.reading.later import Later
from gpu_pools.text.errors import Problem, Problems, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpu_pools.platforms.aks.cluster import AksSettings
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings

#: By which a stack knows its pools in a cluster that it did not make: Azure keeps it, and shows it with the cluster.
OWNER_TAG: Final = "gpu-pools"
#: Of a private API server: what has to run where.
PRIVATE: Final = (
    "its API server has a private address only: `pulumi up` must run where that is reached (in its network, in one that is "
    "peered with it, or over a VPN)"
)
_CLUSTER: Final = "gpu-pools:cluster.existing"
_SYSTEM: Final = "System"


@dataclass(frozen=True)
class FoundPool:
    """A pool of the cluster.

    Attributes:
        name: its name.
        mode: System, User or Gateway.
        subnet: id of its nodes' subnet; empty where Azure made the network.
        pod_subnet: id of its pods' subnet; empty where they have none.
        tags: of the pool.
        driver: what Azure was told of GPU drivers: Install or None; empty where nothing was said.
        autoscaled: whether the cluster autoscaler decides its number of nodes.
    """

    name: str
    mode: str
    subnet: str
    pod_subnet: str
    tags: Mapping[str, str]
    driver: str = ""
    autoscaled: bool = False


@dataclass(frozen=True)
class FoundCluster:
    """A cluster as Azure shows it.

    Attributes:
        id: its ARM id.
        version: of its control plane, e.g. 1.34.2.
        running: whether it is started.
        state: of its last operation: Succeeded, Failed, Updating, …
        entra: whether users log in with Entra ID.
        private: whether its API server has a private address only.
        own_identity: whether it acts as an identity of its owner's, and not of Azure's making.
        pools: all, in Azure's order.
        provisions: whether node auto-provisioning is on: nodeProvisioningProfile, or an AKS Automatic cluster.
    """

    id: str
    version: str
    running: bool
    state: str
    entra: bool
    private: bool
    own_identity: bool
    pools: tuple[FoundPool, ...]
    provisions: bool = False

    def subnets_for(self, *names: str) -> tuple[str, str]:
        """Where a pool that names no subnet lies: where it is, else where the first system pool is; (nodes', pods').

        Args:
            names: that it may have in Azure, those of today before those of earlier.
        """
        own = [one for name in names for one in self.pools if one.name == name]
        system = [one for one in self.pools if one.mode == _SYSTEM]
        found = next(iter([*own, *system, *self.pools]), None)
        return (found.subnet, found.pod_subnet) if found else ("", "")


def with_found(settings: Settings, found: FoundCluster) -> Settings:
    """The settings with what is known of the cluster."""
    cluster = cast("AksSettings", settings.cluster)
    return replace(settings, cluster=replace(cluster, kubernetes_version=found.version))


def check_found(
    settings: Settings,
    found: FoundCluster,
    owner: str,
    drivers: Mapping[str, str],
    too_old: Iterable[Problem],
) -> list[Problem]:
    """What of the stack Azure would refuse in this cluster.

    Args:
        settings: of the stack.
        found: the cluster.
        owner: what the tag of this stack's own pools says.
        drivers: pool -> who installs its driver.
        too_old: what of the stack needs a newer Kubernetes (gpu_pools/plan/cluster_checks.py).
    """
    problems = Problems()
    if not found.running:
        problems.add(
            _CLUSTER,
            "the cluster is stopped: Azure makes no pools in it",
            allowed="a cluster that runs",
            remedy="Start it: az aks start --resource-group GROUP --name NAME.",
        )
    check_aks(with_found(settings, found), problems)
    for problem in too_old:
        problems.add(problem.path, problem.message, allowed=problem.allowed, remedy=problem.remedy)
    for pool in settings.pools:
        for problem in (
            *_taken(pool, found, owner),
            *_other_driver(pool, drivers[pool.name], found),
            *_elsewhere(pool, found),
            *_reserved(pool, found),
            *_provisioned(pool, found),
        ):
            problems.add(problem.path, problem.message, allowed=problem.allowed, remedy=problem.remedy)
    return list(problems.found)


def check_images(settings: Settings, version: str, whose: str, problems: Problems) -> None:
    """Add a problem for each pool whose image of the nodes needs a newer Kubernetes.

    Args:
        settings: of the stack.
        version: of the cluster, such as 1.34.2.
        whose: how a message names the origin of the version.
        problems: are added to.
    """
    for pool in settings.pools:
        image = placement_of(pool).asked.os_sku
        oldest = OLDEST_FOR_IMAGE.get(image or "")
        if oldest and numbers(version) < numbers(oldest):
            problems.add(
                f"{pool.path}.{placement_of(pool).written_at('osSku')}",
                f"{image} needs Kubernetes {oldest}, and {whose} {version}",
                allowed=f"another image, or Kubernetes {oldest} or newer",
                remedy="Leave it out: AKS then takes the image that goes with the version.",
            )


def notes(found: FoundCluster) -> Iterator[str]:
    """What whoever deploys should know of the cluster."""
    if found.private:
        yield f"{PRIVATE}, and so must a preview once the pools are there"
    if found.running and found.state != "Succeeded":
        yield f"its last operation is {found.state}: Azure may refuse new pools until one has ended well (az aks show)"


def _taken(pool: Pool, found: FoundCluster, owner: str) -> Iterator[Problem]:
    for there in found.pools:
        # Names of pools are lower case; whoever has made one by hand has kept to that.
        if there.name == pool.name and there.tags.get(OWNER_TAG) != owner:
            whose = there.tags.get(OWNER_TAG)
            if pool.adopted and not whose:
                continue
            yield Problem(
                f"{pool.path}.name",
                f"{show(pool.name)} is a pool that the cluster has already, "
                + (f"of the stack {whose}" if whose else "made by another"),
                "a name that no pool of the cluster has",
                f"Let that stack release it first (`gpu-pools release STACK`), and take the tag {OWNER_TAG} off the pool."
                if whose and pool.adopted
                else f"Choose another one. If it is this stack's, its tag was taken away: put it back, as {OWNER_TAG}={owner}. "
                "To take over one that was made by hand: `gpu-pools adopt aks --help`.",
            )


def _other_driver(pool: Pool, declared: str, found: FoundCluster) -> Iterator[Problem]:
    """Who installs the driver is settled when a pool is made, so that the stack can only say of an adopted one what there is."""
    there = next((one for one in found.pools if one.name == pool.name), None)
    if not pool.adopted or there is None or not there.driver:
        return
    owner = "operator" if there.driver == "None" else "preinstalled"
    if declared != owner:
        yield Problem(
            f"{pool.path}.driver",
            f"{declared}, and the pool was made with gpuProfile.driver {there.driver}, which never changes",
            owner,
            f"Write `driver: {owner}`, for all pools of the cluster; or make another pool, and move the work there.",
        )


def _elsewhere(pool: Pool, found: FoundCluster) -> Iterator[Problem]:
    options = placement_of(pool).asked.options
    network = _network(found.subnets_for("")[0])
    for key, subnet in (("subnet", options.subnet), ("podSubnet", options.pod_subnet)):
        if subnet is None or isinstance(subnet, Later) or _network(subnet) == network:
            continue
        yield Problem(
            f"{pool.path}.{placement_of(pool).written_at(key)}",
            f"{_short(subnet)} is not in the network of the cluster's other pools"
            if network
            else f"{_short(subnet)}: the cluster's network is of Azure's own making, and its pools are in it",
            f"a subnet of {network}" if network else "nothing",
            "All pools of a cluster lie in one virtual network. Choose a subnet of that one, or leave the key out: the pool then "
            "lies beside the system pool.",
        )


def _reserved(pool: Pool, found: FoundCluster) -> Iterator[Problem]:
    placement = placement_of(pool).asked
    if placement.options.capacity_reservation_group and not found.own_identity:
        yield Problem(
            f"{pool.path}.{placement.written_at('capacityReservationGroup')}",
            "the cluster acts as an identity of Azure's making, which cannot use it",
            "nothing in this cluster",
            "Have its owner give it an identity that is a Contributor of the group's resource group, or leave this out.",
        )


def _provisioned(pool: Pool, found: FoundCluster) -> Iterator[Problem]:
    """As gpu_pools/platforms/aks/together.py says it of a new cluster; an autoscaled pool shows that both may be."""
    if pool.autoscaled and found.provisions and not any(one.autoscaled for one in found.pools):
        yield Problem(
            f"{pool.path}.nodes",
            "the cluster has node auto-provisioning, and Azure refuses a pool with the cluster autoscaler beside it (C23)",
            "`count`; with the feature AllowClusterAutoscalerAndNAP the cluster would have autoscaled pools already",
            "Write `count`.",
        )


def _short(subnet: str) -> str:
    """Network and subnet: the beginning of such an id is all alike, and would be all that a message has room for."""
    return show("/".join(subnet.split("/")[-3:]))


def _network(subnet: str) -> str:
    return subnet.lower().partition("/subnets/")[0]
