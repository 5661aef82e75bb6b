"""The blast radius as a JSON document, for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_pools.changes.blast import BlastRadius, Sums
    from gpu_pools.changes.pools import PoolChange
    from gpu_pools.changes.report_basis import ReportBasis
    from gpu_pools.plan.planned import PoolPlan


def document(stack: str, radius: BlastRadius, basis: ReportBasis) -> dict[str, Any]:
    """Everything, with stable names."""
    return {
        "stack": stack,
        "blocked": list(radius.blocked),
        "clusterReplaced": radius.cluster_replaced,
        "pools": [_pool(pool) for pool in radius.pools],
        "endings": [
            {
                "resource": one.resource,
                "what": one.what,
                "how": one.how,
                "change": one.id,
                "acknowledgeFirst": one.first,
                "because": [{"input": key, "before": old, "after": new} for key, old, new in one.changes],
                "acknowledged": one.acknowledged,
                "acknowledgementUsedUp": one.used,
            }
            for one in radius.endings
        ],
        "renewed": [
            {
                "what": one.what,
                "before": one.before or None,
                "after": one.after or None,
                "restarts": list(one.restarts),
                "pools": list(one.pools),
                "effect": one.effect or None,
                "happens": one.happens,
                "against": one.against or None,
            }
            for one in radius.renewed
        ],
        "acknowledgements": [
            {"resource": one.resource, "change": one.change, "liftsProtection": one.holds} for one in radius.standing
        ],
        "protected": list(radius.protected),
        "complete": radius.complete,
        "affected": [
            {"who": one.asking.who, "resource": one.asking.resource, "how": one.how, "pools": list(one.pools)}
            for one in radius.affected
        ],
        "away": [{"pool": one.pool, "gpus": [one.least, one.most], "until": one.until or None} for one in radius.dips],
        "beside": [
            {"pool": one.pool, "gpus": [one.least, one.most], "costPerHourAtMost": one.per_hour} for one in radius.extra_gpus
        ],
        "advice": [{"pool": pool, "steps": list(steps)} for pool, steps in radius.steps],
        "before": _sums(radius.before),
        "after": _sums(radius.after),
        "currency": radius.currency or None,
        "migStrategy": list(radius.mig_strategy),
        "verifiedWithinSeconds": radius.verified_within,
        "previewedAgainst": basis.against or None,
        "runningPods": {"lookedAt": not basis.no_pods, "whyNot": basis.no_pods or None},
        "policies": [
            {"rule": one.rule, "level": one.level, "resource": one.resource, "message": one.message} for one in radius.findings
        ],
    }


def _pool(pool: PoolChange) -> dict[str, Any]:
    return {
        "name": pool.name,
        "effects": list(pool.effects),
        "because": list(pool.because),
        "before": _side(pool.before),
        "after": _side(pool.after),
        "resources": [
            {
                "name": one.name,
                "change": one.word,
                "perNode": [one.before, one.after],
                "onLeastNodes": [one.total_before, one.total_after],
            }
            for one in pool.resources
        ],
        "layouts": [{"gpus": list(one.indices), **one.mig.as_json()} for one in pool.gpus],
        "drainFirst": list(pool.drain),
    }


def _side(pool_plan: PoolPlan | None) -> dict[str, Any] | None:
    if pool_plan is None:
        return None
    return {
        "nodes": {"min": pool_plan.pool.min_nodes, "max": pool_plan.pool.max_nodes},
        "gpusPerNode": pool_plan.hardware.gpus,
        "gpuModel": pool_plan.hardware.model.key,
        "source": pool_plan.hardware.source,
        "sharing": pool_plan.sharing.text(),
        "advertises": dict(pool_plan.advertises),
    }


def _sums(sums: Sums) -> dict[str, Any]:
    return {"gpusAtLeast": sums.gpus_least, "gpusAtMost": sums.gpus_most, "costPerMonthAtMost": sums.per_month}
