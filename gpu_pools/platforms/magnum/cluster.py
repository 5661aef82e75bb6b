"""The section ``gpu-pools:cluster`` of Magnum: a cluster that the stack makes, or one that is there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from gpu_pools.platforms.beside_existing import refuse_beside
from gpu_pools.platforms.cluster_rows import CHECKED, CHECKED_DOC, PROTECTED
from gpu_pools.platforms.magnum.existing import BESIDE, INSTEAD, NAME, ExistingMagnum, need_one
from gpu_pools.reading.fields import Kind, Row, flag, inner, one_of, read, read_inner, reads, row, rows, text, texts, whole_number
from gpu_pools.stack.allocation import ALLOCATION, CLUSTER_DOC, CLUSTER_SAYS
from gpu_pools.stack.cluster import Cluster, TaintedBy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.reading.section import Section
    from gpu_pools.stack.allocation import Allocation

MagnumDriver = Literal["heat", "magnum-cluster-api", "capi-helm"]
#: The drivers that set no taints on nodes, so that NFD does.
TAINTED_BY_NFD: Final = ("magnum-cluster-api", "capi-helm")

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
_OPENSTACK: Final = text(OPENSTACK_NAME, OPENSTACK_NAMES)
#: One that is only placed, and may be an Output in a program.
_PLACED: Final = Kind(_OPENSTACK.read, "pulumi.Input[str]")


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
    has_node_groups: ClassVar[bool] = True

    name: str = row(
        "The cluster's name.",
        NAME,
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
    allocation: Allocation | None = row(CLUSTER_SAYS, ALLOCATION, doc=CLUSTER_DOC)
    protect: bool = row(
        "Refuse to delete or replace the cluster. The node groups can still be replaced.", flag(), default=False, doc=PROTECTED
    )
    check_cloud: bool = row(
        CHECKED,
        flag(),
        default=True,
        doc=CHECKED_DOC,
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
    def template_of_nodes(self) -> object:
        """The cluster template."""
        return self.template, self.template_id

    @property
    def was_there(self) -> bool:
        """Whether it is named as `existing`."""
        return self.existing is not None

    @property
    def taints_by_nfd(self) -> bool:
        """Whether the driver sets no taints, so that NFD does."""
        return self.driver in TAINTED_BY_NFD

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


def read_existing(section: Section) -> MagnumSettings:
    """Read a section that names a cluster that is there; beside `existing` few keys may stand."""
    own = [one.key for settings in (MagnumSettings, MagnumOptions) for one in rows(settings)]
    refuse_beside(section, own, BESIDE, INSTEAD)
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
