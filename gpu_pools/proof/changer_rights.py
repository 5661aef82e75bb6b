"""What the verifiers of pools with ``rollout`` may do beyond the others: change their own node in a rollout.

They have an account of their own, so that pools without it give away nothing. To a node it may do what a change needs, and the
policy of gpu_pools/proof/verifier_rights.py holds that to its own one. Of pods it may evict, and delete where the stack
says so or mig-manager hangs; and, where a running MPS daemon learns of no change, the pod of that. A deletion tells the API
server which pod it is of, so it is held to the changer's own node and to those pods. An eviction does not: its object names a pod
and no node, and the policy sees nothing else. So a stolen changer's token may ask for the eviction of any pod outside the
namespaces below; disruption budgets hold against it.

To find who holds a GPU of its node it must list pods, which RBAC grants for all nodes or none. A pod that names a DaemonSet as
its owner is believed only where that DaemonSet exists, so it reads those, too. It lists NodeFeatureRules to name the one that
keeps setting a label which the change needs removed.
"""

from __future__ import annotations

from typing import Any, Final

from gpu_pools.proof.verifier_rights import CHANGER_USER, NODE_CLAIM, VERIFIER_NAMESPACE
from gpu_pools.rendering.mps_signal import APP as MPS_DAEMON
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE

ROLE: Final = "gpu-pools-changer"
POLICY: Final = "gpu-pools-changer"
#: Where it evicts nothing: what runs the cluster and its GPUs.
_CLOSED: Final = ("kube-system", "kube-public", "node-feature-discovery", OPERATOR_NAMESPACE, VERIFIER_NAMESPACE)
_MIG_MANAGER: Final = "nvidia-mig-manager"


def changer_rules() -> list[dict[str, Any]]:
    """The rules of its ClusterRole, beside those of every verifier."""
    return [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "delete"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
        {"apiGroups": ["nfd.k8s-sigs.io"], "resources": ["nodefeaturerules"], "verbs": ["list"]},
    ]


def slot_rules() -> list[dict[str, Any]]:
    """The rules of its Role in the verifiers' namespace: the Leases of the rollout slots."""
    return [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list", "create", "patch"]},
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
    ]


def changer_policy_spec(*, mps: bool = False) -> dict[str, Any]:
    """The ``spec`` of the ValidatingAdmissionPolicy of what it does to pods.

    Args:
        mps: whether it may delete pods of the MPS daemon, too: where a running one learns of no change.
    """
    pods = {"apiGroups": [""], "apiVersions": ["*"], "scope": "*"}
    held = "container.?resources.?limits.orValue({}).exists(name, name.startsWith('nvidia.com/'))"
    containers = [f"oldObject.spec.?{of}.orValue([]).exists(container, {held})" for of in ("containers", "initContainers")]
    apps, named = (
        ([_MIG_MANAGER, MPS_DAEMON], "those of mig-manager and the MPS daemon")
        if mps
        else ([_MIG_MANAGER], "those of mig-manager")
    )
    label = "oldObject.metadata.?labels[?'app'].orValue('')"
    of_app = f"{label} in {apps}" if mps else f"{label} == '{_MIG_MANAGER}'"
    operand = f"request.namespace == '{OPERATOR_NAMESPACE}' && {of_app}"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {**pods, "operations": ["DELETE"], "resources": ["pods"]},
                {**pods, "operations": ["CREATE"], "resources": ["pods/eviction"]},
            ]
        },
        "matchConditions": [{"name": "by-a-changer", "expression": f"request.userInfo.username == '{CHANGER_USER}'"}],
        "variables": [{"name": "own", "expression": f"request.userInfo.?extra['{NODE_CLAIM}'].orValue([])"}],
        "validations": [
            _rule(
                "request.operation != 'DELETE' || oldObject.spec.?nodeName.orValue('') in variables.own",
                "a changer deletes pods of its own node only",
            ),
            _rule(
                f"request.operation != 'DELETE' || {' || '.join(containers)} || ({operand})",
                f"a changer deletes pods that hold GPUs, and {named}, only",
            ),
            _rule(
                f"request.operation != 'CREATE' || !(request.namespace in {list(_CLOSED)})",
                f"a changer evicts nothing in {', '.join(_CLOSED)}",
            ),
        ],
    }


def changer_policy_binding_spec() -> dict[str, Any]:
    """The ``spec`` of its binding."""
    return {"policyName": POLICY, "validationActions": ["Deny"]}


def _rule(expression: str, message: str) -> dict[str, str]:
    return {"expression": expression, "message": message, "reason": "Forbidden"}
