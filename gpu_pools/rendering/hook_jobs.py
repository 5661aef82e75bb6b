"""A Job that Helm runs at a moment of the operator's release, with its account and rights, which exist for that time only.

They go into the chart's own value `extraObjects`: Helm runs them wherever it runs, the real provider's too. What such a Job runs
is in its argument, since nothing else of ours is there at that time. A Job that has failed stays for a day: Helm's
message has its name and its reason, and no more (helm v3.20.2, pkg/kube/client.go, waitForJob).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_pools.stack.settings import Settings

#: The chart's templates are filled in here, too; Helm puts the rest into the release's namespace by itself.
RELEASE_NAMESPACE: Final = "{{ .Release.Namespace }}"
_HOOK: Final = "helm.sh/hook"
_RBAC: Final = "rbac.authorization.k8s.io"
_NOBODY: Final = 65534
#: What the programs share, in the order in which one needs the other; the lines that import it are left out.
_SHARED: Final = ("pod_api.py", "node_traces.py")
_IMPORT: Final = re.compile(r"^from gpu_pools\.verifier(?:\.\w+)?\.\w+ import (?:\([^)]*\)|.*)\n", re.MULTILINE)
_FUTURE: Final = "from __future__ import annotations\n"
_DAY_SECONDS: Final = 86400


@dataclass(frozen=True)
class Hook:
    """When it runs, and how it is called.

    Attributes:
        name: of its objects.
        moments: Helm's names of the moments, with commas between.
        seconds: how long its Job may take.
        stopped: an exit code after which it is not tried again; 0: there is none.
    """

    name: str
    moments: str
    seconds: int
    stopped: int = 0


def program_text(file: str, readers: Sequence[str] = ()) -> str:
    """Join a program of gpu_pools/verifier/hook_programs and the modules it needs into one text.

    Args:
        file: of the program.
        readers: files of the verifier's package that it needs, which need nothing themselves.
    """
    verifier = resources.files("gpu_pools.verifier")
    programs = verifier / "hook_programs"
    files = [*(verifier / name for name in readers), *(programs / name for name in (*_SHARED, file))]
    text = "".join(_IMPORT.sub("", one.read_text(encoding="utf-8")) for one in files)
    # It must stand at the very top, and each reader begins with it.
    return f"{_FUTURE}{text.replace(_FUTURE, '')}" if readers else text


def account_objects(
    hook: Hook, rules: Iterable[dict[str, Any]], own_rules: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Its account and rights.

    Args:
        hook: whose.
        rules: in the whole cluster.
        own_rules: in the release's namespace.
    """
    account = {"kind": "ServiceAccount", "name": hook.name, "namespace": RELEASE_NAMESPACE}
    version = f"{_RBAC}/v1"
    found: list[dict[str, Any]] = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(hook, 0)}]
    for kind, granted in (("ClusterRole", [*rules]), ("Role", [*own_rules])):
        if granted:
            metadata = _metadata(hook, 0) | ({"namespace": RELEASE_NAMESPACE} if kind == "Role" else {})
            bound = {"roleRef": {"apiGroup": _RBAC, "kind": kind, "name": hook.name}, "subjects": [account]}
            found.append({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": granted})
            found.append({"apiVersion": version, "kind": f"{kind}Binding", "metadata": metadata, **bound})
    return found


def hook_job(hook: Hook, settings: Settings, command: Sequence[str], account: str = "") -> dict[str, Any]:
    """Its Job.

    Args:
        hook: what and when.
        settings: whose image and registry it uses.
        command: what it runs.
        account: the service account; empty: of its own name.
    """
    container = {
        "name": "program",
        "image": settings.verification.image,
        "command": [*command],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
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
        "serviceAccountName": account or hook.name,
        "restartPolicy": "Never",
        # It has to run somewhere, also where all nodes are tainted.
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
        **settings.registry.in_pods,
    }
    ends = {"action": "FailJob", "onExitCodes": {"containerName": "program", "operator": "In", "values": [hook.stopped]}}
    spec = {
        "backoffLimit": 2,
        "activeDeadlineSeconds": hook.seconds,
        "ttlSecondsAfterFinished": _DAY_SECONDS,
        **({"podFailurePolicy": {"rules": [ends]}} if hook.stopped else {}),
        "template": {"metadata": {"labels": {"app.kubernetes.io/name": account or hook.name}}, "spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(hook, 1, keep_failed=True), "spec": spec}


def _metadata(hook: Hook, weight: int, *, keep_failed: bool = False) -> dict[str, Any]:
    policy = "before-hook-creation,hook-succeeded" + ("" if keep_failed else ",hook-failed")
    notes = {_HOOK: hook.moments, f"{_HOOK}-weight": str(weight), f"{_HOOK}-delete-policy": policy}
    return {"name": hook.name, "annotations": notes}
