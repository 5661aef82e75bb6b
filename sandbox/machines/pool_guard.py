"""Stand-in for the admission webhook with which AKS keeps labels and taints of its pools from being changed on nodes.

The real one, aks-node-validating-webhook, refuses whoever changes or removes through the Kubernetes API what a pool or AKS
itself has set (azure-aks-docs, use-node-taints and use-labels; Azure/AKS#2934, release 2022-04-24; its words in
nestybox/sysbox#816). Everything else on a node stays free, so a taint that no pool has may be added and removed. Here it is
a ValidatingAdmissionPolicy in the simulated cluster, so that the real API server refuses; AKS itself comes as `aksService`.

Not played: that someone with enough rights may switch the real webhook off, which AKS undoes; node initialization taints.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox.cluster.api import Api
    from sandbox.cluster.machine_groups import MachineGroup
    from sandbox.machines.objects import Json

#: As whom AKS changes what is its own.
AKS: Final = "aksService"
NAME: Final = "aks-node-validating-webhook.azmk8s.io"
_PATH: Final = "/apis/admissionregistration.k8s.io/v1"
_POOL_LABEL: Final = "agentpool"
_TEXT: Final = "t.key + '=' + (has(t.value) ? t.value : '') + ':' + t.effect"


class PoolGuard:
    """Keeps the policy of one cluster in step with its guarded groups."""

    def __init__(self, api: Api) -> None:
        """Guard nothing yet."""
        self._api = api
        self._applied: Json | None = None

    def step(self, groups: Iterable[MachineGroup]) -> None:
        """Bring the policy up to date; a cluster without guarded groups gets none."""
        guarded = [group for group in groups if group.guarded]
        if not guarded:
            return
        spec = policy_spec(guarded)
        if spec == self._applied:
            return
        binding = {"policyName": NAME, "validationActions": ["Deny"]}
        self._apply("validatingadmissionpolicies", "ValidatingAdmissionPolicy", spec)
        self._apply("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", binding)
        self._applied = spec

    def _apply(self, resource: str, kind: str, spec: Json) -> None:
        if self._api.get(f"{_PATH}/{resource}/{NAME}") is None:
            body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME}, "spec": spec}
            self._api.create(f"{_PATH}/{resource}", body)
        else:
            self._api.patch(f"{_PATH}/{resource}/{NAME}", {"spec": spec})


def policy_spec(groups: Iterable[MachineGroup]) -> Json:
    """Which changes of which nodes are refused, and how."""
    labels, taints = {}, {}
    for group in groups:
        pool = group.labels.get(_POOL_LABEL, group.id)
        labels[pool] = sorted(group.labels)
        taints[pool] = sorted(f"{taint['key']}={taint.get('value', '')}:{taint['effect']}" for taint in group.taints)
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}],
        },
        "matchConditions": [{"name": "not-by-aks-itself", "expression": f"request.userInfo.username != '{AKS}'"}],
        "variables": [
            {"name": "old", "expression": "has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}"},
            {"name": "new", "expression": "has(object.metadata.labels) ? object.metadata.labels : {}"},
            {"name": "pool", "expression": f"'{_POOL_LABEL}' in variables.old ? variables.old['{_POOL_LABEL}'] : ''"},
            {"name": "labels", "expression": _of_pool(labels)},
            {"name": "taints", "expression": _of_pool(taints)},
            {
                "name": "changedLabels",
                "expression": "variables.labels.filter(k, (k in variables.old) != (k in variables.new) || "
                "(k in variables.old && variables.old[k] != variables.new[k]))",
            },
            {"name": "oldTaints", "expression": f"has(oldObject.spec.taints) ? oldObject.spec.taints.map(t, {_TEXT}) : []"},
            {"name": "newTaints", "expression": f"has(object.spec.taints) ? object.spec.taints.map(t, {_TEXT}) : []"},
            {
                "name": "lostTaints",
                "expression": "variables.taints.filter(t, t in variables.oldTaints && !(t in variables.newTaints))",
            },
        ],
        "validations": [
            {
                "expression": "variables.changedLabels.size() == 0",
                "reason": "Forbidden",
                "messageExpression": "'Label update/add request \"' + variables.changedLabels.join(', ') + '\" refused. User is "
                "attempting to update/add a label configured on node pool. Please change node pool label configuration through "
                "Azure.'",
            },
            {
                "expression": "variables.lostTaints.size() == 0",
                "reason": "Forbidden",
                "messageExpression": "'Taint delete request \"' + variables.lostTaints.join(', ') + '\" refused. User is "
                "attempting to delete a taint configured on aks node pool \"' + variables.pool + '\".'",
            },
        ],
    }


def _of_pool(lists: dict[str, list[str]]) -> str:
    """An expression for the list of the node's pool; JSON's texts and maps are CEL's, too."""
    return f"variables.pool in {json.dumps(lists)} ? {json.dumps(lists)}[variables.pool] : []"
