"""A look at a cluster right before an object is made there, in previews too.

The engine runs the hook only for an object that is none of the stack's own yet. The provider, with which the object is made,
waits for the kubeconfig as well, so what can be known is known by then; a cluster that the same deploy makes is not asked in its
preview. What is looked for, and what becomes of it, is for whoever asks.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pulumi
import yaml

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

#: To connect, and to read. A private API server does not answer at all.
SECONDS: Final = (5, 15)


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


def client_of(kubeconfig: str, context: str | None) -> "ApiClient":
    """A client of the cluster that a kubeconfig leads to; a cluster that does not answer is asked once."""
    from kubernetes.client import ApiClient, Configuration  # noqa: PLC0415 - it takes a second to load
    from kubernetes.config import load_kube_config_from_dict  # noqa: PLC0415

    settings = Configuration()
    # Else it would be asked four times.
    settings.retries = False
    load_kube_config_from_dict(yaml.safe_load(kubeconfig), context, settings, persist_config=False)  # type: ignore[no-untyped-call]
    return ApiClient(settings)


def nodes_of(client: "ApiClient") -> list[dict[str, Any]]:
    """The nodes of a cluster, as its API has them."""
    from kubernetes.client import CoreV1Api  # noqa: PLC0415 - it takes a second to load

    return listed(CoreV1Api(client).list_node)


def pods_of(client: "ApiClient", namespace: str, selector: str) -> list[dict[str, Any]]:
    """The pods of a namespace that a label selector chooses, as the cluster's API has them."""
    from kubernetes.client import CoreV1Api  # noqa: PLC0415 - it takes a second to load

    return listed(CoreV1Api(client).list_namespaced_pod, namespace, label_selector=selector)


def daemon_sets_of(client: "ApiClient", namespace: str, selector: str) -> list[dict[str, Any]]:
    """The same of DaemonSets."""
    from kubernetes.client import AppsV1Api  # noqa: PLC0415 - it takes a second to load

    return listed(AppsV1Api(client).list_namespaced_daemon_set, namespace, label_selector=selector)


def revisions_of(client: "ApiClient", namespace: str, selector: str) -> list[dict[str, Any]]:
    """The same of ControllerRevisions."""
    from kubernetes.client import AppsV1Api  # noqa: PLC0415 - it takes a second to load

    return listed(AppsV1Api(client).list_namespaced_controller_revision, namespace, label_selector=selector)


def policies_of(client: "ApiClient") -> list[dict[str, Any]]:
    """The ClusterPolicies of a cluster, as its API has them."""
    from kubernetes.client import CustomObjectsApi  # noqa: PLC0415 - it takes a second to load

    return listed(CustomObjectsApi(client).list_cluster_custom_object, "nvidia.com", "v1", "clusterpolicies")


def listed(ask: Callable[..., Any], *arguments: str, **chosen: str) -> list[dict[str, Any]]:
    """What one of the client's methods lists, as the cluster's API has it."""
    answer = ask(*arguments, **chosen, _preload_content=False, _request_timeout=SECONDS)
    found: list[dict[str, Any]] = json.loads(answer.data)["items"]
    return found
