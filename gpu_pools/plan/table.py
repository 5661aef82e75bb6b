"""The plan of a stack for people: a table of pools, what concerns the cluster, warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_pools.plan.driver_pods import demanded
from gpu_pools.text import harmless
from gpu_pools.text.incidents import explained
from gpu_pools.text.table import resources_text, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.plan.planned import Plan, PoolPlan


def plan_table(plan: Plan) -> str:
    """The plan of a stack: a table of pools, then what concerns the cluster, then warnings."""
    header = ("POOL", "NODES", "GPUS", "SHARING", "EACH NODE ADVERTISES", "CONFIG", "TAINTS")
    rows = [_row(planned) for planned in plan.pools]
    strategy = plan.cluster_mig_strategy or f"{plan.mig_strategy} on MIG nodes, single on all others"
    lines = [
        table(header, rows),
        "",
        f"platform {plan.platform}; driver and toolkit: {plan.driver}{_driver(plan)}; MIG strategy: {strategy}{_renames(plan)}",
    ]
    lines += ["", table(("POOL", "A POD ASKS FOR", "AT MOST", "QUOTA COUNTS"), list(_pod_rows(plan)))]
    warnings = [f"warning: {planned.name}: {warning}" for planned in plan.pools for warning in planned.warnings]
    lines += ["", *map(harmless.line, warnings), "", *explained(warnings)]
    return "\n".join(lines).rstrip()


def _driver(plan: Plan) -> str:
    """The version that the verifiers demand of each node."""
    version = demanded(plan)
    return f" ({version})" if version else ""


def _row(planned: PoolPlan) -> tuple[str, ...]:
    low, high = planned.pool.min_nodes, planned.pool.max_nodes
    nodes = str(low) if low == high else f"{low}-{'' if high is None else high}"
    config = planned.config_key
    if planned.mig_config_key:
        config += f" + {planned.mig_config_key}"
    return (
        planned.name,
        nodes,
        f"{planned.hardware.gpus}x {planned.hardware.model.key}",
        planned.sharing.text() + _mps_share(planned),
        resources_text(planned.advertises),
        config,
        ", ".join(map(str, planned.taints)) or "-",
    )


def _pod_rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    for planned in plan.pools:
        for request in planned.pod_requests:
            yield planned.name, request.resource, str(request.most), request.quota


def _mps_share(planned: PoolPlan) -> str:
    """What each MPS replica gets, e.g. ``: 8192 MiB, 10%, 10 SMs each``; what is unknown is left out."""
    mps = planned.nvml.mps
    if mps is None:
        return ""
    memory = f"{mps.pinned_memory_mib} MiB, " if mps.pinned_memory_mib is not None else ""
    processors = f", {mps.multiprocessors} SMs" if mps.multiprocessors is not None else ""
    return f": {memory}{mps.active_thread_percentage}%{processors} each"


def _renames(plan: Plan) -> str:
    """Whose resource names a change of the MIG strategy would change."""
    changed = [(planned.name, *planned.other_strategy) for planned in plan.pools if planned.other_strategy]
    if not changed:
        return ""
    listed = ", ".join(
        f"{pool}: {now.removeprefix('nvidia.com/')} -> {then.removeprefix('nvidia.com/')}"
        for pool, _, renames in changed
        for now, then in renames.items()
    )
    return f"; {changed[0][1]} would rename {listed}"
