from __future__ import annotations

from typing import Any

import pytest

from sandbox.machines.gpu_operator import OPERANDS, daemon_set, enabled, node_labels

GPU = {"feature.node.kubernetes.io/pci-10de.present": "true"}
MIG = {**GPU, "nvidia.com/mig.capable": "true"}
MANAGER = {"migManager": {"enabled": True, "config": {"default": "all-disabled"}}}


def operand(name: str) -> Any:
    return next(item for item in OPERANDS if item.name == name)


def built(name: str, **spec: Any) -> dict[str, Any]:
    policy = {"metadata": {"name": "cluster-policy", "uid": "1"}, "spec": spec}
    return daemon_set(policy, operand(name), "gpu-operator")


def pod(name: str, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = built(name, **spec)["spec"]["template"]["spec"]
    return found


def env(name: str, **spec: Any) -> dict[str, str]:
    return {item["name"]: item["value"] for item in pod(name, **spec)["containers"][0]["env"]}


@pytest.mark.parametrize("device", ["10de", "0302_10de", "0300_10de"])
def test_nodes_with_a_gpu_are_labelled(device: str) -> None:
    wanted = node_labels({f"feature.node.kubernetes.io/pci-{device}.present": "true"}, {})
    assert wanted["nvidia.com/gpu.present"] == "true"
    assert wanted["nvidia.com/gpu.deploy.device-plugin"] == "true"
    assert "nvidia.com/gpu.deploy.mig-manager" not in wanted


def test_nodes_without_one_are_left_alone_or_cleared() -> None:
    assert node_labels({"feature.node.kubernetes.io/pci-1af4.present": "true"}, {}) == {}
    lost = node_labels({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.device-plugin": "true"}, {})
    assert lost == {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.device-plugin": None}


def test_a_value_that_is_there_is_honoured() -> None:
    paused = {**GPU, "nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change", "nvidia.com/gpu.deploy.dcgm": ""}
    wanted = node_labels(paused, {})
    assert "nvidia.com/gpu.deploy.device-plugin" not in wanted
    assert wanted["nvidia.com/gpu.deploy.dcgm"] == "true"


def test_operands_can_be_turned_off_on_a_node() -> None:
    off = {
        **MIG,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.deploy.operands": "false",
        "nvidia.com/gpu.deploy.driver": "true",
    }
    assert node_labels(off, MANAGER) == {"nvidia.com/gpu.deploy.driver": None}


def test_the_mig_label_gets_a_default_only_where_it_is_unset() -> None:
    assert node_labels(MIG, MANAGER)["nvidia.com/mig.config"] == "all-disabled"
    assert "nvidia.com/mig.config" not in node_labels({**MIG, "nvidia.com/mig.config": "x"}, MANAGER)
    assert "nvidia.com/mig.config" not in node_labels(MIG, {"migManager": {"enabled": False}})
    assert "nvidia.com/mig.config" not in node_labels(MIG, {"migManager": {"config": {"default": ""}}})
    assert "nvidia.com/mig.config" not in node_labels(GPU, MANAGER)


def test_a_settled_node_is_not_touched_again() -> None:
    labels = {**MIG, **{key: value for key, value in node_labels(MIG, MANAGER).items() if value is not None}}
    assert node_labels(labels, MANAGER) == {}


def test_the_mig_strategy_reaches_the_plugin_only_when_it_is_set() -> None:
    plugin = "nvidia-device-plugin-daemonset"
    assert "MIG_STRATEGY" not in env(plugin, mig={})
    assert "MIG_STRATEGY" not in env(plugin, mig={"strategy": ""})
    assert env(plugin, mig={"strategy": "mixed"})["MIG_STRATEGY"] == "mixed"
    assert env("gpu-feature-discovery", mig={"strategy": "mixed"})["MIG_STRATEGY"] == "mixed"


def test_a_named_configuration_brings_the_config_manager() -> None:
    config = {"config": {"name": "maps", "default": "exclusive"}}
    with_config = pod("nvidia-device-plugin-daemonset", devicePlugin=config)
    assert [item["name"] for item in with_config["containers"]] == ["nvidia-device-plugin", "config-manager"]
    assert [item["name"] for item in with_config["initContainers"]] == ["toolkit-validation", "config-manager-init"]
    assert with_config["volumes"][0]["configMap"] == {"name": "maps"}
    without = pod("nvidia-device-plugin-daemonset", devicePlugin={"config": {"name": ""}})
    assert [item["name"] for item in without["containers"]] == ["nvidia-device-plugin"]
    assert without["volumes"] == []


def test_where_operands_may_run() -> None:
    tolerations = [{"key": "sku", "operator": "Exists"}]
    mps = pod("nvidia-device-plugin-mps-control-daemon", daemonsets={"tolerations": tolerations})
    assert mps["nodeSelector"] == {"nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/mps.capable": "true"}
    assert mps["tolerations"] == tolerations
    assert pod("nvidia-mig-manager")["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_the_runtime_class_is_the_declared_one() -> None:
    assert pod("gpu-feature-discovery")["runtimeClassName"] == "nvidia"
    assert pod("gpu-feature-discovery", operator={"runtimeClass": "x"})["runtimeClassName"] == "x"
    assert "runtimeClassName" not in pod("nvidia-driver-daemonset")
    assert "runtimeClassName" not in pod("gpu-feature-discovery", cdi={"nriPluginEnabled": True})


def test_mig_manager_gets_its_own_environment() -> None:
    spec = {"migManager": {"env": [{"name": "WITH_REBOOT", "value": "true"}], "config": {"name": "layouts"}}}
    assert env("nvidia-mig-manager", **spec) == {"CONFIG_FILE": "/mig-parted-config/config.yaml", "WITH_REBOOT": "true"}


def test_which_operands_there_are() -> None:
    assert not enabled({"driver": {"enabled": False}}, operand("nvidia-driver-daemonset"))
    assert enabled({}, operand("nvidia-operator-validator"))
    assert not enabled({}, operand("nvidia-dcgm"))


def test_a_changed_policy_changes_the_hash() -> None:
    one, same, other = (built("nvidia-mig-manager", daemonsets={"tolerations": [{"key": key}]}) for key in ("a", "a", "b"))
    assert one == same
    assert one["metadata"]["annotations"] != other["metadata"]["annotations"]
