"""What an update waits for around labels: how long, on which nodes, and what makes it begin anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.proof.key_wait import key_wait_spec, keys_left_spec, wait_seconds
from tests.unit.stacks import TWO_A100, aks, plan_of

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan

IMAGE = "mirror.example.com/busybox:1.37"
SLICED = {"nb": {"timeSlicing": {"replicas": 4}}}
CUT = {"cut": {"mig": {"layout": {"1g.10gb": 7}}}}


def _plan(sharing: Any = None, **operator: Any) -> Plan:
    return plan_of(aks({"taints": ["sku=gpu:NoSchedule"]}, sharing=sharing or SLICED, operator=operator))


def _expressions(spec: Any) -> list[list[dict[str, Any]]]:
    affinity = spec["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [term["matchExpressions"] for term in affinity["nodeSelectorTerms"]]


@pytest.mark.parametrize(("sync", "seconds"), [(60, 95), (2, 4), (1, 3), (10, 16), (156, 247)])
def test_a_sync_may_take_half_as_long_again_and_something_comes_on_top(sync: int, seconds: int) -> None:
    assert wait_seconds(sync) == seconds
    assert key_wait_spec(_plan(kubeletSyncSeconds=sync), IMAGE)["minReadySeconds"] == seconds


def test_a_kubelet_of_which_nothing_is_said_synchronises_every_minute() -> None:
    assert key_wait_spec(_plan(), IMAGE)["minReadySeconds"] == 95


def test_only_nodes_that_have_a_label_already_are_waited_for() -> None:
    assert _expressions(key_wait_spec(_plan(), IMAGE)) == [[{"key": "nvidia.com/device-plugin.config", "operator": "Exists"}]]


def test_the_wait_begins_anew_where_keys_change_and_only_there() -> None:
    def pods(plan: Plan) -> Any:
        return key_wait_spec(plan, IMAGE)["template"]

    assert pods(_plan()) == pods(_plan(driver="preinstalled"))
    assert pods(_plan()) != pods(_plan({"nb": {"timeSlicing": {"replicas": 8}}}))
    assert pods(_plan(CUT)) != pods(_plan({"cut": {"mig": {"layout": {"2g.20gb": 3}}}}))


def test_its_pods_can_nothing_and_run_wherever_a_pool_s_nodes_are() -> None:
    pod = key_wait_spec(_plan(), IMAGE)["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert {"key": "sku", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]
    (container,) = pod["containers"]
    assert container["image"] == IMAGE
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not {"volumes", "hostNetwork", "hostPID"} & pod.keys()


def test_nodes_are_left_that_name_a_key_which_is_not_declared_any_more() -> None:
    plan = _plan(CUT)
    (plugin, mig), spec = _expressions(keys_left_spec(plan, IMAGE)), keys_left_spec(plan, IMAGE)
    (pool,) = plan.pools
    ours = {"key": "gpu-pools/pool", "operator": "In", "values": ["gpu"]}
    for expressions, label in ((plugin, "nvidia.com/device-plugin.config"), (mig, "nvidia.com/mig.config")):
        assert expressions[0] == ours
        assert {"key": label, "operator": "Exists"} in expressions
        (left,) = [one for one in expressions if one["operator"] == "NotIn"]
        assert pool.labels[label] in left["values"]
    assert "all-disabled" in mig[-1]["values"]
    assert spec["minReadySeconds"] > 86_400


def test_the_keys_that_may_stay_are_told_in_the_order_of_their_letters() -> None:
    """Another order would be another object, and its pods would begin anew."""
    halves = {"gpus": [{"index": 0, "layout": {}}, {"index": 1, "layout": {"1g.10gb": 7}}]}
    plan = plan_of(aks({"vmSize": TWO_A100}, sharing={"half": {"mig": halves}}))
    (key,) = plan.mig_parted_entries
    plugin, mig = (nodes[-1]["values"] for nodes in _expressions(keys_left_spec(plan, IMAGE)))
    assert mig == ["all-disabled", key]
    assert plugin == sorted(plan.device_plugin_configs)
