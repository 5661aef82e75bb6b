"""Says before a deploy that a cluster has no Prometheus Operator where one is to read, or has one where the stack brings its own.

A cluster without the kinds ServiceMonitor and PrometheusRule refuses such objects, in words that name no remedy. Looked for is
the group of their API, which every user of a cluster may ask for, right before the ServiceMonitor is made. A second Prometheus
Operator would act on the objects of the first, and a namespace that is there is refused by Kubernetes without a remedy: both are
looked for right before the namespace is made. Definitions alone are let pass, since Helm leaves them when a stack goes. A
cluster that cannot be asked stops nothing: a warning says so, and its own refusal follows.
"""

import time
from collections.abc import Callable
from typing import Any

import pulumi

from gpu_pools.components.engine import log
from gpu_pools.components.kubernetes.ask_first import asks_first, cluster_at, reason
from gpu_pools.observing.azure_monitor import API_VERSION as AZURE_API_VERSION
from gpu_pools.observing.objects import API_VERSION
from gpu_pools.plan.cluster_checks import last_part
from gpu_pools.stack.observability import PATH
from gpu_pools.text.errors import InvalidStackError, Problem


def looks_for_monitors(name: str, kubeconfig: pulumi.Input[str] | None, context: str | None) -> pulumi.ResourceHookBinding | None:
    """Hooks for the first object of that API; None where nobody said how to reach the cluster.

    Args:
        name: unique among the hooks of the program.
        kubeconfig: of the cluster.
        context: of the kubeconfig; its current one by default.
    """
    if kubeconfig is None:
        return None
    first = asks_first(f"{name}-monitors-there", kubeconfig, lambda content: _look(lambda: _served(content, context)))
    return pulumi.ResourceHookBinding(before_create=[first])


def looks_for_another_prometheus(
    name: str, namespace: str, kubeconfig: pulumi.Input[str] | None, context: str | None
) -> pulumi.ResourceHookBinding | None:
    """Hooks for the namespace of the stack's own Prometheus; None where nobody said how to reach the cluster.

    Args:
        name: unique among the hooks of the program.
        namespace: its name.
        kubeconfig: of the cluster.
        context: of the kubeconfig; its current one by default.
    """
    if kubeconfig is None:
        return None
    hook = asks_first(
        f"{name}-prometheus-there",
        kubeconfig,
        lambda content: _look_for_another(namespace, lambda: _there(content, context, namespace)),
    )
    return pulumi.ResourceHookBinding(before_create=[hook])


def _look_for_another(namespace: str, there: Callable[[], tuple[list[str], bool]]) -> None:
    """Refuse a cluster that has an operator, or the namespace.

    Raises:
        InvalidStackError: with the remedy of each.
    """
    try:
        operators, taken = there()
    except Exception as error:  # noqa: BLE001 - as above
        log.warn(f"not looked for before the deploy: a Prometheus Operator that the cluster has already ({reason(error)})")
        return
    problems = [_another(place) for place in operators] + ([_taken(namespace)] if taken else [])
    if problems:
        raise InvalidStackError(problems)


def _another(place: str) -> Problem:
    return Problem(
        f"{PATH}.to",
        f"kube-prometheus-stack, and the cluster has a Prometheus Operator already: Deployment {place}",
        "a cluster without one, or `to: prometheus`",
        "Write `to: prometheus`, with `labels` by which its Prometheus selects; two of them act on the same objects.",
    )


def _taken(namespace: str) -> Problem:
    return Problem(
        f"{PATH}.to",
        f"kube-prometheus-stack, and the cluster has a namespace {namespace} already, which is not this stack's",
        f"a cluster without a namespace {namespace}, or `to: prometheus`",
        f"Where a Prometheus Operator is meant to be there, write `to: prometheus`; else remove the namespace {namespace}.",
    )


def _look(served: Callable[[], bool], problem: Problem | None = None) -> None:
    """Refuse a cluster without the API.

    Raises:
        InvalidStackError: with the remedy.
    """
    try:
        there = served()
    except Exception as error:  # noqa: BLE001 - whatever it is, a cluster that cannot be asked stops nothing
        log.warn(f"not looked for before the deploy: a Prometheus Operator ({reason(error)})")
        return
    if not there:
        raise InvalidStackError([problem or _none_there()])


def waits_for_azures_monitors(
    name: str, kubeconfig: pulumi.Input[str] | None, context: str | None, *, own: bool
) -> pulumi.ResourceHookBinding | None:
    """Hooks for the first object of Azure's API, which the cluster's add-on brings some minutes after it was switched on.

    Args:
        name: unique among the hooks of the program.
        kubeconfig: of the cluster; None where nobody said how to reach it.
        context: of the kubeconfig; its current one by default.
        own: whether the stack switches the add-on on; else it is there, or is refused.
    """
    if kubeconfig is None:
        return None

    def served(content: str) -> bool:
        return _served(content, context, AZURE_API_VERSION)

    def look(content: str) -> None:
        if own:
            _wait(lambda: served(content))
        else:
            _look(lambda: served(content), _add_on_off())

    return pulumi.ResourceHookBinding(before_create=[asks_first(f"{name}-azure-monitors-there", kubeconfig, look)])


def _wait(served: Callable[[], bool], *, every: float = 10, longest: float = 900) -> None:
    """Not in a preview: the add-on may come with the very deploy. A cluster that cannot be asked is told, and not waited for."""
    waited = 0.0
    while not pulumi.runtime.is_dry_run() and waited < longest:
        try:
            if served():
                return
        except Exception as error:  # noqa: BLE001 - as above
            log.warn(f"not waited for: Azure's kinds of monitors ({reason(error)})")
            return
        if not waited:
            log.info(
                f"waiting until Azure's add-on has installed its kinds of monitors ({AZURE_API_VERSION}), which takes minutes"
            )
        time.sleep(every)
        waited += every


def _add_on_off() -> Problem:
    return Problem(
        f"{PATH}.to",
        f"azure, and the cluster has no {AZURE_API_VERSION}: its metrics are not collected",
        "a cluster with Azure Monitor's metrics on",
        "az aks update -g GROUP -n NAME --enable-azure-monitor-metrics --azure-monitor-workspace-resource-id ID",
    )


def _none_there() -> Problem:
    return Problem(
        f"{PATH}.to",
        f"prometheus, and the cluster has no {API_VERSION}: ServiceMonitor and PrometheusRule cannot be made",
        "a cluster with the Prometheus Operator, or at least its custom resource definitions",
        "Install it, by the chart kube-prometheus-stack or prometheus-operator-crds, and deploy again; or write `to: none`.",
    )


def _served(kubeconfig: str, context: str | None, wanted: str = API_VERSION) -> bool:
    """Whether the API server has the group, in that version."""
    groups = cluster_at(kubeconfig, context).get("/apis")["groups"]
    return any(version["groupVersion"] == wanted for group in groups for version in group["versions"])


def _there(kubeconfig: str, context: str | None, namespace: str) -> tuple[list[str], bool]:
    """Deployments that run a Prometheus Operator, by namespace and name; and whether the namespace is there."""
    api = cluster_at(kubeconfig, context)
    operators = [
        f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        for one in api.items("/apis/apps/v1/deployments")
        if _is_operator(one)
    ]
    return operators, bool(api.items("/api/v1/namespaces", fieldSelector=f"metadata.name={namespace}"))


def _is_operator(deployment: Any) -> bool:  # noqa: ANN401 - as the API shows it
    """By its image, which keeps the last part of its name in mirrors (quay.io/prometheus-operator/prometheus-operator)."""
    containers = deployment["spec"]["template"]["spec"].get("containers") or ()
    return any(last_part(one.get("image") or "") == "prometheus-operator" for one in containers)
