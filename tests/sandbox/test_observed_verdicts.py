"""What the sandbox says of nodes, as far as the verifier's verdict counts."""

from __future__ import annotations

from typing import Any

import pytest

from gpus.verifier_rights import CONDITION
from sandbox.observe import observe
from tests.unit.stacks import aks, plan_of

VERIFYING: dict[str, Any] = {"verification": {}}


def differences(*conditions: dict[str, str], verifiers_run: bool = True, **sections: Any) -> tuple[str, ...]:
    """Of a node that is otherwise as declared."""
    plan = plan_of(aks(**sections))
    (planned,) = plan.pools
    labels = {"kubernetes.azure.com/agentpool": planned.name, **planned.labels, **planned.gfd_labels}
    allocatable = {name: str(count) for name, count in planned.advertises.items()}
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


def test_other_conditions_are_none_of_it() -> None:
    disk = {"type": "DiskPressure", "status": "False", "reason": "x"}
    assert differences(disk, verdict("True", "AsDeclared"), **VERIFYING) == ()


def test_a_node_of_which_no_verifier_has_said_anything_is_not_right_yet() -> None:
    assert differences(**VERIFYING) == ("not verified yet",)


def test_where_no_verifier_runs_none_is_waited_for() -> None:
    assert differences(verifiers_run=False, **VERIFYING) == ()


def test_a_verdict_of_the_past_counts_no_more_than_none() -> None:
    assert differences(verdict("False")) == ()
