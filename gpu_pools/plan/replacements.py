"""Which pool of those that replace each other under one name: a few digits of what the cloud fixes at a pool's creation.

With ``replace`` the digits are a label of the nodes, by which old ones are told from new ones. With ``surge`` they also end the
pool's name in the cloud, and a change of any of that makes another pool, which is there together with the old one for a time. A
pool that was there before `replace` was declared keeps its name until such a change (components/replacement.py); its nodes get
the label.

What only the engine will know (Outputs), and what the cluster gives to all of its pools, does not count: a change of that
deletes the pool first, undrained. The digits must stay the same from version to version, since other ones replace every pool.

What Magnum fixes is what terraform-provider-openstack 3.4.0 replaces a node group for (`ForceNew` of its resource); of its labels
those that the pool declares, and what its kubelets register with. Whose stack the group is of does not count.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from gpu_pools.plan.placing import node_group_labels
from gpu_pools.platforms.known import platform_of
from gpu_pools.platforms.magnum.replacements import ReplacedPool, is_replacement_name
from gpu_pools.stack.kubernetes_names import REPLACEMENT_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

_DIGITS: Final = 6


def replacement_id(pool_plan: PoolPlan, cluster: Cluster) -> str:
    """The digits; empty without ``replace``.

    Args:
        pool_plan: the pool.
        cluster: of the stack.
    """
    if pool_plan.pool.replacement is None:
        return ""
    fixed = json.dumps([pool_plan.name, platform_of(cluster).fixed_at_creation(cluster, pool_plan)], sort_keys=True)
    return hashlib.sha256(fixed.encode()).hexdigest()[:_DIGITS]


def replacement_ids(plan: Plan) -> dict[str, str]:
    """Name of each pool with ``replace`` -> its digits."""
    return {pool_plan.name: pool_plan.replacement_id for pool_plan in plan.pools if pool_plan.replacement_id}


def replaced_pools(plan: Plan) -> list[ReplacedPool]:
    """The pools with ``replace`` on Magnum, as who holds them against the cloud needs them."""
    cluster = plan.settings.cluster
    return [
        ReplacedPool(one.pool, one.stem, one.replacement_id, cast("Any", one.pool.placement), node_group_labels(one, cluster))
        for one in plan.pools
        if one.replacement_id and cluster.has_node_groups
    ]


def pool_called(name: str, pools: Iterable[PoolPlan]) -> str:
    """Which of these pools the cloud calls so, whichever replacement of it; the name itself where it is none of them."""
    known = list(pools)
    if any(one.name == name for one in known):
        return name
    return next(
        (one.name for one in known if one.replacement_id and is_replacement_name(name, one.stem, one.replacement_id)), name
    )


def with_replacement_id(pool_plan: PoolPlan, cluster: Cluster) -> PoolPlan:
    """The pool with its digits, and the label that says them."""
    if not (digits := replacement_id(pool_plan, cluster)):
        return pool_plan
    labels = dict(sorted({**pool_plan.labels, REPLACEMENT_LABEL: digits}.items()))
    return replace(pool_plan, replacement_id=digits, labels=labels)


def check_replacements(settings: Settings, problems: Problems) -> None:
    """What stands against the pools with ``replace``."""
    for pool in settings.pools:
        if pool.replacement is None or settings.imported:
            continue
        where = f"{pool.path}.replace"
        if pool.adopted:
            problems.add(
                where,
                f'"{pool.replacement}", and the pool was made by hand, so that not all is written that was fixed at its creation',
                allowed="replace for pools that the stack makes",
                remedy="Add a pool of the stack's beside it, move the work there, and take this one out.",
            )
        if pool.protect:
            problems.add(
                where,
                f'"{pool.replacement}", and the pool is protected: the engine would refuse to delete the old one',
                allowed="protect or replace",
                remedy="Leave `replace` or `protect` out; without `replace` such a change is acknowledged before it is deployed.",
            )
        if pool.replacement == "surge" and not settings.verification.enabled:
            problems.add(
                where,
                '"surge" needs the verification, which proves the new pool before the old one is drained',
                allowed="a section gpu-pools:verification",
                remedy="Add `gpu-pools:verification: {}`, or write `replace: inPlace`.",
            )
