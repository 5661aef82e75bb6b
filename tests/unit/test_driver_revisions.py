"""Whether the operator has followed its policy, and which of the driver's pods are of an older template then."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.plan.driver_pods import driver_pods_digest
from gpu_pools.plan.driver_revisions import followed, is_of_the_driver, older
from gpu_pools.plan.planning import plan_config
from tests.selectors import is_chosen


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


def pod(digest: str, component: str = "nvidia-driver") -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": component, "controller-revision-hash": digest}
    return {"metadata": {"name": "p", "labels": labels}, "spec": {"nodeName": "n"}}


def test_the_newest_revision_is_the_one_with_the_highest_number() -> None:
    """Ten is higher than nine, and an old template that comes back gets a new number."""
    selector = older([daemon_set()], [revision(10, "c"), revision(9, "a"), revision(8, "b"), revision(99, "z", uid="another")])
    assert selector
    assert [is_chosen(pod(digest), selector) for digest in "abc"] == [True, True, False]
    assert not is_chosen(pod("a", "nvidia-vgpu-manager"), selector)


def test_with_precompiled_drivers_each_kernel_has_a_newest_one() -> None:
    second = daemon_set()
    second["metadata"]["uid"] = "v"
    selector = older([daemon_set(), second], [revision(1, "a"), revision(2, "b"), revision(1, "c", uid="v")])
    assert selector
    assert [is_chosen(pod(digest), selector) for digest in "abc"] == [True, False, False]
    assert selector == older([second, daemon_set()], [revision(2, "b"), revision(1, "c", uid="v")])


def test_without_a_revision_nothing_is_told() -> None:
    assert older([daemon_set()], []) is None
    assert older([], [revision(1, "a")]) is None
    assert older([daemon_set()], [{"metadata": {}, "revision": 1}]) is None


def test_the_driver_s_pods_are_known_by_their_component() -> None:
    assert is_of_the_driver(pod("a"))
    assert not is_of_the_driver(pod("a", "nvidia-vgpu-manager"))
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
