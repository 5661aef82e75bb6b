"""Pools whose nodes change in turn: what the plan, the platform and the verifiers' pods make of ``rollout``."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.components.proof.window import refuses
from gpu_pools.evidence import changing as shown
from gpu_pools.evidence.changing import changing
from gpu_pools.plan.placing import node_feature_rule
from gpu_pools.plan.rollouts import becomes, closed, rollout_seconds
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.proof.verifier_pods import Changer, verifier_daemon_set_spec
from gpu_pools.proof.verifier_rights import CHANGE_ANNOTATION
from gpu_pools.stack.kubernetes_names import CHANGED_LABELS, MIG_CONFIG_LABEL, POOL_LABEL
from gpu_pools.text.errors import InvalidStackError, RefusedError
from gpu_pools.verifier.changer.rollout_slots import at_once
from gpu_pools.verifier.changer.rollout_steps import Mark
from gpu_pools.verifier.changer.windows import read_window
from gpu_pools.verifier.hook_programs.cleanup_program import leftovers
from tests.unit.stacks import aks, existing, magnum, plan_of

if TYPE_CHECKING:
    from gpu_pools.plan.planned import PoolPlan

CHANGER = Changer("changer", "6" * 64)
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
    (pool_plan,) = plan_of(aks(pool, sharing={"s": parts}, operator={"driver": "preinstalled"}, verification={})).pools
    assert pool_plan.gpu_instance_profile
    assert MIG_CONFIG_LABEL not in pool_plan.changed_labels


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
        spec = verifier_daemon_set_spec(plan, plan.pools[0], "program", "5" * 64, changer=CHANGER)
        (watch,) = spec["template"]["spec"]["containers"]
        assert ("--keep" in watch["args"]) == keeps


def test_a_pool_without_it_has_the_pods_that_it_always_had() -> None:
    plan = plan_of(existing(verification={}))
    spec = verifier_daemon_set_spec(plan, plan.pools[0], "program", "5" * 64, changer=CHANGER)
    assert spec["updateStrategy"] == {"rollingUpdate": {"maxUnavailable": "100%"}}
    pod = spec["template"]["spec"]
    assert ([one["name"] for one in pod["initContainers"]], pod["serviceAccountName"]) == (["assert"], "verifier")


def test_only_what_changes_nodes_has_the_file_for_it() -> None:
    plan = plan_of(aks(ROLLOUT, verification={}))
    pod = verifier_daemon_set_spec(plan, plan.pools[0], "program", "5" * 64, changer=CHANGER)["template"]["spec"]
    containers = {one["name"]: one for one in [*pod["initContainers"], *pod["containers"]]}
    with_it = {name for name, one in containers.items() if "changer" in [mount["name"] for mount in one["volumeMounts"]]}
    assert with_it == {"change", "release", "watch"}
    held = ["/run/gpu-pools/program/verifier.pyz", "5" * 64]
    assert {name: one["command"][6:] for name, one in containers.items()} == {
        name: [*held, *(["/run/gpu-pools/changer/changer.pyz", "6" * 64] if name in with_it else []), "--"] for name in containers
    }
    (volume,) = (one for one in pod["volumes"] if one["name"] == "changer")
    assert volume["configMap"] == {"name": "changer", "defaultMode": 0o444}


def test_a_pool_without_it_has_nothing_to_do_with_that_file() -> None:
    plan = plan_of(aks(verification={}))
    with_it, without = (
        verifier_daemon_set_spec(plan, plan.pools[0], "program", "5" * 64, changer=one) for one in (CHANGER, None)
    )
    assert with_it == without
    assert "changer" not in json.dumps(without)


def test_a_pool_with_it_needs_that_file() -> None:
    plan = plan_of(aks(ROLLOUT, verification={}))
    with pytest.raises(ValueError, match="what changes nodes"):
        verifier_daemon_set_spec(plan, plan.pools[0], "program", "5" * 64)


def test_how_long_all_turns_may_take() -> None:
    plan = plan_of(magnum({"count": 5, **ROLLOUT}, verification={"deadlineSeconds": 100}))
    assert rollout_seconds(plan.pools[0], plan.settings.verification) == 3 * (40 + 300 + 60)
    unbounded = plan_of(existing({"count": None, "rollout": {}}, verification={"deadlineSeconds": 100}))
    assert rollout_seconds(unbounded.pools[0], unbounded.settings.verification) == 10 * (600 + 300 + 60)
    without = plan_of(magnum(verification={}))
    assert rollout_seconds(without.pools[0], without.settings.verification) == 0


def test_a_share_of_the_nodes_and_windows_reach_the_changers_as_they_are_written() -> None:
    saturday = {"day": "Saturday", "startTime": "22:00", "durationHours": 6, "utcOffset": "+01:00"}
    rollout = {"maxUnavailable": "25%", "windows": [saturday, {"startTime": "02:00", "durationHours": 1}]}
    plan = plan_of(magnum({"count": 10, "rollout": rollout}, verification={"deadlineSeconds": 100}))
    spec = verifier_daemon_set_spec(plan, plan.pools[0], "program", "5" * 64, changer=CHANGER)
    assert spec["updateStrategy"] == {"rollingUpdate": {"maxUnavailable": "25%"}}
    change, _, release = (one["args"] for one in spec["template"]["spec"]["initContainers"])
    assert change[change.index("--turns") + 1] == release[release.index("--turns") + 1] == "25%"
    told = [change[at + 1] for at, word in enumerate(change) if word == "--window"]
    assert told == ["Saturday 22:00 6h +01:00", "daily 02:00 1h +00:00"]
    assert [str(read_window(one)) for one in told]
    assert rollout_seconds(plan.pools[0], plan.settings.verification) == 4 * (600 + 300 + 60), "a quarter of ten, rounded up"


@pytest.mark.parametrize(
    ("most", "nodes", "count"),
    [("3", 1, 3), ("25%", 10, 3), ("25%", 4, 1), ("25%", 5, 2), ("1%", 40, 1), ("1%", 0, 1), ("100%", 7, 7), ("33%", 100, 33)],
)
def test_a_share_is_rounded_up_as_a_daemon_set_does(most: str, nodes: int, count: int) -> None:
    assert at_once(most, nodes) == count


@pytest.mark.parametrize(
    ("rollout", "where", "said"),
    [
        ({"maxUnavailable": "0%"}, "maxUnavailable", "neither a number of nodes nor a share"),
        ({"maxUnavailable": "101%"}, "maxUnavailable", "neither a number of nodes nor a share"),
        ({"maxUnavailable": "many"}, "maxUnavailable", "neither a number of nodes nor a share"),
        ({"maxUnavailable": "101"}, "maxUnavailable", "neither a number of nodes nor a share"),
        ({"maxUnavailable": 0}, "maxUnavailable", ""),
        ({"windows": [{"day": "Caturday", "startTime": "22:00", "durationHours": 6}]}, "windows[0].day", "Caturday"),
        ({"windows": [{"startTime": "25:00", "durationHours": 6}]}, "windows[0].startTime", "25:00"),
        ({"windows": [{"startTime": "22:00", "durationHours": 25}]}, "windows[0].durationHours", "25"),
        ({"windows": [{"startTime": "22:00"}]}, "windows[0].durationHours", ""),
        ({"windows": [{"startTime": "22:00", "durationHours": 1, "every": 2}]}, "windows[0].every", ""),
        ({"windows": [7]}, "windows[0]", "7"),
        ({"windows": {}}, "windows", "list of windows"),
    ],
)
def test_what_is_wrong_with_it_is_told_with_its_path(rollout: dict[str, Any], where: str, said: str) -> None:
    with pytest.raises(InvalidStackError) as refused:
        plan_of(magnum({"rollout": rollout}, verification={}))
    assert f"rollout.{where}" in str(refused.value)
    assert said in str(refused.value)


def test_a_number_in_quotes_is_a_number() -> None:
    rollout = plan_of(magnum({"rollout": {"maxUnavailable": "2"}}, verification={})).pools[0].pool.rollout
    assert rollout is not None
    assert rollout.max_unavailable == 2


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


SATURDAY, WEDNESDAY = 1_795_904_400.0, 1_795_590_000.0
OPEN = {"day": "Saturday", "startTime": "22:00", "durationHours": 6}
LAYOUTS: Any = {"sevenths": {"s": {"mig": {"layout": {"1g.10gb": 7}}}}, "halves": {"s": {"mig": {"layout": {"3g.40gb": 2}}}}}
SLICES: Any = {number: {"s": {"timeSlicing": {"replicas": number}}} for number in (4, 8)}


def _inputs(sharing: Any, **rollout: Any) -> tuple[PoolPlan, dict[str, Any]]:
    (pool,) = plan_of(existing({"rollout": {"windows": [OPEN], **rollout}}, sharing=sharing, verification={})).pools
    return pool, {"metadata": {"annotations": becomes(pool)}}


def test_a_deploy_that_takes_nodes_away_is_refused_outside_of_the_windows() -> None:
    (_, old), (pool, new) = _inputs(LAYOUTS["sevenths"]), _inputs(LAYOUTS["halves"])
    assert closed(pool, old, new, SATURDAY) is None
    problem = closed(pool, old, new, WEDNESDAY)
    assert problem is not None
    assert problem.path.endswith("rollout.windows")
    assert problem.allowed == "Saturday 22:00 6h +00:00"
    assert "from 2026-11-28T22:00:00Z on" in problem.remedy
    told: list[str] = []
    change: Any = SimpleNamespace(old_inputs=old, new_inputs=new)
    with pytest.raises(RefusedError, match="none of them is open"):
        refuses(pool, preview=lambda: False, now=lambda: WEDNESDAY)(change)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpu_pools.components.engine.log.warn", told.append)
        refuses(pool, preview=lambda: True, now=lambda: WEDNESDAY)(change)
    assert "would be refused now" in told[0]


def test_what_takes_no_node_away_needs_no_window() -> None:
    (_, four), (pool, eight) = _inputs(SLICES[4]), _inputs(SLICES[8])
    assert closed(pool, four, eight, WEDNESDAY) is None
    assert closed(pool, eight, eight, WEDNESDAY) is None, "other windows, other verifiers"
    assert closed(pool, {"metadata": {}}, eight, WEDNESDAY) is None, "a pool that gets a rollout"
    (_, halves) = _inputs(LAYOUTS["halves"])
    assert closed(pool, halves, eight, WEDNESDAY) is not None, "another strategy"
    (without,) = plan_of(existing(verification={})).pools
    assert becomes(without) == {}
    assert closed(without, halves, {}, WEDNESDAY) is None
