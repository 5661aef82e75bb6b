"""What is needed to read the reports of a stack's verifiers: the stack output `verification`, and nothing secret in it.

It says where reports are, of which nodes, and what counts: a report about another expectation, by another program, or older than
two intervals, proves nothing about this deploy. Plain data; evidence/ reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_pools.plan.placing import pool_selector
from gpu_pools.proof.verifier_pods import EXPECTATION_FILE, PROGRAM_FILE, expectation_file, verifier_selector
from gpu_pools.proof.verifier_rights import ANNOTATION, CONDITION, VERIFIER_NAMESPACE
from gpu_pools.stack.imported import ADOPTION, IMPORTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.proof.verifier_pods import Program


def no_reports(*, imported: bool = False) -> dict[str, Any]:
    """The output of a stack whose nodes are not verified.

    Args:
        imported: whether it only holds its pools as they were imported, whatever its file says of verification.
    """
    if imported:
        why = f"{ADOPTION} is {IMPORTED}: no verifier runs yet, and nothing is proven"
        remedy = f"Take {ADOPTION} out of the stack file, add gpu-pools:verification where it has none, and deploy it."
    else:
        why = "the stack declares no gpu-pools:verification: no verifier runs, and nothing is proven"
        remedy = "Add the section gpu-pools:verification to the stack file, and deploy it."
    return {"enabled": False, "why": why, "remedy": remedy}


def reports(plan: Plan, program: Program, pool: str | None = None, groups: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The output.

    Args:
        plan: the whole plan.
        program: the verifier as it is deployed.
        pool: the only pool to tell of; None for all.
        groups: of pools with ``replace`` on Magnum what their groups are called.

    Raises:
        ValueError: for a Magnum section without driver.
    """
    cluster = plan.settings.cluster
    return {
        "enabled": True,
        "condition": CONDITION,
        "annotation": ANNOTATION,
        "namespace": VERIFIER_NAMESPACE,
        "expectationKey": EXPECTATION_FILE,
        # The kubeconfig of a cluster that exists may have more than one.
        "context": cluster.context,
        "program": {
            "configMap": program.config_map,
            "key": PROGRAM_FILE,
            "sha256": program.sha256,
            "digest": program.digest,
        },
        "intervalSeconds": plan.settings.verification.interval_seconds,
        "pools": {
            pool_plan.name: _pool(plan, pool_plan, (groups or {}).get(pool_plan.name, ""))
            for pool_plan in plan.pools
            if pool in {None, pool_plan.name}
        },
    }


def _pool(plan: Plan, pool_plan: PoolPlan, group: str) -> dict[str, Any]:
    file = expectation_file(plan, pool_plan)
    return {
        "declared": pool_plan.sharing.text(),
        "minNodes": pool_plan.pool.min_nodes,
        "nodeSelector": pool_selector(plan.settings.cluster, pool_plan, group),
        "podSelector": verifier_selector(pool_plan),
        "expectation": file.name,
        "sha256": file.sha256,
    }
