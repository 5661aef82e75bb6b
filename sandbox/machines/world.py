"""What one pass of the daemon sees, and the few writes that its parts share.

A pass works on one snapshot of the cache; what it writes itself is put back into the cache. Nothing here decides anything.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.cluster.api_errors import ApiError
from sandbox.machines import objects
from sandbox.machines.objects import name, namespace, node_of, timestamp
from sandbox.machines.store import KINDS, Store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox.cluster.api import Api
    from sandbox.machines.machine import Machine
    from sandbox.machines.objects import Json

LOG = logging.getLogger("sandbox.machines")


@dataclass
class World:
    """One pass.

    Attributes:
        api: the API server.
        store: the cache that the snapshot is from.
        folder: the cluster's folder.
        now: monotonic seconds.
        machines: by node name; only machines whose node exists.
        nodes: by name.
        pods: every pod.
        config_maps: by namespace/name.
        wake_in: seconds until the next pass is due even if nothing changes.
        moved: something changed that no watch will report.
    """

    api: Api
    store: Store
    folder: Path
    now: float
    machines: Mapping[str, Machine]
    nodes: Mapping[str, Json]
    pods: list[Json]
    config_maps: Mapping[str, Json]
    wake_in: float = 10.0
    moved: bool = False
    _by_node: Mapping[str, list[Json]] = field(init=False)

    def __post_init__(self) -> None:
        """Sort the pods by node."""
        by_node: dict[str, list[Json]] = defaultdict(list)
        for pod in self.pods:
            by_node[node_of(pod)].append(pod)
        self._by_node = by_node

    def pods_on(self, node: str) -> list[Json]:
        """The pods bound to a node."""
        return self._by_node.get(node, [])

    def again_in(self, seconds: float) -> None:
        """Ask for another pass after at most that long."""
        self.wake_in = min(self.wake_in, seconds)

    def label_node(self, node: str, labels: Mapping[str, str | None]) -> None:
        """Set or (None) remove labels of a node."""
        self.store.wrote("nodes", self.api.patch(f"{KINDS['nodes']}/{node}", {"metadata": {"labels": dict(labels)}}))

    def delete_pod(self, pod: Json, grace_seconds: int | None = None) -> None:
        """Delete a pod, at once where the grace is 0; one with a finalizer stays, deleted, until that is taken away."""
        self.api.delete(
            f"/api/v1/namespaces/{namespace(pod)}/pods/{name(pod)}", uid=objects.uid(pod), grace_seconds=grace_seconds
        )
        if grace_seconds == 0 and not pod["metadata"].get("finalizers"):
            self.store.removed("pods", pod)

    def event(self, pod: Json, reason: str, message: str) -> None:
        """Report a warning about a pod; losing one does no harm."""
        where = namespace(pod)
        body = {
            "metadata": {"generateName": f"{name(pod)[:200]}.", "namespace": where},
            "involvedObject": {"kind": "Pod", "apiVersion": "v1", "name": name(pod), "namespace": where, "uid": objects.uid(pod)},
            "reason": reason,
            "message": message[:1000],
            "type": "Warning",
            "source": {"component": "kubelet", "host": node_of(pod)},
            "firstTimestamp": timestamp(),
            "lastTimestamp": timestamp(),
            "count": 1,
        }
        try:
            self.api.create(f"/api/v1/namespaces/{where}/events", body)
        except ApiError as error:
            LOG.info("event for %s/%s: %s", where, name(pod), error)

    def put_node_feature(self, where: str, feature: Json) -> None:
        """Create or replace a NodeFeature where it is not already like that."""
        path = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{where}/nodefeatures"
        known = self.store.by_name("nodefeatures").get(f"{where}/{name(feature)}")
        if known is None:
            self.store.wrote("nodefeatures", self.api.create(path, feature))
            return
        same = known["spec"] == feature["spec"] and known["metadata"].get("ownerReferences") == feature["metadata"].get(
            "ownerReferences"
        )
        if not same:
            feature["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            self.store.wrote("nodefeatures", self.api.replace(f"{path}/{name(feature)}", feature))
