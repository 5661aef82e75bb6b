"""What the operator is told of a declared `driverUpgrade`, and what is refused of one."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.plan.change_ids import cluster_use
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.charts import VERSIONS, unknown_values
from gpu_pools.text.errors import InvalidStackError


def plan(upgrade: Any = None, rollouts: tuple[int, ...] = (), **operator: Any) -> Any:
    pools: list[dict[str, Any]] = [
        {"name": name, "gpuModel": "a100-80gb", "gpusPerNode": 1, "sharing": "whole", "nodeSelector": {"pool": name}}
        for name in ("a", "b")
    ]
    for pool, most in zip(pools, rollouts, strict=False):
        pool["rollout"] = {"maxUnavailable": most}
    section = operator if upgrade is None else {"driverUpgrade": upgrade, **operator}
    return plan_config(
        {
            "gpu-pools:cluster": {"platform": "existing"},
            "gpu-pools:operator": section,
            "gpu-pools:sharing": {"whole": {"exclusive": {}}},
            "gpu-pools:verification": {},
            "gpu-pools:pools": pools,
        }
    )


def policy(planned: Any) -> Any:
    return planned.operator_values["driver"].get("upgradePolicy")


def warned(planned: Any) -> list[str]:
    return [one for pool in planned.pools for one in pool.warnings if "driverUpgrade" in one]


def test_nothing_is_said_where_nothing_is_declared() -> None:
    assert policy(plan()) is None
    assert cluster_use(plan()) == cluster_use(plan(rollouts=(1,))), "an id that stands in a stack file holds on"


@pytest.mark.parametrize("version", VERSIONS["gpu-operator"])
def test_pods_without_a_controller_and_with_an_empty_dir_strand_nothing(version: str) -> None:
    stack_plan = plan({}, version=version)
    assert policy(stack_plan) == {
        "autoUpgrade": True,
        "maxParallelUpgrades": 1,
        "maxUnavailable": 1,
        "gpuPodDeletion": {"force": True, "deleteEmptyDir": True, "timeoutSeconds": 600},
    }
    # Helm would ignore in silence what the chart does not know.
    assert list(unknown_values({"driver": {"upgradePolicy": policy(stack_plan)}}, "gpu-operator", version)) == []
    assert warned(stack_plan) == []


@pytest.mark.parametrize(
    ("upgrade", "seconds"),
    [({"drainTimeoutSeconds": 60}, 60), ({"podsThatStay": "wait"}, 0), ({"podsThatStay": "wait", "drainTimeoutSeconds": 60}, 0)],
    ids=str,
)
def test_how_long_pods_may_stay(upgrade: dict[str, Any], seconds: int) -> None:
    assert policy(plan(upgrade))["gpuPodDeletion"]["timeoutSeconds"] == seconds


@pytest.mark.parametrize(("declared", "rollouts", "most"), [(4, (), 4), (4, (2, 3), 2), (2, (4,), 2), (2, (2,), 2)], ids=str)
def test_the_smallest_budget_of_a_pool_bounds_the_cluster(declared: int, rollouts: tuple[int, ...], most: int) -> None:
    stack_plan = plan({"maxUnavailable": declared}, rollouts)
    assert (policy(stack_plan)["maxParallelUpgrades"], policy(stack_plan)["maxUnavailable"]) == (most, most)
    assert len(warned(stack_plan)) == (1 if most < declared else 0)
    assert all("on 2 at a time, not on 4" in one and "pool a allows no more" in one for one in warned(stack_plan))


@pytest.mark.parametrize(
    ("written", "rollouts", "said"),
    [
        ({"maxParallelUpgrades": 4}, (2, 3), "on 4 nodes at a time, and pool a allows 2"),
        ({"maxParallelUpgrades": 0}, (2,), "on any number of nodes at a time"),
        ({"maxParallelUpgrades": 4, "maxUnavailable": 2}, (2,), ""),
        ({"maxParallelUpgrades": 2}, (2,), ""),
        ({"maxParallelUpgrades": 4}, (), ""),
        ({"maxParallelUpgrades": 4, "autoUpgrade": False}, (2,), ""),
        ({}, (1,), ""),
    ],
    ids=str,
)
def test_a_policy_among_the_values_is_held_against_the_budgets_as_well(
    written: dict[str, Any], rollouts: tuple[int, ...], said: str
) -> None:
    stack_plan = plan(None, rollouts, values={"driver": {"upgradePolicy": written}})
    found = [one for pool in stack_plan.pools for one in pool.warnings if "values.driver.upgradePolicy" in one]
    assert [said in one for one in found] == ([True] if said else [])


def test_a_policy_among_the_values_has_no_effect_without_a_driver_of_the_operator_s() -> None:
    stack_plan = plan(None, driver="preinstalled", values={"driver": {"upgradePolicy": {"autoUpgrade": True}}})
    assert [one for pool in stack_plan.pools for one in pool.warnings if "upgradePolicy has no effect" in one]


def test_without_a_driver_of_the_operator_s_it_has_no_effect_and_says_so() -> None:
    stack_plan = plan({}, driver="preinstalled")
    assert policy(stack_plan) is None
    (one,) = warned(stack_plan)
    assert "the operator installs no driver here" in one


@pytest.mark.parametrize(
    ("section", "path", "says"),
    [
        ({"driverUpgrade": {"podsThatStay": "delete"}}, "driverUpgrade.podsThatStay", "a disruption budget keeps"),
        ({"driverUpgrade": {"maxUnavailable": "25%"}}, "driverUpgrade.maxUnavailable", "digits alone"),
        ({"driverUpgrade": {"maxUnavailable": 0}}, "driverUpgrade.maxUnavailable", ""),
        ({"driverUpgrade": {"drainTimeoutSeconds": 0}}, "driverUpgrade.drainTimeoutSeconds", ""),
        ({"driverUpgrade": {"timeout": 1}}, "driverUpgrade.timeout", ""),
        ({"driverUpgrade": {}, "install": False}, "driverUpgrade", "its owner sets it"),
        (
            {"driverUpgrade": {}, "values": {"driver": {"upgradePolicy": {"autoUpgrade": False}}}},
            "values.driver.upgradePolicy",
            "leave driverUpgrade out",
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_refused(section: dict[str, Any], path: str, says: str) -> None:
    with pytest.raises(InvalidStackError) as refused:
        plan(**section)
    found = {one.path: one.remedy for one in refused.value.problems}
    assert says in found[f"gpu-pools:operator.{path}"]
