"""What exists in the sandbox's clouds, compared with what a stack knows of.

For mending what an interrupted run left, and for checking that nothing is left. Works on the records of the stand-in Azure, so
that nobody need serve them, and nobody should while something is removed; and on the API of Magnum, where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.records import Records
from sandbox.system.files import read_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from sandbox.openstack.magnum_api import MagnumApi

_TABLES = ("groups", "clusters", "pools")
_AZURE, _OPENSTACK = "azure-native:", "openstack:"


def everything(state: Path, magnum: MagnumApi | None) -> list[str]:
    """The ids of all that exists in both clouds but what belongs to others."""
    tables = Records(state / "cloud" / "azure.json", _TABLES).read()
    made = {id_ for table in tables.values() for id_, record in table.items() if not record.get("others")}
    return sorted(made | (magnum.everything() - _others(state) if magnum else set()))


def known_ids(resources: Iterable[Mapping[str, Any]]) -> set[str]:
    """The ids of a deployment's cloud resources; Azure's in lower case, since it does not tell the cases apart."""
    own = [entry for entry in resources if entry.get("id") and entry.get("custom") and not entry.get("external")]
    azure = {entry["id"].lower() for entry in own if entry["type"].startswith(_AZURE)}
    return azure | {entry["id"] for entry in own if entry["type"].startswith(_OPENSTACK)}


def agree(state: Path, magnum: MagnumApi | None, known: Collection[str]) -> bool:
    """Whether the clouds have what a stack knows, whole, and nothing besides."""
    return AzureCloud(state).made() | (magnum.made() - _others(state) if magnum else set()) == set(known)


def remove_unknown(state: Path, magnum: MagnumApi | None, known: Collection[str]) -> None:
    """Delete what exists in the clouds and no stack knows, once what is in progress has ended."""
    AzureCloud(state).remove_unknown(known)
    if magnum:
        magnum.settle()
        magnum.remove_unknown({*known, *_others(state)})


def _others(state: Path) -> set[str]:
    """What of Magnum is not the stack's: a cluster that was there before it."""
    return set(read_json(state / "cloud" / "openstack-others.json").get("ids", ()))
