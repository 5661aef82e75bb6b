"""What starts anew on nodes that stay: never "no pool is touched" where a driver, an operator or Kubernetes is renewed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.changes.blast import blast_radius
from gpu_pools.changes.markdown import comment
from gpu_pools.changes.seen import Seen
from gpu_pools.changes.steps import Preview
from gpu_pools.changes.upkeep import Upkeep, upkeep
from gpu_pools.plan.planning import plan_config

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
    return comment("shop", blast_radius(NOTHING, before, after), Seen())


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
    ("policy", "effect", "says"),
    [
        ({"autoUpgrade": False}, "", "Nothing by itself"),
        ({"maxParallelUpgrades": 0}, "upgraded", "All nodes at once"),
        ({"maxParallelUpgrades": 4}, "upgraded", "4 nodes at a time"),
        ({"drain": {"enable": True}}, "upgraded", "then the node is drained"),
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
