"""Says what keeps nodes from being given back, where the operator's release could not be changed or deleted for it.

Helm tells the name of the Job that failed and no more (gpu_pools/rendering/hook_jobs.py). So an error hook reads what the Job's
last pod has said: which pods hold GPUs, on which node. Hooks live in the program: a `pulumi destroy` says it with `--run-program`
only. It changes nothing, and what it cannot read it says.
"""

import asyncio
import json
from typing import Any

import pulumi

from gpu_pools.rendering.node_leaving import NAME, gives_back
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.stack.settings import Settings

from . import _log
from ._ask_first import SECONDS, client_of, once_known


def tells_what_stays(
    name: str,
    settings: Settings,
    reached: tuple[pulumi.Input[str] | None, str | None],
    others: pulumi.ResourceHookBinding | None,
) -> pulumi.ResourceHookBinding | None:
    """Hooks for the operator's release, added to others of it.

    Args:
        name: unique among the hooks of the program.
        settings: of the stack.
        reached: kubeconfig of the cluster, and a context of it; without one nothing is read.
        others: what is told besides.
    """
    kubeconfig, context = reached
    if kubeconfig is None or not gives_back(settings):
        return others
    known = once_known(kubeconfig)

    async def tell(failed: pulumi.ErrorHookArgs) -> bool:
        """Log it; never try again."""
        if any(f"job {NAME}" in error for error in failed.errors) and (content := known()):
            _log.error(await asyncio.to_thread(_told, content, context))
        return False

    mine = pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(f"{name}-gives-back", tell)])
    return pulumi.ResourceHookBinding.merge(others, mine)


def _told(kubeconfig: str, context: str | None) -> str:
    where = f"kubectl logs --namespace {OPERATOR_NAMESPACE} --selector app.kubernetes.io/name={NAME}"
    try:
        said = _said(_pods(kubeconfig, context))
    except Exception as error:  # noqa: BLE001 - whatever it is, the deploy's own error must not be lost behind it
        said = f"the cluster cannot be asked why: {type(error).__name__}"
    return f"nodes are not given back: {said or 'its pods say nothing'} (all of it: {where})"


def _pods(kubeconfig: str, context: str | None) -> list[dict[str, Any]]:
    from kubernetes.client import CoreV1Api  # noqa: PLC0415 - it takes a second to load

    answer: Any = CoreV1Api(client_of(kubeconfig, context)).list_namespaced_pod(
        OPERATOR_NAMESPACE,
        label_selector=f"app.kubernetes.io/name={NAME}",
        _preload_content=False,
        _request_timeout=SECONDS,
    )
    found: list[dict[str, Any]] = json.loads(answer.data)["items"]
    return found


def _said(pods: list[dict[str, Any]]) -> str:
    """What the newest pod that has failed left when it ended."""
    for pod in sorted(pods, key=lambda one: str(one["metadata"]["creationTimestamp"]), reverse=True):
        for status in (pod.get("status") or {}).get("containerStatuses") or []:
            if message := ((status.get("state") or {}).get("terminated") or {}).get("message"):
                return str(message).strip()
    return ""
