"""What AKS options of a pool need of the cluster and the other way round, as far as the stack file tells it: said beforehand.

Azure refuses all of this, some of it minutes into a deploy. Sources: azure-aks-docs at fb060abe (upgrade-aks-control-plane,
supported-kubernetes-versions, use-capacity-reservation-groups); NVIDIA/gpu-driver-container at db4f8bf8, azurelinux/README.md;
Azure/AgentBaker at 06836ee2 (gpu_components.go: which sizes take the GRID driver) and Azure/AKS#5875.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from gpu_pools.hardware import azure_sizes
from gpu_pools.platforms.aks.azure_types import unlisted
from gpu_pools.platforms.aks.changes import WIDEST_SKEW
from gpu_pools.platforms.aks.network import Network
from gpu_pools.platforms.aks.options import MOVING_CHANNELS
from gpu_pools.platforms.aks.placement import AksPlacement, placement_of
from gpu_pools.reading.later import Later
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.hardware.azure_sizes import AzureSize
    from gpu_pools.platforms.aks.cluster import AksSettings
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

_CLUSTER: Final = "gpu-pools:cluster"


def check_aks(settings: Settings, problems: Problems) -> None:
    """What pools and cluster ask for that does not go together."""
    cluster = cast("AksSettings", settings.cluster)
    # Of the cluster of a pool that is used alone nothing is known.
    if not cluster.name:
        return
    cluster = replace(cluster, options=cluster.options.asked)
    for pool in settings.pools:
        placement = placement_of(pool).asked
        _check_provisioning(pool, cluster, problems)
        _check_version(pool, placement, cluster, problems)
        # Network and identity of a cluster that is there are known once it is read (gpu_pools/platforms/aks/found.py).
        if cluster.existing is None:
            _check_subnets(pool, placement, cluster, problems)
            _check_identity(pool, placement, cluster, problems)


def aks_warnings(pool: Pool, sharing: Sharing, driver: str) -> Iterator[str]:
    """What of a pool works with a catch.

    Args:
        pool: any.
        sharing: its declaration.
        driver: who installs its driver.
    """
    placement = placement_of(pool).asked
    if size := azure_sizes.size(placement.vm_size):
        yield from _size_warnings(size, sharing, driver)
    yield from unlisted(placement.options.properties, "AgentPool", "properties")
    if driver == "operator" and (placement.os_sku or "").startswith("AzureLinux"):
        yield (
            f"NVIDIA publishes no driver image for {placement.os_sku}, and its recipe for one is an experiment: have the driver "
            "installed by AKS (driver: preinstalled), or name an image of your own in gpu-pools:operator.values.driver"
        )


def aks_cluster_warnings(cluster: AksSettings, *, metrics_have_a_way: bool = False) -> Iterator[str]:
    """What of a cluster's own request works with a catch, or cannot be told before the deploy.

    Args:
        cluster: of the stack.
        metrics_have_a_way: whether the stack makes what sends them on: endpoint, rule and association.
    """
    if cluster.existing is None:
        cluster = replace(cluster, options=cluster.options.asked)
        yield from _logs(cluster)
        monitoring = cluster.options.monitoring
        if monitoring and monitoring.metrics and not metrics_have_a_way:
            # terraform-provider-azurerm#23623, Azure/bicep-registry-modules#4466.
            yield (
                "`monitoring.metrics` switches the add-on on, and without a data collection endpoint, rule and association no "
                "metrics arrive (C26): write `gpu-pools:observability: {to: azure}`, unless somebody has made these, "
                "as `az aks update --enable-azure-monitor-metrics` does"
            )
        yield from _routes(cluster)
        yield from unlisted(cluster.options.properties, "ManagedCluster", "properties of the cluster")
        if cluster.system_pool:
            yield from unlisted(cluster.system_pool.properties, "ManagedClusterAgentPoolProfile", "properties of the system pool")


def _size_warnings(size: AzureSize, sharing: Sharing, driver: str) -> Iterator[str]:
    if size.open:
        yield f"{size.name}: {size.open}"
    if sharing.partitioned and size.mig is None:
        yield f"no source says whether AKS offers MIG on {size.name}, whose GPUs have it: it cannot be checked before the deploy"
    if size.driver == "GRID" and driver == "operator":
        yield (
            f"{size.name} has its GPUs as vGPUs, which take NVIDIA's GRID driver for Azure and not the operator's: have AKS "
            "install it (driver: preinstalled), or name an image of your own in gpu-pools:operator.values.driver"
        )


def _check_provisioning(pool: Pool, cluster: AksSettings, problems: Problems) -> None:
    """Azure refuses an autoscaled pool where node auto-provisioning is on, but with a feature that is meant for migrations.

    Sources: azure-aks-docs at fb060abe (migrate-from-autoscaler-to-node-auto-provisioning), coder/envbuilder#143.
    """
    if pool.autoscaled and at(cluster.options.properties, "nodeProvisioningProfile", "mode") == "Auto":
        problems.add(
            f"{pool.path}.nodes",
            "the cluster has node auto-provisioning, and Azure refuses a pool with the cluster autoscaler beside it (C23)",
            allowed="`count`, or a cluster without nodeProvisioningProfile.mode Auto",
            remedy="Write `count`, or take `nodeProvisioningProfile` out of the cluster's `properties`.",
        )


def _logs(cluster: AksSettings) -> Iterator[str]:
    """Warn of the log add-on without the resources that `monitoring.workspace` creates (sources: C26 of rules.md)."""
    addons = at(cluster.options.properties, "addonProfiles")
    for name, addon in addons.items() if isinstance(addons, dict) else ():
        workspace = cluster.options.monitoring and cluster.options.monitoring.workspace
        if name.lower() == "omsagent" and at(addon, "enabled") is True and not workspace:
            yield (
                f"properties of the cluster.addonProfiles.{name} switches the add-on on, and without a data collection rule and "
                "its association no logs arrive (C26): write `monitoring.workspace`, which makes both, or make them yourself"
            )


def _routes(cluster: AksSettings) -> Iterator[str]:
    """Kubenet in a subnet of one's own writes its routes there, by an identity that needs the right before it is made.

    A warning: somebody may have given the right to the identity of a cluster that lives.
    Sources: azure-aks-docs at fb060abe (configure-kubenet: own subnet and route table), Azure/AKS#2333.
    """
    network = cluster.options.network
    if network and network.plugin == "kubenet" and network.node_subnet and not cluster.options.own_identity:
        yield (
            "kubenet in a subnet of your own writes routes there, and the identity that Azure makes has no right to (C24): write "
            "`identity.userAssigned` with an identity that is a Network Contributor of the subnet and its route table"
        )


def _check_version(pool: Pool, placement: AksPlacement, cluster: AksSettings, problems: Problems) -> None:
    pinned, control_plane = placement.options.kubernetes_version, cluster.kubernetes_version
    channel = cluster.options.upgrades.channel if cluster.options.upgrades else None
    if pinned is not None and channel in MOVING_CHANNELS:
        problems.add(
            f"{pool.path}.kubernetesVersion",
            f"the cluster's channel {channel} moves it, and Azure never goes back to what is written",
            allowed="nothing, or the channel patch",
            remedy=f"Take it out, or write `{_CLUSTER}.upgrades: {{channel: patch}}`.",
        )
    if pinned is None or control_plane is None:
        return
    old, new = _parts(pinned), _parts(control_plane)
    newer = old[1] > new[1] or (old[1] == new[1] and len(old) == len(new) and old > new)
    if not newer and new[1] - old[1] <= WIDEST_SKEW:
        return
    problems.add(
        f"{pool.path}.kubernetesVersion",
        f"{pinned} is " + ("newer than" if newer else f"more than {WIDEST_SKEW} minor versions older than") + " the cluster's "
        f"kubernetesVersion, {control_plane}",
        allowed=f"1.{max(new[1] - WIDEST_SKEW, 0)} to {control_plane}",
        remedy=f"Raise `{_CLUSTER}.kubernetesVersion` first." if newer else "Raise it, or leave it out: the pool then follows.",
    )


def _check_subnets(pool: Pool, placement: AksPlacement, cluster: AksSettings, problems: Problems) -> None:
    """Either all pools lie in subnets of one network, or none does."""
    own, network = placement.options.subnet, cluster.options.network
    shared = network.node_subnet if network else None
    if own and not shared:
        problems.add(
            f"{pool.path}.{placement.written_at('subnet')}",
            "the system pool lies in a network that Azure makes, and all pools lie in one",
            allowed=f"`{_CLUSTER}.network.nodeSubnet` in the same network beside it",
            remedy="Write that, or take this out.",
        )
    elif own and shared and not isinstance(own, Later) and not isinstance(shared, Later) and _vnet(own) != _vnet(shared):
        problems.add(
            f"{pool.path}.{placement.written_at('subnet')}",
            f"it lies in {_vnet(own).rpartition('/')[2]}, the cluster in {_vnet(shared).rpartition('/')[2]}",
            allowed="a subnet of the cluster's network",
            remedy="Choose another subnet; networks that are peered do not count as one.",
        )
    if placement.options.pod_subnet and (network or Network()).mode == "overlay":
        problems.add(
            f"{pool.path}.{placement.written_at('podSubnet')}",
            "the cluster's pods have a range of their own (overlay)",
            allowed=f"`{_CLUSTER}.network.podSubnet`, or `pluginMode: none` there",
            remedy="Write one of them, or take this out.",
        )


def _vnet(subnet: str) -> str:
    return subnet.lower().rpartition("/subnets/")[0]


def _check_identity(pool: Pool, placement: AksPlacement, cluster: AksSettings, problems: Problems) -> None:
    if placement.options.capacity_reservation_group and not cluster.options.own_identity:
        problems.add(
            f"{pool.path}.{placement.written_at('capacityReservationGroup')}",
            "an identity that Azure makes cannot use it",
            allowed=f"`{_CLUSTER}.identity.userAssigned` beside it",
            remedy="Write an identity that is a Contributor of the group's resource group.",
        )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
