"""Incidents D and W4 of docs/reference/rules.md: each refused by the plan, warned of, or impossible to write.

tests/unit/test_existing_check.py has the same incidents for files that were written by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP
from gpu_pools.allocation.mig_parted import MIG_PARTED_CONFIG_MAP
from gpu_pools.plan.document import pool_json
from gpu_pools.text.errors import InvalidStackError
from tests.unit.stacks import A100, T4, TWO_A100, aks, existing, magnum, plan_of, pool_of

if TYPE_CHECKING:
    from gpu_pools.plan.planned import Plan

VALUES = "gpu-pools:operator.values"
NFD_VALUES = "gpu-pools:nodeFeatureDiscovery.values"
TIME_SLICED = {"nb": {"timeSlicing": {"replicas": 4}}}
MPS = {"inf": {"mps": {"replicas": 10}}}
UNIFORM = {"cut": {"mig": {"layout": {"1g.10gb": 7}}}}
MIXED = {"cut": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}}}


def _refused(stack: str) -> set[str]:
    """The paths of what is wrong with a stack."""
    with pytest.raises(InvalidStackError) as caught:
        plan_of(stack)
    return {problem.path for problem in caught.value.problems}


def _operator(values: dict[str, Any]) -> str:
    return aks(sharing=TIME_SLICED, operator={"values": values})


def _nfd(values: dict[str, Any]) -> str:
    return aks(sharing=TIME_SLICED, nodeFeatureDiscovery={"values": values})


def _place(values: dict[str, Any]) -> str:
    """The path of the only leaf."""
    return "".join(f".{key}{_place(value) if isinstance(value, dict) else ''}" for key, value in values.items())


def _mixed_cluster() -> Plan:
    """All four ways of sharing in one cluster."""
    sharing = {**TIME_SLICED, **MPS, **MIXED, "whole": {"exclusive": {}}}
    pools = [{"name": f"p{number}", "vmSize": A100, "count": 1, "sharing": name} for number, name in enumerate(sharing)]
    return plan_of(aks(sharing=sharing, pools=pools))


def _config(plan: Plan, number: int) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(plan.device_plugin_configs[plan.pools[number].config_key])
    return config


def test_d01_the_default_config_is_a_key_of_the_config_map() -> None:
    plan = _mixed_cluster()
    assert plan.operator_values["devicePlugin"]["config"]["default"] in plan.device_plugin_configs
    assert _refused(_operator({"devicePlugin": {"config": {"default": "other"}}})) == {f"{VALUES}.devicePlugin.config"}


def test_d02_there_is_always_a_default() -> None:
    assert plan_of(magnum(sharing=TIME_SLICED)).operator_values["devicePlugin"]["config"]["default"]


def test_d03_every_label_names_a_key_that_exists() -> None:
    plan = _mixed_cluster()
    assert {pool.labels["nvidia.com/device-plugin.config"] for pool in plan.pools} <= plan.device_plugin_configs.keys()
    assert _refused(aks({"labels": {"nvidia.com/device-plugin.config": "other"}}, sharing=TIME_SLICED))


def test_d04_the_chart_is_never_asked_to_make_the_config_map() -> None:
    config = plan_of(aks(sharing=TIME_SLICED)).operator_values["devicePlugin"]["config"]
    assert (config["name"], config.get("create", False)) == (DEVICE_PLUGIN_CONFIG_MAP, False)
    assert _refused(_operator({"devicePlugin": {"config": {"create": True}}})) == {f"{VALUES}.devicePlugin.config"}


def test_d05_nobody_can_point_the_operator_at_another_config_map() -> None:
    assert _refused(_operator({"devicePlugin": {"config": {"name": "other"}}})) == {f"{VALUES}.devicePlugin.config"}


def test_d06_unknown_and_misplaced_keys_are_refused() -> None:
    assert _refused(aks(sharing={"nb": {"timeSlicing": {"replicas": 4}, "renameByDefault": True}}))
    assert _refused(aks(sharing={"nb": {"timeSlicing": {"replicas": 4, "renameByDefaults": True}}}))
    assert _refused(_operator({"devicePlugins": {"enabled": True}})) == {f"{VALUES}.devicePlugins"}


@pytest.mark.parametrize("setting", [{"rename": "nvidia.com/small"}, {"devices": [0]}], ids=["rename", "devices"])
def test_d07_what_the_plugin_ignores_cannot_be_written(setting: dict[str, Any]) -> None:
    assert _refused(aks(sharing={"nb": {"timeSlicing": {"replicas": 4, **setting}}}))


def test_d08_replicas_within_the_programs_bounds() -> None:
    for sharing in (
        {"nb": {"timeSlicing": {"replicas": 1}}},
        {"inf": {"mps": {"replicas": 1}}},
        {"inf": {"mps": {"replicas": 49}}},
    ):
        assert _refused(aks(sharing=sharing))
    assert pool_of(aks({"vmSize": T4}, sharing={"inf": {"mps": {"replicas": 48}}})).advertises == {"nvidia.com/gpu": 48}


def test_d09_one_strategy_per_declaration() -> None:
    assert _refused(aks(sharing={"both": {"timeSlicing": {"replicas": 4}, "mps": {"replicas": 4}}}))
    for number in range(4):
        assert len(_config(_mixed_cluster(), number).get("sharing", {})) <= 1


def test_d10_mps_never_meets_mig() -> None:
    assert _refused(aks(sharing={"cut": {"mig": {"layout": {"1g.10gb": 7}, "mps": {"replicas": 4}}}}))
    plan = _mixed_cluster()
    # The environment would win over the file, so the cluster leaves the strategy open and only the files of MIG nodes say mixed.
    assert plan.operator_values["mig"]["strategy"] == ""
    assert [_config(plan, number)["flags"]["migStrategy"] for number in range(4)] == ["single", "single", "mixed", "single"]


def test_d11_whether_a_pod_may_ask_for_two_is_always_written() -> None:
    for sharing, strategy in ((TIME_SLICED, "timeSlicing"), (MPS, "mps")):
        plan = plan_of(aks(sharing=sharing))
        assert _config(plan, 0)["sharing"][strategy]["failRequestsGreaterThanOne"] is True
        assert [request.most for request in plan.pools[0].pod_requests] == [1]


def test_d12_single_needs_one_profile_on_all_gpus() -> None:
    assert _refused(aks(sharing=MIXED, operator={"migStrategy": "single"})) == {"gpu-pools:operator.migStrategy"}
    assert plan_of(aks(sharing=UNIFORM)).mig_strategy == "single"
    assert plan_of(aks(sharing=MIXED)).mig_strategy == "mixed"


def test_d13_every_gpu_of_the_node_has_an_entry() -> None:
    halves = {"cut": {"mig": {"gpus": [{"index": 0, "layout": {"1g.10gb": 7}}]}}}
    assert _refused(aks({"vmSize": TWO_A100}, sharing=halves))
    parted = yaml.safe_load(_mixed_cluster().mig_parted_config)
    assert parted["version"] == "v1"
    for entries in parted["mig-configs"].values():
        assert all(entry["mig-enabled"] == bool(entry.get("mig-devices")) for entry in entries)


def test_d14_every_mig_label_names_a_layout_that_exists() -> None:
    plan = _mixed_cluster()
    layouts = yaml.safe_load(plan.mig_parted_config)["mig-configs"]
    assert {pool.labels["nvidia.com/mig.config"] for pool in plan.pools} <= layouts.keys()


def test_d15_a_profile_that_the_card_lacks_is_refused() -> None:
    assert _refused(aks(sharing={"cut": {"mig": {"layout": {"1g.5gb": 7}}}})) == {"gpu-pools:sharing.cut.mig.layout.1g.5gb"}


def test_d16_the_operators_own_layouts_are_left_alone_and_ours_have_its_default() -> None:
    plan = plan_of(aks(sharing=UNIFORM))
    config = plan.operator_values["migManager"]["config"]
    assert (config["name"], config["create"]) == (MIG_PARTED_CONFIG_MAP, False)
    assert config["default"] in yaml.safe_load(plan.mig_parted_config)["mig-configs"]


@pytest.mark.parametrize(
    ("sharing", "quotas"),
    [
        (TIME_SLICED, ["requests.nvidia.com/gpu"]),
        ({"nb": {"timeSlicing": {"replicas": 4, "renameByDefault": True}}}, ["requests.nvidia.com/gpu.shared"]),
        (MIXED, ["requests.nvidia.com/mig-2g.20gb", "requests.nvidia.com/mig-3g.40gb"]),
    ],
    ids=["shared", "renamed", "mig"],
)
def test_d17_the_plan_says_what_a_quota_must_count(sharing: dict[str, Any], quotas: list[str]) -> None:
    assert [request["quota"] for request in pool_json(pool_of(aks(sharing=sharing)))["pods"]] == quotas


def test_d18_a_renamed_resource_is_told_and_warned_about_where_an_autoscaler_asks() -> None:
    renamed = {"nb": {"timeSlicing": {"replicas": 4, "renameByDefault": True}}}
    pool = pool_of(aks({"count": ..., "nodes": {"min": 1, "max": 3}}, sharing=renamed))
    assert [request.resource for request in pool.pod_requests] == ["nvidia.com/gpu.shared"]
    assert any("nvidia.com/gpu.shared is judged unready" in warning for warning in pool.warnings)


def test_d19_each_pool_has_its_own_config() -> None:
    plan = _mixed_cluster()
    assert len({pool.config_key for pool in plan.pools}) == len(plan.pools)
    # Nodes of no pool keep whole GPUs.
    assert "sharing" not in yaml.safe_load(plan.device_plugin_configs[plan.default_config_key])


@pytest.mark.parametrize(
    "values",
    [
        {"worker": {"config": {"core": {"labelSources": ["pci", "custom", "local"]}}}},
        {"worker": {"config": {"core": {"labelSources": ["all", "-system"]}}}},
        {"worker": {"config": {"core": {"featureSources": ["system", "local"]}}}},
        {"worker": {"config": {"core": {"noPublish": True}}}},
        {"worker": {"config": {"sources": {"pci": {"deviceClassWhitelist": ["0200"]}}}}},
        {"worker": {"config": {"sources": {"pci": {"deviceLabelFields": ["vendor", "device"]}}}}},
        {"master": {"config": {"labelWhiteList": "^(pci|system)-"}}},
        {"master": {"config": {"restrictions": {"denyNodeFeatureLabels": True}}}},
    ],
    ids=_place,
)
def test_w40_nfd_without_the_labels_that_the_operator_lives_on(values: dict[str, Any]) -> None:
    assert _refused(_nfd(values)) == {NFD_VALUES + _place(values)}


@pytest.mark.parametrize(
    "values",
    [
        {"worker": {"config": {"core": {"labelSources": ["-system", "all"]}}}},
        {"worker": {"config": {"sources": {"pci": {"deviceClassWhitelist": ["0302"], "deviceLabelFields": ["vendor"]}}}}},
        {"worker": {"config": {"core": {"labelWhiteList": "^(pci|system|kernel)-"}}}},
    ],
    ids=_place,
)
def test_w40_what_keeps_those_labels_is_taken(values: dict[str, Any]) -> None:
    assert plan_of(_nfd(values))


def test_w40_of_an_nfd_that_is_there_nothing_is_known() -> None:
    assert any("(W40)" in warning for warning in pool_of(existing(nodeFeatureDiscovery={"install": False})).warnings)


def test_w41_a_cluster_that_exists_may_have_the_runtime_class() -> None:
    assert sum("(W41)" in warning for warning in pool_of(existing(sharing=TIME_SLICED)).warnings) == 1
    assert not any("(W41)" in warning for warning in pool_of(existing(operator={"install": False})).warnings)
    assert not any("(W41)" in warning for warning in pool_of(aks(sharing=TIME_SLICED)).warnings)


def test_an_mps_daemon_that_may_not_hear_of_its_configuration_is_told_of() -> None:
    assert any("(W49)" in warning for warning in pool_of(aks(sharing=MPS)).warnings)
    assert not any("(W49)" in warning for warning in pool_of(aks(sharing=TIME_SLICED)).warnings)


@pytest.mark.parametrize("other", [{"cdi": {"nriPluginEnabled": True, "enabled": False}}], ids=str)
def test_w42_nri_goes_with_cdi_and_the_toolkit(other: dict[str, Any]) -> None:
    assert _refused(_operator(other)) == {f"{VALUES}.cdi.nriPluginEnabled"}
    preinstalled = {"driver": "preinstalled", "values": {"cdi": {"nriPluginEnabled": True}}}
    assert _refused(aks(sharing=TIME_SLICED, operator=preinstalled)) == {f"{VALUES}.cdi.nriPluginEnabled"}


@pytest.mark.parametrize(
    "values",
    [
        {"driver": {"repoConfig": {"configMapName": "my.repos"}}},
        {"driver": {"certConfig": {"name": "My-Certs"}}},
        {"driver": {"kernelModuleConfig": {"name": "nvidia.conf"}}},
    ],
    ids=_place,
)
def test_w43_volumes_are_named_after_config_maps(values: dict[str, Any]) -> None:
    assert _refused(_operator(values)) == {VALUES + _place(values)}
    assert all("." not in name for name in (DEVICE_PLUGIN_CONFIG_MAP, MIG_PARTED_CONFIG_MAP))


@pytest.mark.parametrize(
    ("values", "index"),
    [
        ({"daemonsets": {"rollingUpdate": {"maxUnavailable": "abc"}}}, ""),
        ({"daemonsets": {"rollingUpdate": {"maxUnavailable": 0}}}, ""),
        ({"daemonsets": {"rollingUpdate": {"maxUnavailable": "120%"}}}, ""),
        ({"daemonsets": {"labels": {"team": "a b"}}}, ""),
        ({"gfd": {"env": [{"name": "A=B", "value": "x"}]}}, "[0]"),
        ({"driver": {"manager": {"env": [{"name": "A", "value": 1}]}}}, "[0]"),
        ({"driver": {"env": [{"name": "A", "valueFrom": {"fieldRef": {}}}]}}, "[0]"),
        ({"toolkit": {"resources": {"limits": {"memory": "1GB"}}}}, ""),
        ({"toolkit": {"resources": {"requests": {"gpu": 1}}}}, ""),
        ({"toolkit": {"resources": {"requests": {"cpu": "-1"}}}}, ""),
    ],
    ids=str,
)
def test_w44_what_kubernetes_refuses_in_a_daemon_set(values: dict[str, Any], index: str) -> None:
    assert _refused(_operator(values)) == {VALUES + _place(values) + index}


def test_w44_a_request_beyond_its_limit() -> None:
    amounts = {"requests": {"memory": "1.5Gi", "cpu": "100m"}, "limits": {"memory": "1500Mi", "cpu": 1}}
    assert _refused(_operator({"gfd": {"resources": amounts}})) == {f"{VALUES}.gfd.resources.requests.memory"}


@pytest.mark.parametrize(
    "values", [{"gfd": {"version": ""}}, {"driver": {"repository": ""}}, {"toolkit": {"version": "a b"}}], ids=_place
)
def test_w45_an_image_has_three_parts(values: dict[str, Any]) -> None:
    assert _refused(_operator(values)) == {VALUES + _place(values)}


@pytest.mark.parametrize(
    "pool",
    [{"taints": ["team=a:NoSchedule"]}, {"taints": ["team=a:PreferNoSchedule"]}, {"spot": {}}],
    ids=["NoSchedule", "PreferNoSchedule", "spot"],
)
def test_w46_a_new_taint_leaves_the_operands_as_they_are(pool: dict[str, Any]) -> None:
    """Another list of tolerations would cordon every node in turn and restart its driver."""
    before, after = (plan_of(aks(more, sharing=TIME_SLICED)).operator_values for more in ({}, pool))
    assert before == after


def test_w46_neither_does_the_startup_taint() -> None:
    cluster = {"kubernetesVersion": "1.36"}
    plans = [plan_of(aks(sharing=TIME_SLICED, cluster=cluster, verification={"startupTaint": on})) for on in (False, True)]
    assert plans[0].operator_values == plans[1].operator_values


def test_w46_a_taint_that_evicts_is_tolerated_by_its_key() -> None:
    values = plan_of(aks({"taints": ["gone=x:NoExecute"]}, sharing=TIME_SLICED)).operator_values
    assert values["daemonsets"]["tolerations"] == [
        {"operator": "Exists", "effect": "NoSchedule"},
        {"key": "gone", "operator": "Exists", "effect": "NoExecute"},
    ]


@pytest.mark.parametrize("operand", ["devicePlugin", "toolkit", "migManager"])
def test_w47_arguments_would_take_the_place_of_the_script_that_starts_the_operand(operand: str) -> None:
    assert _refused(_operator({operand: {"args": ["--verbose"]}})) == {f"{VALUES}.{operand}.args"}
    assert plan_of(_operator({"validator": {"args": ["sleep infinity"]}}))


def test_w45_unless_the_whole_reference_is_given_as_image() -> None:
    assert plan_of(_operator({"driver": {"repository": "", "version": "", "image": "here/driver:580"}}))
