"""Reads what Kubernetes says of the node that the verifier runs on: the node, the operands' pods on it, their configuration.

Where none of the operands has a pod, the operator is asked why: its ClusterPolicy is read then, and only then.

Only reads, only its own node and the namespaces that the expectation names. Of what comes back only what is compared is kept,
so that two readings of a settled node are equal. Judging is the business of gpu_pools/verifier/compare_node.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping  # noqa: TC003 - read at run time, by verifier.documents
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .api import MALFORMED, ApiError, shaped
from .marks import changed_label, set_by
from .names import MIG_STATE_LABEL, moment, seconds_of
from .quantities import read_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .api import Api
    from .claims import Device
    from .expectation import ClaimsExpectation, NodeExpectation

NVIDIA: Final = "nvidia.com/"
_OTHER_VENDORS: Final = ("amd", "intel", "rocm", "rdma", "sriov")
#: The container that picks an operand's configuration by the node's label.
_HELPER: Final = "config-manager"
#: Programs that come in the device plugin's image, or in a pod named after it.
_NO_PLUGIN: Final = ("mps-control", "feature-discovery", _HELPER)
#: The MPS daemon's container, the variable that names the process to signal, and how a Go program ends that panics.
_MPS_DAEMON: Final = "mps-control-daemon"
_SIGNALLED: Final = "PROCESS_TO_SIGNAL"
_PANIC: Final = 2
#: The first device plugin whose config-manager links the default configuration before it has read the node's label.
_DEFAULT_FIRST: Final = (0, 18, 2)
_IMAGE_REASONS: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CRASH_REASONS: Final = frozenset({"CrashLoopBackOff", "Error", "RunContainerError"})
#: Conditions of the ClusterPolicy, by type and status, whose message says what is wrong.
_WHY: Final = frozenset({("Error", "True"), ("Ready", "False")})
#: Characters of a moment without fractions and zone.
_TO_SECONDS: Final = 19
_POLICY: Final = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"


@dataclass(frozen=True)
class ApiFailure:
    """What the API would not say."""

    request: str
    status: int | None
    message: str

    def __str__(self) -> str:
        """As messages show it."""
        return f"{self.status or 'no answer'} to {self.request}: {self.message}"


@dataclass(frozen=True)
class Pod:
    """A pod on the node.

    Attributes:
        app: its label ``app``, which names the operand.
        device_plugin: whether it looks like an NVIDIA device plugin.
        ready: whether it is ready.
        started: when its main container started, RFC 3339.
        trouble: why it is not ready: ``config``, ``image``, ``crash`` or ``other``; None where it is.
        words: the same as the pod's status puts it.
        config_failed: where the config-manager beside its main container keeps it from being ready: when that last ended with an
            error, RFC 3339.
        unsignalled: of a pod of the MPS daemon whose config-manager failed: why its signal can reach nobody; empty elsewhere.
    """

    namespace: str
    name: str
    uid: str
    app: str
    device_plugin: bool
    ready: bool
    started: str | None
    trouble: str | None
    words: str
    config_failed: str | None
    unsignalled: str = ""


@dataclass(frozen=True)
class ConfigReading:
    """A ConfigMap's key: whether it is there, the SHA-256 of its text, and when the ConfigMap was last written."""

    keys: tuple[str, ...]
    sha256: str | None
    changed: str | None


@dataclass(frozen=True)
class PolicyReading:
    """What the ClusterPolicy says of itself: its state, and the words of the condition that says why it is not ready."""

    state: str
    why: str


@dataclass(frozen=True)
class ClaimsReading:
    """What NVIDIA's DRA driver announces of the node, and its pods there."""

    devices: tuple[Device, ...] | ApiFailure
    pods: tuple[Pod, ...] | ApiFailure

    def by_resource(self, wanted: ClaimsExpectation) -> Iterator[tuple[str | None, Device]]:
        """Each device with the resource by which pods ask for it; None: nobody has declared such a device."""
        resources = {(one.type, one.profile): one.resource for one in wanted.devices}
        for device in self.devices if isinstance(self.devices, tuple) else ():
            yield resources.get((device.type, device.profile)), device


@dataclass(frozen=True)
class NodeReading:
    """What Kubernetes says.

    Attributes:
        name: the node's.
        failure: why the node could not be read; the rest is then empty.
        ready: its condition Ready.
        cordoned: whether it takes no new pods.
        labels: those that are compared or that explain.
        taints: as ``key=value:Effect``.
        allocatable: its nvidia.com resources.
        capacity: the same of its capacity.
        pods: its pods in the operator's namespace; None where no expectation says which.
        foreign_pods: its pods in the other searched namespaces that look like a device plugin.
        config: the device plugin's configuration.
        claims: what the DRA driver announces; None where the expectation has no claims.
        policy: the ClusterPolicy, where no operand has a pod on the node; None where it was not asked for.
        set_by: each label and taint of the expectation -> who has set it.
        mig_state_since: when who writes the label of mig-manager's state last wrote to the node, RFC 3339.
        moment: when this was read, RFC 3339; no part of what two readings are compared by.
    """

    name: str
    failure: ApiFailure | None
    ready: bool
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    allocatable: Mapping[str, int]
    capacity: Mapping[str, int]
    pods: tuple[Pod, ...] | ApiFailure | None
    foreign_pods: tuple[Pod, ...] | ApiFailure | None
    config: ConfigReading | ApiFailure | None
    policy: PolicyReading | ApiFailure | None = None
    cordoned: bool = False
    set_by: Mapping[str, str] = field(default_factory=dict)
    mig_state_since: str | None = None
    claims: ClaimsReading | None = field(default=None, metadata={"if any": True})
    moment: str = field(default="", compare=False)


@dataclass(frozen=True)
class NodeReader:
    """Reads one node."""

    api: Api
    name: str

    def read(self, expected: NodeExpectation | None) -> NodeReading:
        """Read the node, and what the expectation names beside it."""
        try:
            node = self.api.get(f"/api/v1/nodes/{self.name}")
            labels, taints = _labels(node), _taints(node)
            allocatable, capacity = (_resources(node, part) for part in ("allocatable", "capacity"))
            marks = set_by(node, expected, taints) if expected else {}
            ready, cordoned = _is_ready(node), bool(node["spec"].get("unschedulable"))
            since = changed_label(node["metadata"], MIG_STATE_LABEL)
        except ApiError as error:
            return NodeReading(self.name, _failure(error), False, {}, (), {}, {}, None, None, None)  # noqa: FBT003
        except MALFORMED as error:
            failure = ApiFailure(f"GET /api/v1/nodes/{self.name}", None, f"the answer is not a node: {error!r}")
            return NodeReading(self.name, failure, False, {}, (), {}, {}, None, None, None)  # noqa: FBT003
        pods = self._pods((expected.namespace,)) if expected else None
        return NodeReading(
            name=self.name,
            failure=None,
            ready=ready,
            cordoned=cordoned,
            labels=labels,
            taints=taints,
            allocatable=allocatable,
            capacity=capacity,
            pods=pods,
            foreign_pods=self._foreign(expected.searched_namespaces) if expected else None,
            config=self._config(expected) if expected else None,
            policy=self._policy() if expected and not _has_operand(pods, expected) else None,
            set_by=marks,
            mig_state_since=since,
            claims=self._claims(expected.claims) if expected and expected.claims else None,
            moment=moment(),
        )

    def _pods(self, namespaces: tuple[str, ...]) -> tuple[Pod, ...] | ApiFailure:
        found: list[Pod] = []
        for namespace in namespaces:
            try:
                listed = self.api.get(f"/api/v1/namespaces/{namespace}/pods", fieldSelector=f"spec.nodeName={self.name}")
                with shaped(f"GET /api/v1/namespaces/{namespace}/pods"):
                    found += [_pod(pod) for pod in listed.get("items") or [] if "deletionTimestamp" not in pod["metadata"]]
            except ApiError as error:
                return _failure(error)
        return tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name)))

    def _claims(self, expected: ClaimsExpectation) -> ClaimsReading:
        from .claims import read_devices  # noqa: PLC0415 - nodes without claims load none of it

        try:
            devices: tuple[Device, ...] | ApiFailure = read_devices(self.api, self.name, expected.driver)
        except ApiError as error:
            devices = _failure(error)
        return ClaimsReading(devices, self._pods((expected.namespace,)))

    def _foreign(self, namespaces: tuple[str, ...]) -> tuple[Pod, ...] | ApiFailure:
        pods = self._pods(namespaces)
        return pods if isinstance(pods, ApiFailure) else tuple(pod for pod in pods if pod.device_plugin)

    def _policy(self) -> PolicyReading | ApiFailure:
        try:
            status = self.api.get(_POLICY).get("status") or {}
            with shaped(f"GET {_POLICY}"):
                # The real operator keeps the cause in the condition Error, and in Ready too where that is False.
                reasons = [one for one in status.get("conditions") or [] if (one.get("type"), one.get("status")) in _WHY]
                why = next((f"{one.get('reason', '')}: {one['message']}" for one in reasons if one.get("message")), "")
                return PolicyReading(str(status.get("state") or "unknown"), " ".join(why.split()))
        except ApiError as error:
            return _failure(error)

    def _config(self, expected: NodeExpectation) -> ConfigReading | ApiFailure:
        wanted = expected.device_plugin_config
        try:
            found = self.api.get(f"/api/v1/namespaces/{expected.namespace}/configmaps/{wanted.name}")
            with shaped(f"GET /api/v1/namespaces/{expected.namespace}/configmaps/{wanted.name}"):
                return _config(found, wanted.key)
        except ApiError as error:
            return _failure(error)


def _config(found: dict[str, Any], key: str) -> ConfigReading:
    data = found.get("data") or {}
    text = data.get(key)
    times = [_time(field.get("time")) for field in found["metadata"].get("managedFields") or []]
    return ConfigReading(
        keys=tuple(sorted(data)),
        sha256=None if text is None else hashlib.sha256(text.encode()).hexdigest(),
        changed=max((time for time in times if time), default=_time(found["metadata"].get("creationTimestamp"))),
    )


def belongs(pod: Pod, operand: str) -> bool:
    """Whether a pod is one of an operand's; the driver's DaemonSets of several kernels have names of their own."""
    return pod.app == operand or pod.app.startswith(f"{operand}-")


def _has_operand(pods: tuple[Pod, ...] | ApiFailure | None, expected: NodeExpectation) -> bool:
    """Also where that cannot be told."""
    return not isinstance(pods, tuple) or any(belongs(pod, operand) for pod in pods for operand in expected.operands)


def _failure(error: ApiError) -> ApiFailure:
    return ApiFailure(error.request, error.status, error.message)


def _labels(node: dict[str, Any]) -> dict[str, str]:
    labels = node["metadata"].get("labels") or {}
    return {str(key): value for key, value in sorted(labels.items()) if isinstance(value, str)}


def _taints(node: dict[str, Any]) -> tuple[str, ...]:
    taints = node["spec"].get("taints") or []
    return tuple(
        sorted(
            f"{one['key']}={one['value']}:{one['effect']}" if one.get("value") else f"{one['key']}:{one['effect']}"
            for one in taints
        )
    )


def _resources(node: dict[str, Any], part: str) -> dict[str, int]:
    resources = node["status"].get(part) or {}
    return {name: _count(name, value) for name, value in sorted(resources.items()) if name.startswith(NVIDIA)}


def _count(name: str, written: object) -> int:
    count = read_count(written)
    if count is None:
        message = f"{name}: {written!r} is not a count"
        raise ValueError(message)
    return count


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


# --- pods -------------------------------------------------------------------------------------------------


def _pod(pod: dict[str, Any]) -> Pod:
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = status.get("conditions") or []
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    trouble, words = (None, "") if ready else _trouble(status)
    return Pod(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        uid=str(metadata.get("uid") or ""),
        app=_app(metadata.get("labels") or {}),
        device_plugin=_is_device_plugin(pod),
        ready=ready,
        started=_started(status),
        trouble=trouble,
        words=words,
        config_failed=_config_failed(status) if trouble == "config" else None,
        unsignalled=_unsignalled(pod) if trouble == "config" else "",
    )


def _app(labels: dict[str, Any]) -> str:
    """Which operand a pod is of; the DRA driver's pods have a label of their own."""
    return str(labels.get("app") or labels.get("dra-driver-nvidia-gpu-component") or "")


def _is_device_plugin(pod: dict[str, Any]) -> bool:
    name = pod["metadata"]["name"]
    if any(other in name for other in _NO_PLUGIN):
        return False
    containers = (f"{one['name']} {one.get('image', '')}".lower() for one in pod["spec"].get("containers") or [])
    return any(
        "device-plugin" in words
        and ("nvidia" in f"{name} {words}" or "gpu" in f"{name} {words}")
        and not any(other in words for other in (*_OTHER_VENDORS, *_NO_PLUGIN))
        for words in containers
    )


def _started(status: dict[str, Any]) -> str | None:
    # The kubelet sorts them by name; config-manager is the operands' helper.
    containers = [one for one in status.get("containerStatuses") or [] if not one["name"].startswith(_HELPER)]
    main = (containers or [{}])[0]
    started = ((main.get("state") or {}).get("running") or {}).get("startedAt")
    return _time(started)


def _time(written: object) -> str | None:
    """A moment as Kubernetes writes it; None where it is something else."""
    return written if isinstance(written, str) and seconds_of(f"{written[:_TO_SECONDS]}Z") is not None else None


def _config_failed(status: dict[str, Any]) -> str | None:
    for one in status.get("containerStatuses") or []:
        ended = [((one.get(part) or {}).get("terminated") or {}).get("finishedAt") for part in ("state", "lastState")]
        if one["name"].startswith(_HELPER) and any(ended):
            return _time(next(filter(None, ended)))
    return None


def _unsignalled(pod: dict[str, Any]) -> str:
    """Why config-manager's signal can reach no MPS daemon; empty where it can, or where its version waits for the label instead.

    It ends with 2 at the first process without a command line (v0.17.0 to v0.19.3), and with 1 where no process has the name that
    it was told (NVIDIA/k8s-device-plugin, cmd/config-manager/main.go, #1726, #1827; run on a real API server). Pods of the
    operator carry no text of it: their containers have no terminationMessagePolicy.
    """
    containers = pod["spec"].get("containers") or []
    main = next((one for one in containers if one["name"].startswith(_MPS_DAEMON)), None)
    helper = next((one for one in containers if one["name"].startswith(_HELPER)), None)
    if main is None or helper is None or _waits_for_label(helper):
        return ""
    code = _helper_exit(pod.get("status") or {})
    if code == _PANIC:
        return "config-manager ended with 2: it cannot read processes without a command line"
    signalled = next((one.get("value", "") for one in helper.get("env") or [] if one["name"] == _SIGNALLED), "")
    named = (main.get("command") or [""])[0]
    differs = bool(code and named and signalled != named)
    return f"config-manager signals {signalled}, and the daemon's process is {named}" if differs else ""


def _waits_for_label(helper: dict[str, Any]) -> bool:
    """Whether this config-manager waits for the node's label before it chooses, as all before v0.18.2 do."""
    match = re.search(r":v?(\d+)\.(\d+)\.(\d+)", helper.get("image") or "")
    return match is not None and tuple(map(int, match.groups())) < _DEFAULT_FIRST


def _helper_exit(status: dict[str, Any]) -> int | None:
    """The exit code with which config-manager last ended."""
    for one in status.get("containerStatuses") or []:
        ended = [((one.get(part) or {}).get("terminated") or {}).get("exitCode") for part in ("state", "lastState")]
        if one["name"].startswith(_HELPER):
            return next((code for code in ended if code is not None), None)
    return None


def _trouble(status: dict[str, Any]) -> tuple[str, str]:
    """(kind, words) of the first container that keeps the pod from being ready."""
    for one in _unfinished(status):
        reason, message = _reason(one)
        words = f"container {one['name']}: {reason}" + (f": {message}" if message else "")
        if one["name"].startswith(_HELPER) and reason not in _IMAGE_REASONS:
            return "config", words
        if reason in _IMAGE_REASONS:
            return "image", words
        return ("crash" if reason in _CRASH_REASONS else "other"), words
    return "other", f"phase {status.get('phase', 'unknown')}"


def _unfinished(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in status.get("initContainerStatuses") or []:
        if ((one.get("state") or {}).get("terminated") or {}).get("exitCode") != 0:
            yield one
    for one in status.get("containerStatuses") or []:
        if not one.get("ready"):
            yield one


def _reason(status: dict[str, Any]) -> tuple[str, str]:
    """The reason, and the message of the program's last end: the one that is waited with changes by the minute."""
    state = status.get("state") or {}
    last = (status.get("lastState") or {}).get("terminated") or {}
    for kind in ("waiting", "terminated"):
        if kind in state:
            own = state[kind]
            message = last.get("message") or ("" if own.get("reason") in _CRASH_REASONS else own.get("message")) or ""
            return own.get("reason") or kind, " ".join(message.split())
    return "running, not ready", ""
