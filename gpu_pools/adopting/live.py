"""Asks clouds through az and openstack, which know every way to log in, and clusters through the Kubernetes API.

Read only. What they answer is judged by gpu_pools/adopting/documents.py, as a file would be.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.adopted import NotAdoptableError
from gpu_pools.adopting.documents import mapping, mappings, text_of
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.kubernetes_api.errors import ClusterError
from gpu_pools.kubernetes_api.login import Kubeconfig
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.text import programs
from gpu_pools.text.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS: Final = 600
_LONGEST_REASON: Final = 400
#: program -> (where it comes from, how to do without).
_INSTEAD: Final = {
    "az": ("https://learn.microsoft.com/cli/azure/install-azure-cli", "--cluster FILE and --pools FILE"),
    "openstack": ("pip install python-openstackclient python-magnumclient", "--cluster FILE and --groups FILE"),
}
_NOT_FOUND: Final = 404
_POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"


def aks(group: str, name: str, subscription: str | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(cluster, agent pools) as az shows them.

    Raises:
        NotAdoptableError: if az is missing, or does not show them.
    """
    of = ["--output", "json", *(["--subscription", subscription] if subscription else [])]
    shown = ["az", "aks", "show", "--resource-group", group, "--name", name, *of]
    listed = ["az", "aks", "nodepool", "list", "--resource-group", group, "--cluster-name", name, *of]
    return mapping(_json(shown), "az", " ".join(shown)), mappings(_json(listed), "az", " ".join(listed))


def magnum(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(cluster, node groups) as openstack shows them; of a group the list tells too little.

    Raises:
        NotAdoptableError: if openstack is missing, or does not show them.
    """
    shown = ["openstack", "coe", "cluster", "show", name, "--format", "json"]
    listed = ["openstack", "coe", "nodegroup", "list", name, "--format", "json"]
    cluster = mapping(_json(shown), "openstack", " ".join(shown))
    groups = mappings(_json(listed), "openstack", " ".join(listed))
    each = [
        ["openstack", "coe", "nodegroup", "show", name, text_of(one, "uuid", "openstack", " ".join(listed)), "--format", "json"]
        for one in groups
    ]
    return cluster, [mapping(_json(command), "openstack", " ".join(command)) for command in each]


def kubernetes(context: str | None, kubeconfig: str | None) -> list[dict[str, Any]]:
    """What of a cluster counts here: nodes, ClusterPolicy, the operator's ConfigMaps, DaemonSets and Deployments. No secrets.

    Raises:
        NotAdoptableError: where they cannot be read.
    """
    wanted = {
        "NodeList": "/api/v1/nodes",
        "ClusterPolicyList": _POLICIES,
        "ConfigMapList": f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/configmaps",
        "DaemonSetList": "/apis/apps/v1/daemonsets",
        "DeploymentList": "/apis/apps/v1/deployments",
    }
    with ClusterApi(Kubeconfig(path=Path(kubeconfig) if kubeconfig else None, context=context)) as api:
        return [{"kind": kind, "items": _items(api, path)} for kind, path in wanted.items()]


def _items(api: ClusterApi, path: str) -> list[dict[str, Any]]:
    try:
        return api.items(path)
    except ClusterError as error:
        if error.status == _NOT_FOUND and path == _POLICIES:
            # A cluster without an operator does not know the kind.
            return []
        raise _unasked(error.request, error.message, f"{error.remedy} Or give files: --kubernetes FILE.") from None


def _json(command: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    program, said = command[0], " ".join(command)
    source, instead = _INSTEAD[program]
    try:
        done = programs.run(command, _SECONDS)
    except programs.AbsentError:
        message = f"there is no {program} on PATH"
        raise _unasked(said, message, f"Install it ({source}), or give files: {instead}.") from None
    except programs.SilentError as error:
        raise _unasked(said, f"{program} does not answer: {error}", f"Run it by hand, and give files: {instead}.") from None
    errors = done.errors[-_LONGEST_REASON:]
    if done.code:
        raise _unasked(
            said, f"{program} ended with {done.code}: {errors}", f"Log in and try it by hand; or give files: {instead}."
        )
    try:
        return json.loads(done.out)
    except (ValueError, RecursionError):
        raise _unasked(said, f"{program} printed no JSON", f"Run it by hand, and give files: {instead}.") from None


def _unasked(command: str, message: str, remedy: str) -> NotAdoptableError:
    return NotAdoptableError([Problem(command, message, "an answer in JSON", remedy)])
