"""What exists in the stand-in clouds, compared with what a stack knows of.

For mending what an interrupted run left, and for checking that nothing is left. Works on the clouds' records, so nobody
need serve them; and nobody should while something is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.magnum import MagnumCloud
from sandbox.clouds.records import Records

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path
    from typing import Any

_FILES = {"azure": ("groups", "clusters", "pools"), "magnum": ("templates", "clusters", "groups")}
_AZURE, _OPENSTACK = "azure-native:", "openstack:"


def everything(state: Path) -> list[str]:
    """The ids of all that exists in both clouds."""
    data = [Records(state / "cloud" / f"{cloud}.json", tables).read() for cloud, tables in _FILES.items()]
    return sorted(id_ for tables in data for table in tables.values() for id_ in table)


def known_ids(resources: Iterable[Mapping[str, Any]]) -> set[str]:
    """The ids of a deployment's cloud resources; Azure's in lower case, since it does not tell the cases apart."""
    own = [entry for entry in resources if entry.get("id") and entry.get("custom") and not entry.get("external")]
    azure = {entry["id"].lower() for entry in own if entry["type"].startswith(_AZURE)}
    return azure | {entry["id"] for entry in own if entry["type"].startswith(_OPENSTACK)}


def agree(state: Path, known: Collection[str]) -> bool:
    """Whether the clouds have what a stack knows, whole, and nothing besides."""
    return AzureCloud(state).made() | MagnumCloud(state).made() == set(known)


def remove_unknown(state: Path, known: Collection[str]) -> None:
    """Delete what exists in the clouds and no stack knows."""
    AzureCloud(state).remove_unknown(known)
    MagnumCloud(state).remove_unknown(known)
