"""Pools whose nodes change in turn: what the plan, the platform and the verifiers' pods make of ``rollout``."""

from __future__ import annotations

from typing import Any

from gpu_pools.evidence import changing as shown
from gpu_pools.evidence.changing import changing
from gpu_pools.plan.placing import node_feature_rule
from gpu_pools.plan.rollouts import rollout_seconds
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.proof.verifier_pods import verifier_daemon_set_spec
from gpu_pools.proof.verifier_rights import CHANGE_ANNOTATION
from gpu_pools.rendering.cleanup_program import leftovers
from gpu_pools.stack.kubernetes_names import CHANGED_LABELS, POOL_LABEL
from gpu_pools.verifier.steps import Mark
from tests.unit.stacks import existing, magnum, plan_of

ROLLOUT: Any = {"rollout": {"maxUnavailable": 2, "drainTimeoutSeconds": 40}}


def test_the_two_labels_are_the_changers_alone_and_are_expected_all_the_same() -> None:
    plan = plan_of(magnum(ROLLOUT, verification={}))
    (pool,) = plan.pools
    (rule,) = node_feature_rule(pool, "heat")["rules"]
    assert set(rule["labels"]) == {POOL_LABEL}
    assert set(pool.changed_labels) == set(CHANGED_LABELS)
    assert node_expectation(plan, pool)["node"]["labels"] == dict(pool.labels)
    (without,) = plan_of(magnum(verification={})).pools
    (rule,) = node_feature_rule(without, "heat")["rules"]
    assert rule["labels"] == dict(without.labels) == dict(pool.labels)
    assert without.changed_labels == {}


def test_a_pool_without_it_has_the_pods_that_it_always_had() -> None:
    plan = plan_of(existing(verification={}))
    spec = verifier_daemon_set_spec(plan, plan.pools[0], "program", "5" * 64)
    assert spec["updateStrategy"] == {"rollingUpdate": {"maxUnavailable": "100%"}}
    pod = spec["template"]["spec"]
    assert ([one["name"] for one in pod["initContainers"]], pod["serviceAccountName"]) == (["assert"], "verifier")


def test_how_long_all_turns_may_take() -> None:
    plan = plan_of(magnum({"count": 5, **ROLLOUT}, verification={"deadlineSeconds": 100}))
    assert rollout_seconds(plan.pools[0], plan.settings.verification) == 3 * (40 + 300 + 60)
    unbounded = plan_of(existing({"count": None, "rollout": {}}, verification={"deadlineSeconds": 100}))
    assert rollout_seconds(unbounded.pools[0], unbounded.settings.verification) == 10 * (600 + 300 + 60)
    without = plan_of(magnum(verification={}))
    assert rollout_seconds(without.pools[0], without.settings.verification) == 0


def _node(mark: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": "a", "resourceVersion": "7", "labels": labels or {}, "annotations": {CHANGE_ANNOTATION: mark}}
    return {"metadata": metadata, "spec": {"unschedulable": True}}


def test_nodes_that_are_being_changed_are_named() -> None:
    assert shown.ANNOTATION == CHANGE_ANNOTATION
    began = Mark("x=y", cordoned=True, since="2026-02-02T00:00:00Z")
    stopped = Mark("x=y", cordoned=True, since="2026-02-02T00:00:00Z", stopped=("u",), why="a pod stays")
    assert changing([_node(began.text())]) == ["a is being changed since 2026-02-02T00:00:00Z"]
    (line,) = changing([_node(stopped.text())])
    assert line.endswith("(stopped, and given back as it was): a pod stays")
    assert changing([_node("nonsense\x1b[2J")]) == ["a is being changed: its annotation cannot be read"]
    assert changing([{"metadata": {"name": "a"}, "spec": {}}]) == []


def test_a_stack_that_goes_takes_the_labels_the_mark_and_its_own_cordon() -> None:
    key = plan_of(magnum(ROLLOUT, verification={})).pools[0].config_key
    labels = {"nvidia.com/device-plugin.config": key, "nvidia.com/mig.config": "all-disabled"}
    patch = leftovers(_node(Mark("x", cordoned=True, since="now").text(), labels))
    assert patch is not None
    assert patch["metadata"]["labels"] == dict.fromkeys(labels)
    assert patch["metadata"]["annotations"] == {CHANGE_ANNOTATION: None}
    assert patch["spec"] == {"unschedulable": None}
    for mark in (Mark("x", cordoned=False, since="now"), Mark("x", cordoned=True, since="now", stopped=("u",))):
        patch = leftovers(_node(mark.text()))
        assert patch is not None
        assert "spec" not in patch
    others = {"nvidia.com/device-plugin.config": "somebody-elses"}
    assert leftovers({"metadata": {"labels": others, "resourceVersion": "7"}, "spec": {}}) is None
