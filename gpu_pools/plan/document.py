"""The document of ``plan --json``: for machines, and the stack output `plan`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.text.errors import Problem


def plan_json(plan: Plan) -> dict[str, Any]:
    """Of a stack that was planned."""
    return {"pools": [pool_json(pool) for pool in plan.pools], "errors": []}


def problems_json(problems: Iterable[Problem]) -> dict[str, Any]:
    """The document of ``plan --json`` for a stack that cannot be planned."""
    return {"pools": [], "errors": [asdict(problem) for problem in problems]}


def pool_json(pool: PoolPlan) -> dict[str, Any]:
    """Of one pool."""
    return {
        "name": pool.name,
        "platform": pool.platform,
        "gpuModel": pool.hardware.model.key,
        "gpusPerNode": pool.hardware.gpus,
        "nodes": {"min": pool.pool.min_nodes, "max": pool.pool.max_nodes},
        "sharing": {"name": pool.pool.sharing, **_sharing_json(pool.sharing)},
        "configKey": pool.config_key,
        "migConfigKey": pool.mig_config_key,
        "labels": dict(pool.labels),
        "taints": [str(taint) for taint in pool.taints],
        "startupTaint": pool.startup_taint and str(pool.startup_taint),
        "driver": pool.driver,
        "partitionedBy": pool.mig_owner if pool.sharing.partitioned else None,
        "advertises": dict(pool.advertises),
        "pods": [request.as_json() for request in pool.pod_requests],
        "expectedLabels": dict(pool.gfd_labels),
        "nvml": pool.nvml.as_json(),
        "otherMigStrategy": _other_strategy_json(pool),
        "warnings": list(pool.warnings),
    }


def _other_strategy_json(pool: PoolPlan) -> dict[str, Any] | None:
    if pool.other_strategy is None:
        return None
    strategy, renames = pool.other_strategy
    return {"strategy": strategy, "renames": dict(renames)}


def _sharing_json(sharing: Sharing) -> dict[str, Any]:
    needs = {"needs": sharing.needs.as_json()} if sharing.needs else {}
    return {"strategy": sharing.strategy, **sharing.settings(), **needs}
