"""The ids of changes: what a pool or cluster is planned to become, in eight digits that nobody can take for another plan's.

gpu_pools/stack/acknowledged.py says which kinds there are, and what somebody who writes one into a stack file wants.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.known import PLATFORMS, platform_of
from gpu_pools.stack.acknowledged import BECOMES, CLUSTER, GOES, USED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.stack.cluster import Cluster

#: Settings of a cluster by which its nodes run another Kubernetes.
_VERSIONS: Final = ("kubernetes_version", "template", "template_id")


def pool_change(pool_plan: PoolPlan, cluster: Cluster) -> str:
    """The id of a pool as it is planned."""
    return _id(BECOMES, "pool", _pool(pool_plan, cluster))


def pool_goes(pool_plan: PoolPlan) -> str:
    """The id of the going of a pool that is deployed as it is planned."""
    return _id(GOES, "pool", pool_plan.change)


def pool_use(pool_plan: PoolPlan) -> str:
    """The id of a pool's being shared as it is planned, by as many nodes."""
    declared = dataclasses.asdict(pool_plan.sharing)
    declared.pop("needs")
    return _id(USED, "pool", [pool_plan.name, declared, pool_plan.pool.min_nodes, pool_plan.pool.max_nodes])


def cluster_use(plan: Plan) -> str:
    """The id of a cluster's running what is planned: Kubernetes, operator, driver."""
    cluster, operator = plan.settings.cluster, plan.settings.operator
    versions = {key: value for key, value in platform_of(cluster).declared(cluster).items() if key in _VERSIONS}
    used = [versions, operator.chart.version, plan.operator_values["driver"]]
    # As ids were before pools had options for which their nodes are replaced.
    rolling = {pool.name: found for pool in plan.pools if (found := rolling_options(pool))}
    return _id(USED, CLUSTER, [*used, rolling] if rolling else used)


def rolling_options(pool_plan: PoolPlan) -> Mapping[str, Any]:
    """What of a pool is changed by replacing its nodes, as far as it is written."""
    return PLATFORMS[pool_plan.platform].rolling_options(pool_plan)


def cluster_change(cluster: Cluster, pools: Iterable[PoolPlan]) -> str:
    """The id of a cluster and the pools in it as they are planned."""
    own = platform_of(cluster).declared_identity(cluster)
    return _id(BECOMES, CLUSTER, [own, [_pool(pool_plan, cluster) for pool_plan in pools]])


def _pool(pool_plan: PoolPlan, cluster: Cluster) -> Mapping[str, Any]:
    """Whatever of it may force a replacement."""
    return {"name": pool_plan.name, **platform_of(cluster).pool_identity(cluster, pool_plan)}


def _id(change: str, kind: str, declared: object) -> str:
    return f"{change}{hashlib.sha256(json.dumps([kind, declared], sort_keys=True).encode()).hexdigest()[:8]}"
