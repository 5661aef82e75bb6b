"""Asks the cluster of a stack, only reading: who wrote what has drifted, and what the verifiers say of the nodes.

With the kubeconfig in the stack's outputs. Where it cannot be asked who it was, nothing is said of that,
since the drift itself is known; where the nodes cannot be read, it cannot be told whether there is more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpu_pools.drift.judged import known_writer
from gpu_pools.drift.nodes import Nodes, nodes_of
from gpu_pools.drift.writers import azure_writer, writer_of
from gpu_pools.evidence.cluster import look
from gpu_pools.evidence.declared import OUTPUT, declared
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.stack import kubeconfig_of
from gpu_pools.evidence.verdicts import judge
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.kubernetes_api.errors import ClusterError
from gpu_pools.kubernetes_api.login import Kubeconfig
from gpu_pools.verifier.api import ApiError, shaped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.drift.judged import Drift, Judged
    from gpu_pools.drift.writers import Writer

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
        text = kubeconfig_of(outputs)
        with ClusterApi(Kubeconfig(text)) as api:
            drift = _attributed(drift, _Writers(api))
        return replace(drift, nodes=nodes if unverified else _nodes(drift.stack, outputs, text))
    except EvidenceError as error:
        unread = Nodes(failures=(f"the nodes cannot be read: {error.message}",))
        return replace(drift, nodes=nodes if unverified else unread)


def _nodes(stack: str, outputs: Mapping[str, Any], kubeconfig: str) -> Nodes:
    wanted = declared(outputs)
    with ClusterApi(Kubeconfig(kubeconfig, context=wanted.context)) as api:
        return nodes_of(judge(stack, wanted, look(api, wanted.namespace)))


def _attributed(drift: Drift, writers: _Writers) -> Drift:
    return replace(drift, drift=tuple(known_writer(one, _writer(one, writers)) for one in drift.drift))


def _writer(one: Judged, writers: _Writers) -> Writer | None:
    difference = one.difference
    resource = difference.resource
    if difference.kind == "gone":
        return None
    if resource.type.startswith(_AZURE):
        return azure_writer(resource.now.outputs)
    if not resource.type.startswith(_KUBERNETES) or resource.type.startswith(_HELM):
        return None
    return writer_of(writers.managed(resource.now.outputs), difference.steps)


@dataclass(frozen=True)
class _Writers:
    """Who wrote the fields of objects; each object and each list of kinds is read once.

    Attributes:
        api: of the cluster.
        known: path -> what was read there; empty where that was not possible.
    """

    api: ClusterApi
    known: dict[str, dict[str, Any]] = field(default_factory=dict)

    def managed(self, outputs: Mapping[str, Any]) -> Managed:
        """The managed fields of an object of Pulumi's; none where it cannot be read."""
        try:
            with shaped("the writers of an object"):
                found = self._read(self._path(outputs))["metadata"]["managedFields"]
                return [entry for entry in found if isinstance(entry, dict)]
        except ApiError:
            return []

    def _path(self, outputs: Mapping[str, Any]) -> str:
        """The object's place in the API, by the list of kinds of its version."""
        version, metadata = outputs["apiVersion"], outputs["metadata"]
        start = f"/apis/{version}" if "/" in version else f"/api/{version}"
        named = {one["kind"]: one for one in self._read(start)["resources"] if "/" not in one["name"]}
        resource = named[outputs["kind"]]
        where = f"/namespaces/{metadata.get('namespace') or 'default'}" if resource["namespaced"] else ""
        return f"{start}{where}/{resource['name']}/{metadata['name']}"

    def _read(self, path: str) -> dict[str, Any]:
        if path not in self.known:
            try:
                self.known[path] = self.api.get(path)
            except ClusterError:
                self.known[path] = {}
        return self.known[path]
