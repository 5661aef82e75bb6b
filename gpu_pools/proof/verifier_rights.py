"""What the verifiers may do in a cluster: rights, and the policy that narrows them to the node that each runs on.

Where nothing else confines it a verifier is root on its node (gpu_pools/proof/verifier_pods.py), so its token is worth what is
said here. RBAC cannot say "your own node": a right to change nodes is one to change all of them. So a ValidatingAdmissionPolicy
holds each write of a verifier against the node that its token is bound to, which the API server itself puts into the request
(``authentication.kubernetes.io/node-name``; on by default since Kubernetes 1.30), and lets through three things only: the
condition, the annotation, and the removal of the startup taint, each no larger than a verifier makes it, since a node object is
read by many and often. A write to ``nodes/status`` may change labels too, so both ways are held to the same rules. It writes
under its own name alone, and who wrote the labels stays as it is: reports tell that.

Reading cannot be narrowed like that, by RBAC, which knows no field selectors, nor by admission: a verifier may read every Node
object, and every pod of two namespaces. Nodes hold no secret, pods what somebody has written into their variables, and it may
read no secret at all.

Verifiers of pools with ``rollout`` have another account, which may do more (gpu_pools/proof/changer_rights.py); what of that is
done to a node is in the same policy.

Plain data for whoever creates it. The policy compares whatever fields an object has, so that it outlives new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP
from gpu_pools.allocation.dra import DRA_NAMESPACE
from gpu_pools.proof.node_expectation import SEARCHED_NAMESPACES
from gpu_pools.rendering import startup_taint
from gpu_pools.stack.adoption import CLUSTER_POLICY
from gpu_pools.stack.kubernetes_names import ALLOCATION_LABELS, CHANGED_LABELS, OPERATOR_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Of the verifiers alone: whoever runs in it has their rights.
VERIFIER_NAMESPACE: Final = "gpu-pools-verifier"
#: The ClusterRole, and the Roles in the namespaces where operands and other device plugins are looked for.
ROLE: Final = "gpu-pools-verifier"
POLICY: Final = "gpu-pools-verifier"
CONDITION: Final = "GpuSharingVerified"
ANNOTATION: Final = "gpu-pools/verification"
#: The account of the verifiers of pools with `rollout`, and what it writes beside.
CHANGER: Final = "changer"
CHANGER_USER: Final = f"system:serviceaccount:{VERIFIER_NAMESPACE}:{CHANGER}"
CHANGE_ANNOTATION: Final = "gpu-pools/change"
_MOST_CHANGE: Final = 8 * 1024
STARTUP_TAINT: Final = startup_taint.STARTUP_TAINT.key
#: What a verifier calls itself to the API server (gpu_pools/verifier/api.py).
FIELD_MANAGER: Final = "gpu-pools-verifier"
#: Bytes, as whoever stores and sends the node has them: a character has up to four. Those of annotation and message are the
#: verifier's own bounds (gpu_pools/verifier/evidence.py, gpu_pools/verifier/evidence.py).
MOST_ANNOTATION: Final = 16 * 1024
MOST_MESSAGE: Final = 1024
_MOST_REASON: Final = 64
_MESSAGE, _REASON = "one.?message.orValue('')", "one.?reason.orValue('')"
_STATUS: Final = "request.?subResource.orValue('') == 'status'"
_CONDITION_FIELDS: Final = ("type", "status", "reason", "message", "lastHeartbeatTime", "lastTransitionTime")
#: Of an object's updates the API server keeps so many managers apart (apiserver, managedfields/capmanagers.go); the oldest are
#: thrown together under this name.
_MOST_MANAGERS, _OLDEST = 10, "ancient-changes"

_GROUP: Final = f"system:serviceaccounts:{VERIFIER_NAMESPACE}"
NODE_CLAIM: Final = "authentication.kubernetes.io/node-name"


def cluster_rules(*, claims: bool = False) -> list[dict[str, Any]]:
    """The rules of the ClusterRole: read a node and follow it, report on it, ask the operator why it made nothing.

    Args:
        claims: whether pods of a pool get GPUs through resource claims: the devices of all nodes may be read then.
    """
    slices = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]}
    return [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
        {"apiGroups": ["nvidia.com"], "resources": ["clusterpolicies"], "verbs": ["get"], "resourceNames": [CLUSTER_POLICY]},
        *([slices] if claims else []),
    ]


def namespace_rules(*, claims: bool = False) -> Mapping[str, list[dict[str, Any]]]:
    """Namespace -> rules of the Role there: the operands' pods, and the one ConfigMap that the device plugin serves.

    Args:
        claims: as of `cluster_rules`: the DRA driver's pods may be read then.
    """
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    config = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": [DEVICE_PLUGIN_CONFIG_MAP]}
    searched = (*SEARCHED_NAMESPACES, *([DRA_NAMESPACE] if claims else []))
    return {OPERATOR_NAMESPACE: [pods, config], **{namespace: [pods] for namespace in searched}}


def policy_spec(*, changers: bool = False, allocation: bool = False) -> dict[str, Any]:
    """The ``spec`` of the ValidatingAdmissionPolicy; whatever it cannot judge, it refuses.

    Args:
        changers: whether there are pools with a `rollout`, which has a changer's account (gpu_pools/proof/changer_rights.py).
        allocation: whether a pool says how pods get its GPUs: a changer then also sets the labels of that.
    """
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["nodes", "nodes/*"], "scope": "*"}
            ]
        },
        "matchConditions": [
            {"name": "by-a-verifier", "expression": f"has(request.userInfo.groups) && '{_GROUP}' in request.userInfo.groups"}
        ],
        "variables": [
            {"name": "own", "expression": f"request.userInfo.?extra['{NODE_CLAIM}'].orValue([])"},
            {"name": "taints", "expression": _list("object", "spec", "taints")},
            {"name": "oldTaints", "expression": _list("oldObject", "spec", "taints")},
            {"name": "mine", "expression": f"{_list('object', 'status', 'conditions')}.filter(one, one.type == '{CONDITION}')"},
            {"name": "report", "expression": _report("object")},
            {"name": "writers", "expression": _list("object", "metadata", "managedFields")},
            {"name": "oldWriters", "expression": _list("oldObject", "metadata", "managedFields")},
            *([{"name": "changer", "expression": f"request.userInfo.username == '{CHANGER_USER}'"}] if changers else []),
        ],
        "validations": [
            _rule("request.operation == 'UPDATE' && request.name in variables.own", "a verifier changes its own node only"),
            *_own_parts(changers=changers, allocation=allocation),
            _rule(
                f"{_same('status', 'conditions')} && {_other_conditions('object')} == {_other_conditions('oldObject')}",
                f"of a node's status a verifier changes its condition {CONDITION} only",
            ),
            _rule(
                f"variables.report == {_report('oldObject')} || {_STATUS} && {_bytes('variables.report')} <= {MOST_ANNOTATION}",
                f"the annotation {ANNOTATION} is written with the status, and has at most {MOST_ANNOTATION} bytes",
            ),
            _rule(
                f"size(variables.mine) <= 1 && variables.mine.all(one, one.all(key, key in {list(_CONDITION_FIELDS)}) "
                f"&& {_bytes(_MESSAGE)} <= {MOST_MESSAGE} && {_bytes(_REASON)} <= {_MOST_REASON} "
                "&& one.status in ['True', 'False', 'Unknown'])",
                f"a node has one condition {CONDITION}, whose message has at most {MOST_MESSAGE} bytes",
            ),
            _rule(
                f"dyn(request.options).?fieldManager.orValue('') == '{FIELD_MANAGER}'",
                f"a verifier writes as the field manager {FIELD_MANAGER}",
            ),
            *_writers(changers=changers),
        ],
    }


def _own_parts(*, changers: bool, allocation: bool) -> list[dict[str, str]]:
    """What of a node's metadata and spec may be another; by a changer's account its labels, an annotation and the cordon, too."""
    metadata = f"of a node's metadata a verifier changes its annotation {ANNOTATION} only"
    spec = f"of a node's spec a verifier changes one thing only: it removes the taint {STARTUP_TAINT}"
    if not changers:
        return [_rule(_METADATA, metadata), _rule(_SPEC, spec)]
    changed = (*CHANGED_LABELS, *(ALLOCATION_LABELS if allocation else ()))
    more = (
        f"{_same('metadata', 'annotations', 'labels', 'managedFields', 'resourceVersion')} "
        f"&& {_same('metadata.annotations', ANNOTATION, CHANGE_ANNOTATION)} && {_same('metadata.labels', *changed)}"
    )
    labels = f"; a changer also the labels {' and '.join(changed)} and its annotation {CHANGE_ANNOTATION}"
    cordon = f"{_same('spec', 'taints', 'unschedulable')} && {_FEWER_TAINTS}"
    return [
        _rule(_or_of_a_changer(_METADATA, more), metadata + labels),
        _rule(_or_of_a_changer(_SPEC, cordon), f"{spec}, and a changer cordons it or not"),
    ]


def _writers(*, changers: bool) -> list[dict[str, str]]:
    """Who wrote what stays told; a changer takes the labels over from who has set them before."""
    stays, message = _writers_stay(), "a verifier leaves who wrote what on a node as it is told there"
    if not changers:
        return [_rule(stays, message)]
    text = f"{_field('object', 'metadata.annotations')}[?'{CHANGE_ANNOTATION}'].orValue('')"
    size = f"{_bytes(text)} <= {_MOST_CHANGE}"
    return [
        _rule(_or_of_a_changer(stays, "true"), message),
        _rule(size, f"the annotation {CHANGE_ANNOTATION} has at most {_MOST_CHANGE} bytes"),
    ]


def _or_of_a_changer(expression: str, more: str) -> str:
    return f"variables.changer ? ({more}) : ({expression})"


def policy_binding_spec() -> dict[str, Any]:
    """The ``spec`` of the ValidatingAdmissionPolicyBinding."""
    return {"policyName": POLICY, "validationActions": ["Deny"]}


def _writers_stay() -> str:
    """Whether managedFields tell of the others what they told before, but for taints that a verifier's own write has taken over.

    Through the status nobody can write them. Where the API server itself throws the oldest together, only new names are refused.
    """
    same = "one.manager == was.manager && one.operation == was.operation && one.?time == was.?time"
    same += " && one.?subresource == was.?subresource"
    written = "one.fieldsV1[part] == was.fieldsV1[part]"
    fewer = "one.fieldsV1[part].all(key, key in was.fieldsV1[part] && one.fieldsV1[part][key] == was.fieldsV1[part][key])"
    parts = f"one.fieldsV1.all(part, part in was.fieldsV1 && ({written} || part == 'f:spec' && {fewer}))"
    mine = f"one.manager == '{FIELD_MANAGER}' && one.fieldsV1 == {{'f:spec': {{'f:taints': {{}}}}}}"
    known = f"({mine} || variables.oldWriters.exists(was, {same} && {parts}))"
    labels = "{}.fieldsV1[?'f:metadata'][?'f:labels']"
    stays = f"{same} && {labels.format('one')} == {labels.format('was')}"
    kept = f"variables.oldWriters.all(was, !{labels.format('was')}.hasValue() || variables.writers.exists(one, {stays}))"
    capped = f"size(variables.oldWriters.filter(was, was.operation == 'Update')) >= {_MOST_MANAGERS}"
    return (
        f"{_STATUS} || size(variables.writers) <= size(variables.oldWriters) + 1 && ({capped} "
        f"? variables.writers.all(one, one.manager == '{_OLDEST}' || {known}) : {kept} && variables.writers.all(one, {known}))"
    )


def _rule(expression: str, message: str) -> dict[str, str]:
    return {"expression": expression, "message": message, "reason": "Forbidden"}


# dyn: the fields are walked as those of a map, whatever the schema says that they are.


def _field(where: str, path: str) -> str:
    return ".?".join((f"dyn({where})", *path.split(".")))


def _bytes(text: str) -> str:
    """How long a text is in UTF-8; CEL's own size of a text counts characters."""
    return f"size(bytes({text}))"


def _report(where: str) -> str:
    return f"{_field(where, 'metadata.annotations')}[?'{ANNOTATION}'].orValue('')"


def _list(where: str, *path: str) -> str:
    return f"{_field(where, '.'.join(path))}.orValue([])"


def _same(path: str, *but: str) -> str:
    """Both objects have the same fields there, except some."""
    new, old = (f"{_field(where, path)}.orValue({{}})" for where in ("object", "oldObject"))
    free = " || ".join(f"key == '{name}'" for name in but)
    equal = f"{new}.all(key, {free} || (key in {old} && {new}[key] == {old}[key]))"
    return f"{equal} && {old}.all(key, {free} || key in {new})"


def _other_conditions(where: str) -> str:
    return f"{_list(where, 'status', 'conditions')}.filter(condition, condition.type != '{CONDITION}')"


# Two rules that hold for a changer in another form.

_TAINTS: Final = "variables.{}.filter(taint, taint.key != '{}')"
_FEWER_TAINTS: Final = (
    f"{_TAINTS.format('taints', STARTUP_TAINT)} == {_TAINTS.format('oldTaints', STARTUP_TAINT)} "
    "&& variables.taints.all(taint, taint in variables.oldTaints)"
)
_METADATA: Final = (
    f"{_same('metadata', 'annotations', 'managedFields', 'resourceVersion')} && {_same('metadata.annotations', ANNOTATION)}"
)
_SPEC: Final = f"{_same('spec', 'taints')} && {_FEWER_TAINTS}"
