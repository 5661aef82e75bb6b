"""The plan of a stack written down: as the document of ``plan --json``, and as a table for people.

The document is also the stack output `plan`. Nothing is decided here.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpu_pools.plan.drivers import demanded
from gpu_pools.text import harmless
from gpu_pools.text.incidents import explained
from gpu_pools.text.table import resources_text, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.text.errors import Problem

# --- the document -------------------------------------------------------------------------------------------------


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
        # As it was before there were claims, where no pod gets its GPUs through one.
        **({"allocation": pool.allocation, "devices": [one.as_json() for one in pool.devices]} if pool.devices else {}),
    }


def _other_strategy_json(pool: PoolPlan) -> dict[str, Any] | None:
    if pool.other_strategy is None:
        return None
    strategy, renames = pool.other_strategy
    return {"strategy": strategy, "renames": dict(renames)}


def _sharing_json(sharing: Sharing) -> dict[str, Any]:
    needs = {"needs": sharing.needs.as_json()} if sharing.needs else {}
    return {"strategy": sharing.strategy, **sharing.settings(), **needs}


# --- the table ----------------------------------------------------------------------------------------------------


def plan_table(plan: Plan) -> str:
    """The plan of a stack: a table of pools, then what concerns the cluster, then warnings."""
    header = ("POOL", "NODES", "GPUS", "SHARING", "EACH NODE ADVERTISES", "CONFIG", "TAINTS")
    rows = [_row(pool_plan) for pool_plan in plan.pools]
    strategy = plan.cluster_mig_strategy or f"{plan.mig_strategy} on MIG nodes, single on all others"
    lines = [
        table(header, rows),
        "",
        f"platform {plan.platform}; driver and toolkit: {plan.driver}{_driver(plan)}; MIG strategy: {strategy}{_renames(plan)}",
    ]
    lines += ["", table(("POOL", "A POD ASKS FOR", "AT MOST", "QUOTA COUNTS"), list(_pod_rows(plan)))]
    warnings = [f"warning: {pool_plan.name}: {warning}" for pool_plan in plan.pools for warning in pool_plan.warnings]
    lines += ["", *map(harmless.line, warnings), "", *explained(warnings)]
    return "\n".join(lines).rstrip()


def _driver(plan: Plan) -> str:
    """The version that the verifiers demand of each node."""
    version = demanded(plan)
    return f" ({version})" if version else ""


def _row(pool_plan: PoolPlan) -> tuple[str, ...]:
    low, high = pool_plan.pool.min_nodes, pool_plan.pool.max_nodes
    nodes = str(low) if low == high else f"{low}-{'' if high is None else high}"
    config = pool_plan.config_key
    if pool_plan.mig_config_key:
        config += f" + {pool_plan.mig_config_key}"
    return (
        pool_plan.name,
        nodes,
        f"{pool_plan.hardware.gpus}x {pool_plan.hardware.model.key}",
        pool_plan.sharing.text() + _mps_share(pool_plan) + (", by claims" if pool_plan.devices else ""),
        resources_text(pool_plan.advertises),
        config,
        ", ".join(map(str, pool_plan.taints)) or "-",
    )


def _pod_rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    for pool_plan in plan.pools:
        for request in pool_plan.pod_requests:
            yield pool_plan.name, request.resource, str(request.most), request.quota


def _mps_share(pool_plan: PoolPlan) -> str:
    """What each MPS replica gets, e.g. ``: 8192 MiB, 10%, 10 SMs each``; what is unknown is left out."""
    mps = pool_plan.nvml.mps
    if mps is None:
        return ""
    memory = f"{mps.pinned_memory_mib} MiB, " if mps.pinned_memory_mib is not None else ""
    processors = f", {mps.multiprocessors} SMs" if mps.multiprocessors is not None else ""
    return f": {memory}{mps.active_thread_percentage}%{processors} each"


def _renames(plan: Plan) -> str:
    """Whose resource names a change of the MIG strategy would change."""
    changed = [(pool_plan.name, *pool_plan.other_strategy) for pool_plan in plan.pools if pool_plan.other_strategy]
    if not changed:
        return ""
    listed = ", ".join(
        f"{pool}: {now.removeprefix('nvidia.com/')} -> {then.removeprefix('nvidia.com/')}"
        for pool, _, renames in changed
        for now, then in renames.items()
    )
    return f"; {changed[0][1]} would rename {listed}"
