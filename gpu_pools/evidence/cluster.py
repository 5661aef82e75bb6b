"""Reads nodes and expectations of a cluster.

Two lists, whatever the size of the fleet: all nodes, and the ConfigMaps of the verifiers' namespace. A list that cannot be read
is kept as the reason: the verdict says what that means.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.verdicts import Snapshot
from gpu_pools.kubernetes_api.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_pools.kubernetes_api.cluster_api import ClusterApi

NODES: Final = "/api/v1/nodes"


def look(api: ClusterApi, namespace: str) -> Snapshot:
    """What the cluster says now."""
    try:
        nodes = api.items(NODES)
    except ClusterError as error:
        # The other list would fail alike, and take as long.
        return Snapshot(dt.datetime.now(dt.UTC), f"the nodes cannot be read: {error.explained}", {})
    time = dt.datetime.now(dt.UTC)
    try:
        found = api.items(f"/api/v1/namespaces/{namespace}/configmaps")
    except ClusterError as error:
        return Snapshot(time, nodes, f"the expectations cannot be read: {error.explained}")
    return Snapshot(time, nodes, config_maps_of(found))


def config_maps_of(items: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, str]]:
    """Name -> data, with what is binary in base64."""
    return {
        str(item["metadata"].get("name")): {**_texts(item.get("data")), **_texts(item.get("binaryData"))}
        for item in items
        if isinstance(item.get("metadata"), Mapping)
    }


def _texts(data: object) -> dict[str, str]:
    found = data.items() if isinstance(data, Mapping) else ()
    return {str(key): text for key, text in found if isinstance(text, str)}
