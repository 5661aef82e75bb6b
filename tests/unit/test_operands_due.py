"""Which nodes still get other pods of the operator: as their labels say, as these pods say, and by the driver's DaemonSets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_pools.plan.drivers import driver_pods_digest
from gpu_pools.plan.operands_due import (
    Due,
    Wanted,
    followed,
    is_of_the_driver,
    older,
    operand_chart,
    operands_due,
    others,
    wanted,
)
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


# --- drivers whose version stays ----------------------------------------------------------------------------------


def written(time: str, status: str = "2026-11-27T09:00:00Z") -> dict[str, Any]:
    """Metadata of an object that somebody changed at a time, and whose status another one has changed since."""
    return {"managedFields": [{"manager": "a", "time": time}, {"manager": "b", "subresource": "status", "time": status}]}


def daemon_set(time: str = "2026-11-27T08:00:05Z", generation: int = 2, seen: int | None = 2) -> dict[str, Any]:
    status = {} if seen is None else {"observedGeneration": seen}
    return {"metadata": {"uid": "u", "generation": generation, **written(time)}, "status": status}


POLICY = {"metadata": written("2026-11-27T08:00:04Z")}


@pytest.mark.parametrize(
    ("daemon_sets", "has"),
    [
        ([daemon_set()], True),
        ([daemon_set("2026-11-27T08:00:04Z")], True),
        ([daemon_set("2026-11-27T08:00:03Z")], False),
        ([daemon_set(seen=1)], False),
        ([daemon_set(generation=1, seen=None)], False),
        # One per kernel: all of them.
        ([daemon_set(), daemon_set("2026-11-26T08:00:05Z")], False),
        ([daemon_set(), daemon_set(seen=1)], False),
        ([], False),
    ],
    ids=str,
)
def test_the_operator_has_followed_once_it_and_the_controller_came_after_the_policy(
    daemon_sets: list[dict[str, Any]],
    has: bool,  # noqa: FBT001
) -> None:
    assert followed([POLICY], daemon_sets) is has


def test_what_counts_is_the_last_change_of_several_writers_and_policies() -> None:
    """An entry without a time tells nothing; which of several policies the operator follows is not asked."""
    twice = daemon_set("2026-11-26T08:00:00Z")
    twice["metadata"]["managedFields"] += [{"manager": "c", "time": "2026-11-27T08:00:05Z"}, {"manager": "d"}]
    assert followed([POLICY], [twice])
    assert followed([{"metadata": {"managedFields": [{"manager": "d"}]}}], [twice])
    assert not followed([{"metadata": written("2026-11-26T08:00:00Z")}, {"metadata": written("2026-11-27T08:00:06Z")}], [twice])


def test_without_a_policy_there_is_nothing_to_follow() -> None:
    assert followed([], [daemon_set()])
    assert followed([{"metadata": {}}], [daemon_set()])


def revision(number: int, digest: str, uid: str = "u") -> dict[str, Any]:
    labels = {"controller-revision-hash": digest}
    return {"metadata": {"labels": labels, "ownerReferences": [{"kind": "DaemonSet", "uid": uid}]}, "revision": number}


def driver_pod(digest: str, component: str = "nvidia-driver") -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": component, "controller-revision-hash": digest}
    return {"metadata": {"name": "p", "labels": labels}, "spec": {"nodeName": "n"}}


def test_the_newest_revision_is_the_one_with_the_highest_number() -> None:
    """Ten is higher than nine, and an old template that comes back gets a new number."""
    selector = older([daemon_set()], [revision(10, "c"), revision(9, "a"), revision(8, "b"), revision(99, "z", uid="another")])
    assert selector
    assert [is_chosen(driver_pod(digest), selector) for digest in "abc"] == [True, True, False]
    assert not is_chosen(driver_pod("a", "nvidia-vgpu-manager"), selector)


def test_with_precompiled_drivers_each_kernel_has_a_newest_one() -> None:
    second = daemon_set()
    second["metadata"]["uid"] = "v"
    selector = older([daemon_set(), second], [revision(1, "a"), revision(2, "b"), revision(1, "c", uid="v")])
    assert selector
    assert [is_chosen(driver_pod(digest), selector) for digest in "abc"] == [True, False, False]
    assert selector == older([second, daemon_set()], [revision(2, "b"), revision(1, "c", uid="v")])


def test_without_a_revision_nothing_is_told() -> None:
    assert older([daemon_set()], []) is None
    assert older([], [revision(1, "a")]) is None
    assert older([daemon_set()], [{"metadata": {}, "revision": 1}]) is None


def test_the_driver_s_pods_are_known_by_their_component() -> None:
    assert is_of_the_driver(driver_pod("a"))
    assert not is_of_the_driver(driver_pod("a", "nvidia-vgpu-manager"))
    assert not is_of_the_driver({"metadata": {}})


def digest(*, taint: str = "", **operator: Any) -> str | None:
    pool: dict[str, Any] = {
        "name": "a",
        "gpuModel": "a100-80gb",
        "gpusPerNode": 1,
        "sharing": "whole",
        "nodeSelector": {"p": "a"},
    }
    config = {
        "cluster": {"platform": "existing"},
        "operator": operator,
        "sharing": {"whole": {"exclusive": {}}},
        "pools": [{**pool, **({"taints": [taint]} if taint else {})}],
    }
    return driver_pods_digest(plan_config({f"gpu-pools:{key}": value for key, value in config.items()}))


def of_driver(**values: Any) -> dict[str, Any]:
    return {"values": {"driver": values}}


@pytest.mark.parametrize(
    "operator",
    [
        of_driver(version="580.126.20"),
        of_driver(env=[{"name": "A", "value": "1"}]),
        of_driver(kernelModuleType="open"),
        {"values": {"gdrcopy": {"enabled": True}}},
        {"version": "v26.3.3"},
    ],
    ids=str,
)
def test_it_is_another_digest_where_the_driver_s_pods_are_others(operator: dict[str, Any]) -> None:
    assert digest()
    assert digest(**operator) not in (None, digest())


def test_a_taint_is_part_of_it_where_operands_do_not_tolerate_it_yet() -> None:
    assert digest(taint="a=b:NoExecute") not in (None, digest())
    assert digest(taint="a=b:NoSchedule") == digest()


@pytest.mark.parametrize(
    "operator",
    [{"values": {"devicePlugin": {"env": [{"name": "A", "value": "1"}]}}}, {"driverUpgrade": {"maxUnavailable": 1}}],
    ids=str,
)
def test_and_the_same_where_they_are_not(operator: dict[str, Any]) -> None:
    assert digest(**operator) == digest()


@pytest.mark.parametrize(
    "operator",
    [
        {"driver": "preinstalled"},
        {"install": False},
        of_driver(upgradePolicy={"autoUpgrade": False}),
        of_driver(nvidiaDriverCRD={"enabled": True}),
    ],
    ids=str,
)
def test_there_is_none_where_a_deploy_replaces_no_driver(operator: dict[str, Any]) -> None:
    assert digest(**operator) is None
