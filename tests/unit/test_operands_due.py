"""Which nodes still get another driver, as their labels say, or other pods of the operator, as these say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_pools.plan.driver_pods import driver_pods_digest
from gpu_pools.plan.operands_due import Due, Wanted, operand_chart, operands_due, others, wanted
from gpu_pools.plan.operator_upgrade import HAS, STATE
from gpu_pools.plan.planning import plan_config
from tests.selectors import is_chosen

WANTED = "595.91.07"
CHART = Wanted(chart="gpu-operator-v26.7.0")


def node(name: str, has: str | None = WANTED, state: str = "", pool: str = "a", **labels: str) -> dict[str, Any]:
    own = {"gpu-pools/pool": pool, HAS: has, STATE: state, **{f"nvidia.com/{key}": value for key, value in labels.items()}}
    return {"metadata": {"name": name, "labels": {key: value for key, value in own.items() if value}}}


@pytest.mark.parametrize(
    ("one", "due"),
    [
        (node("n"), False),
        (node("n", state="upgrade-done"), False),
        (node("n", "580.105.08"), True),
        (node("n", "580.105.08", "upgrade-done"), True),
        (node("n", state="uncordon-required"), True),
        (node("n", None, "pod-restart-required"), True),
        (node("n", None), False),
        (node("n", "595.91"), True),
        (node("n", "580.105.08", **{"gpu.deploy.driver": "pre-installed"}), False),
        (node("n", state="upgrade-required", **{"gpu.deploy.driver": "true"}), True),
        ({"metadata": {"name": "n"}}, False),
    ],
    ids=str,
)
def test_a_node_waits_until_it_has_the_driver_and_its_upgrade_is_over(one: dict[str, Any], due: bool) -> None:  # noqa: FBT001
    assert operands_due([one], (), "a", Wanted(WANTED)) == Due(("n",) if due else (), int(due), ())


def test_a_branch_is_any_version_of_it() -> None:
    assert operands_due([node("n", "595.12")], (), "a", Wanted("595")).pool == ()
    assert operands_due([node("n", "580.12")], (), "a", Wanted("595")).pool == ("n",)


def test_nodes_of_other_pools_count_for_the_cluster_alone() -> None:
    found = operands_due(
        [node("b1", "580.1", pool="b"), node("a2", "580.1"), node("a1", "580.1"), node("a3")], (), "a", Wanted(WANTED)
    )
    assert found == Due(("a1", "a2"), 3, ())


def test_a_failed_node_is_waited_for_on_its_way_back_alone() -> None:
    assert operands_due([node("n", "580.1", "upgrade-failed")], (), "a", Wanted(WANTED)) == Due((), 0, ("n",))
    assert operands_due([node("n", WANTED, "upgrade-failed")], (), "a", Wanted(WANTED)) == Due(("n",), 1, ())


def test_failed_nodes_are_told_in_the_order_of_their_names() -> None:
    nodes = [node(name, "580.1", "upgrade-failed") for name in ("c", "a", "d", "b")]
    assert operands_due(nodes, (), "a", Wanted(WANTED)).failed == ("a", "b", "c", "d")


def test_a_failed_node_whose_driver_s_pod_is_an_old_one_is_not_waited_for() -> None:
    """Whatever version that is of: only a pod of the newest template gets a node out."""
    nodes = [node("n", WANTED, "upgrade-failed"), node("m", WANTED)]
    behind = [{"metadata": {"labels": {"app.kubernetes.io/component": "nvidia-driver"}}, "spec": {"nodeName": on}} for on in "nm"]
    assert operands_due(nodes, behind, "a", Wanted(WANTED, pods="0")) == Due(("m",), 1, ("n",))
    # Another operand of it rolls by itself.
    assert operands_due(nodes, [pod("n")], "a", CHART) == Due(("n",), 1, ())


def test_where_no_version_is_demanded_an_upgrade_is_waited_for_all_the_same() -> None:
    """An image by digest: which version it is of nobody knows."""
    nodes = [node("n", None, "pod-restart-required"), node("m", "580.1", "upgrade-done")]
    assert operands_due(nodes, (), "a", Wanted(pods="0")).pool == ("n",)
    assert operands_due(nodes, (), "a", Wanted()).pool == ()


def pod(
    on: str, chart: str | None = "gpu-operator-v26.3.3", app: str = "gpu-feature-discovery", by: str = "gpu-operator"
) -> dict[str, Any]:
    labels = {"app": app, "app.kubernetes.io/managed-by": by, "helm.sh/chart": chart}
    return {"metadata": {"labels": {key: value for key, value in labels.items() if value}}, "spec": {"nodeName": on}}


def listed(one: dict[str, Any], shall: Wanted) -> list[dict[str, Any]]:
    """What a cluster with this pod lists."""
    selector = others(shall)
    assert selector
    return [one] if is_chosen(one, selector) else []


@pytest.mark.parametrize(
    ("one", "due"),
    [
        (pod("n"), True),
        (pod("n", app="nvidia-driver-daemonset"), True),
        (pod("n", "gpu-operator-v26.7.0"), False),
        (pod("n", None), False),
        (pod("n", by="Helm"), False),
        (pod("another"), False),
        ({"metadata": {}, "spec": {}}, False),
    ],
    ids=str,
)
def test_a_node_waits_until_no_pod_on_it_is_of_another_chart(one: dict[str, Any], due: bool) -> None:  # noqa: FBT001
    assert operands_due([node("n")], listed(one, CHART), "a", CHART).pool == (("n",) if due else ())


def test_pods_that_somebody_has_to_delete_are_not_waited_for() -> None:
    by_hand = Wanted(chart=CHART.chart, by_hand=frozenset({"nvidia-driver-daemonset"}))
    assert listed(pod("n", app="nvidia-driver-daemonset"), by_hand) == []
    assert listed(pod("n"), by_hand) != []


def test_without_a_chart_or_a_driver_nothing_is_told() -> None:
    assert others(Wanted()) is None
    assert operands_due([node("n", "580.1", "cordon-required")], (), "a", Wanted()) == Due((), 0, ())


def of(**operator: Any) -> Wanted:
    config: dict[str, Any] = {
        "cluster": {"platform": "existing"},
        "operator": operator,
        "sharing": {"whole": {"exclusive": {}}},
        "pools": [{"name": "a", "gpuModel": "a100-80gb", "gpusPerNode": 1, "sharing": "whole", "nodeSelector": {"pool": "a"}}],
    }
    plan = plan_config({f"gpu-pools:{key}": value for key, value in config.items()})
    found = wanted(plan, plan.pools[0])
    assert (found.chart, found.pods) == (operand_chart(plan), driver_pods_digest(plan))
    return replace(found, pods=None)


@pytest.mark.parametrize(
    ("operator", "shall"),
    [
        ({}, Wanted(WANTED, "gpu-operator-v26.7.0")),
        ({"version": "v26.3.3", "values": {"driver": {"version": "580.1"}}}, Wanted("580.1", "gpu-operator-v26.3.3")),
        ({"driver": "preinstalled"}, Wanted(None, "gpu-operator-v26.7.0")),
        (
            {"values": {"driver": {"upgradePolicy": {"autoUpgrade": False}}}},
            Wanted(None, "gpu-operator-v26.7.0", frozenset({"nvidia-driver-daemonset"})),
        ),
        ({"values": {"daemonsets": {"updateStrategy": "OnDelete"}}}, Wanted(WANTED, None)),
        ({"values": {"daemonsets": {"labels": {"helm.sh/chart": "ours"}}}}, Wanted(WANTED, None)),
        ({"install": False}, Wanted()),
    ],
    ids=str,
)
def test_what_is_wanted_follows_from_the_plan(operator: dict[str, Any], shall: Wanted) -> None:
    assert of(**operator) == shall
