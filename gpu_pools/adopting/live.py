"""Asks clouds through their own programs, which know every way to log in, and clusters through the Kubernetes API.

Read only. Which program a cloud has is in the folder of its platform. What they answer is judged by
gpu_pools/adopting/documents.py, as a file would be.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.adopting.adopted import NotAdoptableError
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
_NOT_FOUND: Final = 404
_POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"


@dataclass(frozen=True)
class Client:
    """A cloud's own program.

    Attributes:
        source: where it is installed from.
        instead: the options that do without it.
    """

    source: str
    instead: str


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


def ask_json(command: Sequence[str], client: Client) -> Any:  # noqa: ANN401 - JSON
    """Return what a command prints as JSON.

    Args:
        command: the program and its arguments.
        client: the program.

    Raises:
        NotAdoptableError: if the program is missing, fails, or prints something else.
    """
    program, said = command[0], " ".join(command)
    try:
        done = programs.run(command, _SECONDS)
    except programs.AbsentError:
        message = f"there is no {program} on PATH"
        raise _unasked(said, message, f"Install it ({client.source}), or give files: {client.instead}.") from None
    except programs.SilentError as error:
        raise _unasked(
            said, f"{program} does not answer: {error}", f"Run it by hand, and give files: {client.instead}."
        ) from None
    errors = done.errors[-_LONGEST_REASON:]
    if done.code:
        raise _unasked(
            said, f"{program} ended with {done.code}: {errors}", f"Log in and try it by hand; or give files: {client.instead}."
        )
    try:
        return json.loads(done.out)
    except (ValueError, RecursionError):
        raise _unasked(said, f"{program} printed no JSON", f"Run it by hand, and give files: {client.instead}.") from None


def _unasked(command: str, message: str, remedy: str) -> NotAdoptableError:
    return NotAdoptableError([Problem(command, message, "an answer in JSON", remedy)])
