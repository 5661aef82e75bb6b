"""Says before a deploy that a cluster has no Prometheus Operator, where one is to read the metrics.

A cluster without the kinds ServiceMonitor and PrometheusRule refuses such objects, in words that name no remedy. Looked for is
the group of their API, which every user of a cluster may ask for, right before the ServiceMonitor is made. A cluster that cannot
be asked stops nothing: a warning says so, and its own refusal follows.
"""

import json
from collections.abc import Callable
from typing import Any

import pulumi

from gpu_pools.observing.objects import API_VERSION
from gpu_pools.stack.observability import PATH
from gpu_pools.text.errors import InvalidStackError, Problem

from . import _log
from ._ask_first import SECONDS, asks_first, client_of


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


def _look(served: Callable[[], bool]) -> None:
    """Refuse a cluster without the API.

    Raises:
        InvalidStackError: with the remedy.
    """
    try:
        there = served()
    except Exception as error:  # noqa: BLE001 - whatever it is, a cluster that cannot be asked stops nothing
        _log.warn(f"not looked for before the deploy: a Prometheus Operator ({type(error).__name__})")
        return
    if not there:
        raise InvalidStackError([_none_there()])


def _none_there() -> Problem:
    return Problem(
        f"{PATH}.to",
        f"prometheus, and the cluster has no {API_VERSION}: ServiceMonitor and PrometheusRule cannot be made",
        "a cluster with the Prometheus Operator, or at least its custom resource definitions",
        "Install it, by the chart kube-prometheus-stack or prometheus-operator-crds, and deploy again; or write `to: none`.",
    )


def _served(kubeconfig: str, context: str | None) -> bool:
    """Whether the API server has the group, in that version."""
    from kubernetes.client import ApisApi  # noqa: PLC0415 - it takes a second to load

    answer: Any = ApisApi(client_of(kubeconfig, context)).get_api_versions(_preload_content=False, _request_timeout=SECONDS)
    groups = json.loads(answer.data)["groups"]
    return any(version["groupVersion"] == API_VERSION for group in groups for version in group["versions"])
