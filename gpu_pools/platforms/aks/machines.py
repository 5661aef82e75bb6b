"""Which machines a stack on AKS wants of Azure: its pools, and the system pool of a cluster that it makes.

One row each, with the places in the stack file where size, zones and numbers are written, so that whoever judges can name them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.aks.changes import SYSTEM_POOL
from gpu_pools.platforms.aks.placement import AksPlacement, placement_of
from gpu_pools.reading.later import Later

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_pools.platforms.aks.answers import MadeCluster, MadePool
    from gpu_pools.platforms.aks.cluster import AksSettings
    from gpu_pools.stack.pools import Pool

CLUSTER: Final = "gpu-pools:cluster"
#: What a pool without a word has, by the plugin of its cluster (azure-aks-docs, concepts-network-ip-address-planning).
_PODS_OF_CNI: Final = 30


@dataclass(frozen=True)
class Machines:
    """The machines of one pool.

    Attributes:
        name: of the pool.
        path: where it stands.
        size: its VM size, as it is written.
        zones: its availability zones.
        spot: whether they are spot machines.
        fewest: nodes that it has at least.
        most: nodes that it may have.
        surge: nodes beyond `most` during an upgrade.
        subnet: id of its nodes' subnet; empty where Azure makes one, or only a deploy knows it.
        pod_subnet: id of its pods' subnet; the same.
        max_pods: pods on a node.
        reservation: id of its capacity reservation group; empty where it has none.
        is_system: whether it is the system pool.
        version: of Kubernetes, where it names one of its own.
        ephemeral: whether it asks for a disk on the machine's own.
        disk: GiB of its nodes' disk; None where it does not say.
        encrypted: whether it asks for encryption on the host.
    """

    name: str
    path: str
    size: str
    zones: tuple[str, ...]
    spot: bool
    fewest: int
    most: int
    surge: int = 0
    subnet: str = ""
    pod_subnet: str = ""
    max_pods: int = _PODS_OF_CNI
    reservation: str = ""
    is_system: bool = False
    version: str | None = None
    ephemeral: bool = False
    disk: int | None = None
    encrypted: bool = False

    def at(self, key: str) -> str:
        """Where a key of it is written."""
        return f"{self.path}.{key}"

    def made(self, cluster: MadeCluster | None) -> MadePool | None:
        """The pool as it is; None: there is none, or one that a deploy replaces, old one first."""
        found = cluster.pools.get(self.name) if cluster else None
        return found if found and (found.size, found.spot) == (self.size.lower(), self.spot) else None


def machines(cluster: AksSettings, pools: Sequence[Pool], made: MadeCluster | None) -> Iterator[Machines]:
    """All of them, in the order of the stack file.

    Args:
        cluster: of the stack.
        pools: all that are known.
        made: the cluster as it is, where it is there: pools in one that is there lie beside its system pool.
    """
    if cluster.existing is None and cluster.name and cluster.system_pool.vm_size:
        yield _system(cluster)
    for pool in pools:
        if placement_of(pool).vm_size:
            yield _of_pool(pool, placement_of(pool), cluster, made)


def _system(cluster: AksSettings) -> Machines:
    pool, network = cluster.system_pool, cluster.options.asked.network
    return Machines(
        name=SYSTEM_POOL,
        path=f"{CLUSTER}.systemPool",
        size=pool.vm_size,
        zones=pool.zones,
        spot=False,
        fewest=pool.nodes.fewest,
        most=pool.nodes.most or pool.nodes.fewest,
        # AKS's own default; a system pool cannot do without (azure-aks-docs, upgrade-aks-node-pools-rolling).
        surge=1,
        subnet=_known(network.node_subnet) if network else "",
        pod_subnet=_known(network.pod_subnet) if network else "",
        max_pods=_number(pool.properties.get("maxPods")),
        is_system=True,
    )


def _of_pool(pool: Pool, placement: AksPlacement, cluster: AksSettings, made: MadeCluster | None) -> Machines:
    placement = placement.asked
    options, network = placement.options, cluster.options.asked.network
    beside = (network.node_subnet, network.pod_subnet) if network else _beside(pool.name, made)
    most = pool.max_nodes if pool.max_nodes is not None else pool.min_nodes
    upgrades = options.upgrade_settings
    surge = upgrades.max_surge or ("1" if upgrades.max_unavailable is None else "0")
    return Machines(
        name=pool.name,
        path=pool.path,
        size=placement.vm_size,
        zones=placement.zones,
        spot=placement.spot is not None,
        # One that is there may have become empty since.
        fewest=pool.min_nodes if made and pool.name in made.pools else pool.first_nodes,
        most=most,
        surge=0 if placement.spot else _share(surge, most),
        subnet=_known(options.subnet or beside[0]),
        pod_subnet=_known(options.pod_subnet or beside[1]),
        max_pods=_number(options.max_pods or options.properties.get("maxPods")),
        reservation=_known(options.capacity_reservation_group),
        version=options.kubernetes_version,
        ephemeral=options.os_disk_type == "Ephemeral",
        disk=options.os_disk_size,
        encrypted=options.encryption_at_host is True,
    )


def _beside(name: str, made: MadeCluster | None) -> tuple[str | None, str | None]:
    """Where a pool lies that names no subnet, in a cluster that is there: where it is, else where the others are."""
    lie = made.subnets if made else {}
    return lie.get(name) or next(iter(lie.values()), (None, None))


def _known(id_: str | None) -> str:
    return "" if id_ is None or isinstance(id_, Later) else id_


def _number(pods: object) -> int:
    return pods if isinstance(pods, int) else _PODS_OF_CNI


def _share(surge: str, nodes: int) -> int:
    """`1`, or `33%` of the nodes; fractions round up."""
    return math.ceil(nodes * int(surge[:-1]) / 100) if surge.endswith("%") else int(surge)
