"""What exists in the stand-in clouds, by what an engine asked for.

For settling interrupted creates, and for checking that nothing is left. Reads the clouds' records only, so it works
while nobody serves them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandbox.clouds import azure
from sandbox.clouds.records import Records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Inputs = Mapping[str, Any]

_FILES = {"azure": ("groups", "clusters", "pools"), "magnum": ("templates", "clusters", "groups")}


def everything(state: Path) -> list[str]:
    """The ids of all that exists in both clouds."""
    data = {cloud: _records(state, cloud) for cloud in _FILES}
    return sorted(id_ for tables in data.values() for table in tables.values() for id_ in table)


def azure_id(state: Path, type_: str, inputs: Inputs) -> str | None:
    """The ARM id of a resource that exists with these inputs, None if there is none."""
    kind, group, cluster = type_.rpartition(":")[2], inputs.get("resourceGroupName", ""), inputs.get("resourceName", "")
    if kind == "ResourceGroup":
        table, id_ = "groups", azure.group_id(group)
    elif kind == "ManagedCluster":
        table, id_ = "clusters", azure.cluster_id(group, cluster)
    else:
        table, id_ = "pools", azure.pool_id(group, cluster, inputs.get("agentPoolName", ""))
    return id_ if id_.lower() in _records(state, "azure")[table] else None


def magnum_id(state: Path, type_: str, inputs: Inputs) -> str | None:
    """The id of a template, cluster or node group with the inputs' name, None if there is none."""
    data, name = _records(state, "magnum"), inputs.get("name")
    kind = type_.rpartition(":")[2]
    if kind == "NodeGroup":
        candidates = {id_: group for id_, group in data["groups"].items() if id_.startswith(f"{inputs.get('clusterId')}/")}
    elif kind == "Cluster":
        candidates = {id_: cluster["values"] for id_, cluster in data["clusters"].items()}
    else:
        candidates = data["templates"]
    return next((id_ for id_, values in candidates.items() if values.get("name") == name), None)


def _records(state: Path, cloud: str) -> dict[str, dict[str, Any]]:
    return Records(state / "cloud" / f"{cloud}.json", _FILES[cloud]).read()
