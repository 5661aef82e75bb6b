"""What the Kubernetes provider does to inputs before the API sees them, and which changes mean a new object. Pure.

Names and namespaces are filled in as the real provider does it (pulumi-kubernetes 4.34), and the same fields make a new object.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sandbox.providers.differences import Diff, compare
from sandbox.providers.values import UNKNOWN, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTONAMED: Final = "pulumi.com/autonamed"
#: Of Jobs only (pulumi-kubernetes, #1575): one that is not ready is made anew instead of waited for.
REPLACE_UNREADY: Final = "pulumi.com/replaceUnready"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_ALWAYS = ("metadata.name", "metadata.namespace")
_SELECTOR = ("spec.selector",)
_DATA = ("data", "binaryData", "stringData")
_CONTAINER = (
    "args", "command", "env", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "ports", "readinessProbe", "resources",
    "securityContext", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty", "volumeDevices",
    "volumeMounts", "workingDir",
)  # fmt: skip
_POD = (
    "affinity", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases", "hostIPC",
    "hostNetwork", "hostPID", "hostname", "imagePullSecrets", "nodeName", "nodeSelector", "overhead", "preemptionPolicy",
    "priority", "priorityClassName", "readinessGates", "restartPolicy", "runtimeClassName", "schedulerName", "securityContext",
    "serviceAccount", "serviceAccountName", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds", "volumes",
    *(f"{kind}[*].{key}" for kind in ("containers", "initContainers") for key in _CONTAINER),
)  # fmt: skip
#: The whole table of the real provider (provider/pkg/provider/diff.go), but for the sources of PersistentVolumes. What else is
#: immutable, the handler of a RuntimeClass for one, is not a replacement there but an update that the API refuses.
_IMMUTABLE: Final[dict[str, tuple[str, ...]]] = {
    "Deployment": _SELECTOR,
    "DaemonSet": _SELECTOR,
    "StatefulSet": (
        *_SELECTOR, "spec.podManagementPolicy", "spec.revisionHistoryLimit", "spec.serviceName", "spec.volumeClaimTemplates",
    ),
    "Job": (*_SELECTOR, "spec.completions", "spec.parallelism", "spec.template"),
    "Pod": tuple(f"spec.{path}" for path in _POD),
    "PersistentVolumeClaim": ("spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName"),
    "PodDisruptionBudget": ("spec",),
    "ResourceQuota": ("spec.scopes",),
    "Secret": ("type",),
    "Service": ("spec.clusterIP",),
    "ClusterRoleBinding": ("roleRef",),
    "RoleBinding": ("roleRef",),
    "StorageClass": ("parameters", "provisioner"),
}  # fmt: skip
# Kinds without a namespace, for the time before there is a cluster to ask.
CLUSTER_SCOPED: Final = frozenset(
    {
        "Namespace", "Node", "PersistentVolume", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition",
        "PriorityClass", "RuntimeClass", "StorageClass", "ClusterPolicy", "NodeFeatureRule", "NVIDIADriver",
        "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration", "APIService", "CSIDriver", "IngressClass", "DeviceClass",
    }
)  # fmt: skip


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """The annotations of an object, as far as they are known."""
    metadata = obj.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def is_true(obj: Mapping[str, Any], annotation: str) -> bool:
    """Whether an annotation says "true"."""
    return annotations_of(obj).get(annotation, "").lower() == "true"


def random_name(name: str, seed: bytes) -> str:
    """The Pulumi name with eight hexadecimal digits, the same for the same seed."""
    return f"{name}-{hashlib.sha256(name.encode() + seed).hexdigest()[:8]}"


def fill_in(
    news: Mapping[str, Value],
    olds: Mapping[str, Value],
    *,
    name: str,
    seed: bytes,
    namespace: str,
) -> dict[str, Value]:
    """Complete the inputs of an object.

    Args:
        news: the inputs as the program gave them.
        olds: the completed inputs of last time ({} for a new object).
        name: the Pulumi name.
        seed: decides on the digits of an automatic name.
        namespace: the default namespace; "" for a kind that has none.
    """
    obj = {key: _copied(value) for key, value in news.items()}
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        return obj
    if not metadata.get("name") and not metadata.get("generateName"):
        _name_automatically(metadata, olds, name, seed)
    if namespace and not metadata.get("namespace"):
        metadata["namespace"] = namespace
    # With server-side apply the field managers say who manages it; objects from before that keep their label.
    labels = metadata.setdefault("labels", {}) if _is_labelled(olds) else None
    if isinstance(labels, dict):
        labels.setdefault(MANAGED_BY, "pulumi")
    return obj


def _is_labelled(olds: Mapping[str, Value]) -> bool:
    labels = (olds.get("metadata") or {}).get("labels")
    return isinstance(labels, dict) and labels.get(MANAGED_BY) == "pulumi"


def _copied(value: Value) -> Value:
    """A copy of its own, but for `UNKNOWN`, of which there is one (so copy.deepcopy will not do)."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def _name_automatically(metadata: dict[str, Value], olds: Mapping[str, Value], name: str, seed: bytes) -> None:
    before = olds.get("metadata", {}).get("name")
    metadata["name"] = before if before and is_true(olds, AUTONAMED) else random_name(name, seed)
    marks = metadata.setdefault("annotations", {})
    if isinstance(marks, dict):
        marks[AUTONAMED] = "true"


def differences(
    old: Mapping[str, Value], new: Mapping[str, Value], *, mutable: frozenset[str] = frozenset(), patch: bool = False
) -> Diff:
    """Compare an object's old and new inputs.

    Args:
        old: the completed inputs of last time.
        new: the completed inputs wanted now.
        mutable: kinds whose data may change in place ("ConfigMap", "Secret"), unless they are marked immutable.
        patch: whether these are fields of somebody else's object, which all change in place.
    """
    kind = str(new.get("kind", ""))
    immutable = () if patch else _IMMUTABLE.get(kind, ())
    if kind in {"ConfigMap", "Secret"} and not patch and (kind not in mutable or new.get("immutable") is True):
        immutable = (*immutable, *_DATA)
    return compare(
        old,
        new,
        replace_on=(*_ALWAYS, *immutable),
        delete_before_replace=_same_place(old, new),
    )


def replaced_while_unready(found: Diff, old: Mapping[str, Value], new: Mapping[str, Value]) -> Diff:
    """The same differences, with a replacement of the object: it was made, but is not ready, and is marked for that."""
    path = f'metadata.annotations["{REPLACE_UNREADY}"]'
    return replace(
        found, changes=True, replaces=[*found.replaces, "metadata"], delete_before_replace=_same_place(old, new),
        diffs=sorted({*found.diffs, "metadata"}), detailed={**found.detailed, path: "update-replace"},
    )  # fmt: skip


def _same_place(old: Mapping[str, Value], new: Mapping[str, Value]) -> bool:
    """Whether both objects would have one and the same name, so that they cannot exist side by side."""

    def place(obj: Mapping[str, Value]) -> tuple[Value, ...]:
        metadata = obj.get("metadata") or {}
        return obj.get("kind"), metadata.get("name"), metadata.get("namespace")

    name = place(new)[1]
    return place(old) == place(new) and name is not UNKNOWN and not is_true(new, AUTONAMED)


def live_object_inputs(inputs: Mapping[str, Value], live: Mapping[str, Any]) -> dict[str, Value]:
    """The inputs of an object as the cluster now has them.

    A Secret's stringData can only be written; the server turns it into data. It stays while data still agrees.
    """
    found: dict[str, Value] = live_inputs(dict(inputs), dict(live))
    written = inputs.get("stringData")
    if isinstance(written, dict):
        data = live.get("data") or {}
        same = all(data.get(key) == base64.b64encode(str(value).encode()).decode() for key, value in written.items())
        found |= {"stringData": written} if same else {}
    return found


def live_inputs(inputs: Value, live: Value) -> Value:
    """What the cluster now has in the places that the inputs speak of; places that are gone are left out."""
    if isinstance(inputs, dict) and isinstance(live, dict):
        return {key: live_inputs(item, live[key]) for key, item in inputs.items() if key in live}
    if isinstance(inputs, list) and isinstance(live, list) and len(inputs) == len(live):
        return [live_inputs(*pair) for pair in zip(inputs, live, strict=True)]
    return live


def identity(obj: Mapping[str, Any]) -> str:
    """The resource id: "namespace/name", or "name" without a namespace."""
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])
