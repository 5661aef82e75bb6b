"""Asks the cluster of a stack, only reading: who wrote what has drifted, and what the verifiers say of the nodes.

Through kubectl and with the kubeconfig in the stack's outputs. Where it cannot be asked who it was, nothing is said of that,
since the drift itself is known; where the nodes cannot be read, it cannot be told whether there is more.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.drift.judged import known_writer
from gpu_pools.drift.nodes import Nodes, nodes_of
from gpu_pools.drift.writers import azure_writer, writer_of
from gpu_pools.evidence.cluster import Kubectl
from gpu_pools.evidence.declared import OUTPUT, declared
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.stack import kubeconfig_of
from gpu_pools.evidence.verdicts import judge
from gpu_pools.text import programs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpu_pools.drift.judged import Drift, Judged
    from gpu_pools.drift.writers import Writer

_SECONDS: Final = 60
_KUBERNETES, _HELM, _AZURE = "kubernetes:", "kubernetes:helm.sh/", "azure-native:"
Managed = list[dict[str, Any]]


def with_cluster(drift: Drift, outputs: Mapping[str, Any]) -> Drift:
    """The same, with who it was and what the verifiers say.

    Args:
        drift: of a stack.
        outputs: its outputs, with the kubeconfig.
    """
    output = outputs.get(OUTPUT)
    unverified = output is None or (isinstance(output, dict) and output.get("enabled") is False)
    nodes = Nodes(note="No verifier looks at this stack's GPUs (gpu-pools:verification).")
    try:
        with kubeconfig_of(outputs) as path:
            return replace(_attributed(drift, path), nodes=nodes if unverified else _nodes(drift.stack, outputs, path))
    except EvidenceError as error:
        unread = Nodes(failures=(f"the nodes cannot be read: {error.message}",))
        return replace(drift, nodes=nodes if unverified else unread)


def _nodes(stack: str, outputs: Mapping[str, Any], kubeconfig: Path) -> Nodes:
    try:
        wanted = declared(outputs)
        return nodes_of(judge(stack, wanted, Kubectl(kubeconfig, wanted.context).look(wanted.namespace)))
    except EvidenceError as error:
        return Nodes(failures=(f"the nodes cannot be read: {error.message}",))


def _attributed(drift: Drift, kubeconfig: Path) -> Drift:
    asked: dict[str, Managed] = {}
    return replace(drift, drift=tuple(known_writer(one, _writer(one, kubeconfig, asked)) for one in drift.drift))


def _writer(one: Judged, kubeconfig: Path, asked: dict[str, Managed]) -> Writer | None:
    difference = one.difference
    resource = difference.resource
    if difference.kind == "gone":
        return None
    if resource.type.startswith(_AZURE):
        return azure_writer(resource.now.outputs)
    if not resource.type.startswith(_KUBERNETES) or resource.type.startswith(_HELM):
        return None
    if resource.urn not in asked:
        asked[resource.urn] = _managed(resource.now.outputs, kubeconfig)
    return writer_of(asked[resource.urn], difference.steps)


def _managed(outputs: Mapping[str, Any], kubeconfig: Path) -> Managed:
    """The managed fields of the object; none where it cannot be read."""
    metadata = outputs.get("metadata")
    kind, version = outputs.get("kind"), str(outputs.get("apiVersion") or "")
    if not isinstance(metadata, dict) or not kind or not metadata.get("name"):
        return []
    group, _, number = version.rpartition("/")
    what = [f"{kind}.{number}.{group}" if group else str(kind), str(metadata["name"])]
    where = [f"--namespace={metadata['namespace']}"] if metadata.get("namespace") else []
    more = ["--output=json", "--show-managed-fields", f"--request-timeout={_SECONDS}s", f"--kubeconfig={kubeconfig}"]
    try:
        done = programs.run(["kubectl", "get", *what, *where, *more], _SECONDS * 2)
        found = json.loads(done.text) if done.code == 0 else {}
    except (programs.AbsentError, programs.SilentError, ValueError):
        return []
    managed = found.get("metadata", {}).get("managedFields") if isinstance(found, dict) else None
    return [entry for entry in managed if isinstance(entry, dict)] if isinstance(managed, list) else []
