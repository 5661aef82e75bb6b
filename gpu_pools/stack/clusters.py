"""The cluster section: which platform, and what making the cluster needs.

Planning needs only the platform (and Magnum's driver, which decides how labels and taints reach nodes); `complete=True`
demands what a deploy needs besides. Rules of the clouds that depend on more than one field of this section are here too.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from gpu_pools.reading.fields import (
    Kind,
    Row,
    flag,
    inner,
    one_of,
    placed_texts,
    read,
    read_inner,
    reads,
    row,
    rows,
    text,
    texts,
    whole_number,
)
from gpu_pools.reading.section import Section
from gpu_pools.stack import existing_aks, existing_magnum
from gpu_pools.stack.aks_options import GROUP_NAME, GROUP_NAMES, AksClusterOptions, cluster_options
from gpu_pools.stack.azure_types import properties
from gpu_pools.stack.beside_existing import refuse_beside
from gpu_pools.stack.entra import EntraSettings
from gpu_pools.stack.existing_aks import NAME, ExistingAks
from gpu_pools.stack.existing_magnum import ExistingMagnum, need_one
from gpu_pools.stack.platform import Cluster, TaintedBy
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_pools.text.errors import Problems

MagnumDriver = Literal["heat", "magnum-cluster-api", "capi-helm"]

PLATFORMS: Final = ("aks", "magnum", "existing")
#: The node label that carries the node group's name, per Magnum driver (openstack/magnum stable/2025.1 heat minion script;
#: vexxhost/magnum-cluster-api 0.38.1; openstack/magnum-capi-helm 1.4.0).
NODE_GROUP_LABELS: Final[Mapping[MagnumDriver, str]] = {
    "heat": "magnum.openstack.org/nodegroup",
    "magnum-cluster-api": "node.cluster.x-k8s.io/nodegroup",
    "capi-helm": "capi.stackhpc.com/node-group",
}
#: How Magnum's API takes names and ids of what other services have (wtypes.StringType in api/controllers/v1).
OPENSTACK_NAME: Final = r".{1,255}"
OPENSTACK_NAMES: Final = "a name or id of 1 to 255 characters"


#: dns_nameserver of Magnum's API (utils.validate_dns): IPv4 addresses with commas between them.
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_RESOLVER: Final = rf" *{_OCTET}(?:\.{_OCTET}){{3}} *"
_RESOLVERS: Final = f"{_RESOLVER}(?:,{_RESOLVER})*"
_PROTECTED: Final = (
    "Refuse to delete or replace the cluster (a `pulumi destroy` takes everything else first), unless that is "
    "[acknowledged](#gpu-poolsacknowledged)."
)
_CHECKED: Final = "Whether the cloud is asked first for what the cluster needs of it; true by default."
_CHECKED_DOC: Final = "`false` leaves out the [check of the cloud](#the-check-of-the-cloud) before a deploy."


@dataclass(frozen=True)
class NodeCount:
    """How many nodes.

    Attributes:
        fewest: at least.
        most: at most; None where the cloud decides.
        autoscaled: whether the number is the autoscaler's, which is what ``nodes`` says, also where both bounds are the same.
    """

    fewest: int
    most: int | None
    autoscaled: bool


def parse_node_count(section: Section, *, smallest: int = 0, default: NodeCount | None = None) -> NodeCount:
    """From ``count: 2`` or ``nodes: {min: 0, max: 4}``; exactly one of the two, or the default."""
    has_count, has_nodes = section.given("count"), section.given("nodes")
    if has_count == has_nodes:
        if has_count or default is None:
            section.problems.add(
                section.path,
                "gives both `count` and `nodes`" if has_count else "gives neither `count` nor `nodes`",
                allowed="`count: 2` for a fixed size, or `nodes: {min: 0, max: 4}` for autoscaling",
                remedy="Keep one of them." if has_count else "Add one of them.",
            )
            return NodeCount(smallest, smallest, autoscaled=False)
        return default
    if has_count:
        count = section.integer("count", minimum=smallest, maximum=1000)
        fixed = smallest if count is None else count
        return NodeCount(fixed, fixed, autoscaled=False)
    return NodeCount(*_parse_range(section, smallest), autoscaled=True)


def _parse_range(section: Section, smallest: int) -> tuple[int, int]:
    nodes = section.section("nodes", what="a mapping with min and max")
    if nodes is None or not nodes.readable:
        return smallest, smallest
    low = nodes.integer("min", minimum=smallest, maximum=1000, required=True)
    high = nodes.integer("max", minimum=max(smallest, 1), maximum=1000, required=True)
    nodes.finish()
    if low is not None and high is not None and low > high:
        nodes.problems.add(
            nodes.path, f"min {low} is greater than max {high}", allowed="min <= max", remedy="Swap or correct the two numbers."
        )
    return low if low is not None else smallest, high if high is not None else smallest


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
#: Read together with the count that may stand in its place.
RANGE: Final = Kind(lambda section, one: section.raw(one.key), "NodeRangeArgs")
_OPENSTACK: Final = text(OPENSTACK_NAME, OPENSTACK_NAMES)
#: One that is only placed, and may be an Output in a program.
_PLACED: Final = Kind(_OPENSTACK.read, "pulumi.Input[str]")


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
    protect: bool = row(
        "Refuse to delete or replace the cluster. The pools stay free to be rotated.",
        flag(),
        default=False,
        doc=_PROTECTED,
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
        _CHECKED,
        flag(),
        default=True,
        doc=_CHECKED_DOC,
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


#: Labels of Magnum's drivers that have a key -> the key (heat up to 2026.1; magnum-cluster-api 0.38.1; magnum-capi-helm 1.4.0).
_LABEL_KEYS: Final = {
    "availability_zone": "availabilityZone",
    "boot_volume_size": "bootVolume.size",
    "boot_volume_type": "bootVolume.type",
    "auto_healing_enabled": "autoHealing",
}
#: Anybody who may read the template reads its proxies, so that no password may be in them.
_PROXY: Final = text(r"(?=.{1,255}$)https?://[^\s/@]+/?", "e.g. http://proxy.example.com:3128, without a user or password")
_OPEN: Final = "without a password, which every user of the template could read"
_NO_PROXIES: Final = "names, addresses and networks with commas between, no blanks, at most 255 characters"


@dataclass(frozen=True)
class MagnumTemplate:
    """A cluster template that the stack makes. Any change makes a new one, to which the cluster moves over."""

    image: str = row("Image of the nodes.", _OPENSTACK, "", needed=True, sets="image", change="replaces")
    external_network: str = row(
        "Network that reaches outside.", _PLACED, "", needed=True, sets="externalNetworkId", change="replaces"
    )
    flavor: str = row("Flavor of the workers.", _OPENSTACK, "", needed=True, sets="flavor", change="replaces")
    master_flavor: str = row(
        "Flavor of the masters; that of the workers by default.", _OPENSTACK, "", sets="masterFlavor", change="replaces"
    )
    network_driver: str | None = row(
        "calico, cilium or flannel.",
        one_of(("calico", "cilium", "flannel")),
        sets="networkDriver",
        change="replaces",
        doc="`calico`, `cilium` or `flannel`; of magnum-cluster-api `calico` or `cilium`.",
    )
    docker_volume_size: int | None = row(
        "GiB of the volume for container images.", whole_number(1), sets="dockerVolumeSize", change="replaces"
    )
    dns_nameserver: str | None = row(
        "Resolver of the nodes.",
        text(_RESOLVERS, 'IPv4 addresses, e.g. "8.8.8.8" or "10.0.0.2,10.0.0.3"'),
        sets="dnsNameserver",
        change="replaces",
    )
    labels: Mapping[str, str] = row("Settings of Magnum's driver.", texts(), {}, sets="labels", change="replaces")
    http_proxy: str | None = row(
        "Proxy of the nodes for http.", _PROXY, sets="httpProxy", change="replaces", doc=f"Proxy of the nodes for http; {_OPEN}."
    )
    https_proxy: str | None = row("The same for https.", _PROXY, sets="httpsProxy", change="replaces")
    no_proxy: str | None = row(
        "What they reach without a proxy, with commas between; at most 255 characters.",
        text(r"(?=.{1,255}$)[^\s,]+(?:,[^\s,]+)*", _NO_PROXIES),
        sets="noProxy",
        change="replaces",
    )


def _template(section: Section, one: Row) -> MagnumTemplate | None:
    given = read_inner(MagnumTemplate, section, one)
    if one.needed and section.given("templateId") == bool(given):
        section.problems.add(
            section.path,
            "gives both `template` and `templateId`" if given else "gives neither `template` nor `templateId`",
            allowed="`template` to make one, or `templateId` for one that exists",
            remedy="Keep one of them." if given else "Add `templateId: <uuid or name>`, or a `template:`.",
        )
    return replace(given, master_flavor=given.master_flavor or given.flavor) if given else None


def _masters(section: Section, one: Row) -> int | None:
    masters = section.integer(one.key, minimum=1)
    if masters is not None and masters % 2 == 0:
        section.problems.add(
            section.at(one.key),
            f"{masters} is even",
            allowed="an odd number of masters",
            remedy="Use 1 or 3; Magnum refuses an even number because etcd could not form a majority.",
        )
    return masters


@dataclass(frozen=True)
class BootVolume:
    """The disk that Magnum's drivers make for each machine, in place of the flavor's own."""

    size: int | None = row("GiB.", whole_number(1), needed=True, sets="labels", change="replaces")
    type: str | None = row("Cinder's volume type; the cloud's own by default.", _OPENSTACK, sets="labels", change="replaces")


@dataclass(frozen=True)
class MagnumOptions:
    """What a cluster has of its own beside its template. Whatever is not written is as the template has it."""

    fixed_network: str | None = row(
        "A private network for the nodes, by name or id.",
        _PLACED,
        sets="fixedNetwork",
        change="replaces",
        doc="A private network for the nodes, by name or id; Magnum's driver makes one otherwise.",
    )
    fixed_subnet: str | None = row("A subnet of it, by name or id.", _PLACED, sets="fixedSubnet", change="replaces")
    floating_ip: bool | None = row(
        "Whether nodes have floating IPs; as the template has it by default.",
        flag(),
        sets="floatingIpEnabled",
        change="replaces",
        doc="`false`: the nodes have no floating IPs. Whoever deploys must then reach the API server by another way.",
    )
    master_load_balancer: bool | None = row(
        "Whether a load balancer stands before the masters; several masters have one.",
        flag(),
        sets="masterLbEnabled",
        change="replaces",
        doc="Whether a load balancer stands before the masters. Several masters need one.",
    )
    availability_zone: str | None = row(
        "Nova's availability zone.",
        _OPENSTACK,
        sets="labels",
        change="replaces",
        # No such label is read in magnum-capi-helm 1.4.0 (driver.py).
        doc="Nova's availability zone; capi-helm passes over it.",
    )
    boot_volume: BootVolume | None = row(
        "A volume as the machines' disk.",
        inner(BootVolume, "a mapping with size"),
        sets="labels",
        change="replaces",
        doc="A volume as the machines' disk: `{size: 50, type: ssd}`, in GiB.",
    )
    auto_healing: bool | None = row(
        "Whether the driver replaces nodes that are not healthy.", flag(), sets="labels", change="replaces"
    )

    @property
    def labels(self) -> Mapping[str, str]:
        """What of it Magnum's drivers read of the cluster's labels."""
        healing = None if self.auto_healing is None else str(self.auto_healing).lower()
        volume = self.boot_volume or BootVolume()
        written = {
            "availability_zone": self.availability_zone,
            "boot_volume_size": None if volume.size is None else str(volume.size),
            "boot_volume_type": volume.type,
            "auto_healing_enabled": healing,
        }
        return {label: value for label, value in written.items() if value is not None}


def _magnum_options(section: Section, _one: Row) -> MagnumOptions:
    options, labels = read(MagnumOptions, section), section.raw("labels")
    for label in options.labels:
        if isinstance(labels, dict) and label in labels:
            key = _LABEL_KEYS[label]
            section.problems.add(
                f"{section.at('labels')}.{label}",
                f"is written as `{key}`, too",
                allowed="one of the two",
                remedy=f"Remove the label; `{key}` sets it.",
            )
    masters = section.raw("masters")
    if options.master_load_balancer is False and isinstance(masters, int) and masters > 1:
        section.problems.add(
            section.at("masterLoadBalancer"),
            f"{masters} masters need a load balancer",
            allowed="true, or one master",
            remedy="Remove it; Magnum refuses several masters without one.",
        )
    return options


#: What `existing` of Magnum is.
_WHICH: Final = "a mapping with name or uuid"


@dataclass(frozen=True)
class MagnumSettings(Cluster):
    """A Magnum cluster. Exactly one of `template` (made here) and `template_id` (given) is set in a complete section."""

    platform: ClassVar[str] = "magnum"

    name: str = row(
        "The cluster's name.",
        existing_magnum.NAME,
        "",
        needed=True,
        sets="name",
        change="replaces",
    )
    driver: MagnumDriver | None = row(
        "Magnum's driver in this cloud: heat, magnum-cluster-api or capi-helm.",
        one_of(tuple(NODE_GROUP_LABELS), "Name the driver of your cloud: it decides which labels and taints reach the nodes."),
        needed=True,
        doc="Magnum's driver in this cloud: `heat`, `magnum-cluster-api` or `capi-helm`. It decides which labels and "
        "taints reach the nodes.",
    )
    template_id: str | None = row(
        "Name or UUID of a template that exists.",
        _OPENSTACK,
        sets="clusterTemplateId",
        change="updates",
        needed=True,
        either="template",
        doc="Name or UUID of a template that exists. Another one is an upgrade.",
    )
    template: MagnumTemplate | None = row(
        "A template to make.",
        Kind(_template, MagnumTemplate),
        needed=True,
        either="templateId",
        sets="clusterTemplateId",
    )
    keypair: str | None = row("Name of a keypair for the nodes.", _PLACED, sets="keypair", change="replaces")
    masters: int = row(
        "An odd number; 1 by default.",
        Kind(_masters, "int"),
        1,
        sets="masterCount",
        change="replaces",
        doc="How many masters, an odd number.",
    )
    workers: int = row(
        "Nodes of the default worker group, which runs the cluster's own pods; 1 by default.",
        whole_number(1),
        1,
        sets="nodeCount",
        change="updates",
    )
    worker_flavor: str | None = row(
        "Flavor of that group; the template's by default.", _OPENSTACK, sets="flavor", change="replaces"
    )
    labels: Mapping[str, str] = row(
        "Settings of Magnum's driver, merged over the template's. A change makes a new cluster.",
        texts(),
        {},
        sets="labels",
        change="replaces",
        doc="Settings of Magnum's driver, merged over the template's. A change makes a new cluster. What the driver is not known "
        "to read, here, in `template` and in `nodeGroupLabels`, is a warning with the nearest that it reads.",
    )
    protect: bool = row(
        "Refuse to delete or replace the cluster. The node groups stay free to be rotated.", flag(), default=False, doc=_PROTECTED
    )
    check_cloud: bool = row(
        _CHECKED,
        flag(),
        default=True,
        doc=_CHECKED_DOC,
    )
    existing: ExistingMagnum | None = row(
        "A cluster that is there: the stack adds its node groups to it.",
        inner(ExistingMagnum, _WHICH),
        doc="A cluster that is there already: [the stack adds its node groups to it]"
        "(../real-clouds.md#a-magnum-cluster-that-is-there) and manages nothing else of it. Beside it only `driver` and "
        "`checkCloud` may stand.",
    )
    options: MagnumOptions = reads(Kind(_magnum_options, ""), MagnumOptions())

    @property
    def was_there(self) -> bool:
        """Whether it is named as `existing`."""
        return self.existing is not None

    @property
    def taints_by_nfd(self) -> bool:
        """Whether the driver sets no taints, so that NFD does."""
        return self.driver in {"magnum-cluster-api", "capi-helm"}

    @property
    def taints_by_kubelets(self) -> bool:
        """Whether the driver's kubelets register with taints."""
        return self.driver == "heat"

    @property
    def tainted_by(self) -> TaintedBy | None:
        """Only kubelets of the heat driver register with taints."""
        return "kubelet" if self.driver == "heat" else None

    @property
    def brings_operator(self) -> str:
        """The driver capi-helm installs both with its add-ons."""
        return "capi-helm" if self.driver == "capi-helm" else ""

    @property
    def autoscales(self) -> bool:
        """Whether labels of the stack turn the cluster's autoscaler on; a template that is given may do so unseen."""
        labels = {**(self.template.labels if self.template else {}), **self.labels}
        # As oslo_utils.strutils.bool_from_string reads it.
        return labels.get("auto_scaling_enabled", "").strip().lower() in {"true", "t", "yes", "y", "on", "1"}


def _content(section: Section, one: Row) -> str | None:
    """A kubeconfig; what is in it is never shown."""
    written = section.raw(one.key)
    if written is None or (isinstance(written, str) and written.strip()):
        if written is not None and section.given("kubeconfig"):
            section.problems.add(
                section.at(one.key), "stands beside `kubeconfig`", allowed="one of the two", remedy="Keep one of them."
            )
        return written
    section.problems.add(
        section.at(one.key), "is not a text", allowed="the contents of a kubeconfig file", remedy="Give the file's text."
    )
    return None


@dataclass(frozen=True)
class ExistingSettings(Cluster):
    """A cluster that is there already, reached through a kubeconfig and a context of it."""

    platform: ClassVar[str] = "existing"
    makes_nodes: ClassVar[bool] = False
    machines_are_virtual: ClassVar[bool] = False
    sets_taints: ClassVar[bool] = False
    containerd_reads_one_file: ClassVar[bool] = False

    kubeconfig: str | None = row("Path of a kubeconfig file; by default KUBECONFIG, else ~/.kube/config.", text())
    kubeconfig_content: str | None = row(
        "A kubeconfig itself, instead of a file; a secret.",
        Kind(_content, "pulumi.Input[str]"),
        doc="A kubeconfig itself, instead of a file: `pulumi config set --secret --path gpu-pools:cluster.kubeconfigContent`.",
    )
    context: str | None = row("Context of that file; its current one by default.", text())

    @property
    def was_there(self) -> bool:
        """Always."""
        return True


ClusterSettings = Cluster


def parse_cluster(value: object, path: str, problems: Problems, *, complete: bool) -> ClusterSettings | None:
    """The cluster section; None (and problems) where the platform cannot be told."""
    section = Section(value, path, problems, what="a mapping with `platform`")
    platform = _platform(section)
    if platform is None:
        return None
    if platform in _FOUND and section.given("existing"):
        return _FOUND[platform](section)
    settings = read(CLUSTERS[platform], section, complete=complete)
    section.finish()
    if isinstance(settings, AksSettings):
        return replace(
            settings, resource_group=settings.options.existing_resource_group or settings.resource_group or settings.name
        )
    return settings


def _platform(section: Section) -> str | None:
    """The platform; one that is misspelled, key or value, is a problem, and what else is wrong comes out in the same round."""
    meant = None if section.given("platform") else section.misspelled("platform")
    if meant in PLATFORMS:
        return str(meant)
    platform = section.text("platform", required=section.readable, choices=PLATFORMS)
    written = section.raw("platform")
    if platform is None and isinstance(written, str):
        return next(iter(difflib.get_close_matches(written, PLATFORMS, n=1)), None)
    return platform


def _existing_aks(section: Section) -> AksSettings:
    own = [one.key for settings in (AksSettings, AksClusterOptions) for one in rows(settings)]
    refuse_beside(section, own, existing_aks.BESIDE, existing_aks.INSTEAD)
    found = read_inner(ExistingAks, section, Row("existing", "", flag()), "a mapping with resourceGroup and name")
    tags, asked = section.texts("tags"), section.flag("checkCloud")
    section.finish()
    existing = found or ExistingAks()
    return AksSettings(
        name=existing.name, resource_group=existing.resource_group, tags=tags, check_cloud=asked is not False, existing=existing
    )


def _existing_magnum(section: Section) -> MagnumSettings:
    own = [one.key for settings in (MagnumSettings, MagnumOptions) for one in rows(settings)]
    refuse_beside(section, own, existing_magnum.BESIDE, existing_magnum.INSTEAD)
    within = section.section("existing", what=_WHICH)
    existing = read(ExistingMagnum, within) if within else ExistingMagnum()
    if within and within.readable:
        need_one(within)
        within.finish()
    known = {one.key: one for one in rows(MagnumSettings)}
    driver: Any = known["driver"].kind.read(section, known["driver"])
    asked = known["checkCloud"].kind.read(section, known["checkCloud"])
    section.finish()
    return MagnumSettings(name=existing.named, driver=driver, check_cloud=asked is not False, existing=existing)


#: Platform -> how a cluster of it is read that is there already.
_FOUND: Final[Mapping[str, Callable[[Section], ClusterSettings]]] = {"aks": _existing_aks, "magnum": _existing_magnum}
#: What the cluster section of each platform holds.
CLUSTERS: Final[Mapping[str, type[Cluster]]] = {
    "aks": AksSettings,
    "magnum": MagnumSettings,
    "existing": ExistingSettings,
}
