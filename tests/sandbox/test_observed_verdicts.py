"""What the sandbox says of nodes, as far as the verifier's verdict counts."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.proof.verifier_rights import CONDITION
from sandbox.cli.observe import notes, observe
from tests.unit.stacks import aks, plan_of

VERIFYING: dict[str, Any] = {"verification": {}}


def differences(*conditions: dict[str, str], verifiers_run: bool = True, **sections: Any) -> tuple[str, ...]:
    """Of a node that is otherwise as declared."""
    plan = plan_of(aks(**sections))
    (pool_plan,) = plan.pools
    labels = {"kubernetes.azure.com/agentpool": pool_plan.name, **pool_plan.labels, **pool_plan.gfd_labels}
    allocatable = {name: str(count) for name, count in pool_plan.advertises.items()}
    node = {"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable, "conditions": list(conditions)}}
    ((seen,),) = (pool.nodes for pool in observe(plan, [node], verifiers_run=verifiers_run))
    return seen.differences


def verdict(status: str, reason: str = "Differs") -> dict[str, str]:
    return {"type": CONDITION, "status": status, "reason": reason}


def test_a_node_that_its_verifier_holds_for_right_is_right() -> None:
    assert differences(verdict("True", "AsDeclared"), **VERIFYING) == ()


@pytest.mark.parametrize(("status", "reason"), [("False", "Differs"), ("Unknown", "CannotTell")])
def test_what_the_verifier_does_not_confirm_is_a_difference(status: str, reason: str) -> None:
    assert differences(verdict(status, reason), **VERIFYING) == (f"{CONDITION} is {status}: {reason}",)


def test_a_cause_stands_before_what_follows_from_it() -> None:
    """The table has room for three differences; a count that is wrong stands in a column of its own."""
    plan = plan_of(aks(**VERIFYING))
    (pool_plan,) = plan.pools
    node = {
        "metadata": {"name": "n", "labels": {"kubernetes.azure.com/agentpool": pool_plan.name, "nvidia.com/mig.config": "x",
                                             "nvidia.com/mig.config.state": "failed"}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [verdict("False"), {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]},
    }  # fmt: skip
    ((seen,),) = (pool.nodes for pool in observe(plan, [node], verifiers_run=True, said={"n": "mig-mode-off: no reset yet"}))
    assert seen.differences[:3] == ("not ready: KubeletNotReady", "mig.config.state=failed", "mig-mode-off: no reset yet")
    assert "instead of" in seen.differences[-1]


def test_a_report_that_proves_nothing_is_a_difference_whatever_the_condition_says() -> None:
    plan = plan_of(aks(**VERIFYING))
    (pool_plan,) = plan.pools
    labels = {"kubernetes.azure.com/agentpool": pool_plan.name, **pool_plan.labels, **pool_plan.gfd_labels}
    allocatable = {name: str(count) for name, count in pool_plan.advertises.items()}
    status = {"allocatable": allocatable, "conditions": [verdict("True", "AsDeclared")]}
    node = {"metadata": {"name": "n", "labels": labels}, "status": status}
    said = {"n": "stale: its last report is 20 min old; they come every 5 min"}
    ((seen,),) = (pool.nodes for pool in observe(plan, [node], verifiers_run=True, said=said))
    assert seen.differences == (said["n"],)


def test_a_pool_that_somebody_else_made_larger_is_named() -> None:
    plan = plan_of(aks())
    (pool_plan,) = plan.pools
    nodes = [
        {"metadata": {"name": f"n{number}", "labels": {"kubernetes.azure.com/agentpool": pool_plan.name}}} for number in range(9)
    ]
    (told,) = notes(observe(plan, nodes, verifiers_run=False))
    assert f"pool {pool_plan.name} has 9 nodes; the stack file declares {pool_plan.pool.max_nodes}" in told


def test_other_conditions_are_none_of_it() -> None:
    disk = {"type": "DiskPressure", "status": "False", "reason": "x"}
    assert differences(disk, verdict("True", "AsDeclared"), **VERIFYING) == ()


def test_a_node_of_which_no_verifier_has_said_anything_is_not_right_yet() -> None:
    assert differences(**VERIFYING) == ("not verified yet",)


def test_where_no_verifier_runs_none_is_waited_for() -> None:
    assert differences(verifiers_run=False, **VERIFYING) == ()


def test_a_verdict_of_the_past_counts_no_more_than_none() -> None:
    assert differences(verdict("False")) == ()
