"""Who reaches an AKS cluster and as whom it acts: its API server, its identities.

Rules: azure-aks-docs at fb060abe (private-clusters, api-server-authorized-ip-ranges, user-assigned-managed-identity,
pre-created-kubelet-managed-identity). Users and their rights are in entra.py. The identities, their rights and the zones are a
platform team's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.aks.network import network_of
from gpu_pools.reading.azure_names import read_id, resource_id
from gpu_pools.reading.fields import Kind, Row, flag, inner, row
from gpu_pools.reading.later import Later
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.platforms.aks.network import Rule
    from gpu_pools.reading.section import Section

_ZONE: Final = "Microsoft.Network/privateDnsZones"
_IDENTITY: Final = resource_id("Microsoft.ManagedIdentity/userAssignedIdentities")
_GUID: Final = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


def _guid(section: Section, one: Row) -> str | None:
    written = section.raw(one.key)
    if isinstance(written, Later):
        return written
    return section.text(one.key, required=one.needed, pattern=_GUID, allowed="a GUID")


def _zone(section: Section, one: Row) -> str | None:
    if not section.given(one.key):
        return None
    written = section.raw(one.key)
    if isinstance(written, str) and written in {"system", "none"}:
        return written
    return read_id(written, _ZONE, section.at(one.key), section.problems, "system or none")


def _ranges(section: Section, one: Row) -> tuple[str, ...]:
    return section.each(one.key, lambda value, path: _a_range(value, path, section))


def _a_range(value: object, path: str, section: Section) -> str | None:
    if isinstance(value, Later):
        return value
    if isinstance(value, str) and network_of(value if "/" in value else f"{value}/32"):
        return value
    section.problems.add(
        path,
        f"{show(value)} is not a range of addresses",
        allowed="an IPv4 address or range, e.g. 203.0.113.0/24",
        remedy="Name the addresses from which people and pipelines come; whoever deploys must come from one.",
    )
    return None


_PLACED_GUID: Final = Kind(_guid, "pulumi.Input[str]")


@dataclass(frozen=True)
class ApiServer:
    """Who can reach the API server."""

    private: bool | None = row(
        "An API server in the nodes' network alone; whoever deploys must be able to reach that.",
        flag(),
        sets="apiServerAccessProfile.enablePrivateCluster",
        change="replaces",
        doc="An API server in the nodes' network alone: `pulumi up` must run where that is reached, hosted runners do not.",
    )
    private_dns_zone: str | None = row(
        "system, none, or the id of a zone of your own.",
        Kind(_zone, "pulumi.Input[str]"),
        sets="apiServerAccessProfile.privateDNSZone",
        change="refused",
        doc="Where its name is: `system`, Azure's default; `none`: in public DNS; or the id of a zone of your own, which needs "
        "`identity.userAssigned`. Once there it becomes `none` at most.",
    )
    public_fqdn: bool | None = row(
        "Whether its name is in public DNS, too.",
        flag(),
        sets="apiServerAccessProfile.enablePrivateClusterPublicFQDN",
        change="updates",
    )
    authorized_ip_ranges: tuple[str, ...] = row(
        "Addresses from which a public API server is reached; whoever deploys must come from one.",
        Kind(_ranges, "list[pulumi.Input[str]]"),
        (),
        sets="apiServerAccessProfile.authorizedIPRanges",
        change="updates",
    )
    disable_run_command: bool | None = row(
        "Whether `az aks command invoke` is off.",
        flag(),
        sets="apiServerAccessProfile.disableRunCommand",
        change="updates",
    )


def server_rules(server: ApiServer) -> Iterator[Rule]:
    """What of the API server's settings does not go together: (key, message, what is allowed, remedy)."""
    if server.private:
        if server.authorized_ip_ranges:
            yield "authorizedIpRanges", "a private API server has none", "nothing", "Take them out, or `private`."
        if server.private_dns_zone == "none" and server.public_fqdn is False:
            yield "publicFqdn", "with `privateDnsZone: none` it would have no name", "true", "Write true, or take it out."
        return
    for place, value in (("privateDnsZone", server.private_dns_zone), ("publicFqdn", server.public_fqdn)):
        if value is not None:
            yield place, "the API server is not private", "`private: true` beside it", "Write it, or take this out."


@dataclass(frozen=True)
class KubeletIdentity:
    """The identity as which nodes pull images."""

    id: str | None = row("Its id.", _IDENTITY, needed=True, sets="identityProfile.kubeletidentity.resourceId", change="updates")
    client_id: str | None = row(
        "Its client id.", _PLACED_GUID, needed=True, sets="identityProfile.kubeletidentity.clientId", change="updates"
    )
    object_id: str | None = row(
        "Its object id.", _PLACED_GUID, needed=True, sets="identityProfile.kubeletidentity.objectId", change="updates"
    )


@dataclass(frozen=True)
class Identity:
    """As whom the cluster acts in Azure."""

    user_assigned: str | None = row(
        "Id of an identity of your own; one that Azure makes by default.",
        _IDENTITY,
        sets="identity.type, identity.userAssignedIdentities",
        change="updates",
        doc="Id of an identity of your own, with rights that outlast the cluster; one that Azure makes by default. Capacity "
        "reservations and DNS zones of your own need it.",
    )
    kubelet: KubeletIdentity | None = row(
        "The identity as which nodes pull images; needs userAssigned, which must be allowed to assign it.",
        inner(KubeletIdentity),
        doc="The identity as which nodes pull images; needs `userAssigned`, a Managed Identity Operator of it. Nodes "
        "take another one with the next upgrade of their pool.",
    )


def identity_rules(identity: Identity) -> Iterator[Rule]:
    """What of the identities does not go together: (key, message, what is allowed, remedy)."""
    if identity.kubelet and not identity.user_assigned:
        yield (
            "kubelet",
            "the cluster's own identity is one that Azure makes, which cannot assign it",
            "`userAssigned` beside it",
            "Write it, or take this out.",
        )
