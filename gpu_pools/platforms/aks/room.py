"""Whether there is room in Azure for what a stack still has to make: vCPUs by the quotas of the region, addresses in subnets.

Azure counts what is there as used already, so only growth needs room: a pool's part of a quota is what it grows by. A pool that
a deploy replaces goes first, so that its vCPUs count for its successor in the same quota. Reserved machines count as used from
their reservation on, and not again when a pool takes them. The fewest nodes must fit, else nothing is made; at the most nodes,
and with those of an upgrade, a warning says what will stop.

Sources: azure-aks-docs at fb060abe (quotas-skus-regions, upgrade-aks-node-pools-rolling, concepts-network-ip-address-planning,
configure-azure-cni-dynamic-ip-allocation); the words of refusals: hashicorp and Azure/AKS issues, as sandbox/clouds names them.
Spot machines have a quota of their own, and count in no other (azure-docs, spot-vms, capacity-reservation-overview).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.aks.answers import ALL_CORES, SPOT_CORES, MadeCluster
from gpu_pools.platforms.judgement import Unread
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpu_pools.platforms.aks.answers import Azure, MadePool, Size, Subnet, Usage
    from gpu_pools.platforms.aks.cluster import AksSettings
    from gpu_pools.platforms.aks.machines import Machines
    from gpu_pools.text.errors import Problems

_POOLS: Final = "gpu-pools:pools"
#: Addresses that a node takes of the pods' subnet at once (Azure/azure-container-networking: batches of 16).
_BATCH: Final = 16
_REMEDY: Final = "Ask for more (https://aka.ms/aks/quotas-skus-regions), or for fewer or smaller nodes, or take another region."


@dataclass(frozen=True)
class _Demand:
    """vCPUs that one pool needs of one quota, beyond those that it has."""

    pool: Machines
    least: int
    most: int
    surge: int


def judge_quota(wanted: Sequence[Machines], azure: Azure, problems: Problems) -> Iterator[str]:
    """Hold vCPUs against the quotas of the region; yields warnings.

    Args:
        wanted: all pools of the stack.
        azure: what Azure said.
        problems: told of what has no room.
    """
    if isinstance(azure.usages, Unread) or isinstance(azure.sizes, Unread) or isinstance(azure.cluster, Unread):
        return
    demands: dict[str, list[_Demand]] = {}
    for pool in wanted:
        size = azure.sizes.get(pool.size.lower())
        # Of a size that the region has not nothing can be made, which is a problem already.
        if size is not None:
            for quota in _quotas(pool.spot, size):
                demands.setdefault(quota, []).append(_demand(pool, size, quota, azure, azure.sizes))
    for quota, asked in demands.items():
        usage, name = azure.usages.get(quota), _called(quota, asked, azure.sizes)
        if usage is None:
            yield f"not checked before the deploy: the quota of vCPUs {name}, which Azure does not list"
        else:
            yield from _judge_one(name, asked, usage, problems)


def _quotas(spot: bool, size: Size) -> tuple[str, ...]:  # noqa: FBT001 - what it is of the pool
    return (SPOT_CORES,) if spot else (size.family.lower(), ALL_CORES)


def _demand(pool: Machines, size: Size, quota: str, azure: Azure, sizes: Mapping[str, Size]) -> _Demand:
    made = azure.cluster.pools.get(pool.name) if isinstance(azure.cluster, MadeCluster) else None
    held = _reserved(pool, azure)
    has = _has(made, quota, sizes)

    def more(nodes: int) -> int:
        return max(0, max(nodes, held) * size.vcpus - max(has, held * size.vcpus))

    return _Demand(pool, least=more(pool.fewest), most=more(pool.most), surge=pool.surge * size.vcpus)


def _has(made: MadePool | None, quota: str, sizes: Mapping[str, Size]) -> int:
    """Those of a quota that a pool has, and keeps, or gives back before it is made anew."""
    size = sizes.get(made.size) if made else None
    return made.count * size.vcpus if made and size and quota in _quotas(made.spot, size) else 0


def _reserved(pool: Machines, azure: Azure) -> int:
    """Machines of its size that are reserved for it."""
    held = azure.reservations.get(pool.reservation.lower()) if pool.reservation else None
    return 0 if held is None or isinstance(held, Unread) else sum(one.machines for one in held if one.size == pool.size.lower())


def _called(quota: str, asked: Sequence[_Demand], sizes: Mapping[str, Size]) -> str:
    if quota == ALL_CORES:
        return "of all families"
    return "of spot machines" if quota == SPOT_CORES else f"of the family {sizes[asked[0].pool.size.lower()].family}"


def _judge_one(name: str, asked: Sequence[_Demand], usage: Usage, problems: Problems) -> Iterator[str]:
    least, most = sum(one.least for one in asked), sum(one.most for one in asked)
    if least > usage.left:
        growing = [one.pool for one in asked if one.least]
        problems.add(
            growing[0].path if len(growing) == 1 else _POOLS,
            f"{least} more vCPUs {name} are asked for ({_named(growing)}), and the quota of the region leaves {usage.left} "
            f"of {usage.limit}",
            allowed=f"at most {usage.left} more vCPUs {name}",
            remedy=_REMEDY,
        )
        return
    if most > usage.left:
        yield (
            f"at their most nodes {_named([one.pool for one in asked if one.most])} need {most} more vCPUs {name}, and the quota "
            f"of the region leaves {usage.left}: the autoscaler will stop before"
        )
    largest = max(asked, key=lambda one: one.surge)
    if largest.surge and least + largest.surge > usage.left:
        instead = "" if largest.pool.is_system else "; with maxUnavailable it needs none"
        yield (
            f"an upgrade of pool {largest.pool.name} needs {largest.surge} more vCPUs {name} (maxSurge), and the quota of the "
            f"region leaves {usage.left - least}: it will fail{instead}"
        )


def _named(pools: Sequence[Machines]) -> str:
    return ", ".join(pool.name for pool in pools)


# ---------------------------------------------------------------- addresses


def judge_subnets(wanted: Sequence[Machines], cluster: AksSettings, azure: Azure, problems: Problems) -> Iterator[str]:
    """Hold the addresses that pools take against those of their subnets; yields warnings.

    Args:
        wanted: all pools of the stack.
        cluster: of the stack.
        azure: what Azure said.
        problems: told of subnets that are not there, or full.
    """
    if isinstance(azure.cluster, Unread):
        return
    overlay = _overlay(cluster, azure.cluster)
    of_nodes: Callable[[Machines], int] = lambda pool: 1 if overlay or pool.pod_subnet else 1 + pool.max_pods  # noqa: E731
    for key, of_one in (("subnet", of_nodes), ("podSubnet", lambda _pool: _BATCH)):
        lying: dict[str, list[Machines]] = {}
        for pool in wanted:
            if id_ := pool.pod_subnet if key == "podSubnet" else pool.subnet:
                lying.setdefault(id_.lower(), []).append(pool)
        for id_, pools in lying.items():
            found = azure.subnets.get(id_, Unread("it was not asked for"))
            if found is None:
                _add_missing(id_, key, pools[0], problems)
            elif not isinstance(found, Unread):
                yield from _judge_subnet(id_, found, pools, of_one, azure.cluster, problems)


def _overlay(cluster: AksSettings, made: MadeCluster | None) -> bool:
    """Whether pods have addresses of their own range: overlay, or kubenet, or a plugin of the user's."""
    if made:
        return made.mode == "overlay" or made.plugin != "azure"
    network = cluster.options.asked.network
    return network is None or network.mode == "overlay" or network.plugin != "azure"


def _add_missing(id_: str, key: str, pool: Machines, problems: Problems) -> None:
    problems.add(
        _place(pool, key),
        f"there is no subnet {show('/'.join(id_.split('/')[-3:]))}",
        allowed="a subnet that is there",
        remedy='az network vnet subnet list --resource-group GROUP --vnet-name NAME --query "[].id" tells which there are.',
    )


def _place(pool: Machines, key: str) -> str:
    """Where a subnet is written: of the system pool, that of the cluster's network."""
    if not pool.is_system:
        return pool.at(key)
    return f"{pool.path.rpartition('.')[0]}.network.{'podSubnet' if key == 'podSubnet' else 'nodeSubnet'}"


def _judge_subnet(
    id_: str,
    subnet: Subnet,
    pools: Sequence[Machines],
    of_one: Callable[[Machines], int],
    made: MadeCluster | None,
    problems: Problems,
) -> Iterator[str]:
    free, name = subnet.free, id_.rpartition("/")[2]
    if free is None:
        return

    def needed(number: Callable[[Machines], int]) -> int:
        return sum(max(0, number(pool) - _nodes(pool, made)) * of_one(pool) for pool in pools)

    least, most = needed(lambda pool: pool.fewest), needed(lambda pool: pool.most + pool.surge)
    growing = [pool for pool in pools if pool.fewest > _nodes(pool, made)]
    if least > free:
        problems.add(
            growing[0].path if len(growing) == 1 else _POOLS,
            f"{_named(growing)} need {least} more addresses of the subnet {show(name)}, which has {free} left",
            allowed=f"at most {free} more addresses there",
            remedy="Take another subnet of the network, fewer nodes, or a smaller maxPods.",
        )
    elif most > free:
        yield (
            f"at their most nodes and with those of an upgrade {_named(pools)} need {most} more addresses of the subnet {name}, "
            f"which has {free} left; Azure may refuse that from the start (InsufficientSubnetSize)"
        )


def _nodes(pool: Machines, made: MadeCluster | None) -> int:
    found = made.pools.get(pool.name) if made else None
    return found.count if found else 0
