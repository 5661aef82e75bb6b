"""Ids of what lies in Azure, as a stack file names what is there already: read, never looked for.

What is only placed may be an Output in a program (later.py). Whether it is there, and whether one may use it, Azure tells.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.fields import Kind, Row
from gpu_pools.reading.later import Later
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from gpu_pools.reading.section import Section
    from gpu_pools.text.errors import Problems

_NAME: Final = r"[^/\s]+"
GUID: Final = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
GUIDS: Final = 'a GUID, e.g. "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"'
GROUP_ID: Final = "`az ad group show --group NAME --query id` prints its object id."


def resource_id(type_: str) -> Kind:
    """The id of a resource.

    Args:
        type_: e.g. ``Microsoft.Network/virtualNetworks/subnets``.
    """

    def read(section: Section, one: Row) -> str | None:
        if not section.given(one.key):
            if one.needed:
                section.text(one.key, required=True, allowed=_example(type_))
            return None
        return read_id(section.raw(one.key), type_, section.at(one.key), section.problems)

    return Kind(read, "pulumi.Input[str]")


def resource_ids(type_: str) -> Kind:
    """A list of such ids."""
    return Kind(
        lambda section, one: section.each(one.key, lambda value, path: read_id(value, type_, path, section.problems)),
        "list[pulumi.Input[str]]",
    )


def read_id(value: object, type_: str, path: str, problems: Problems, or_else: str = "") -> str | None:
    """The id of a resource of that type; Azure does not mind how its fixed words are written.

    Args:
        value: as it was written.
        type_: of the resource.
        path: where it stands.
        problems: told if it is none.
        or_else: what else would do there, for the message.
    """
    provider, *kinds = type_.split("/")
    inner = "".join(f"/{re.escape(kind)}/{_NAME}" for kind in kinds)
    pattern = rf"(?i)/subscriptions/{_NAME}/resourceGroups/{_NAME}/providers/{re.escape(provider)}{inner}"
    if isinstance(value, Later) or (isinstance(value, str) and re.fullmatch(pattern, value)):
        return value
    allowed = _example(type_) + (f", or {or_else}" if or_else else "")
    problems.add(
        path,
        f"{show(value)} is not the id of such a resource",
        allowed=allowed,
        remedy=f"Write its id; `{_list_command(type_)}` prints those that there are.",
    )
    return None


def _list_command(type_: str) -> str:
    """The command that prints the ids of the resources of a type; of those without a command of their own `az resource` does."""
    listed = _LISTED.get(type_, f"resource list --resource-type {type_}")
    return f'az {listed} --query "[].id"'


def _example(type_: str) -> str:
    provider, *kinds = type_.split("/")
    inner = "".join(f"/{kind}/<name>" for kind in kinds)
    return f"/subscriptions/<id>/resourceGroups/<group>/providers/{provider}{inner}"


_LISTED: Final = {
    "Microsoft.Network/virtualNetworks/subnets": "network vnet subnet list --resource-group GROUP --vnet-name NAME",
    "Microsoft.Compute/capacityReservationGroups": "capacity reservation group list",
    "Microsoft.Compute/proximityPlacementGroups": "ppg list",
    "Microsoft.Compute/hostGroups": "vm host group list",
    "Microsoft.ManagedIdentity/userAssignedIdentities": "identity list",
    "Microsoft.ContainerRegistry/registries": "acr list",
    "Microsoft.Monitor/accounts": "monitor account list",
    "Microsoft.Insights/actionGroups": "monitor action-group list",
    "Microsoft.OperationalInsights/workspaces": "monitor log-analytics workspace list",
}


def group_id(value: object, path: str, problems: Problems) -> str | None:
    """The object id of a group; what is none is a problem."""
    if isinstance(value, str) and re.fullmatch(GUID, value):
        return value
    problems.add(path, f"{show(value)} is not an object id", allowed=GUIDS, remedy=f"Azure takes no names. {GROUP_ID}")
    return None
