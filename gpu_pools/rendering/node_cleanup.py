"""What takes the operator's and our own traces from the nodes of a cluster that stays when the stack goes (W48).

NVIDIA's operator has no clean-up of nodes (GO#1391): labels and annotations of its own stay for ever, and the next operator would
take `paused-…` or `upgrade-failed` for its own. So its release gets a Job as a hook after its deletion, through the chart's own
value `extraObjects`: Helm runs it wherever it runs, the real provider's too, and nothing of it exists before. Its account lives
for these seconds; it lies in the operator's namespace, where the operator's own account may change nodes all the time.

Not for clusters that go with the stack, and not where the operator is another owner's: its labels are that owner's. What NFD has
put on nodes its own chart takes away (postDeleteCleanup). The GPUs stay partitioned as they are.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.stack.clusters import ExistingSettings

if TYPE_CHECKING:
    from gpu_pools.stack.settings import Settings

NAME: Final = "gpu-pools-node-cleanup"
APP_LABEL: Final = {"app.kubernetes.io/name": NAME}
#: The chart's templates are filled in here, too; Helm puts the rest into the release's namespace by itself.
_NAMESPACE: Final = "{{ .Release.Namespace }}"
_HOOK: Final = "helm.sh/hook"
_SECONDS: Final = 240
_NOBODY: Final = 65534


def cleanup_objects(settings: Settings) -> list[dict[str, Any]]:
    """The hooks, for the chart's `extraObjects`; none for a cluster that does not stay."""
    # Before v26.3 the chart knows no such objects; the plan says so then.
    if not isinstance(settings.cluster, ExistingSettings) or "extraObjects" not in settings.operator.chart.keys:
        return []
    rights = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": _NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(0)},
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": _metadata(0), "rules": rights},
        {"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": _metadata(0), "roleRef": role, "subjects": [account]},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(1), "spec": _job(settings)},
    ]


def _metadata(weight: int) -> dict[str, Any]:
    policy = "before-hook-creation,hook-succeeded,hook-failed"
    notes = {_HOOK: "post-delete", f"{_HOOK}-weight": str(weight), f"{_HOOK}-delete-policy": policy}
    return {"name": NAME, "annotations": notes}


def _job(settings: Settings) -> dict[str, Any]:
    program = (resources.files("gpu_pools.rendering") / "cleanup_program.py").read_text(encoding="utf-8")
    container = {
        "name": "cleanup",
        "image": settings.verification.image,
        "command": ["python3", "-I", "-S", "-c", program],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    pod = {
        "serviceAccountName": NAME,
        "restartPolicy": "Never",
        # It has to run somewhere, also where all nodes are tainted.
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
        **settings.registry.in_pods,
    }
    return {
        "backoffLimit": 2,
        "activeDeadlineSeconds": _SECONDS,
        "template": {"metadata": {"labels": dict(APP_LABEL)}, "spec": pod},
    }
