"""The admission policy that lets config-manager reach the MPS daemon: it corrects one wrong value of the operator's pods.

The operator's DaemonSet tells config-manager to signal ``/usr/bin/mps-control-daemon``, but the container's command, and with it
the name of the process, is ``mps-control-daemon``. config-manager compares both as they are, finds no process and ends with 1.
The policy replaces exactly that value in pods of exactly that DaemonSet when they are created, and only where the old value
stands: once NVIDIA corrects it, the policy does nothing. The DaemonSet itself stays as its owner made it.

A policy rather than a helper on the nodes: a program that passes the signal on needs the host's process IDs and root on every
node with MPS, and the policy needs nothing there.

Sources: NVIDIA/gpu-operator assets/state-mps-control-daemon/0400_daemonset.yaml (the same at v25.3.4, v25.10.1, v26.3.3 and
v26.7.0); NVIDIA/k8s-device-plugin v0.20.0 cmd/config-manager/main.go, its issue #1726 and pull request #1827.
MutatingAdmissionPolicy is stable, and on by default, since Kubernetes 1.36 (KEP-3962); tried on a real API server of that version
(tests/sandbox/test_mps_signal.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Mapping

POLICY: Final = "gpu-pools-mps-signal"
#: MutatingAdmissionPolicy v1.
LEAST_KUBERNETES: Final = "1.36"
APP: Final = "nvidia-device-plugin-mps-control-daemon"
SELECTOR: Final = f"app={APP}"
CONTAINER: Final = "config-manager"
VARIABLE: Final = "PROCESS_TO_SIGNAL"
WRONG: Final = "/usr/bin/mps-control-daemon"
RIGHT: Final = "mps-control-daemon"


def policy_spec() -> dict[str, Any]:
    """The ``spec`` of the MutatingAdmissionPolicy."""
    named = f"c.name == '{CONTAINER}'"
    wrong = f"e.name == '{VARIABLE}' && e.?value.orValue('') == '{WRONG}'"
    container = f"object.spec.containers.map(c, c.name).indexOf('{CONTAINER}')"
    variable = f"object.spec.containers.filter(c, {named})[0].env.map(e, e.name).indexOf('{VARIABLE}')"
    path = f"'/spec/containers/' + string({container}) + '/env/' + string({variable}) + '/value'"
    return {
        # A pod that cannot be judged starts as its owner made it, and the verifier reports it.
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": OPERATOR_NAMESPACE}},
            "objectSelector": {"matchLabels": {"app": APP}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}
            ],
        },
        "matchConditions": [
            {
                "name": "has-the-wrong-name",
                "expression": f"object.spec.containers.exists(c, {named} && c.?env.orValue([]).exists(e, {wrong}))",
            }
        ],
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": f"[JSONPatch{{op: 'replace', path: {path}, value: '{RIGHT}'}}]"},
            }
        ],
    }


def binding_spec() -> dict[str, Any]:
    """The ``spec`` of its binding: the policy itself says which pods."""
    return {"policyName": POLICY}


def has_wrong_name(pod: Mapping[str, Any]) -> bool:
    """Whether a pod tells config-manager to signal a process that does not exist.

    Args:
        pod: as the API has it.
    """
    containers: Any = at(pod, "spec", "containers") or ()
    written = [one for container in containers if container.get("name") == CONTAINER for one in container.get("env") or ()]
    return any(one.get("name") == VARIABLE and one.get("value") == WRONG for one in written)


def probe_pod() -> dict[str, Any]:
    """A pod with the wrong name, for a dry run: its answer tells whether the policy is in force."""
    settings = [{"name": VARIABLE, "value": WRONG}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{POLICY}-probe", "namespace": OPERATOR_NAMESPACE, "labels": {"app": APP}},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": CONTAINER, "image": f"{POLICY}-probe", "env": settings}],
        },
    }
