"""What starts anew on nodes that stay: never "no pool is touched" where a driver, an operator or Kubernetes is renewed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.changes.blast import blast_radius
from gpu_pools.changes.markdown import comment
from gpu_pools.changes.report_basis import ReportBasis
from gpu_pools.changes.steps import Preview, Step
from gpu_pools.changes.upkeep import Upkeep, upkeep
from gpu_pools.plan.change_ids import cluster_use
from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.aks.placement import AksPlacement

from .stacks import BEFORE

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan

DRIVER, PLUGIN, GFD = "nvidia-driver-daemonset", "nvidia-device-plugin-daemonset", "gpu-feature-discovery"
MIG, VALIDATOR = "nvidia-mig-manager", "nvidia-operator-validator"
NOTHING = Preview(())


def stack(values: dict[str, Any] | None = None, **train: Any) -> Plan:
    config = yaml.safe_load(BEFORE)["config"]
    config["gpu-pools:cluster"]["kubernetesVersion"] = train.pop("kubernetesVersion", "1.35")
    config["gpu-pools:operator"] = {"values": values or {}, **train.pop("operator", {})}
    config["gpu-pools:sharing"].update(train.pop("sharing", {}))
    config["gpu-pools:pools"][-1].update(train)
    return plan_config(config)


def only(before: Plan, after: Plan) -> Upkeep:
    (found,) = upkeep(before, after)
    return found


def told(before: Plan, after: Plan) -> str:
    return comment("shop", blast_radius(NOTHING, before, after), ReportBasis())


def test_nothing_is_renewed_by_nothing() -> None:
    assert upkeep(stack(), stack()) == ()
    assert upkeep(None, stack()) == ()
    assert "no pool is touched" in told(stack(), stack())


def test_a_driver_goes_node_by_node_after_an_eviction() -> None:
    after = stack({"driver": {"version": "580.105.08"}})
    found = only(stack(), after)
    assert (found.what, found.before, found.after, found.restarts) == ("the driver", "595.91.07", "580.105.08", (DRIVER,))
    assert (found.effect, found.pools) == ("upgraded", ("notebooks", "slices", "train"))
    assert found.happens.startswith(
        "One node after the other: cordoned, its pods that ask for a GPU evicted, its driver replaced"
    )
    assert "without a controller or with an emptyDir is not evicted: the node stays cordoned" in found.happens
    assert "notebooks upgraded; slices upgraded; train upgraded" in told(stack(), after)


@pytest.mark.parametrize(
    ("policy", "minutes"),
    [
        ({}, 10),
        ({"maxParallelUpgrades": 2}, 6),
        ({"maxParallelUpgrades": 2, "maxUnavailable": 1}, 10),
        ({"maxParallelUpgrades": 0, "maxUnavailable": "100%"}, 2),
        ({"maxParallelUpgrades": 9, "maxUnavailable": "50%"}, 4),
    ],
    ids=str,
)
def test_how_long_it_takes_at_least_is_by_nodes_and_policy(policy: dict[str, Any], minutes: int) -> None:
    values = {"upgradePolicy": policy}
    found = only(stack({"driver": values}), stack({"driver": {**values, "version": "580.105.08"}}))
    assert f"That takes {minutes} minutes or more for 5 nodes" in found.happens


@pytest.mark.parametrize(
    ("operator", "told"),
    [
        ({}, "28 minutes at most until the next one is done, and 140 in all with that many nodes."),
        (
            {"driverUpgrade": {"drainTimeoutSeconds": 60, "maxUnavailable": 5}},
            "24 minutes at most until the next one is done, and 24 in all",
        ),
    ],
    ids=str,
)
def test_how_long_up_waits_for_the_drivers(operator: dict[str, Any], told: str) -> None:
    """A look of the controller, the eviction, the deadline of any proof and a minute, for each of five nodes."""
    found = {one.what: one for one in upkeep(stack(operator={"version": "v26.3.3", **operator}), stack(operator=operator))}
    assert f"up waits for it before it proves the nodes: {told}" in found["the driver"].happens


def test_a_driver_by_digest_of_which_no_version_is_demanded_is_waited_for_as_well() -> None:
    assert "up waits for it" in only(stack(), stack({"driver": {"version": "sha256:" + "0" * 64}})).happens


def test_where_nobody_proves_up_waits_for_nothing() -> None:
    before, after = [
        replace(plan, settings=replace(plan.settings, verification=replace(plan.settings.verification, enabled=False)))
        for plan in (stack(), stack({"driver": {"version": "580.105.08"}}))
    ]
    assert "up waits" not in only(before, after).happens


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("595.91.07", "580.105.08", True), ("580.105.08", "595.91.07", False), ("580.126.20", "580.105.08", False)],
)
def test_an_older_branch_knows_an_older_cuda(old: str, new: str, said: bool) -> None:  # noqa: FBT001
    found = only(*(stack({"driver": {"version": version}}) for version in (old, new)))
    assert ("R580 is older than R595, and knows an older CUDA" in found.happens) is said


def test_a_pinned_driver_is_replaced_with_the_operator() -> None:
    pinned = {"driver": {"version": "580.126.20"}}
    before, after = (stack(pinned, operator={"version": version, "values": pinned}) for version in ("v26.3.3", "v26.7.0"))
    operator, driver, *_ = upkeep(before, after)
    assert (operator.before, operator.after, operator.effect, operator.against) == ("v26.3.3", "v26.7.0", "", "")
    assert "get a resource of their own" in operator.happens
    assert (driver.before, driver.after, driver.effect) == ("", "", "upgraded")
    assert driver.happens.startswith("Its version stays, but another operator makes other pods of it.")
    assert "up waits for it before it proves the nodes" in driver.happens
    assert "up waits for them, and has every node proven anew." in operator.happens


def test_of_another_operator_whose_pods_do_not_tell_their_chart_up_waits_for_the_driver_alone() -> None:
    values = {"driver": {"version": "580.126.20"}, "daemonsets": {"labels": {"helm.sh/chart": "ours"}}}
    before, after = (stack(values, operator={"version": version, "values": values}) for version in ("v26.3.3", "v26.7.0"))
    assert [one.what for one in upkeep(before, after) if "up waits" in one.happens] == ["the driver"]


def test_another_variable_of_the_same_driver_is_waited_for_as_another_version_is() -> None:
    pinned = {"driver": {"version": "580.126.20"}}
    more = {"driver": {**pinned["driver"], "env": [{"name": "A", "value": "b"}]}}
    found = only(stack(pinned), stack(more))
    assert found.effect == "upgraded"
    assert "up waits for it before it proves the nodes" in found.happens


@pytest.mark.parametrize(("version", "effect"), [("v26.7.0", "cordoned"), ("v26.3.3", "upgraded"), ("v25.10.1", "upgraded")])
def test_an_older_operator_evicts_for_whatever_changes_the_driver_s_pods(version: str, effect: str) -> None:
    plans = (stack(operator={"version": version}, taints=taints) for taints in ([], ["team=ml:NoExecute"]))
    found = only(*plans)
    assert (found.what, found.effect) == ("what the operands tolerate", effect)
    assert ("pods that run there stay" in found.happens) is (effect == "cordoned")
    assert "up waits for it before it proves the nodes" in found.happens
    limits = {"resources": {"limits": {"cpu": "1"}}}
    before, after = (stack(operator={"version": version, "values": values}) for values in ({}, {"driver": limits}))
    assert only(before, after).effect == effect


@pytest.mark.parametrize(
    ("before", "after", "early"), [("v25.10.1", "1.36", True), ("v26.3.3", "1.36", False), ("v25.3.4", "1.34", True)]
)
def test_a_kubernetes_that_the_operator_is_not_documented_for_comes_after_it(before: str, after: str, early: bool) -> None:  # noqa: FBT001
    plans = (stack(operator={"version": before}, kubernetesVersion=version) for version in ("1.33", after))
    found = next(one for one in upkeep(*plans) if one.what == "Kubernetes")
    assert (f"gpu-operator {before}, which runs meanwhile, is documented to" in found.happens) is early


def test_a_step_that_is_not_supported_is_blocked_before_the_deploy() -> None:
    before, after = (stack(operator={"version": version}) for version in ("v25.10.1", "v26.7.0"))
    seen = blast_radius(NOTHING, before, after)
    (refused,) = seen.refused
    assert refused.startswith("gpu-pools:operator.version: v26.7.0 leaves out v26.3.3")
    assert refused in seen.blocked
    assert "Deploy v26.3.3, then v26.7.0" in told(before, after)


def test_a_step_back_ends_in_an_acknowledgement_even_where_no_driver_is_the_operator_s() -> None:
    before, after = (stack(operator={"version": one, "driver": "preinstalled"}) for one in ("v26.7.0", "v26.3.3"))
    operator = upkeep(before, after)[0]
    assert (operator.effect, operator.against) == ("", "NVIDIA documents no way back")
    seen = blast_radius(NOTHING, before, after)
    assert [(one.resource, one.how) for one in seen.endings] == [("cluster", "has the GPU operator renewed on its nodes")]
    assert seen.endings[0].id == cluster_use(after)
    assert seen.refused == ()
    assert blast_radius(NOTHING, after, before).endings == ()


@pytest.mark.parametrize(
    ("policy", "effect", "says"),
    [
        ({"autoUpgrade": False}, "", "Nothing by itself"),
        ({"maxParallelUpgrades": 0}, "upgraded", "All nodes at once"),
        ({"maxParallelUpgrades": 4}, "upgraded", "4 nodes at a time"),
        ({"drain": {"enable": True}}, "upgraded", "the node is drained at once"),
        ({"gpuPodDeletion": {"deleteEmptyDir": True}}, "upgraded", "A pod without a controller is not evicted"),
        ({"gpuPodDeletion": {"force": True}}, "upgraded", "A pod with an emptyDir is not evicted"),
        ({"gpuPodDeletion": {"force": True, "deleteEmptyDir": True}}, "upgraded", "uncordoned once that is validated."),
    ],
    ids=str,
)
def test_how_a_driver_is_replaced_is_its_policy_s(policy: dict[str, Any], effect: str, says: str) -> None:
    values = {"upgradePolicy": policy}
    found = only(stack({"driver": values}), stack({"driver": {**values, "version": "580.105.08"}}))
    assert found.effect == effect
    assert says in found.happens


def test_nothing_is_renewed_on_nodes_that_are_replaced() -> None:
    pool = "azure-native:containerservice:AgentPool"
    replaced = Step("replace", f"urn:pulumi:a::b::{pool}::gpu-train-pool", pool, {}, {"agentPoolName": "train"}, ("vmSize",))
    seen = blast_radius(Preview((replaced,)), stack(), stack({"driver": {"version": "580.105.08"}}))
    assert [one.pools for one in seen.renewed] == [("notebooks", "slices")]
    assert [one.effects for one in seen.pools] == [("upgraded",), ("upgraded",), ("replaced",)]


def test_a_policy_alone_renews_nothing() -> None:
    assert upkeep(stack(), stack({"driver": {"upgradePolicy": {"maxParallelUpgrades": 4}}})) == ()


def test_what_the_driver_s_digest_leaves_out_restarts_it_in_place() -> None:
    found = only(stack(), stack({"driver": {"resources": {"limits": {"cpu": "1"}}}}))
    assert found.effect == "cordoned"
    assert "its driver restarted in place" in found.happens


def test_a_taint_that_the_operands_tolerate_from_the_start_renews_nothing() -> None:
    assert upkeep(stack(), stack(taints=["team=ml:NoSchedule"])) == ()


def test_a_taint_that_changes_the_tolerations_cordons_every_node_of_every_pool() -> None:
    after = stack(taints=["team=ml:NoExecute"])
    found = only(stack(), after)
    assert (found.effect, found.pools) == ("cordoned", ("notebooks", "slices", "train"))
    assert len(found.restarts) == 7, "all but the MPS daemon's, which no pool here has"
    assert "cordoned, its driver restarted in place, uncordoned; pods that run there stay" in found.happens
    assert "train relabelled and cordoned" in told(stack(), after)
    assert not blast_radius(NOTHING, stack(), after).blocked


def test_tolerations_are_compared_as_the_operator_is_told_them() -> None:
    before, after = stack(), stack()
    wide = {**after.operator_values, "daemonsets": {"tolerations": [{"operator": "Exists"}]}}
    found = only(before, replace(after, operator_values=wide))
    assert (found.what, found.after) == ("what the operands tolerate", "anything")
    preinstalled = stack(operator={"driver": "preinstalled"})
    wide = {**preinstalled.operator_values, "daemonsets": {"tolerations": [{"operator": "Exists"}]}}
    found = only(preinstalled, replace(preinstalled, operator_values=wide))
    assert (found.effect, DRIVER in found.restarts) == ("", False), "there is no driver's pod to restart"


def test_kubernetes_goes_node_by_node_with_one_node_more() -> None:
    found = only(stack(), stack(kubernetesVersion="1.36"))
    assert (found.what, found.before, found.after, found.effect) == ("Kubernetes", "1.35", "1.36", "upgraded")
    assert "quota for up to 1 GPU." in found.happens
    assert "Spot pools" not in found.happens
    spot = only(stack(spot={}), stack(kubernetesVersion="1.36", spot={}))
    assert "Spot pools (train) get none, and their nodes are not drained." in spot.happens


@pytest.mark.parametrize(
    ("after", "what"),
    [
        ({"osSku": "Ubuntu2204"}, "osSKU of the pool train"),
        ({"fips": True}, "enableFIPS of the pool train"),
        ({"pinned": True}, "orchestratorVersion of the pool train"),
        ({"properties": {"securityProfile": {"enableVTPM": True}}}, "securityProfile of the pool train"),
    ],
)
def test_options_for_which_azure_replaces_nodes_renew_one_pool(after: dict[str, Any], what: str) -> None:
    found = only(stack(), _pinned(stack()) if "pinned" in after else stack(**after))
    assert (found.what, found.effect, found.pools) == (what, "upgraded", ("train",))


def test_a_pool_with_a_version_of_its_own_does_not_follow() -> None:
    old, new = (_pinned(stack(kubernetesVersion=version)) for version in ("1.34", "1.35"))
    assert only(old, new).pools == ("notebooks", "slices")


def test_options_that_replace_nothing_renew_nothing() -> None:
    assert upkeep(stack(), stack(tags={"a": "b"}, upgradeSettings={"maxSurge": "2"}, scaleDownMode="Deallocate")) == ()


def _pinned(plan: Plan) -> Plan:
    """The last pool with a version of its own."""
    *others, last = plan.pools
    placement = last.pool.placement
    assert isinstance(placement, AksPlacement)
    placement = replace(placement, options=replace(placement.options, kubernetes_version="1.34"))
    return replace(plan, pools=(*others, replace(last, pool=replace(last.pool, placed=(last.pool.placed[0], placement)))))


def test_a_new_operator_tells_which_operands_differ() -> None:
    before = stack()
    operator = before.settings.operator
    older = replace(before.settings, operator=replace(operator, chart=replace(operator.chart, version="v26.3.3")))
    found = {one.what: one for one in upkeep(replace(before, settings=older), before)}
    assert "migManager v0.14.2 → v0.15.0" in found["the GPU operator"].happens
    assert (found["the driver"].before, found["the driver"].after) == ("580.126.20", "595.91.07")


def test_another_owner_of_the_driver_is_told() -> None:
    found = {one.what: one for one in upkeep(stack(), stack(operator={"driver": "preinstalled"}))}
    assert found["who installs the driver"].effect == "upgraded"


@pytest.mark.parametrize(
    ("values", "restarts"),
    [
        ({"gfd": {"imagePullPolicy": "Always"}}, (GFD,)),
        ({"devicePlugin": {"version": "v0.20.1"}}, (PLUGIN,)),
        ({"migManager": {"env": [{"name": "WITH_SHUTDOWN_HOST_GPU_CLIENTS", "value": "true"}]}}, (MIG,)),
        ({"daemonsets": {"priorityClassName": "other"}}, None),
        ({"daemonsets": {"updateStrategy": "OnDelete"}}, ()),
        ({"operator": {"resources": {"limits": {"cpu": "1"}}}}, ()),
    ],
    ids=str,
)
def test_single_values_restart_what_they_are_in(values: dict[str, Any], restarts: tuple[str, ...] | None) -> None:
    found = upkeep(stack(), stack(values))
    if restarts is None:
        assert len(found[0].restarts) == 6
    else:
        assert [one.restarts for one in found] == ([restarts] if restarts else [])
    assert all(one.effect == "" for one in found)


def test_another_layout_restarts_nothing_by_itself_and_another_strategy_does() -> None:
    halves = {"slices": {"mig": {"layout": {"3g.40gb": 2}}}}
    assert upkeep(stack(), stack(sharing=halves)) == ()
    uneven = {"slices": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}}}
    assert set(only(stack(), stack(sharing=uneven)).restarts) == {PLUGIN, GFD, VALIDATOR}


def test_a_comment_says_it_where_no_pool_changes() -> None:
    text = told(stack(), stack({"gfd": {"imagePullPolicy": "Always"}}))
    assert "no pool changes; 1 DaemonSets restart on its nodes" in text
    assert "### What starts anew on nodes that stay" in text
    assert "| operands, by gfd.imagePullPolicy | `gpu-feature-discovery` | `notebooks`, `slices`, `train` |" in text


def test_pools_that_come_or_go_have_nothing_renewed() -> None:
    config = yaml.safe_load(BEFORE)["config"]
    config["gpu-pools:pools"] = [{**pool, "name": f"new{index}"} for index, pool in enumerate(config["gpu-pools:pools"])]
    assert upkeep(stack(), plan_config(config)) == ()


def _adopted(plan: Plan) -> Plan:
    """The same, of an operator and NFD that somebody else has installed."""
    settings = plan.settings
    operator, nfd = replace(settings.operator, install=False), replace(settings.nfd, install=False)
    return replace(plan, settings=replace(settings, operator=operator, nfd=nfd))


def _older(plan: Plan) -> Plan:
    """The same with the charts before."""
    settings = plan.settings
    operator = replace(settings.operator, chart=replace(settings.operator.chart, version="v26.3.3"))
    nfd = replace(settings.nfd, chart=replace(settings.nfd.chart, version="0.1.0"))
    return replace(plan, settings=replace(settings, operator=operator, nfd=nfd))


def test_other_charts_renew_operands_and_labellers() -> None:
    found = {one.what: one for one in upkeep(_older(stack()), stack())}
    labels = found["Node Feature Discovery"]
    assert (labels.before, labels.after) == ("0.1.0", stack().settings.nfd.chart.version)
    assert (labels.restarts, labels.effect) == (("nfd-worker",), "")
    assert labels.happens == "Its pods start anew; labels stay meanwhile."
    operator = found["the GPU operator"]
    assert (operator.before, operator.after, operator.effect) == ("v26.3.3", stack().settings.operator.chart.version, "")
    assert "driver" not in operator.happens.partition("(")[2].partition(")")[0]
    assert operator.pools == ("notebooks", "slices", "train")


@pytest.mark.parametrize(
    ("before", "after"),
    [(_adopted(_older(stack())), stack()), (_older(stack()), _adopted(stack())), (_adopted(_older(stack())), _adopted(stack()))],
)
def test_charts_that_somebody_else_installs_renew_nothing(before: Plan, after: Plan) -> None:
    """What another helm installs is not ours to tell, nor is when it is handed over."""
    assert not {"the GPU operator", "Node Feature Discovery"} & {one.what for one in upkeep(before, after)}


@pytest.mark.parametrize(
    "key", ["resources", "startupProbe", "livenessProbe", "readinessProbe", "imagePullPolicy", "hostNetwork"]
)
def test_each_value_that_the_digest_leaves_out_restarts_in_place(key: str) -> None:
    found = only(stack(), _driver(stack(), **{key: "other"}))
    assert (found.what, found.before, found.after, found.effect) == ("the driver", "", "", "cordoned")
    both = only(stack(), _driver(stack(), **{key: "other"}, repository="elsewhere"))
    assert both.effect == "upgraded"


def test_all_of_them_together_do_so_too() -> None:
    keys = ("resources", "startupProbe", "livenessProbe", "readinessProbe", "imagePullPolicy", "hostNetwork")
    assert only(stack(), _driver(stack(), **dict.fromkeys(keys, "other"))).effect == "cordoned"


def _driver(plan: Plan, **values: object) -> Plan:
    operator = plan.operator_values
    return replace(plan, operator_values={**operator, "driver": {**operator["driver"], **values}})


@pytest.mark.parametrize("key", ["enabled", "upgradePolicy"])
def test_what_is_no_part_of_the_driver_s_pod_renews_no_driver(key: str) -> None:
    assert "the driver" not in {one.what for one in upkeep(stack(), _driver(stack(), **{key: {"a": 1}}))}


def test_modules_beside_the_driver_are_part_of_its_pod() -> None:
    for name in ("gds", "gdrcopy"):
        operator = {**stack().operator_values, name: {"enabled": True}}
        found = upkeep(stack(), replace(stack(), operator_values=operator))
        assert [(one.what, one.effect) for one in found] == [("the driver", "upgraded")]


def test_a_driver_that_is_on_the_nodes_is_not_renewed_by_values() -> None:
    before = stack(operator={"driver": "preinstalled"})
    assert upkeep(before, _driver(before, version="580.105.08")) == ()
    adopted = _adopted(stack())
    assert upkeep(adopted, _driver(adopted, version="580.105.08")) == ()


@pytest.mark.parametrize(
    ("path", "restarts"),
    [
        ("devicePlugin.config.default", (GFD, PLUGIN)),
        ("mig.strategy", (GFD, PLUGIN, VALIDATOR)),
        ("toolkit.version", ("nvidia-container-toolkit-daemonset",)),
        ("validator.version", (VALIDATOR,)),
        ("dcgm.enabled", ("nvidia-dcgm",)),
        ("dcgmExporter.version", ("nvidia-dcgm-exporter",)),
        ("nodeStatusExporter.enabled", ("nvidia-node-status-exporter",)),
        (
            "operator.runtimeClass",
            (GFD, "nvidia-container-toolkit-daemonset", "nvidia-dcgm-exporter", PLUGIN, MIG, VALIDATOR),
        ),
        ("daemonsets.rollingUpdate.maxUnavailable", ()),
        ("daemonset.labels", ()),
        ("devicePlugins", ()),
        ("nfd.enabled", ()),
    ],
)
def test_which_daemon_sets_a_value_restarts(path: str, restarts: tuple[str, ...]) -> None:
    after = stack()
    first, *rest = path.split(".")
    changed: Any = "other"
    for key in reversed(rest):
        changed = {key: changed}
    if isinstance(changed, dict):
        changed = _merged(after.operator_values.get(first) or {}, changed)
    found = upkeep(after, replace(after, operator_values={**after.operator_values, first: changed}))
    assert [one.restarts for one in found] == ([restarts] if restarts else [])
    assert all(one.what == f"operands, by {path}" for one in found)


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(one[key], value) if isinstance(one.get(key), dict) else value for key, value in other.items()}
    return {**one, **both}


def test_mig_manager_restarts_where_it_is() -> None:
    """A pool whose GPUs have no MIG has no pod of it."""
    after = stack(vmSize="Standard_NC4as_T4_v3")
    changed = {**after.operator_values, "migManager": {**after.operator_values["migManager"], "version": "v1"}}
    assert only(after, replace(after, operator_values=changed)).pools == ("notebooks", "slices")


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        ({"updateStrategy": "OnDelete"}, "but only once each is deleted (updateStrategy OnDelete)."),
        ({"rollingUpdate": {"maxUnavailable": "3"}}, "3 at a time, and pods that run stay."),
        ({}, "1 at a time, and pods that run stay."),
    ],
)
def test_how_operands_roll(sets: dict[str, Any], says: str) -> None:
    values = {"daemonsets": sets}
    found = only(stack(values), stack({**values, "gfd": {"imagePullPolicy": "Always"}}))
    assert found.happens.startswith(f"Their pods start anew, {says}")


def test_kubernetes_that_is_not_named_stays_what_it_is() -> None:
    assert upkeep(stack(kubernetesVersion="1.35"), stack(kubernetesVersion=None)) == ()
    found = only(stack(kubernetesVersion=None), stack(kubernetesVersion="1.36"))
    assert (found.before, found.after) == ("Azure's own", "1.36")


def test_who_rolls_the_driver_by_hand_has_no_node_cordoned_for_a_toleration() -> None:
    by_hand = stack({"driver": {"upgradePolicy": {"autoUpgrade": False}}})
    wide = {**by_hand.operator_values["daemonsets"], "tolerations": [{"operator": "Exists"}]}
    found = only(by_hand, replace(by_hand, operator_values={**by_hand.operator_values, "daemonsets": wide}))
    assert (found.effect, "W70" in found.happens, DRIVER in found.restarts) == ("", False, True)
