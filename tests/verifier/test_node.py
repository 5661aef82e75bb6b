"""What Kubernetes says of a node that is not as declared: found, with its cause; what it would not say: no pass."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.plan.planning import plan_config
from gpu_pools.text.yaml_text import load_yaml
from gpu_pools.verifier.compare_node import compare_node
from gpu_pools.verifier.findings import Findings, Verdict, Where, ordered
from gpu_pools.verifier.node import ApiFailure, ConfigReading, NodeReading, PolicyReading
from gpu_pools.verifier.reading import Hung, failed
from gpu_pools.verifier.report import shown
from tests.unit.stacks import aks
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_pools.verifier.node import Pod

SLICED = {"timeSlicing": {"replicas": 4}}
NOBODY = "it signals nobody"
MPS_DAEMON = "nvidia-device-plugin-mps-control-daemon"
RENAMED = {"timeSlicing": {"replicas": 4, "renameByDefault": True}}
SEVEN = {"mig": {"layout": {"1g.10gb": 7}}}
UNLIKE = {"mig": {"layout": {"3g.40gb": 1, "1g.10gb": 3}}}
PLUGIN, GFD = "nvidia-device-plugin-daemonset", "gpu-feature-discovery"


def node(sharing: dict[str, Any], **pool: Any) -> nodes.Node:
    return nodes.healthy(*nodes.plan_and_pool(sharing, count=2, **pool))


def compared(healthy: nodes.Node, found: NodeReading) -> Findings:
    findings = Findings()
    compare_node(healthy.expected, found, healthy.nvml, findings)
    return findings


def labelled(found: NodeReading, changes: dict[str, str | None]) -> NodeReading:
    """With other labels; None removes one."""
    merged = {**found.labels, **changes}
    return replace(found, labels={key: value for key, value in merged.items() if value is not None})


def offering(found: NodeReading, capacity: dict[str, int] | None = None, **resources: int) -> NodeReading:
    """Resources without their prefix, with `_` for a dash and `__` for a dot."""
    named = {f"nvidia.com/{key.replace('__', '.').replace('_', '-')}": count for key, count in resources.items()}
    return replace(found, allocatable=named, capacity=named if capacity is None else capacity)


def without(found: NodeReading, *operands: str) -> NodeReading:
    assert isinstance(found.pods, tuple)
    return replace(found, pods=tuple(pod for pod in found.pods if pod.app not in operands))


def with_pod(found: NodeReading, operand: str, **changes: Any) -> NodeReading:
    kept = without(found, operand)
    assert isinstance(kept.pods, tuple)
    return replace(kept, pods=(*kept.pods, nodes.pod(operand, **changes)))


def stuck(after_seconds: int) -> dict[str, Any]:
    """What shows of a config-manager that last failed so long after 03:00:00."""
    minutes, seconds = divmod(after_seconds, 60)
    return {
        "ready": False,
        "trouble": "config",
        "words": "container config-manager: CrashLoopBackOff",
        "config_failed": f"2026-01-02T03:{minutes:02}:{seconds:02}Z",
        "started": "2026-01-02T02:00:00Z",
    }


def since(found: NodeReading, seconds: int) -> NodeReading:
    """The label of mig-manager's state was written so long ago."""
    minutes, rest = divmod(seconds, 60)
    return replace(found, mig_state_since="2026-01-02T03:00:00Z", moment=f"2026-01-02T03:{minutes:02}:{rest:02}Z")


def config(found: NodeReading, **changes: Any) -> NodeReading:
    assert isinstance(found.config, ConfigReading)
    return replace(found, config=replace(found.config, **changes))


def plugin(number: int, **changes: Any) -> Pod:
    """Another pod of the device plugin."""
    return nodes.pod(PLUGIN, **{"name": f"{PLUGIN}-{number}", **changes})


LATER = "2026-06-01T00:00:00Z"
FOREIGN = nodes.pod("static", name="nvidia-device-plugin-static-1", namespace="kube-system", device_plugin=True)
NFD = "feature.node.kubernetes.io/pci-10de.present"
OS = "feature.node.kubernetes.io/system-os_release.ID"
UPGRADE_STATE = "nvidia.com/gpu-driver-upgrade-state"
PAUSED = "nvidia.com/gpu.deploy.device-plugin"
FAILED = PolicyReading("notReady", "ReconcileFailed: failed to retrieve GPU node OS info")
MIG_STATE = "nvidia.com/mig.config.state"
DISCOVERED = ("nvidia.com/gpu.", "nvidia.com/mig.capable", "nvidia.com/mig.strategy", "nvidia.com/mps.", "nvidia.com/mig-")

# Each: declaration, what happens to the node, the causes of the differences, the most important first.
FAULTS: dict[str, tuple[dict[str, Any], Callable[[NodeReading], NodeReading], list[str]]] = {
    "the node is not ready": (SLICED, lambda found: replace(found, ready=False), ["node-not-ready"]),
    "the pool's label never came": (
        SLICED,
        lambda found: labelled(found, {"gpu-pools/pool": None}),
        ["label-missing"],
    ),
    "sharing is off although declared": (SLICED, lambda found: offering(found, gpu=2), ["sharing-off"]),
    "the label is another pool's": (
        SLICED,
        lambda found: labelled(found, {"nvidia.com/device-plugin.config": "time-slicing-8-abcdef01"}),
        ["label-other"],
    ),
    "the number of replicas is wrong": (SLICED, lambda found: offering(found, gpu=16), ["count-other"]),
    "the plugin is older than its configuration": (
        SLICED,
        lambda found: config(offering(found, gpu=16), changed="2026-06-01T00:00:00Z"),
        ["plugin-outdated"],
    ),
    "another pool's configuration is served, and some key was written since": (
        SLICED,
        lambda found: config(
            labelled(offering(found, gpu=16), {"nvidia.com/device-plugin.config": "time-slicing-8-abcdef01"}),
            changed="2026-06-01T00:00:00Z",
        ),
        ["label-other", "count-other"],
    ),
    "the configuration lost its key": (SLICED, lambda found: config(found, keys=(), sha256=None), ["config-key-missing"]),
    "the configuration was edited under its key": (SLICED, lambda found: config(found, sha256="0" * 64), ["config-edited"]),
    "the configuration is gone": (
        SLICED,
        lambda found: replace(found, config=ApiFailure("GET /…", 404, "not found")),
        ["config-map-missing"],
    ),
    "nothing is offered": (SLICED, offering, ["nothing-offered"]),
    "mig-manager says success, and no MIG device is offered": (
        SEVEN,
        lambda found: labelled(offering(found), {MIG_STATE: "success"}),
        ["nothing-offered"],
    ),
    "a GPU is unhealthy": (
        SLICED,
        lambda found: offering(found, capacity={"nvidia.com/gpu": 8}, gpu=7),
        ["unhealthy"],
    ),
    "all GPUs are unhealthy": (SLICED, lambda found: offering(found, capacity={"nvidia.com/gpu": 8}, gpu=0), ["unhealthy"]),
    "the plugin is gone, and the kubelet remembers what it had": (
        SLICED,
        lambda found: without(offering(found, capacity={"nvidia.com/gpu": 8}, gpu=0), PLUGIN),
        ["operand-missing", "nothing-offered"],
    ),
    "the plugin waits, and the kubelet remembers what it had": (
        SLICED,
        lambda found: with_pod(offering(found, capacity={"nvidia.com/gpu": 8}, gpu=0), PLUGIN, ready=False, trouble="other"),
        ["operand-not-ready", "nothing-offered"],
    ),
    "MIG devices are not offered as such, and the kubelet remembers them": (
        UNLIKE,
        lambda found: labelled(
            offering(found, capacity={**found.capacity, "nvidia.com/gpu": 2}, gpu=2), {"nvidia.com/mig.strategy": None}
        ),
        ["sharing-off", "sharing-off", "left-over", "gfd-other"],
    ),
    "the resource has its old name": (RENAMED, lambda found: offering(found, gpu=8), ["name-other", "left-over"]),
    "the other MIG strategy": (UNLIKE, lambda found: offering(found, gpu=8), ["name-other", "name-other", "left-over"]),
    "a whole GPU is left over": (
        UNLIKE,
        lambda found: offering(found, mig_3g__40gb=2, mig_1g__10gb=6, gpu=2),
        ["left-over"],
    ),
    "the plugin did not see the MIG devices": (SEVEN, lambda found: offering(found, gpu=2), ["plugin-outdated"]),
    "two device plugins": (SLICED, lambda found: replace(found, foreign_pods=(FOREIGN,)), ["two-plugins"]),
    "two device plugins in the operator's namespace": (
        SLICED,
        lambda found: replace(found, pods=(*found.pods, replace(FOREIGN, namespace="gpu-operator"))),  # type: ignore[misc]
        ["two-plugins"],
    ),
    "NFD does not tolerate the taint": (
        SLICED,
        lambda found: labelled(without(found, PLUGIN, GFD, "nvidia-driver-daemonset", "nvidia-mig-manager"), {NFD: None}),
        ["nfd-missing"],
    ),
    "an operand has no pod": (SLICED, lambda found: without(found, PLUGIN), ["operand-missing"]),
    "the MPS daemon has no pod": (
        {"mps": {"replicas": 4}},
        lambda found: without(found, "nvidia-device-plugin-mps-control-daemon"),
        ["mps-operand-missing"],
    ),
    "the MPS daemon has no pod, and the plugin waits for it": (
        {"mps": {"replicas": 4}},
        lambda found: offering(
            without(found, "nvidia-device-plugin-mps-control-daemon"), capacity={"nvidia.com/gpu": 8}, gpu=0
        ),
        ["mps-operand-missing", "nothing-offered"],
    ),
    "the label names a key that is gone": (
        SLICED,
        lambda found: labelled(
            with_pod(found, PLUGIN, ready=False, trouble="config", words="container config-manager-init: Error"),
            {"nvidia.com/device-plugin.config": "time-slicing-9-abcdef01"},
        ),
        ["label-other", "operand-config"],
    ),
    "the old key went before the node had left it: config-manager is stuck": (
        SLICED,
        lambda found: config(
            with_pod(offering(found, gpu=16), PLUGIN, **stuck(after_seconds=91)), changed="2026-01-02T03:00:00Z"
        ),
        ["config-wedged", "plugin-outdated"],
    ),
    "the same, and the plugin was started anew since": (
        SLICED,
        lambda found: config(
            with_pod(offering(found, {"nvidia.com/gpu": 16}, gpu=0), PLUGIN, **stuck(after_seconds=600)),
            changed="2026-01-02T03:00:00Z",
        ),
        ["config-wedged", "nothing-offered"],
    ),
    "the kubelet has not brought the new key yet, and the plugin serves the default": (
        SLICED,
        lambda found: config(with_pod(offering(found, gpu=2), PLUGIN, **stuck(after_seconds=90)), changed="2026-01-02T03:00:00Z"),
        ["config-on-its-way", "sharing-off"],
    ),
    "config-manager cannot signal the MPS daemon, which serves nothing": (
        {"mps": {"replicas": 4}},
        lambda found: config(
            with_pod(
                offering(found, {"nvidia.com/gpu": 8}, gpu=0), MPS_DAEMON, **stuck(after_seconds=600), unsignalled=NOBODY
            ),
            changed="2026-01-02T03:00:00Z",
        ),
        ["mps-unheard", "nothing-offered"],
    ),
    "the same right after a change, before the kubelet has brought the key": (
        {"mps": {"replicas": 4}},
        lambda found: config(
            with_pod(offering(found, {"nvidia.com/gpu": 8}, gpu=0), MPS_DAEMON, **stuck(after_seconds=2), unsignalled=NOBODY),
            changed="2026-01-02T03:00:00Z",
        ),
        ["mps-unheard", "nothing-offered"],
    ),
    "an init container waits for a key that is on its way": (
        SLICED,
        lambda found: with_pod(found, PLUGIN, ready=False, trouble="config", words="container config-manager-init: Error"),
        ["config-on-its-way"],
    ),
    "the operator replaces the driver": (
        SLICED,
        lambda found: labelled(replace(found, cordoned=True), {UPGRADE_STATE: "pod-restart-required"}),
        ["driver-upgrading"],
    ),
    "the node waits for its turn": (
        SLICED,
        lambda found: labelled(found, {UPGRADE_STATE: "upgrade-required"}),
        ["driver-upgrading"],
    ),
    "the driver is being replaced, and its operands are away": (
        SLICED,
        lambda found: labelled(
            without(offering(found, {"nvidia.com/gpu": 8}, gpu=0), PLUGIN, GFD), {UPGRADE_STATE: "pod-deletion-required"}
        ),
        ["driver-upgrading", "operand-missing", "operand-missing", "nothing-offered"],
    ),
    "mig-manager is at work": (
        SEVEN,
        lambda found: labelled(since(found, 1500), {MIG_STATE: "pending", PAUSED: "paused-for-mig-change"}),
        ["mig-config-pending"],
    ),
    "mig-manager gave up and did not say so": (
        SEVEN,
        lambda found: labelled(
            without(since(found, 1501), PLUGIN, GFD), {MIG_STATE: "pending", PAUSED: "paused-for-mig-change"}
        ),
        ["mig-stuck", "operand-missing", "operand-missing"],
    ),
    "nobody says which system the node has": (
        SLICED,
        lambda found: replace(labelled(found, {OS: None}), pods=(), policy=FAILED),
        ["os-unknown"],
    ),
    "the operator cannot make its operands": (
        SLICED,
        lambda found: replace(labelled(found, {OS: "ubuntu"}), pods=(), policy=FAILED),
        ["policy-failed"],
    ),
    "the operator has not made them yet": (
        SLICED,
        lambda found: replace(labelled(found, {OS: None}), pods=(), policy=replace(FAILED, why="OperandNotReady: wait")),
        ["operand-missing"] * 4,
    ),
    "config-manager found no ConfigMap": (
        SLICED,
        lambda found: replace(
            with_pod(found, PLUGIN, ready=False, trouble="config", words="container config-manager-init: Error"),
            config=ApiFailure("GET /…", 404, "not found"),
        ),
        ["config-map-missing", "operand-config"],
    ),
    "an operand crashes": (
        SLICED,
        lambda found: with_pod(found, PLUGIN, ready=False, trouble="crash", words="CrashLoopBackOff"),
        ["operand-crashing"],
    ),
    "an operand's image is missing": (
        SLICED,
        lambda found: with_pod(found, "nvidia-driver-daemonset", ready=False, trouble="image", words="ImagePullBackOff"),
        ["operand-image"],
    ),
    "an operand waits": (SLICED, lambda found: with_pod(found, GFD, ready=False, trouble="other"), ["operand-not-ready"]),
    "mig-manager failed": (SEVEN, lambda found: labelled(found, {MIG_STATE: "failed"}), ["mig-config-failed"]),
    "mig-manager waits": (SEVEN, lambda found: labelled(found, {MIG_STATE: "pending"}), ["mig-config-pending"]),
    "mig-manager reboots": (
        SEVEN,
        lambda found: labelled(found, {MIG_STATE: "rebooting"}),
        ["mig-config-rebooting"],
    ),
    "mig-manager did nothing": (SEVEN, lambda found: labelled(found, {MIG_STATE: None}), ["mig-config-unset"]),
    "the driver's upgrade failed": (
        SLICED,
        lambda found: labelled(found, {"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}),
        ["driver-upgrade-stuck"],
    ),
    "GFD says MIG is invalid": (
        SEVEN,
        lambda found: labelled(found, {"nvidia.com/gpu.product": "NVIDIA-A100-MIG-INVALID"}),
        ["gfd-invalid"],
    ),
    "GFD saw another strategy": (
        SLICED,
        lambda found: labelled(found, {"nvidia.com/gpu.sharing-strategy": "mps"}),
        ["gfd-other"],
    ),
    "GFD's labels are gone": (
        SLICED,
        lambda found: labelled(found, dict.fromkeys(key for key in found.labels if key.startswith(DISCOVERED))),
        ["gfd-absent"],
    ),
    "GFD's labels are older than GFD": (
        SLICED,
        lambda found: with_pod(found, GFD, started="2026-01-02T03:05:05Z"),
        ["gfd-stale"],
    ),
    "the node has no label but the pool's, and its plugin is older than its configuration": (
        SLICED,
        lambda found: config(replace(offering(found, gpu=16), labels=node(SLICED).expected.node.labels), changed=LATER),  # type: ignore[union-attr]
        ["mig-config-unset", "plugin-outdated", "gfd-absent"],
    ),
    "the configuration was written in the second in which the plugin started": (
        SLICED,
        lambda found: config(offering(found, gpu=16), changed=nodes.STARTED),
        ["count-other"],
    ),
    "of two plugins one is older than the configuration, and one has not started": (
        SLICED,
        lambda found: config(
            replace(offering(found, gpu=16), pods=(*found.pods, plugin(1, started=None), plugin(2, started=LATER))),  # type: ignore[misc]
            changed="2026-05-01T00:00:00Z",
        ),
        ["two-plugins", "plugin-outdated"],
    ),
    "an exporter is older than the configuration": (
        SLICED,
        lambda found: config(with_pod(offering(found, gpu=16), PLUGIN, started=LATER), changed="2026-05-01T00:00:00Z"),
        ["count-other"],
    ),
    "the plugin is older than a configuration that cannot be read": (
        SLICED,
        lambda found: replace(offering(found, gpu=16), config=None),
        ["count-other"],
    ),
    "nobody says when the configuration was written": (
        SLICED,
        lambda found: config(offering(found, gpu=16), changed=None),
        ["count-other"],
    ),
    "the configuration has other keys": (SLICED, lambda found: config(found, keys=("a", "b")), ["config-key-missing"]),
    "sharing is off although declared under another name": (
        RENAMED,
        lambda found: offering(found, gpu=2),
        ["sharing-off", "left-over"],
    ),
    "the resource has its old name, and another number": (
        RENAMED,
        lambda found: offering(found, gpu=6),
        ["name-other", "left-over"],
    ),
    "the other MIG strategy, and another number": (
        UNLIKE,
        lambda found: offering(found, gpu=5),
        ["plugin-outdated", "plugin-outdated", "left-over"],
    ),
    "all MIG devices are of one kind": (UNLIKE, lambda found: offering(found, mig_3g__40gb=8), ["plugin-outdated"] * 2),
    "only the first GPU is parted, and the plugin did not see it": (
        {"mig": {"gpus": [{"index": 0, "layout": {"1g.10gb": 7}}, {"index": 1, "layout": {}}]}},
        lambda found: offering(found, gpu=9),
        ["plugin-outdated", "plugin-outdated"],
    ),
    "several names are left over": (
        SLICED,
        lambda found: replace(found, allocatable={**found.allocatable, **{f"nvidia.com/{one}": 1 for one in "zyxwvutsr"}}),
        ["left-over"] * 9,
    ),
    "two device plugins, of which each offers something": (
        SLICED,
        lambda found: replace(offering(found, gpu=8, gpu__shared=8), foreign_pods=(FOREIGN,)),
        ["two-plugins", "two-plugins"],
    ),
    "an operand has no pod where NFD knows a display controller": (
        SLICED,
        lambda found: labelled(without(found, PLUGIN), {NFD: None, NFD.replace("pci-", "pci-0300_"): "true"}),
        ["operand-missing"],
    ),
    "an operand has no pod where NFD knows a 3D controller": (
        SLICED,
        lambda found: labelled(without(found, PLUGIN), {NFD: None, NFD.replace("pci-", "pci-0302_"): "true"}),
        ["operand-missing"],
    ),
    "an operand that is switched on has no pod": (
        SLICED,
        lambda found: labelled(without(found, PLUGIN), {PAUSED: "true", "nvidia.com/gpu.deploy.dcgm": "false"}),
        ["operand-missing"],
    ),
    "an operand has no pod, and why cannot be asked": (
        SLICED,
        lambda found: replace(without(found, PLUGIN), policy=ApiFailure("GET /…", 403, "forbidden")),
        ["operand-missing"],
    ),
    "config-manager fails on a node that has no label": (
        SLICED,
        lambda found: labelled(with_pod(found, PLUGIN, **stuck(600)), {"nvidia.com/device-plugin.config": None}),
        ["label-missing", "operand-config"],
    ),
    "config-manager fails, and nobody says when the configuration was written": (
        SLICED,
        lambda found: config(with_pod(found, PLUGIN, **stuck(600)), changed=None),
        ["config-on-its-way"],
    ),
    "mig-manager has been at work for a minute": (
        SEVEN,
        lambda found: labelled(since(found, 60), {MIG_STATE: "pending"}),
        ["mig-config-pending"],
    ),
    "mig-manager has been at work for less than a minute": (
        SEVEN,
        lambda found: labelled(since(found, 59), {MIG_STATE: "pending"}),
        ["mig-config-pending"],
    ),
    "mig-manager has long been at work, and nothing is paused for it": (
        SEVEN,
        lambda found: labelled(since(found, 3000), {MIG_STATE: "pending"}),
        ["mig-config-pending"],
    ),
    "GFD left a label out": (SLICED, lambda found: labelled(found, {"nvidia.com/gpu.sharing-strategy": None}), ["gfd-other"]),
    "GFD's labels are older than the younger of two": (
        SLICED,
        lambda found: replace(found, pods=(*found.pods, nodes.pod(GFD, name="second", started="2026-01-02T03:05:15Z"))),  # type: ignore[misc]
        ["gfd-stale"],
    ),
}  # fmt: skip

# Each: declaration, what is otherwise there and means nothing.
HARMLESS: dict[str, tuple[dict[str, Any], Callable[[NodeReading], NodeReading]]] = {
    "an operand was started after GFD": (SLICED, lambda found: with_pod(found, PLUGIN, started=LATER)),
    "of two pods of GFD the younger is not ready": (
        SLICED,
        lambda found: replace(found, pods=(*found.pods, nodes.pod(GFD, name="second", started=LATER, ready=False))),  # type: ignore[misc]
    ),
    "GFD does not say when it started": (SLICED, lambda found: with_pod(found, GFD, started=None)),
    "of two pods of an operand one crashes": (
        SLICED,
        lambda found: replace(found, pods=(*found.pods, plugin(1, device_plugin=False, ready=False, trouble="crash"))),  # type: ignore[misc]
    ),
    "the configuration was not asked for": (SLICED, lambda found: replace(found, config=None)),
    "a pod that is not needed waits": (
        SLICED,
        lambda found: with_pod(found, "nvidia-dcgm-exporter", ready=False, trouble="other", words="phase Pending"),
    ),
    "the driver is as it should be": (SLICED, lambda found: labelled(found, {UPGRADE_STATE: ""})),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_means_nothing_is_no_difference_and_not_even_a_note(name: str) -> None:
    sharing, happens = HARMLESS[name]
    healthy = node(sharing)
    findings = compared(healthy, happens(healthy.kubernetes))
    assert (findings.verdict, findings.differences, findings.notes) == (Verdict.HOLDS, [], [])


def in_words(findings: Findings) -> list[str]:
    """As a report says it, with its cause; sums are those of files that others write."""
    return [
        re.sub(
            r"[0-9a-f]{64}",
            "SHA-256",
            f"{one.cause.key}: {one.where}: {one.field} is {shown(one.observed)}, expected {shown(one.expected)}"
            + (f" ({one.detail})" if one.detail else ""),
        )
        for one in (*ordered(findings.differences), *ordered(findings.unknown))
    ]


def test_each_fault_is_told_in_these_words() -> None:
    told = {
        name: in_words(compared(node(sharing), happens(node(sharing).kubernetes)))
        for name, (sharing, happens, _) in FAULTS.items()
    }
    assert told == load_yaml((Path(__file__).parent / "node_faults.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("seconds", "causes"), [(5, []), (6, ["gfd-stale"])])
def test_clocks_may_differ_by_five_seconds(seconds: int, causes: list[str]) -> None:
    healthy = node(SLICED)
    stamped = int(healthy.kubernetes.labels["nvidia.com/gfd.timestamp"])
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stamped + seconds))
    findings = compared(healthy, with_pod(healthy.kubernetes, GFD, started=started))
    assert [finding.cause.key for finding in findings.differences] == causes


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_with_its_cause_and_nothing_else(name: str) -> None:
    sharing, happens, causes = FAULTS[name]
    healthy = node(sharing)
    findings = compared(healthy, happens(healthy.kubernetes))
    assert [finding.cause.key for finding in ordered(findings.differences)] == causes
    assert not findings.unknown


def test_a_driver_that_was_replaced_is_no_difference() -> None:
    healthy = node(SLICED)
    assert compared(healthy, labelled(healthy.kubernetes, {UPGRADE_STATE: "upgrade-done"})).verdict is Verdict.HOLDS


def test_a_stuck_config_manager_is_told_with_what_helps() -> None:
    name = "the old key went before the node had left it: config-manager is stuck"
    first, *_ = ordered(compared(node(SLICED), FAULTS[name][1](node(SLICED).kubernetes)).differences)
    assert "Delete this pod" in first.cause.remedy
    assert "put the key back" in first.cause.remedy
    assert str(first.where) == f"pod gpu-operator/{PLUGIN}-x7k2p"
    assert first.detail == "ConfigMap gpu-operator/gpu-pools-device-plugin was written 91 s before it last failed"


def test_what_mig_manager_has_paused_and_for_how_long_is_told() -> None:
    happens = FAULTS["mig-manager gave up and did not say so"][1]
    first, *_ = ordered(compared(node(SEVEN), happens(node(SEVEN).kubernetes)).differences)
    assert first.detail == f"for 25 minutes; {PAUSED}=paused-for-mig-change"


@pytest.mark.parametrize(
    ("failed_at", "cause", "detail"),
    [
        ("2026-01-02T02:59:00Z", "config-on-its-way", ""),
        ("2026-01-02T03:00:00Z", "config-on-its-way", ""),
        (
            "2026-01-02T03:00:01Z",
            "config-on-its-way",
            "ConfigMap gpu-operator/gpu-pools-device-plugin was written 1 s before it last failed",
        ),
    ],
)
def test_how_long_after_the_configuration_config_manager_failed_is_told(failed_at: str, cause: str, detail: str) -> None:
    healthy = node(SLICED)
    pods = with_pod(healthy.kubernetes, PLUGIN, **{**stuck(0), "config_failed": failed_at})
    (finding,) = compared(healthy, config(pods, changed="2026-01-02T03:00:00Z")).differences
    assert (finding.cause.key, finding.detail) == (cause, detail)


def test_a_dead_mps_daemon_explains_that_nothing_is_offered() -> None:
    healthy = node({"mps": {"replicas": 4}})
    findings = Findings()
    findings.differs(Where("MPS daemon"), "answer", "answers", "none", "mps-dead")
    compare_node(healthy.expected, offering(healthy.kubernetes, {"nvidia.com/gpu": 8}, gpu=0), healthy.nvml, findings)
    assert [finding.cause.key for finding in findings.differences] == ["mps-dead", "nothing-offered"]


def test_that_the_plugin_is_older_than_the_instances_is_only_said_where_there_are_some() -> None:
    healthy = node(SEVEN)
    gpus: Any = healthy.nvml.gpus
    silent = replace(gpus[0], instances=failed(4, "nvmlDeviceGetGpuInstances"))
    bare = replace(gpus[0], instances=())
    seen: list[tuple[Any, str]] = [
        (healthy.nvml, "plugin-outdated"),
        (replace(healthy.nvml, gpus=(silent, gpus[1])), "plugin-outdated"),
        (replace(healthy.nvml, gpus=(bare, gpus[1])), "plugin-outdated"),
        (replace(healthy.nvml, gpus=(silent, silent)), "count-other"),
        (replace(healthy.nvml, gpus=(bare, bare)), "count-other"),
        (replace(healthy.nvml, gpus=failed(15, "nvmlDeviceGetCount")), "count-other"),
        (Hung("nvmlInit", 3, killable=True), "count-other"),
    ]
    for nvml, cause in seen:
        (finding,) = compared(replace(healthy, nvml=nvml), offering(healthy.kubernetes, gpu=9)).differences
        assert finding.cause.key == cause


def test_instances_that_nobody_declared_do_not_make_the_plugin_outdated() -> None:
    healthy = replace(node(SLICED), nvml=node(SEVEN).nvml)
    (finding,) = compared(healthy, offering(healthy.kubernetes, gpu=16)).differences
    assert finding.cause.key == "count-other"


def test_where_pods_may_not_be_read_a_plugin_may_be_there() -> None:
    healthy = node(SLICED)
    found = replace(offering(healthy.kubernetes, {"nvidia.com/gpu": 8}, gpu=0), pods=FAILURES[0][0])
    assert [finding.cause.key for finding in compared(healthy, found).differences] == ["unhealthy"]


def test_without_an_expectation_of_the_node_nothing_of_it_is_compared() -> None:
    healthy = node(SLICED)
    bare = replace(healthy, expected=replace(healthy.expected, node=None))
    findings = compared(bare, replace(healthy.kubernetes, ready=False))
    assert (findings.verdict, findings.notes) == (Verdict.HOLDS, [])


def test_what_the_operator_says_is_told() -> None:
    (finding,) = compared(node(SLICED), FAULTS["the operator cannot make its operands"][1](node(SLICED).kubernetes)).differences
    assert "failed to retrieve GPU node OS info" in finding.detail


def test_a_taint_that_a_cloud_pool_carries_must_be_there() -> None:
    plan = plan_config(load_yaml(aks({"taints": ["sku=gpu:NoSchedule"]}))["config"])
    healthy = nodes.healthy(plan, plan.pools[0])
    assert compared(healthy, healthy.kubernetes).verdict is Verdict.HOLDS
    findings = compared(healthy, replace(healthy.kubernetes, taints=("sku=gpu:PreferNoSchedule",)))
    assert in_words(findings) == ["taint-missing: node: taint sku=gpu:NoSchedule is missing, expected there"]


def test_where_the_image_brings_the_driver_the_operator_s_must_not_run() -> None:
    healthy = node(SLICED, driver="preinstalled")
    found = with_pod(healthy.kubernetes, "nvidia-driver-daemonset", app="nvidia-driver-daemonset-5.15.0-1")
    where = "pod gpu-operator/nvidia-driver-daemonset-x7k2p"
    assert in_words(compared(healthy, found)) == [f"operand-excluded: {where}: pod on the node is there, expected none"]
    assert healthy.expected.node
    several = replace(
        healthy.expected, node=replace(healthy.expected.node, excluded_operands=("nvidia-driver-daemonset", "other"))
    )
    assert [finding.cause.key for finding in compared(replace(healthy, expected=several), found).differences] == [
        "operand-excluded"
    ]


@pytest.mark.parametrize("capacity", [0, 2])
def test_a_name_of_the_past_of_which_nothing_can_be_had_is_a_note(capacity: int) -> None:
    healthy = node(UNLIKE)
    before = {**healthy.kubernetes.capacity, "nvidia.com/gpu": capacity}
    findings = compared(healthy, offering(healthy.kubernetes, before, mig_3g__40gb=2, mig_1g__10gb=6, gpu=0))
    assert findings.verdict is Verdict.HOLDS
    assert (
        f"nvidia.com/gpu: none is allocatable; the kubelet still lists the name, with a capacity of {capacity}" in findings.notes
    )


@pytest.mark.parametrize("operand", ["nvidia-operator-validator", "nvidia-dcgm-exporter"])
def test_a_pod_that_crashes_and_is_not_needed_for_sharing_is_a_note(operand: str) -> None:
    healthy = node(SEVEN)
    crashing = with_pod(healthy.kubernetes, operand, ready=False, trouble="crash", words="container x: CrashLoopBackOff")
    findings = compared(healthy, crashing)
    assert findings.verdict is Verdict.HOLDS
    (note,) = findings.notes
    assert f"gpu-operator/{operand}-x7k2p, which sharing does not need, is not ready: container x: CrashLoopBackOff" in note


def test_labels_that_switch_an_operand_off_are_named_as_the_reason_that_it_has_no_pod() -> None:
    healthy = node(SLICED)
    left = labelled(without(healthy.kubernetes, PLUGIN), {"nvidia.com/gpu.deploy.device-plugin": "false"})
    (finding,) = compared(healthy, left).differences
    assert finding.cause.key == "operand-missing"
    assert finding.detail == "nvidia.com/gpu.deploy.device-plugin=false"


def test_labels_without_a_time_are_a_note() -> None:
    healthy = node(SLICED)
    findings = compared(healthy, labelled(healthy.kubernetes, {"nvidia.com/gfd.timestamp": None}))
    assert findings.verdict is Verdict.HOLDS
    assert findings.notes == ["label nvidia.com/gfd.timestamp is missing: that the labels are fresh was not checked"]
    findings = compared(healthy, labelled(healthy.kubernetes, {"nvidia.com/gfd.timestamp": "soon"}))
    assert findings.notes == ["label nvidia.com/gfd.timestamp is soon: that the labels are fresh was not checked"]


FAILURES = [
    (ApiFailure("GET /x", 403, "forbidden"), "api-permission"),
    (ApiFailure("GET /x", 401, "unauthorized"), "api-permission"),
    (ApiFailure("GET /x", None, "connection refused"), "api-unreachable"),
    (ApiFailure("GET /x", 503, "unavailable"), "api-unreachable"),
    (ApiFailure("GET /x", 429, "too many"), "api-unreachable"),
    (ApiFailure("GET /x", 404, "not found"), "api-answer"),
]


@pytest.mark.parametrize(("failure", "cause"), FAILURES)
def test_what_the_api_will_not_say_of_the_node_is_no_difference_and_no_pass(failure: ApiFailure, cause: str) -> None:
    healthy = node(SLICED)
    findings = compared(healthy, replace(healthy.kubernetes, failure=failure, labels={}, allocatable={}, pods=None))
    assert findings.verdict is Verdict.CANNOT_TELL
    assert in_words(findings) == [f"{cause}: node: answer of the API is {failure}, expected 200"]


@pytest.mark.parametrize(
    ("part", "where"),
    [("pods", "pods"), ("foreign_pods", "pods"), ("config", "ConfigMap gpu-operator/gpu-pools-device-plugin")],
)
def test_nor_is_what_it_will_not_say_beside_the_node(part: str, where: str) -> None:
    healthy = node(SLICED)
    findings = compared(healthy, replace(healthy.kubernetes, **{part: FAILURES[0][0]}))  # type: ignore[arg-type]
    assert findings.verdict is Verdict.CANNOT_TELL
    assert in_words(findings) == [f"api-permission: {where}: answer of the API is 403 to GET /x: forbidden, expected 200"]


def test_a_proven_difference_is_told_even_where_something_else_cannot_be_told() -> None:
    healthy = node(SLICED)
    findings = compared(healthy, replace(offering(healthy.kubernetes, gpu=2), config=FAILURES[0][0]))
    assert findings.verdict is Verdict.DIFFERS
    assert findings.unknown


def test_a_hung_driver_does_not_stop_the_node_s_comparison() -> None:
    healthy = node(SEVEN)
    hung = replace(healthy, nvml=Hung("nvmlInit", 3, killable=True))  # type: ignore[arg-type]
    assert compared(hung, healthy.kubernetes).verdict is Verdict.HOLDS
