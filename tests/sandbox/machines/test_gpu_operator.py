"""The DaemonSets and labels that the stand-in of NVIDIA's operator makes of a ClusterPolicy."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.machines.operands import OPERANDS, OperandError, OperatorEnvironment, daemon_set, enabled
from sandbox.machines.operator_labels import node_labels
from tests.sandbox.machines.site import IMAGE

GPU = {"feature.node.kubernetes.io/pci-10de.present": "true"}
MIG = {**GPU, "nvidia.com/mig.capable": "true"}
MANAGER = {"migManager": {"enabled": True, "config": {"default": "all-disabled"}}}
PLUGIN, MPS, DRIVER = "nvidia-device-plugin-daemonset", "nvidia-device-plugin-mps-control-daemon", "nvidia-driver-daemonset"
SECTIONS = ("validator", "driver", "toolkit", "devicePlugin", "dcgm", "dcgmExporter", "gfd", "migManager", "nodeStatusExporter")
CONFIG = {"config": {"name": "maps", "default": "exclusive"}}


def operand(name: str) -> Any:
    return next(item for item in OPERANDS if item.name == name)


def built(name: str, **spec: Any) -> dict[str, Any]:
    images: dict[str, Any] = {section: {**IMAGE, **spec.get(section, {})} for section in SECTIONS}
    images["driver"]["manager"] = {**IMAGE, **images["driver"].get("manager", {})}
    policy = {"metadata": {"name": "cluster-policy", "uid": "1"}, "spec": {**spec, **images}}
    return daemon_set(policy, operand(name), OperatorEnvironment("gpu-operator", "ubuntu24.04", {}))


def pod(name: str, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = built(name, **spec)["spec"]["template"]["spec"]
    return found


def env(name: str, **spec: Any) -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in pod(name, **spec)["containers"][0]["env"]}


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
    off = {**GPU, "nvidia.com/gpu.deploy.device-plugin": "false"}
    assert "nvidia.com/gpu.deploy.device-plugin" not in node_labels(off, {}), (
        "as addGPUStateLabels in controllers/state_manager.go"
    )
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
    assert "MIG_STRATEGY" not in env(PLUGIN, mig={})
    assert "MIG_STRATEGY" not in env(PLUGIN, mig={"strategy": ""})
    assert env(PLUGIN, mig={})["NVIDIA_MIG_MONITOR_DEVICES"] == "all"
    assert env(PLUGIN, mig={"strategy": "mixed"})["MIG_STRATEGY"] == "mixed"
    assert env("gpu-feature-discovery", mig={"strategy": "mixed"})["MIG_STRATEGY"] == "mixed"


def test_an_own_variable_wins_for_the_plugin_and_loses_for_feature_discovery() -> None:
    own = {"env": [{"name": "MIG_STRATEGY", "value": "none"}]}
    assert env(PLUGIN, mig={"strategy": "mixed"}, devicePlugin=own)["MIG_STRATEGY"] == "none"
    assert env("gpu-feature-discovery", mig={"strategy": "mixed"}, gfd=own)["MIG_STRATEGY"] == "mixed"


def test_the_validator_s_strategy_stands_on_its_plugin_validation() -> None:
    found = pod("nvidia-operator-validator", mig={"strategy": "single"})
    plugin = next(item for item in found["initContainers"] if item["name"] == "plugin-validation")
    assert {"name": "MIG_STRATEGY", "value": "single"} in plugin["env"]
    assert "MIG_STRATEGY" not in env("nvidia-operator-validator", mig={"strategy": "single"})
    without = pod("nvidia-operator-validator", devicePlugin={"enabled": False})
    assert "plugin-validation" not in [item["name"] for item in without["initContainers"]]


def test_what_the_plugin_is_told_of_its_devices() -> None:
    told = {
        "FAIL_ON_INIT_ERROR": "true",
        "DEVICE_ID_STRATEGY": "uuid",
        "PASS_DEVICE_SPECS": "true",
        "MPS_ROOT": "/run/nvidia/mps",
    }
    assert told.items() <= env(PLUGIN).items()
    assert env(PLUGIN)["DEVICE_LIST_STRATEGY"] == "cdi-annotations,cdi-cri"
    assert env(PLUGIN, cdi={"enabled": False})["DEVICE_LIST_STRATEGY"] == "envvar"
    assert "MPS_ROOT" not in env(MPS)
    assert pod(MPS)["hostPID"] is True


def test_a_named_configuration_brings_the_config_manager() -> None:
    found = pod(PLUGIN, devicePlugin=CONFIG)
    assert [item["name"] for item in found["containers"]] == ["nvidia-device-plugin", "config-manager"]
    assert [item["name"] for item in found["initContainers"]] == ["toolkit-validation", "config-manager-init"]
    beside = {item["name"]: item.get("value") for item in found["containers"][1]["env"]}
    assert beside["DEFAULT_CONFIG"] == "exclusive"
    assert (beside["SEND_SIGNAL"], beside["SIGNAL"], beside["PROCESS_TO_SIGNAL"]) == ("true", "1", "nvidia-device-plugin")
    assert {"name": "maps", "configMap": {"name": "maps"}} in found["volumes"]
    assert found["shareProcessNamespace"] is True
    without = pod(PLUGIN, devicePlugin={"config": {"name": ""}})
    assert [item["name"] for item in without["containers"]] == ["nvidia-device-plugin"]
    assert not any(volume["name"] == "config" for volume in without["volumes"])


def test_config_manager_looks_for_the_mps_daemon_by_another_name_than_its_own() -> None:
    """As the asset of gpu-operator v25.3 to v26.7 has it."""
    found = pod(MPS, devicePlugin=CONFIG)
    daemon, manager = found["containers"]
    assert daemon["command"] == ["mps-control-daemon"]
    signalled = next(item["value"] for item in manager["env"] if item["name"] == "PROCESS_TO_SIGNAL")
    assert signalled == "/usr/bin/mps-control-daemon"
    assert "terminationMessagePolicy" not in manager


def test_where_operands_may_run() -> None:
    tolerations = [{"key": "sku", "operator": "Exists"}]
    mps = pod(MPS, daemonsets={"tolerations": tolerations})
    assert mps["nodeSelector"] == {"nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/mps.capable": "true"}
    assert mps["tolerations"] == tolerations
    assert pod("nvidia-mig-manager")["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_the_runtime_class_is_the_declared_one() -> None:
    assert pod("gpu-feature-discovery")["runtimeClassName"] == "nvidia"
    assert pod("gpu-feature-discovery", operator={"runtimeClass": "x"})["runtimeClassName"] == "x"
    assert "runtimeClassName" not in pod(DRIVER)
    assert "runtimeClassName" not in pod("gpu-feature-discovery", cdi={"nriPluginEnabled": True})


def test_mig_manager_gets_its_own_environment_and_a_default_file() -> None:
    spec = {"migManager": {"env": [{"name": "WITH_REBOOT", "value": "true"}], "config": {"name": "layouts"}}}
    told = {"CONFIG_FILE": "/mig-parted-config/config.yaml", "WITH_REBOOT": "true"}
    assert told.items() <= env("nvidia-mig-manager", **spec).items()
    volumes = {volume["name"]: volume.get("configMap", {}).get("name") for volume in pod("nvidia-mig-manager")["volumes"]}
    assert (volumes["mig-parted-config"], volumes["gpu-clients"]) == ("default-mig-parted-config", "default-gpu-clients")


def test_selectors_and_images_are_the_real_ones() -> None:
    selector = built("gpu-feature-discovery", daemonsets={"labels": {"app": "x"}})["spec"]["selector"]["matchLabels"]
    assert selector == {"app": "gpu-feature-discovery", "app.kubernetes.io/part-of": "nvidia-gpu"}
    assert built("nvidia-operator-validator")["spec"]["selector"]["matchLabels"]["app.kubernetes.io/part-of"] == "gpu-operator"
    driver = pod(DRIVER, driver={"version": "580.1"}, validator={"version": "v"})
    assert driver["containers"][0]["image"] == "nvcr.io/nvidia/operand:580.1-ubuntu24.04"
    assert built(DRIVER, daemonsets={"updateStrategy": "RollingUpdate"})["spec"]["updateStrategy"] == {"type": "OnDelete"}
    init = pod("nvidia-container-toolkit-daemonset", validator={"version": "v"})["initContainers"][0]
    assert init["image"] == "nvcr.io/nvidia/operand:v"


def test_a_driver_s_digest_is_about_what_is_installed() -> None:
    def digest(**spec: Any) -> str:
        return env(DRIVER, **spec)["DRIVER_CONFIG_DIGEST"]

    assert digest() == digest(daemonsets={"tolerations": [{"operator": "Exists"}]})
    assert digest() != digest(driver={"version": "580.1"})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"gfd": {"version": ""}}, r"repository=nvcr.io/nvidia, image=operand, version=\)"),
        ({"gfd": dict.fromkeys(IMAGE, "")}, "empty image path provided through both ClusterPolicy CR and ENV gfd_IMAGE"),
        ({"daemonsets": {"rollingUpdate": {"maxUnavailable": "abc"}}}, "failed to apply rolling update config"),
    ],
    ids=["version", "image", "maxUnavailable"],
)
def test_what_the_operator_cannot_follow_it_refuses(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(OperandError, match=words):
        built("gpu-feature-discovery", **spec)


def test_an_exporter_with_counters_and_pods_of_its_own() -> None:
    """controllers/object_controls.go, TransformDCGMExporter."""
    exporter: Any = {
        **IMAGE,
        "config": {"name": "counters"},
        "hostPID": True,
        "enablePodUID": True,
        "env": [{"name": "A", "value": "b"}],
    }
    spec = pod("nvidia-dcgm-exporter", dcgmExporter=exporter)
    (container,) = spec["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    path = "/etc/dcgm-exporter/dcgm-metrics.csv"
    assert env["DCGM_EXPORTER_COLLECTORS"] == path
    assert (env["DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID"], env["A"]) == ("true", "b")
    assert {"name": "metrics-config", "readOnly": True, "mountPath": path, "subPath": "dcgm-metrics.csv"} in container[
        "volumeMounts"
    ]
    (volume,) = [one for one in spec["volumes"] if one["name"] == "metrics-config"]
    assert volume["configMap"] == {"name": "counters", "items": [{"key": "dcgm-metrics.csv", "path": "dcgm-metrics.csv"}]}
    assert spec["hostPID"] is True
    assert "automountServiceAccountToken" not in spec

    plain = pod("nvidia-dcgm-exporter")
    assert "hostPID" not in plain
    assert plain["automountServiceAccountToken"] is False
    assert all(one["name"] != "metrics-config" for one in plain["volumes"])


def test_which_operands_there_are() -> None:
    assert not enabled({"driver": {"enabled": False}}, operand(DRIVER))
    assert enabled({}, operand("nvidia-operator-validator"))
    assert enabled({}, operand("nvidia-dcgm"))
    assert not enabled({}, operand("nvidia-node-status-exporter"))


def test_a_changed_policy_changes_the_hash() -> None:
    one, same, other = (built("nvidia-mig-manager", daemonsets={"tolerations": [{"key": key}]}) for key in ("a", "a", "b"))
    assert one == same
    assert one["metadata"]["annotations"] != other["metadata"]["annotations"]


@pytest.mark.parametrize("name", [one.name for one in OPERANDS])
def test_a_real_kubelet_could_run_each_operand(name: str) -> None:
    spec = pod(name, devicePlugin={**IMAGE, "config": {"name": "configs"}})
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes.keys(), container["name"]
        # Only these images have a command of their own.
        assert container.get("command") or container["name"] in ("nvidia-dcgm-ctr", "nvidia-dcgm-exporter")
        for mount in container["volumeMounts"]:
            shared = mount.get("mountPropagation") == "Bidirectional"
            assert not shared or (container.get("securityContext") or {}).get("privileged"), f"{container['name']}: refused"
    for volume in volumes.values():
        assert len(volume.keys() - {"name"}) == 1, volume


def test_the_toolkit_is_waited_for_where_the_real_operand_waits() -> None:
    """assets/: the plugin and mig-manager mount the folder of the marks, the others the one above it."""
    waits = {one.name: pod(one.name)["initContainers"][0] for one in OPERANDS if one.inits[:1] == ("toolkit-validation",)}
    mounted = {name: one["volumeMounts"][0]["mountPath"] for name, one in waits.items()}
    of_marks = {name for name, path in mounted.items() if path == "/run/nvidia/validations"}
    assert of_marks == {"nvidia-device-plugin-daemonset", "nvidia-mig-manager"}
    assert {path for name, path in mounted.items() if name not in of_marks} == {"/run/nvidia"}
    assert all(one["volumeMounts"][0]["mountPropagation"] == "HostToContainer" for one in waits.values())
    assert all(one["command"] == ["sh", "-c"] and "toolkit-ready" in one["args"][0] for one in waits.values())
