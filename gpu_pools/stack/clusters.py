"""The cluster section: which platform, and what making the cluster needs.

Planning needs only the platform (and Magnum's driver, which decides how labels and taints reach nodes); `complete=True`
demands what a deploy needs besides. Rules of the clouds that depend on more than one field of this section are here too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, cast

from gpu_pools.stack.entra import parse_entra
from gpu_pools.stack.section import Section
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.stack.entra import EntraSettings
    from gpu_pools.text.errors import Problems

Platform = Literal["aks", "magnum", "existing"]
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


@dataclass(frozen=True)
class SystemPool:
    """The AKS pool that runs the cluster's own pods. AKS wants at least two nodes of 4 vCPUs in production."""

    vm_size: str
    min_nodes: int
    max_nodes: int
    zones: tuple[str, ...] = ()
    autoscaled: bool = False


@dataclass(frozen=True)
class AksSettings:
    """An AKS cluster of our own making. Texts are empty where an incomplete section left them out."""

    name: str = ""
    location: str = ""
    resource_group: str = ""
    kubernetes_version: str | None = None
    tier: str = "Free"
    system_pool: SystemPool = field(default_factory=lambda: SystemPool("", 1, 1))
    tags: Mapping[str, str] = field(default_factory=dict)
    protect: bool = False
    entra: EntraSettings | None = None

    @property
    def platform(self) -> Platform:
        """Which cloud it is."""
        return "aks"


@dataclass(frozen=True)
class MagnumTemplate:
    """A cluster template that the stack makes."""

    image: str
    external_network: str
    flavor: str
    master_flavor: str
    network_driver: str | None = None
    docker_volume_size: int | None = None
    dns_nameserver: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MagnumSettings:
    """A Magnum cluster. Exactly one of `template` (made here) and `template_id` (given) is set in a complete section."""

    name: str = ""
    driver: MagnumDriver | None = None
    template: MagnumTemplate | None = None
    template_id: str | None = None
    keypair: str | None = None
    masters: int = 1
    workers: int = 1
    worker_flavor: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    protect: bool = False
    check_cloud: bool = True

    @property
    def platform(self) -> Platform:
        """Which cloud it is."""
        return "magnum"

    @property
    def autoscales(self) -> bool:
        """Whether labels of the stack turn the cluster's autoscaler on; a template that is given may do so unseen."""
        labels = {**(self.template.labels if self.template else {}), **self.labels}
        # As oslo_utils.strutils.bool_from_string reads it.
        return labels.get("auto_scaling_enabled", "").strip().lower() in {"true", "t", "yes", "y", "on", "1"}


@dataclass(frozen=True)
class ExistingSettings:
    """A cluster that is there already, reached through a kubeconfig file and a context of it."""

    kubeconfig: str | None = None
    context: str | None = None

    @property
    def platform(self) -> Platform:
        """Which cloud it is."""
        return "existing"


ClusterSettings = AksSettings | MagnumSettings | ExistingSettings


def parse_cluster(value: object, path: str, problems: Problems, *, complete: bool) -> ClusterSettings | None:
    """The cluster section; None (and problems) where the platform cannot be told."""
    section = Section(value, path, problems, what="a mapping with `platform`")
    platform = section.text("platform", required=section.readable, choices=PLATFORMS)
    if platform == "aks":
        return _parse_aks(section, complete=complete)
    if platform == "magnum":
        return _parse_magnum(section, complete=complete)
    return _parse_existing(section) if platform else None


def _parse_aks(section: Section, *, complete: bool) -> AksSettings:
    name = section.text("name", required=complete, pattern=r"[A-Za-z0-9]([-_A-Za-z0-9]{0,61}[A-Za-z0-9])?", allowed=_AKS_NAME)
    location = section.text("location", required=complete, pattern=r"[a-z][a-z0-9]*", allowed="an Azure region, e.g. westeurope")
    group = section.text("resourceGroup", pattern=r"[-\w._()]{1,89}[-\w_()]", allowed="1 to 90 letters, digits, - _ . ( )")
    version = section.text("kubernetesVersion", pattern=r"1\.\d+(\.\d+)?", allowed='a version in quotes, e.g. "1.34"')
    tier = section.text("tier", choices=("Free", "Standard", "Premium"))
    system_pool = _parse_system_pool(section, complete=complete)
    tags = section.texts("tags")
    protect = section.flag("protect")
    entra = section.section("entra", what="a mapping with adminGroups")
    parsed_entra = parse_entra(entra) if entra else None
    section.finish()
    return AksSettings(
        name=name or "",
        location=location or "",
        resource_group=group or name or "",
        kubernetes_version=version,
        tier=tier or "Free",
        system_pool=system_pool,
        tags=tags,
        protect=bool(protect),
        entra=parsed_entra,
    )


def _parse_system_pool(section: Section, *, complete: bool) -> SystemPool:
    pool = section.section("systemPool", what="a mapping with vmSize and nodes")
    if pool is None:
        if complete:
            section.problems.add(
                section.at("systemPool"),
                "is missing",
                allowed="a mapping with vmSize and nodes or count",
                remedy="Add e.g. `systemPool: {vmSize: Standard_D4s_v5, count: 2}`; AKS needs a pool for its own pods.",
            )
        return SystemPool("", 1, 1)
    vm_size = pool.text("vmSize", required=True, pattern=r"Standard_\w+", allowed="an Azure VM size, e.g. Standard_D4s_v5")
    nodes = parse_node_count(pool, smallest=1)
    zones = pool.each("zones", lambda value, path: parse_zone(value, path, pool.problems))
    pool.finish()
    return SystemPool(vm_size or "", nodes.fewest, cast("int", nodes.most), zones, nodes.autoscaled)


def _parse_magnum(section: Section, *, complete: bool) -> MagnumSettings:
    name = section.text("name", required=complete, pattern=r"[a-zA-Z][a-zA-Z0-9_.-]{0,241}", allowed=_MAGNUM_NAME)
    driver = section.text(
        "driver",
        required=complete,
        choices=tuple(NODE_GROUP_LABELS),
        remedy="Name the driver of your cloud: it decides which labels and taints reach the nodes.",
    )
    template_id = section.text("templateId", pattern=OPENSTACK_NAME, allowed=OPENSTACK_NAMES)
    inner = section.section("template")
    template = _parse_template(inner) if inner else None
    if complete and section.given("templateId") == bool(inner):
        section.problems.add(
            section.path,
            "gives both `template` and `templateId`" if inner else "gives neither `template` nor `templateId`",
            allowed="`template` to make one, or `templateId` for one that exists",
            remedy="Keep one of them." if inner else "Add `templateId: <uuid or name>`, or a `template:`.",
        )
    keypair = section.text("keypair", pattern=OPENSTACK_NAME, allowed=OPENSTACK_NAMES)
    masters = section.integer("masters", minimum=1)
    if masters is not None and masters % 2 == 0:
        section.problems.add(
            section.at("masters"),
            f"{masters} is even",
            allowed="an odd number of masters",
            remedy="Use 1 or 3; Magnum refuses an even number because etcd could not form a majority.",
        )
    workers = section.integer("workers", minimum=1)
    worker_flavor = section.text("workerFlavor", pattern=OPENSTACK_NAME, allowed=OPENSTACK_NAMES)
    labels = section.texts("labels")
    protect = section.flag("protect")
    check_cloud = section.flag("checkCloud")
    section.finish()
    return MagnumSettings(
        name=name or "",
        driver=driver,  # type: ignore[arg-type]
        template=template,
        template_id=template_id,
        keypair=keypair,
        masters=masters or 1,
        workers=workers or 1,
        worker_flavor=worker_flavor,
        labels=labels,
        protect=bool(protect),
        check_cloud=check_cloud is not False,
    )


def _parse_template(section: Section) -> MagnumTemplate:
    image = section.text("image", required=True, pattern=OPENSTACK_NAME, allowed=OPENSTACK_NAMES)
    network = section.text("externalNetwork", required=True, pattern=OPENSTACK_NAME, allowed=OPENSTACK_NAMES)
    flavor = section.text("flavor", required=True, pattern=OPENSTACK_NAME, allowed=OPENSTACK_NAMES)
    master_flavor = section.text("masterFlavor", pattern=OPENSTACK_NAME, allowed=OPENSTACK_NAMES)
    network_driver = section.text("networkDriver", choices=("calico", "cilium", "flannel"))
    volume = section.integer("dockerVolumeSize", minimum=1)
    dns = section.text("dnsNameserver", pattern=_RESOLVERS, allowed='IPv4 addresses, e.g. "8.8.8.8" or "10.0.0.2,10.0.0.3"')
    labels = section.texts("labels")
    section.finish()
    return MagnumTemplate(
        image or "", network or "", flavor or "", master_flavor or flavor or "", network_driver, volume, dns, labels
    )


def _parse_existing(section: Section) -> ExistingSettings:
    kubeconfig = section.text("kubeconfig")
    context = section.text("context")
    section.finish()
    return ExistingSettings(kubeconfig, context)


def parse_zone(value: object, path: str, problems: Problems) -> str | None:
    """One availability zone of Azure."""
    if isinstance(value, str) and value in {"1", "2", "3"}:
        return value
    problems.add(path, f"{show(value)} is not a zone", allowed='"1", "2" or "3", in quotes', remedy='Write zones: ["1", "2"].')
    return None


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


_AKS_NAME: Final = "1 to 63 letters, digits, - and _, starting and ending with a letter or digit"
#: dns_nameserver of Magnum's API (utils.validate_dns): IPv4 addresses with commas between them.
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_RESOLVER: Final = rf" *{_OCTET}(?:\.{_OCTET}){{3}} *"
_RESOLVERS: Final = f"{_RESOLVER}(?:,{_RESOLVER})*"
_MAGNUM_NAME: Final = "1 to 242 letters, digits, _ . and -, starting with a letter"
