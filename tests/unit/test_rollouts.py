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
from gpu_pools.stack.kubernetes_names import CHANGED_LABELS, MIG_CONFIG_LABEL, POOL_LABEL
from gpu_pools.verifier.steps import Mark
from tests.unit.stacks import aks, existing, magnum, plan_of

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


def test_on_aks_the_agent_pool_keeps_what_pods_and_the_autoscaler_select_by() -> None:
    scaled = {"count": ..., "nodes": {"min": 0, "max": 2}, "labels": {"team": "ml"}, "spot": {}, **ROLLOUT}
    plan = plan_of(aks(scaled, sharing={"s": {"timeSlicing": {"replicas": 4}}}, verification={}))
    (pool,) = plan.pools
    assert pool.placed_labels == {POOL_LABEL: "gpu", "team": "ml", "kubernetes.azure.com/scalesetpriority": "spot"}
    assert set(pool.changed_labels) == set(CHANGED_LABELS)
    assert node_expectation(plan, pool)["node"]["labels"] == dict(pool.labels)


def test_where_aks_partitions_no_layout_is_set_node_by_node() -> None:
    """So the rule that AKS and the operator do not both partition has nothing to look for in these labels."""
    parts = {"mig": {"layout": {"1g.10gb": 7}}}
    pool = {"partitionedBy": "aks", **ROLLOUT}
    (planned,) = plan_of(aks(pool, sharing={"s": parts}, operator={"driver": "preinstalled"}, verification={})).pools
    assert planned.gpu_instance_profile
    assert MIG_CONFIG_LABEL not in planned.changed_labels


def test_new_nodes_of_an_aks_pool_have_whole_gpus_at_first_which_is_told() -> None:
    told = "with rollout a new node has no sharing labels until its verifier sets them"
    tainted = {"kubernetesVersion": "1.36"}, {"startupTaint": True}

    def warned(stack: str) -> bool:
        return any(told in one for one in plan_of(stack).pools[0].warnings)

    assert warned(aks(ROLLOUT, verification={}))
    assert not warned(aks(ROLLOUT, cluster=tainted[0], verification=tainted[1]))
    assert not warned(aks(verification={}))
    assert not warned(magnum(ROLLOUT, verification={})), "labels come late there anyway"


def test_its_verifiers_put_back_what_is_taken_away() -> None:
    for given, keeps in ((ROLLOUT, True), (None, False)):
        plan = plan_of(aks(given, verification={}))
        (watch,) = verifier_daemon_set_spec(plan, plan.pools[0], "program", "5" * 64)["template"]["spec"]["containers"]
        assert ("--keep" in watch["args"]) == keeps


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
