"""Compares what Kubernetes said of the node with the expectation. Pure.

Allocatable counts, never capacity: the kubelet keeps names of the past in capacity. Labels of gpu-feature-discovery are
secondary evidence and come last. What the API would not say is no difference, and no pass either.
"""

from __future__ import annotations

import calendar
import time
from typing import TYPE_CHECKING, Final

from .findings import Where
from .names import CONFIG_LABEL, MIG_PENDING_SECONDS, MIG_STATE_LABEL
from .node import ApiFailure, ConfigReading, PolicyReading, belongs
from .reading import Failed, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .expectation import ClaimsExpectation, Expectation, NodeExpectation
    from .findings import Findings
    from .node import ClaimsReading, NodeReading, Pod
    from .reading import Hung, Unreadable

_WHOLE_GPU: Final = "nvidia.com/gpu"
_NODE: Final = Where("node")
_CLAIMS: Final = Where("devices of claims")
_FORBIDDEN: Final = frozenset({401, 403})
_NOT_FOUND: Final = 404
#: 429 and everything above: the server is there, and cannot.
_BUSY: Final = 429
_NFD_LABELS: Final = tuple(f"feature.node.kubernetes.io/pci-{kind}10de.present" for kind in ("", "0300_", "0302_"))
_OS_LABEL: Final = "feature.node.kubernetes.io/system-os_release.ID"
#: The reason of the ClusterPolicy's condition where the operator could not make what it should; others mean that it waits.
_RECONCILE_FAILED: Final = "ReconcileFailed"
_MIG_STATES: Final = {"failed": "mig-config-failed", "pending": "mig-config-pending", "rebooting": "mig-config-rebooting"}
#: A kubelet brought a changed ConfigMap to a volume after 53 to 73 s.
_VOLUME_SECONDS: Final = 90
_UPGRADE_STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
_UPGRADE_FAILED: Final = "upgrade-failed"
#: k8s-operator-libs, pkg/upgrade/consts.go; every other state is on the way.
_UPGRADE_SETTLED: Final = frozenset({"", "upgrade-done"})
_GFD: Final = "gpu-feature-discovery"
#: Without the MPS daemon the device plugin stays up and registers nothing.
_PLUGIN_WAITS: Final = frozenset({"mps-dead", "mps-operand-missing", "mps-unheard"})
_STRATEGY: Final = "nvidia.com/mig.strategy"
_SHARED: Final = ".shared"
_PRODUCT: Final = "nvidia.com/gpu.product"
_INVALID: Final = "-MIG-INVALID"
_MPS: Final = "nvidia-device-plugin-mps-control-daemon"
_PLUGIN: Final = "nvidia-device-plugin-daemonset"
_SWITCHES: Final = "nvidia.com/gpu.deploy."
_PLUGIN_SWITCH: Final = f"{_SWITCHES}device-plugin"
_TIMESTAMP: Final = "nvidia.com/gfd.timestamp"
_CLOCK_SLACK_SECONDS: Final = 5
_MINUTE: Final = 60
_TROUBLES: Final = {"config": "operand-config", "image": "operand-image", "crash": "operand-crashing"}


def compare_node(expected: Expectation, found: NodeReading, nvml: Reading | Hung | Unreadable, findings: Findings) -> None:
    """Add everything in which the node differs from the expectation.

    Args:
        expected: the expectation; with a part about the node.
        found: the node.
        nvml: what NVML said, to tell whether the device plugin has seen the GPUs as they are.
        findings: where to add.
    """
    wanted = expected.node
    if wanted is None:
        return
    if found.failure is not None:
        _no_answer(_NODE, found.failure, findings)
        return
    if not found.ready:
        findings.differs(_NODE, "condition Ready", "True", "not True", "node-not-ready")
    _compare_labels(wanted, found, findings)
    _compare_states(wanted, found, findings)
    _compare_config(wanted, found.config, findings)
    _compare_pods(wanted, found, findings)
    _compare_resources(expected, wanted, found, nvml, findings)
    if wanted.claims is not None:
        _compare_claims(wanted.claims, found.claims, nvml, findings)
    _compare_discovery(wanted, found, findings)


def _compare_claims(
    wanted: ClaimsExpectation, found: ClaimsReading | None, nvml: Reading | Hung | Unreadable, findings: Findings
) -> None:
    from .compare_claims import compare_claims  # noqa: PLC0415 - nodes without claims load none of it

    if found is None:
        findings.cannot_tell(_CLAIMS, "answer of the API", "200", "not asked", "api-answer")
        return
    for failure in compare_claims(wanted, found, nvml, findings):
        _no_answer(_CLAIMS, failure, findings)


def _no_answer(where: Where, failure: ApiFailure, findings: Findings) -> None:
    if failure.status in _FORBIDDEN:
        why = "api-permission"
    elif failure.status is None or failure.status >= _BUSY:
        why = "api-unreachable"
    else:
        why = "api-answer"
    findings.cannot_tell(where, "answer of the API", "200", str(failure), why)


def _compare_labels(wanted: NodeExpectation, found: NodeReading, findings: Findings) -> None:
    for key, value in wanted.labels.items():
        if key not in found.labels:
            findings.differs(_NODE, f"label {key}", value, "missing", "label-missing")
        elif found.labels[key] != value:
            findings.differs(_NODE, f"label {key}", value, found.labels[key], "label-other")
    for taint in wanted.taints:
        if taint not in found.taints:
            findings.differs(_NODE, f"taint {taint}", "there", "missing", "taint-missing")


def _compare_states(wanted: NodeExpectation, found: NodeReading, findings: Findings) -> None:
    upgrade = found.labels.get(_UPGRADE_STATE, "")
    if upgrade not in _UPGRADE_SETTLED:
        why = "driver-upgrade-stuck" if upgrade == _UPGRADE_FAILED else "driver-upgrading"
        detail = "the node is cordoned: it takes no new pods" if found.cordoned else ""
        findings.differs(_NODE, f"label {_UPGRADE_STATE}", "upgrade-done or none", upgrade, why, detail)
    state = found.labels.get(MIG_STATE_LABEL)
    if wanted.mig_manager and state != "success":
        why, detail = _MIG_STATES.get(state or "", "mig-config-unset"), ""
        if why == "mig-config-pending":
            why, detail = _pending(found)
        findings.differs(_NODE, f"label {MIG_STATE_LABEL}", "success", state or "missing", why, detail)


def _pending(found: NodeReading) -> tuple[str, str]:
    """(cause, detail) where mig-manager is at work, or has given up without a word."""
    paused = ", ".join(_paused(found))
    if found.mig_state_since is None:
        return "mig-config-pending", paused
    waited = _seconds(found.moment) - _seconds(found.mig_state_since)
    given_up = bool(paused) and waited > MIG_PENDING_SECONDS
    since = f"for {waited // 60} minutes" if waited >= _MINUTE else ""
    return "mig-stuck" if given_up else "mig-config-pending", "; ".join(filter(None, (since, paused)))


def _paused(found: NodeReading) -> list[str]:
    return [f"{key}={value}" for key, value in found.labels.items() if "gpu.deploy." in key and value != "true"]


def _compare_config(wanted: NodeExpectation, found: ConfigReading | ApiFailure | None, findings: Findings) -> None:
    config = wanted.device_plugin_config
    where = Where(f"ConfigMap {wanted.namespace}/{config.name}")
    if isinstance(found, ApiFailure):
        if found.status == _NOT_FOUND:
            findings.differs(where, "ConfigMap", "there", "missing", "config-map-missing")
        else:
            _no_answer(where, found, findings)
    elif found is not None and config.key not in found.keys:
        findings.differs(where, "keys", config.key, ", ".join(found.keys) or "none", "config-key-missing")
    elif found is not None and found.sha256 != config.sha256:
        findings.differs(where, f"text of {config.key}", f"sha256 {config.sha256}", f"sha256 {found.sha256}", "config-edited")


# --- pods -------------------------------------------------------------------------------------------------


def _compare_pods(wanted: NodeExpectation, found: NodeReading, findings: Findings) -> None:
    for pods in (found.pods, found.foreign_pods):
        if isinstance(pods, ApiFailure):
            _no_answer(Where("pods"), pods, findings)
    own = _listed(found.pods)
    if not isinstance(found.pods, ApiFailure):
        _compare_operands(wanted, found, own, findings)
    plugins = [pod for pod in (*own, *_listed(found.foreign_pods)) if pod.device_plugin]
    if len(plugins) > 1:
        names = ", ".join(f"{pod.namespace}/{pod.name}" for pod in plugins)
        findings.differs(_NODE, "device plugins", "one pod", names, "two-plugins")


def _lacks_switch(found: NodeReading) -> bool:
    """Whether the operator has labelled the node, and the label of its device plugin is gone."""
    return _PLUGIN_SWITCH not in found.labels and any(label.startswith(_SWITCHES) for label in found.labels)


def _listed(pods: tuple[Pod, ...] | ApiFailure | None) -> tuple[Pod, ...]:
    return () if pods is None or isinstance(pods, ApiFailure) else pods


def _compare_operands(wanted: NodeExpectation, found: NodeReading, pods: tuple[Pod, ...], findings: Findings) -> None:
    missing = []
    for operand in wanted.operands:
        of_it = [pod for pod in pods if belongs(pod, operand)]
        if not of_it:
            missing.append(operand)
        elif not any(pod.ready for pod in of_it):
            _compare_unready(wanted, found, of_it[0], findings)
    _compare_missing(found, missing, findings)
    for pod in pods:
        if any(belongs(pod, operand) for operand in wanted.excluded_operands):
            why = "plugin-beside-claims" if pod.device_plugin else "operand-excluded"
            findings.differs(Where(f"pod {pod.namespace}/{pod.name}"), "pod on the node", "none", "there", why)
        elif pod.trouble in _TROUBLES and not any(belongs(pod, operand) for operand in wanted.operands):
            # Exporters and validators: a validator ends with errors, too, where all GPUs are in use.
            findings.note(f"pod {pod.namespace}/{pod.name}, which sharing does not need, is not ready: {pod.words}")


def _compare_unready(wanted: NodeExpectation, found: NodeReading, pod: Pod, findings: Findings) -> None:
    why = _TROUBLES.get(pod.trouble or "", "operand-not-ready")
    detail = ""
    if why == "operand-config":
        why, detail = _why_config(wanted, found, pod)
    findings.differs(Where(f"pod {pod.namespace}/{pod.name}"), "ready", "ready", pod.words, why, detail)


def _why_config(wanted: NodeExpectation, found: NodeReading, pod: Pod) -> tuple[str, str]:
    """(cause, detail) where config-manager ends with an error. The operator's pods have no message for it in their status."""
    label = found.labels.get(CONFIG_LABEL, "")
    if not isinstance(found.config, ConfigReading) or not label:
        return "operand-config", ""
    if label not in found.config.keys:
        return "operand-config", f"the node's label names {label}, which the ConfigMap lacks"
    if pod.unsignalled:
        return "mps-unheard", pod.unsignalled
    failed, changed = pod.config_failed, found.config.changed
    if failed is None or changed is None:
        return "config-on-its-way", ""
    # With the key in its volume it can only fail over the link to the one that is gone (k8s-device-plugin, cmd/config-manager).
    after = _seconds(failed) - _seconds(changed)
    why = "config-wedged" if after > _VOLUME_SECONDS else "config-on-its-way"
    config = f"{wanted.namespace}/{wanted.device_plugin_config.name}"
    return why, f"ConfigMap {config} was written {after} s before it last failed" if after > 0 else ""


def _compare_missing(found: NodeReading, missing: list[str], findings: Findings) -> None:
    """Operands without a pod: each, or the one reason that explains them all."""
    detail = f"no pod of {', '.join(missing)} is on the node"
    if missing and not any(label in found.labels for label in _NFD_LABELS):
        findings.differs(_NODE, "NFD's label of NVIDIA PCI devices", "there", "missing", "nfd-missing", detail)
    elif isinstance(found.policy, PolicyReading) and found.policy.why.startswith(_RECONCILE_FAILED):
        # Asked for only where no operand at all is there.
        why = "policy-failed" if _OS_LABEL in found.labels else "os-unknown"
        findings.differs(Where("ClusterPolicy"), "state", "ready", found.policy.state, why, f"{found.policy.why}; {detail}")
    else:
        for operand in missing:
            why = "mps-operand-missing" if operand == _MPS else "operand-missing"
            if operand == _PLUGIN and _lacks_switch(found):
                why = "plugin-switch-missing"
            findings.differs(Where(f"operand {operand}"), "pod on the node", "one", "none", why, ", ".join(_paused(found)))


# --- resources --------------------------------------------------------------------------------------------


def _compare_resources(
    expected: Expectation, wanted: NodeExpectation, found: NodeReading, nvml: Reading | Hung | Unreadable, findings: Findings
) -> None:
    offered = {name: count for name, count in found.allocatable.items() if count}
    for name, count in wanted.allocatable.items():
        if offered.get(name, 0) != count:
            waits = bool(findings.whys() & _PLUGIN_WAITS)
            why = _why_other(expected, wanted, found, nvml, name, waits=waits)
            findings.differs(Where(name), "allocatable", count, offered.get(name, 0), why)
    for name in sorted({*found.allocatable, *found.capacity} - {*wanted.allocatable}):
        if offered.get(name):
            why = "two-plugins" if "two-plugins" in findings.whys() else "left-over"
            if wanted.claims is not None:
                why = "plugin-beside-claims"
            findings.differs(Where(name), "allocatable", 0, offered[name], why)
        else:
            # Nothing can be placed on it. The kubelet keeps the name after each change of strategy, on healthy nodes too.
            capacity = found.capacity.get(name, 0)
            findings.note(f"{name}: none is allocatable; the kubelet still lists the name, with a capacity of {capacity}")


def _why_other(
    expected: Expectation,
    wanted: NodeExpectation,
    found: NodeReading,
    nvml: Reading | Hung | Unreadable,
    name: str,
    *,
    waits: bool,
) -> str:
    """The likely cause of another number, by what else is there."""
    offered = {key: count for key, count in found.allocatable.items() if count}
    remembered = found.capacity.get(name, 0) == wanted.allocatable[name]
    if not offered and (waits or not remembered or not _has_plugin(found)):
        return "nothing-offered"
    # The kubelet keeps the capacity of a name that the plugin gave up, too: then it offers another one instead.
    if remembered and (name in offered or not offered.keys() - wanted.allocatable):
        return "unhealthy"
    plain = offered == {_WHOLE_GPU: expected.count}
    if plain and found.labels.get(_STRATEGY) != wanted.discovered_labels.get(_STRATEGY):
        return "sharing-off"
    if not plain and _is_renamed(name, wanted.allocatable, offered):
        return "name-other"
    return _why_as_started(expected, wanted, found, nvml, plain=plain)


def _why_as_started(
    expected: Expectation, wanted: NodeExpectation, found: NodeReading, nvml: Reading | Hung | Unreadable, *, plain: bool
) -> str:
    """The same, where the name is right: was the plugin given something else, or does it still serve what was there before?"""
    if expected.profiles and _has_instances(nvml):
        return "plugin-outdated"
    if plain:
        return "sharing-off"
    # Under another label the plugin serves another key, however old its process is.
    labelled = wanted.labels.items() <= found.labels.items()
    return "plugin-outdated" if labelled and _is_outdated(found) else "count-other"


def _has_plugin(found: NodeReading) -> bool:
    """Whether a device plugin runs that could have taken devices out; where pods may not be read that stays open."""
    return isinstance(found.pods, ApiFailure) or any(pod.device_plugin and pod.ready for pod in _listed(found.pods))


def _is_renamed(name: str, wanted: Mapping[str, int], offered: Mapping[str, int]) -> bool:
    """Whether what is missing is there under another name: .shared, or the other MIG strategy's."""
    if name in offered:
        return False
    others = {other for other in offered if other not in wanted}
    same = any(other.removesuffix(_SHARED) == name.removesuffix(_SHARED) for other in others)
    return same or (bool(others) and sum(offered.values()) == sum(wanted.values()))


def _has_instances(nvml: Reading | Hung | Unreadable) -> bool:
    if not isinstance(nvml, Reading) or isinstance(nvml.gpus, Failed):
        return False
    return any(gpu.instances for gpu in nvml.gpus if not isinstance(gpu.instances, Failed))


def _is_outdated(found: NodeReading) -> bool:
    """Whether the device plugin started before its configuration was last written."""
    if not isinstance(found.config, ConfigReading) or found.config.changed is None:
        return False
    changed = _seconds(found.config.changed)
    starts = [pod.started for pod in _listed(found.pods) if pod.device_plugin and pod.started]
    return any(_seconds(started) < changed for started in starts)


def _seconds(moment: str) -> int:
    """Of an RFC 3339 moment as Kubernetes writes it."""
    return calendar.timegm(time.strptime(moment[:19], "%Y-%m-%dT%H:%M:%S"))


# --- gpu-feature-discovery --------------------------------------------------------------------------------


def _compare_discovery(wanted: NodeExpectation, found: NodeReading, findings: Findings) -> None:
    if not any(key in found.labels for key in wanted.discovered_labels):
        if wanted.discovered_labels:
            expected = ", ".join(wanted.discovered_labels)
            findings.differs(_NODE, "labels of gpu-feature-discovery", expected, "none", "gfd-absent")
        return
    product = found.labels.get(_PRODUCT, "")
    if product.endswith(_INVALID):
        findings.differs(_NODE, f"label {_PRODUCT}", wanted.discovered_labels.get(_PRODUCT, "a product"), product, "gfd-invalid")
        return
    for key, value in wanted.discovered_labels.items():
        if found.labels.get(key) != value:
            findings.differs(_NODE, f"label {key}", value, found.labels.get(key, "missing"), "gfd-other")
    _compare_timestamp(found, findings)


def _compare_timestamp(found: NodeReading, findings: Findings) -> None:
    """The labels must be of the discovery that runs now: it stamps them once, when it starts or reads its file again."""
    stamp = found.labels.get(_TIMESTAMP, "")
    starts = [_seconds(pod.started) for pod in _listed(found.pods) if pod.app == _GFD and pod.ready and pod.started]
    if not stamp.isdecimal():
        findings.note(f"label {_TIMESTAMP} is {stamp or 'missing'}: that the labels are fresh was not checked")
    elif starts and int(stamp) + _CLOCK_SLACK_SECONDS < max(starts):
        older = max(starts) - int(stamp)
        findings.differs(
            _NODE, f"label {_TIMESTAMP}", "not before the start of gpu-feature-discovery", f"{older} s before it", "gfd-stale"
        )
