"""Pools with a `count`: whether as many nodes are in the cluster as declared, once a deploy has done everything else.

Nothing else notices a machine that never came: a DaemonSet is complete on the nodes that exist, a cloud may call a pool with
fewer machines complete, and a plugin keeps what failed in its state as made. Evidence and drift say it later, by the same
number (gpu_pools/evidence/verdicts.py, gpu_pools/drift/nodes.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_pools.plan.placing import pool_selector
from gpu_pools.platforms.known import platform_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.plan.planned import Plan, PoolPlan


@dataclass(frozen=True)
class FixedCount:
    """What is declared of one pool.

    Attributes:
        pool: its name.
        path: where the number stands in the stack file.
        count: the number of nodes.
        selector: the labels of its nodes, as a query of the API takes them.
        remedy: what shows why a node is missing, and what to do then.
    """

    pool: str
    path: str
    count: int
    selector: str
    remedy: str


@dataclass(frozen=True)
class Shortfall:
    """A pool with fewer nodes than it declares.

    Attributes:
        declared: the pool.
        present: the names of its nodes.
    """

    declared: FixedCount
    present: Sequence[str]

    def __str__(self) -> str:
        """Three lines for people."""
        declared = self.declared
        nodes = ", ".join(self.present) or "none"
        return (
            f"{declared.path}: pool {declared.pool} declares {declared.count} nodes and has {len(self.present)} (C16)\n"
            f"    present: {nodes}\n"
            f"    remedy:  {declared.remedy}"
        )


def fixed_counts(plan: Plan, groups: Mapping[str, str] | None = None) -> tuple[FixedCount, ...]:
    """The pools whose number of nodes nobody but the stack decides.

    Args:
        plan: the whole plan.
        groups: of pools with ``replace`` on Magnum what their groups are called.

    Raises:
        ValueError: for a Magnum section without driver.
    """
    return tuple(
        _fixed_count(plan, pool_plan, (groups or {}).get(pool_plan.name, ""))
        for pool_plan in plan.pools
        if not pool_plan.pool.autoscaled and pool_plan.pool.min_nodes > 0
    )


def _fixed_count(plan: Plan, pool_plan: PoolPlan, group: str) -> FixedCount:
    labels = pool_selector(plan.settings.cluster, pool_plan, group)
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    cluster = plan.settings.cluster
    look = platform_of(cluster).missing_nodes(cluster, pool_plan, group, selector)
    remedy = f"{look} Then run `pulumi up` again, or write the lower number as `count`."
    return FixedCount(pool_plan.name, f"{pool_plan.pool.path}.count", pool_plan.pool.min_nodes, selector, remedy)


def shortfalls(counts: Sequence[FixedCount], nodes: Mapping[str, Sequence[str]]) -> tuple[Shortfall, ...]:
    """The pools that have fewer nodes than they declare.

    Args:
        counts: what is declared.
        nodes: the names of each pool's nodes.
    """
    found = [Shortfall(one, tuple(nodes.get(one.pool, ()))) for one in counts]
    return tuple(one for one in found if len(one.present) < one.declared.count)


def told(missing: Sequence[Shortfall]) -> str:
    """What ends the deploy.

    Args:
        missing: one or more pools.
    """
    one = len(missing) == 1
    pools = "1 pool has" if one else f"{len(missing)} pools have"
    first = f"{pools} fewer nodes than declared; everything else is deployed."
    return "\n".join([first, *(f"- {shortfall}" for shortfall in missing)])
