"""What a node must show, in the cases that the whole documents of test_proof_objects.py do not have."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.proof.node_expectation import node_expectation
from tests.unit.stacks import A100, T4, aks, existing, plan_of

MIG = {"cut": {"mig": {"layout": {"1g.10gb": 7}}}}


def expected(stack: str) -> dict[str, Any]:
    plan = plan_of(stack)
    return node_expectation(plan, plan.pools[0])


def cut(key: str, **layout: int) -> str:
    return existing({"gpuModel": key}, sharing={"cut": {"mig": {"layout": layout}}})


@pytest.mark.parametrize(("name", "other"), [("1g.24gb", "1g.23gb"), ("1g.23gb", "1g.24gb")])
def test_a_profile_is_known_by_each_of_its_names(name: str, other: str) -> None:
    profile = expected(cut("gb200-186gb", **{name: 2}))["profiles"][name]
    assert profile == {"id": 19, "otherNames": [other], "starts": [0, 1, 2, 3, 4, 5, 6], "size": 1}


def test_of_a_profile_that_no_source_knows_nothing_is_compared() -> None:
    document = expected(cut("rtx-pro-5000-blackwell", **{"4g.48gb": 1}))
    assert document["profiles"] == {"4g.48gb": {"id": None, "otherNames": [], "starts": [], "size": 0}}
    assert document["minimum"]["driver"] is None


def test_profiles_are_told_in_the_order_of_their_letters() -> None:
    layout = {"3g.40gb": 1, "1g.10gb": 1, "2g.20gb": 1, "1g.10gb+me": 1}
    assert list(expected(cut("a100-80gb", **layout))["profiles"]) == sorted(layout)


def test_without_mig_the_minimum_is_what_is_declared() -> None:
    assert expected(aks({"minimum": {"driver": "470.1"}}))["minimum"] == {"driver": "470.1", "cuda": None}


def test_where_the_cloud_partitions_a_pool_no_mig_manager_is_waited_for() -> None:
    """It is off in the whole cluster then, also on GPUs that it would have left whole."""
    cut = {"name": "cut", "vmSize": A100, "count": 1, "sharing": "cut", "partitionedBy": "aks", "driver": "preinstalled"}
    plain = {"name": "plain", "vmSize": A100, "count": 1, "sharing": "whole", "driver": "preinstalled"}
    plan = plan_of(aks(sharing=MIG, pools=[cut, plain]))
    for pool in plan.pools:
        node = node_expectation(plan, pool)["node"]
        assert (node["migManager"], "nvidia-mig-manager" in node["operands"]) == (False, False)


def test_gpus_without_mig_have_no_mig_manager() -> None:
    node = expected(aks({"vmSize": T4}))["node"]
    assert (node["migManager"], "nvidia-mig-manager" in node["operands"]) == (False, False)


def test_nobody_puts_taints_on_nodes_that_exist() -> None:
    taints = {"taints": ["sku=gpu:NoSchedule"]}
    assert expected(existing(taints))["node"]["taints"] == []
    assert expected(aks(taints))["node"]["taints"] == ["sku=gpu:NoSchedule"]


@pytest.mark.parametrize(("enabled", "wanted"), [(True, None), (False, "580.105.08")])
def test_a_driver_that_its_own_resource_describes_is_not_the_chart_s(enabled: bool, wanted: str | None) -> None:  # noqa: FBT001
    values = {"driver": {"version": "580.105.08", "nvidiaDriverCRD": {"enabled": enabled}}}
    assert expected(aks(operator={"values": values}))["driver"] == wanted


@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        ({}, "595.91.07"),
        ({"version": "v25.3.4"}, "580.82.07"),
        ({"values": {"driver": {"version": "580"}}}, "580"),
        ({"values": {"driver": {"version": "sha256:" + "0" * 64}}}, None),
        ({"driver": "preinstalled"}, None),
        ({"values": {"driver": {"upgradePolicy": {"autoUpgrade": False}}}}, None),
        ({"values": {"driver": {"version": "580.105.08", "upgradePolicy": {"autoUpgrade": False}}}}, "580.105.08"),
    ],
    ids=str,
)
def test_the_driver_that_the_chart_brings_is_demanded_as_one_that_is_written(
    operator: dict[str, Any], wanted: str | None
) -> None:
    assert expected(aks(operator=operator))["driver"] == wanted


def test_of_an_operator_of_another_owner_no_driver_is_demanded() -> None:
    assert expected(existing({}, operator={"install": False}))["driver"] is None
