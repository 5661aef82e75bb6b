"""The section ``gpu-pools:cluster`` of AKS: a cluster that the stack makes, or one that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from gpu_pools.platforms.aks.azure_types import properties
from gpu_pools.platforms.aks.entra import EntraSettings
from gpu_pools.platforms.aks.existing import BESIDE, INSTEAD, NAME, ExistingAks
from gpu_pools.platforms.aks.options import GROUP_NAME, GROUP_NAMES, AksClusterOptions, cluster_options
from gpu_pools.platforms.beside_existing import refuse_beside
from gpu_pools.platforms.cluster_rows import CHECKED, CHECKED_DOC, PROTECTED
from gpu_pools.reading.fields import Kind, Row, flag, inner, one_of, placed_texts, read_inner, reads, row, rows, text
from gpu_pools.reading.node_count import RANGE, NodeCount, parse_node_count
from gpu_pools.stack.allocation import ALLOCATION, CLUSTER_DOC, CLUSTER_SAYS
from gpu_pools.stack.cluster import Cluster
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.reading.section import Section
    from gpu_pools.stack.allocation import Allocation
    from gpu_pools.text.errors import Problems


def _zones(section: Section, one: Row) -> tuple[str, ...]:
    return section.each(one.key, lambda value, path: _zone(value, path, section.problems))


def _zone(value: object, path: str, problems: Problems) -> str | None:
    if isinstance(value, str) and value in {"1", "2", "3"}:
        return value
    problems.add(path, f"{show(value)} is not a zone", allowed='"1", "2" or "3", in quotes', remedy='Write zones: ["1", "2"].')
    return None


#: Availability zones of Azure.
ZONES: Final = Kind(_zones, "list[str]")
_COUNTED: Final = Kind(lambda section, _: parse_node_count(section, smallest=1), "int")


#: What the system pool's `properties` must leave to its keys.
_SYSTEM_PLANNED: Final = {
    **dict.fromkeys(("name", "mode", "osType", "type", "orchestratorVersion"), "Leave it out: the stack decides it."),
    **dict.fromkeys(("count", "minCount", "maxCount", "enableAutoScaling"), "Write `count` or `nodes`."),
    **dict.fromkeys(("vnetSubnetID", "podSubnetID"), "Write `nodeSubnet` or `podSubnet` of `network`."),
    "vmSize": "Write `vmSize`.",
    "availabilityZones": "Write `zones`.",
}


@dataclass(frozen=True)
class SystemPool:
    """The AKS pool that runs the cluster's own pods. AKS wants at least two nodes of 4 vCPUs in production."""

    vm_size: str = row(
        "An Azure VM size without GPU.",
        text(r"(?i:standard)_\w+", "an Azure VM size, e.g. Standard_D4s_v5"),
        "",
        needed=True,
        sets="agentPoolProfiles.vmSize",
        change="refused",
    )
    nodes: NodeCount = row(
        "A fixed number of nodes.",
        _COUNTED,
        NodeCount(1, 1, autoscaled=False),
        key="count",
        needed=True,
        either="nodes",
        sets="agentPoolProfiles.count",
        change="updates",
        or_else=Row(
            "nodes",
            "Bounds for the autoscaler.",
            RANGE,
            needed=True,
            either="count",
            sets="agentPoolProfiles.minCount",
            change="updates",
        ),
    )
    zones: tuple[str, ...] = row("Availability zones.", ZONES, (), sets="agentPoolProfiles.availabilityZones", change="refused")
    properties: Mapping[str, Any] = row(
        "Properties of azure-native's ManagedClusterAgentPoolProfile, merged last into what is sent.",
        properties("ManagedClusterAgentPoolProfile", _SYSTEM_PLANNED),
        {},
        doc="Properties of azure-native's `ManagedClusterAgentPoolProfile`, e.g. `{maxPods: 60}`; see [below](#properties). "
        "What a pool keeps for good is refused once it is there.",
    )


def _system_pool(section: Section, one: Row) -> SystemPool | None:
    pool = read_inner(SystemPool, section, one, "a mapping with vmSize and nodes")
    if pool is None and one.needed:
        section.problems.add(
            section.at(one.key),
            "is missing",
            allowed="a mapping with vmSize and nodes or count",
            remedy="Add e.g. `systemPool: {vmSize: Standard_D4s_v5, count: 2}`; AKS needs a pool for its own pods.",
        )
    return pool


@dataclass(frozen=True)
class AksSettings(Cluster):
    """An AKS cluster of our own making, or one that is there, of which only name, resource group and the pools' tags are known.

    Texts are empty where an incomplete section left them out.
    """

    platform: ClassVar[str] = "aks"
    labels_nodes: ClassVar[bool] = True
    runtime_class: ClassVar[str] = "nvidia-container-runtime"
    hides_control_plane: ClassVar[bool] = True
    has_azure_monitor: ClassVar[bool] = True
    starts_bare: ClassVar[bool] = True

    name: str = row(
        "The cluster's name in Azure.",
        NAME,
        "",
        needed=True,
        sets="resourceName",
        change="replaces",
    )
    location: str = row(
        "An Azure region.",
        text(r"[a-z][a-z0-9]*", "an Azure region, e.g. westeurope"),
        "",
        needed=True,
        sets="location",
        change="replaces",
        doc="An Azure region, e.g. `westeurope`.",
    )
    resource_group: str = row(
        "Name of the resource group, which is made; the cluster's name by default.",
        text(GROUP_NAME, GROUP_NAMES),
        "",
        sets="resourceGroupName",
        change="replaces",
    )
    kubernetes_version: str | None = row(
        "The version, e.g. 1.34; what Azure offers by default.",
        text(r"1\.\d+(\.\d+)?", 'a version in quotes, e.g. "1.34"'),
        sets="kubernetesVersion",
        change="updates",
        doc='The version, e.g. `"1.34"`, in quotes; what Azure offers by default. Raised by one minor version at a '
        "time: first the control plane, then the system pool, then the GPU pools; the preview says from what to what.",
    )
    tier: str = row(
        "Free, Standard or Premium.", one_of(("Free", "Standard", "Premium")), "Free", sets="sku.tier", change="updates"
    )
    system_pool: SystemPool = row(
        "The pool for the cluster's own pods.",
        Kind(_system_pool, SystemPool),
        SystemPool(),
        needed=True,
        sets="agentPoolProfiles",
        doc="The pool for the cluster's own pods. Once it is there, its number of nodes can be changed (through the "
        "cluster, so that Azure shows all pools as being scaled meanwhile); another size or other zones are refused.",
    )
    tags: Mapping[str, str] = row(
        "Tags of group and cluster.", placed_texts(), {}, sets="tags", change="updates", doc="Tags of group, cluster and pools."
    )
    allocation: Allocation | None = row(CLUSTER_SAYS, ALLOCATION, doc=CLUSTER_DOC)
    protect: bool = row(
        "Refuse to delete or replace the cluster. The pools can still be replaced.",
        flag(),
        default=False,
        doc=PROTECTED,
    )
    entra: EntraSettings | None = row(
        "Log-in with Entra ID, and no local accounts; without it the kubeconfig is an administrator's.",
        inner(EntraSettings, "a mapping with adminGroups"),
        sets="aadProfile, disableLocalAccounts",
        change="updates",
        doc="Users log in with Entra ID, and no certificate of an administrator can be had: the default for production, see "
        "[below](#entra-id). Taking it out again is refused.",
    )
    check_cloud: bool = row(
        CHECKED,
        flag(),
        default=True,
        doc=CHECKED_DOC,
    )
    existing: ExistingAks | None = row(
        "A cluster that is there: the stack adds its pools to it.",
        inner(ExistingAks, "a mapping with resourceGroup and name"),
        doc="A cluster that is there already: [the stack adds its pools to it](../real-clouds.md#an-aks-cluster-that-is-there) "
        "and manages nothing else of it. Beside it only `tags`, which are those of the pools, and `checkCloud` may stand.",
    )
    options: AksClusterOptions = reads(Kind(cluster_options, ""), AksClusterOptions())

    @property
    def was_there(self) -> bool:
        """Whether it is named as `existing`."""
        return self.existing is not None

    @property
    def declares_version(self) -> bool:
        """Unless the cluster was there."""
        return self.existing is None

    @property
    def has_node_subnet(self) -> bool:
        """Whether pools that name none are in one of the cluster's; of a cluster that is there only Azure knows."""
        network = self.options.network
        return self.existing is not None or bool(network and network.node_subnet)


def read_existing(section: Section) -> AksSettings:
    """Read a section that names a cluster that is there; beside `existing` few keys may stand."""
    own = [one.key for settings in (AksSettings, AksClusterOptions) for one in rows(settings)]
    refuse_beside(section, own, BESIDE, INSTEAD)
    found = read_inner(ExistingAks, section, Row("existing", "", flag()), "a mapping with resourceGroup and name")
    tags, asked = section.texts("tags"), section.flag("checkCloud")
    section.finish()
    existing = found or ExistingAks()
    return AksSettings(
        name=existing.name, resource_group=existing.resource_group, tags=tags, check_cloud=asked is not False, existing=existing
    )
