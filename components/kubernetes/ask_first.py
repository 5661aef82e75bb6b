"""A look at a cluster right before an object is made there, in previews too.

The engine runs the hook only for an object that is none of the stack's own yet. The provider, with which the object is made,
waits for the kubeconfig as well, so what can be known is known by then; a cluster that the same deploy makes is not asked in its
preview. What is looked for, and what becomes of it, is for whoever asks.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from gpu_pools.kubernetes_api.cluster_api import HOOK, ClusterApi
from gpu_pools.kubernetes_api.errors import ClusterError
from gpu_pools.kubernetes_api.login import Kubeconfig


def asks_first(name: str, kubeconfig: pulumi.Input[str], look: Callable[[str], None]) -> pulumi.ResourceHook:
    """A hook for before an object is made.

    Args:
        name: unique among the hooks of the program.
        kubeconfig: of the cluster.
        look: takes its content, on a thread of its own; what it raises stops the deploy.
    """
    known = once_known(kubeconfig)

    async def ask(_hook: pulumi.ResourceHookArgs) -> None:
        if content := known():
            await asyncio.to_thread(look, content)

    return pulumi.ResourceHook(name, ask, pulumi.ResourceHookOptions(on_dry_run=True))


def once_known(kubeconfig: pulumi.Input[str] | None) -> Callable[[], str]:
    """What says the content of a kubeconfig to a hook: empty as long as it is not known, or where there is none."""
    known: list[str] = []
    if kubeconfig is not None:
        pulumi.Output.from_input(kubeconfig).apply(known.append)
    return lambda: known[-1] if known else ""


async def plain(properties: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Properties of a resource without the wrapping of what is secret in them; they are compared here, and not shown."""
    found: Any = await pulumi.Output.from_input(dict(properties or {})).future(with_unknowns=True)
    return found if isinstance(found, dict) else {}


def reason(error: Exception) -> str:
    """Why a cluster could not be asked, short; what else is raised may hold what the server sent."""
    if status := getattr(error, "status", None):
        return f"the API server answers {status}"
    return error.message if isinstance(error, ClusterError) else type(error).__name__


def cluster_at(kubeconfig: str, context: str | None) -> ClusterApi:
    """The API of the cluster that a kubeconfig leads to.

    Raises:
        ClusterError: the kubeconfig is of no use. Whether a server answers is not asked.
    """
    api = ClusterApi(Kubeconfig(kubeconfig, context=context), HOOK)
    api.log_in()
    return api


def nodes_of(api: ClusterApi) -> list[dict[str, Any]]:
    """The nodes of a cluster, as its API has them."""
    return api.items("/api/v1/nodes")


def pods_of(api: ClusterApi, namespace: str, selector: str) -> list[dict[str, Any]]:
    """The pods of a namespace that a label selector chooses, as the cluster's API has them."""
    return api.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)


def daemon_sets_of(api: ClusterApi, namespace: str, selector: str) -> list[dict[str, Any]]:
    """The same of DaemonSets."""
    return api.items(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", labelSelector=selector)


def revisions_of(api: ClusterApi, namespace: str, selector: str) -> list[dict[str, Any]]:
    """The same of ControllerRevisions."""
    return api.items(f"/apis/apps/v1/namespaces/{namespace}/controllerrevisions", labelSelector=selector)


def policies_of(api: ClusterApi) -> list[dict[str, Any]]:
    """The ClusterPolicies of a cluster, as its API has them."""
    return api.items("/apis/nvidia.com/v1/clusterpolicies")
