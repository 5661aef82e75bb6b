"""What Azure Resource Manager says of a subscription and a region, as far as a stack on AKS needs it.

Documents in, dataclasses out: components/aks/check.py asks for them, gpu_pools/platforms/aks/cloud.py judges. Names compare
without case, as in Azure: the list of sizes says `WestUS3`, and families are not written alike in the two lists that have them.

Sources of the shapes: Azure/azure-rest-api-specs, Microsoft.Compute Skus 2021-07-01 (skus.json, its examples) and ComputeRP
2024-07-01 (usages, capacity reservations), Microsoft.ContainerService aks 2025-09-01 (KubernetesVersions_List.json, managed
clusters), Microsoft.Network 2024-05-01 (usages of a virtual network: -1 where Azure does not say), Microsoft.Resources
subscriptions 2022-12-01 (locations).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_pools.platforms.judgement import Unread

Document = dict[str, Any]
"""A JSON object as Azure answers it."""

#: The quota of all vCPUs of a region, and that of spot machines of all families.
ALL_CORES: Final = "cores"
SPOT_CORES: Final = "lowprioritycores"
_GIB: Final = 2**30
_MIB_OF_GIB: Final = 2**10


@dataclass(frozen=True)
class Size:
    """A VM size in one region.

    Attributes:
        name: as Azure writes it.
        family: name of its quota.
        vcpus: that count against the quota.
        zones: in which the region has it; empty: the region has no zones for it.
        withheld: why this subscription cannot have it in the region; empty where it can.
        withheld_zones: in which zones this subscription cannot have it.
        spot: whether there are spot machines of it.
        ephemeral: whether the nodes' disk can lie on the machine's own; None where Azure does not say.
        own_disk: GiB of the largest of its own disks that can; None where Azure does not say.
        encrypts: whether its host can encrypt disks and caches; None where Azure does not say.
    """

    name: str
    family: str
    vcpus: int
    zones: frozenset[str]
    withheld: str = ""
    withheld_zones: frozenset[str] = frozenset()
    spot: bool = True
    ephemeral: bool | None = None
    own_disk: int | None = None
    encrypts: bool | None = None

    @property
    def usable_zones(self) -> list[str]:
        """The zones in which this subscription can have it."""
        return sorted(self.zones - self.withheld_zones)


@dataclass(frozen=True)
class Usage:
    """A quota: how much of it is used, how much there is."""

    used: int
    limit: int

    @property
    def left(self) -> int:
        """What may still be made."""
        return max(0, self.limit - self.used)


@dataclass(frozen=True)
class Version:
    """A minor version of Kubernetes that AKS offers in a region.

    Attributes:
        minor: e.g. 1.34.
        patches: its releases.
        preview: whether it is offered as a preview only.
        default: whether a cluster that names none gets it.
        plans: KubernetesOfficial, AKSLongTermSupport.
    """

    minor: str
    patches: tuple[str, ...]
    preview: bool = False
    default: bool = False
    plans: tuple[str, ...] = ("KubernetesOfficial",)


@dataclass(frozen=True)
class MadePool:
    """An agent pool that is there; its size in lower case, its version empty where Azure says none.

    `pool` and `replacement_id` are what the labels of its nodes say (gpu_pools/platforms/aks/replacements.py); empty without
    them.
    """

    size: str
    count: int
    spot: bool = False
    version: str = ""
    pool: str = ""
    replacement_id: str = ""


@dataclass(frozen=True)
class MadeCluster:
    """A managed cluster that is there.

    Attributes:
        location: its region.
        version: of its control plane.
        pools: by name.
        plugin: azure, kubenet or none.
        mode: overlay, or empty.
        subnets: name of a pool -> ids of the subnets of its nodes and pods, empty where it has none.
    """

    location: str
    version: str
    pools: Mapping[str, MadePool]
    plugin: str = "azure"
    mode: str = ""
    subnets: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Subnet:
    """Addresses of a subnet; None where Azure does not say."""

    used: int | None
    size: int | None

    @property
    def free(self) -> int | None:
        """What is left; None where that is not known."""
        return None if self.used is None or self.size is None else max(0, self.size - self.used)


@dataclass(frozen=True)
class Reservation:
    """Machines that are kept for this subscription; the size in lower case."""

    size: str
    machines: int
    zones: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Azure:
    """What Azure says.

    Attributes:
        regions: of the subscription.
        sizes: name in lower case -> VM size of the region.
        usages: name in lower case -> quota in the region.
        versions: of Kubernetes in the region.
        cluster: the stack's; None: there is none.
        subnets: id in lower case -> subnet; None: there is none.
        reservations: id of a group in lower case -> what it holds; None: there is no such group.
        managed: pools whose GPUs AKS manages itself.
    """

    regions: Sequence[str] | Unread
    sizes: Mapping[str, Size] | Unread
    usages: Mapping[str, Usage] | Unread
    versions: Sequence[Version] | Unread
    cluster: MadeCluster | Unread | None = None
    subnets: Mapping[str, Subnet | Unread | None] = field(default_factory=dict)
    reservations: Mapping[str, Sequence[Reservation] | Unread | None] = field(default_factory=dict)
    managed: Sequence[str] | Unread = ()


def read_regions(documents: Iterable[Document]) -> list[str]:
    """Names of regions, without what is only a group of them (`regionType` Logical)."""
    return [one["name"] for one in documents if (one.get("metadata") or {}).get("regionType", "Physical") == "Physical"]


def read_sizes(documents: Iterable[Document], region: str) -> dict[str, Size]:
    """VM sizes of a region, from the list of SKUs, which has disks and others, too."""
    machines = [one for one in documents if str(one.get("resourceType")).lower() == "virtualmachines"]
    return {one["name"].lower(): _size(one, region.lower()) for one in machines}


def _size(one: Document, region: str) -> Size:
    has = {entry["name"]: entry["value"] for entry in one.get("capabilities") or ()}
    places = [place for place in one.get("locationInfo") or () if str(place.get("location")).lower() == region]
    refused = [entry for entry in one.get("restrictions") or () if _concerns(entry, region)]
    return Size(
        name=one["name"],
        family=one.get("family") or "",
        vcpus=int(has["vCPUs"]),
        zones=frozenset(zone for place in places for zone in place.get("zones") or ()),
        withheld=next((entry.get("reasonCode") or "unknown" for entry in refused if entry.get("type") == "Location"), ""),
        withheld_zones=frozenset(
            zone
            for entry in refused
            if entry.get("type") == "Zone"
            for zone in (entry.get("restrictionInfo") or {}).get("zones") or ()
        ),
        spot=has.get("LowPriorityCapable") != "False",
        ephemeral=_said(has, "EphemeralOSDiskSupported"),
        own_disk=_own_disk(has),
        encrypts=_said(has, "EncryptionAtHostSupported"),
    )


def _said(has: Mapping[str, str], name: str) -> bool | None:
    return None if name not in has else has[name] == "True"


def _own_disk(has: Mapping[str, str]) -> int | None:
    """The cache, the temporary disk or an NVMe disk, whichever is largest (azure-compute-docs, ephemeral-os-disks)."""
    units = {"CachedDiskBytes": 1 / _GIB, "MaxResourceVolumeMB": 1 / _MIB_OF_GIB, "NvmeDiskSizeInMiB": 1 / _MIB_OF_GIB}
    found = [int(float(has[name]) * unit) for name, unit in units.items() if name in has]
    return max(found) if found else None


def _concerns(restriction: Document, region: str) -> bool:
    """Whether a restriction is about the region; one that names none is."""
    named = [*(restriction.get("values") or ()), *((restriction.get("restrictionInfo") or {}).get("locations") or ())]
    return not named or region in {str(one).lower() for one in named}


def read_usages(documents: Iterable[Document]) -> dict[str, Usage]:
    """Quotas of a region."""
    return {one["name"]["value"].lower(): Usage(int(one["currentValue"]), int(one["limit"])) for one in documents}


def read_versions(document: Document) -> list[Version]:
    """Versions of Kubernetes; the list is called `values`."""
    return [
        Version(
            minor=one["version"],
            patches=tuple(one.get("patchVersions") or ()),
            preview=bool(one.get("isPreview")),
            default=bool(one.get("isDefault")),
            plans=tuple((one.get("capabilities") or {}).get("supportPlan") or ()),
        )
        for one in document["values"]
    ]


def read_cluster(document: Document) -> MadeCluster:
    """A managed cluster."""
    properties = document["properties"]
    pools = properties.get("agentPoolProfiles") or ()
    network = properties.get("networkProfile") or {}
    return MadeCluster(
        location=document["location"].replace(" ", "").lower(),
        version=properties.get("currentKubernetesVersion") or properties.get("kubernetesVersion") or "",
        pools={
            one["name"]: MadePool(
                size=(one.get("vmSize") or "").lower(),
                count=int(one.get("count") or 0),
                spot=one.get("scaleSetPriority") == "Spot",
                version=one.get("currentOrchestratorVersion") or "",
                pool=(one.get("nodeLabels") or {}).get(POOL_LABEL) or "",
                replacement_id=(one.get("nodeLabels") or {}).get(REPLACEMENT_LABEL) or "",
            )
            for one in pools
        },
        plugin=network.get("networkPlugin") or "azure",
        mode=network.get("networkPluginMode") or "",
        subnets={one["name"]: (one.get("vnetSubnetID") or "", one.get("podSubnetID") or "") for one in pools},
    )


def read_subnets(documents: Iterable[Document]) -> dict[str, Subnet]:
    """The subnets of a virtual network, from the list of its usages; of some Azure says -1."""
    return {
        one["id"].lower(): Subnet(used=_known(one["currentValue"]), size=_known(one["limit"]))
        for one in documents
        if one["name"]["value"] == "SubnetSpace"
    }


def _known(number: float) -> int | None:
    return None if number < 0 else int(number)


def read_reservations(documents: Iterable[Document]) -> list[Reservation]:
    """What a capacity reservation group holds."""
    return [
        Reservation(one["sku"]["name"].lower(), int(one["sku"].get("capacity") or 0), frozenset(one.get("zones") or ()))
        for one in documents
    ]


def read_managed(documents: Iterable[Document]) -> list[str]:
    """Agent pools whose driver, device plugin and exporter AKS brings itself."""
    found = []
    for one in documents:
        gpu = (one.get("properties") or {}).get("gpuProfile") or {}
        if (gpu.get("nvidia") or {}).get("managementMode") == "Managed":
            found.append(one["name"])
    return found
