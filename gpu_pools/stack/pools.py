"""One entry of ``gpu-pools:pools``: the hardware, how many nodes, how they are labelled and tainted, which sharing.

The hardware comes from the VM size (AKS), the flavor (Magnum, declared by the user under ``gpu-pools:flavors``) or the
model itself (existing clusters). Rules that involve the sharing declaration or other pools are in gpu_pools/plan/planning.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from gpu_pools.hardware import azure_sizes
from gpu_pools.hardware.models import GpuModel, find_model, model, model_keys, nearest_model
from gpu_pools.stack.clusters import OPENSTACK_NAME, OPENSTACK_NAMES, RANGE, ZONES, NodeCount, parse_node_count
from gpu_pools.stack.fields import Kind, Row, inner, number, one_of, read, read_inner, reads, row, text, texts, whole_number
from gpu_pools.stack.kubernetes_names import check_labels, parse_taint
from gpu_pools.stack.pool_labels import check_distinct, check_labels_arrive, check_taints_arrive
from gpu_pools.stack.section import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.platforms import Platform
    from gpu_pools.stack.kubernetes_names import Taint
    from gpu_pools.text.errors import Problems

DriverOwner = Literal["operator", "preinstalled"]
MigOwner = Literal["operator", "aks"]
DRIVER_OWNERS: Final = ("operator", "preinstalled")

AKS_POOL_NAME: Final = r"[a-z][a-z0-9]{0,11}"
#: NVIDIA's own: a branch, or branch and release.
_DRIVER_VERSION: Final = r"\d{1,6}(\.\d{1,6}){0,2}"
_CUDA_VERSION: Final = r"\d{1,3}\.\d{1,3}"
_OTHER_POOL_NAME: Final = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
_PASSED_OVER: Final = "capi-helm passes over it (W80)."


@dataclass(frozen=True)
class Hardware:
    """The GPUs of one node.

    Attributes:
        model: the GPU model.
        product: what NVML answers, where the form factor is known; else None.
        gpus: GPUs per node.
        source: where the declaration comes from, for messages, e.g. ``vmSize Standard_NC24ads_A100_v4``.
        mig_offered: False where the cloud does not offer MIG on it although the GPU may have it.
    """

    model: GpuModel
    product: str | None
    gpus: int
    source: str
    mig_offered: bool = True


@dataclass(frozen=True)
class Flavor:
    """A Nova flavor, as far as this project must know it. Nova has no field that names the GPU model."""

    hardware: Hardware | None
    vcpus: int | None = None
    memory_gib: float | None = None


@dataclass(frozen=True)
class PoolContext:
    """What parsing a pool needs from the rest of the file."""

    platform: Platform
    flavors: Mapping[str, Flavor]
    problems: Problems
    magnum_driver: str | None = None
    sharing_names: tuple[str, ...] = field(default=())
    flavor_names: tuple[str, ...] = field(default=())


class PoolSection(Section):
    """The mapping of one pool, with what its readers need besides."""

    def __init__(self, value: object, path: str, context: PoolContext) -> None:
        super().__init__(value, path, context.problems, what="a mapping with name, hardware and sharing")
        self.context = context


# The readers of single fields.


def _name(section: PoolSection, one: Row) -> str:
    if section.context.platform == "aks":
        pattern, allowed = AKS_POOL_NAME, "1 to 12 lower-case letters and digits, starting with a letter (AKS)"
    else:
        pattern, allowed = _OTHER_POOL_NAME, "1 to 40 lower-case letters, digits and dashes, starting with a letter"
    remedy = "Choose a shorter or simpler name; it is never cut, since two pools could then collide."
    raw = section.raw(one.key)
    name = section.text(one.key, required=True, pattern=pattern, allowed=allowed, remedy=remedy if raw is not None else "")
    return name or (raw if isinstance(raw, str) else "")


def _placed(section: PoolSection, _one: Row) -> object:
    return _PLACED[section.context.platform](section)


def _nodes(section: PoolSection, _one: Row) -> NodeCount:
    default = NodeCount(1, None, autoscaled=True) if section.context.platform == "existing" else None
    return parse_node_count(section, default=default)


def _sharing(section: PoolSection, one: Row) -> str | None:
    names = section.context.sharing_names
    value = section.raw(one.key)
    if isinstance(value, dict):
        section.problems.add(
            section.at(one.key),
            "a declaration is written into the pool",
            allowed="the name of a declaration",
            remedy="Move it to gpu-pools:sharing under a name, and give that name here.",
        )
        return None
    known = " | ".join(names) or "none is declared"
    remedy = "" if value is not None else "Add `sharing: <name>`; use a declaration `{exclusive: {}}` for whole GPUs."
    return section.text(one.key, required=True, choices=names, allowed=known, remedy=remedy)


def _labels(section: PoolSection, one: Row) -> dict[str, str]:
    labels = section.texts(one.key)
    check_labels(labels, section.at(one.key), section.problems)
    check_labels_arrive(labels, section, section.context.platform)
    return labels


def _taints(section: PoolSection, one: Row) -> tuple[Taint, ...]:
    taints = section.each(one.key, lambda value, where: parse_taint(value, where, section.problems), what="a list of taints")
    check_distinct(taints, section)
    check_taints_arrive(taints, section, section.context.platform, section.context.magnum_driver)
    return taints


def _protect(section: PoolSection, one: Row) -> bool | None:
    # Nodes that are there already are nobody's to replace.
    return section.flag(one.key) if section.context.platform != "existing" else None


def _spot(section: PoolSection, one: Row) -> Spot | None:
    spot = read_inner(Spot, section, one, "a mapping with maxPrice")
    if spot and -1 < spot.max_price <= 0:
        section.problems.add(
            f"{section.at(one.key)}.maxPrice",
            f"{spot.max_price:g} is not a price",
            allowed="-1, or more than 0",
            remedy="Use -1 for the on-demand price.",
        )
    return spot


def _vm_size(section: PoolSection, one: Row) -> str:
    # Looked up beside (_azure_hardware), which tells what is wrong with it.
    return str(section.raw(one.key) or "")


def _flavor(section: PoolSection, one: Row) -> str | None:
    names = section.context.flavor_names
    return section.text(
        one.key,
        required=True,
        choices=names,
        allowed=" | ".join(names) or "none is declared under gpu-pools:flavors",
        remedy="Declare the flavor under gpu-pools:flavors with its gpuModel and gpusPerNode; OpenStack cannot tell them.",
    )


def _node_selector(section: PoolSection, one: Row) -> dict[str, str]:
    selector = section.texts(one.key)
    if not selector:
        section.problems.add(
            section.at(one.key),
            "is missing",
            allowed="at least one node label, e.g. {kubernetes.io/hostname: gpu-1}",
            remedy="Select the pool's nodes by labels that they have.",
        )
    return selector


_OPENSTACK: Final = text(OPENSTACK_NAME, OPENSTACK_NAMES)


@dataclass(frozen=True)
class Spot:
    """AKS spot VMs."""

    max_price: float = row(
        "US dollars per hour; -1, the default: up to the on-demand price.",
        number(-1),
        -1,
        sets="spotMaxPrice",
        change="replaces",
    )


@dataclass(frozen=True)
class AksPlacement:
    """What AKS needs to make the pool."""

    vm_size: str = row(
        "A GPU size, e.g. Standard_NC24ads_A100_v4.",
        Kind(_vm_size, "str"),
        "",
        needed=True,
        sets="vmSize",
        change="replaces",
        doc="A GPU size (`python -m gpu_pools sizes` lists them); fractional GPUs are refused.",
    )
    os_sku: str | None = row(
        "Ubuntu, AzureLinux, Ubuntu2204 or Ubuntu2404.",
        one_of(("Ubuntu", "AzureLinux", "Ubuntu2204", "Ubuntu2404")),
        sets="osSKU",
        change="updates",
        doc="`Ubuntu`, `AzureLinux`, `Ubuntu2204` or `Ubuntu2404`.",
    )
    zones: tuple[str, ...] = row(
        "Availability zones.",
        ZONES,
        (),
        sets="availabilityZones",
        change="replaces",
        doc='Availability zones, e.g. `["1", "2"]`.',
    )
    mig_owner: MigOwner = row(
        "Who partitions MIG GPUs: operator or aks.",
        one_of(("operator", "aks")),
        "operator",
        key="partitionedBy",
        sets="gpuInstanceProfile",
        change="replaces",
        doc="Who partitions MIG GPUs: `operator` or `aks` (gpuInstanceProfile: one full uniform layout, driver preinstalled).",
    )
    spot: Spot | None = row(
        "Spot VMs.",
        Kind(_spot, Spot),
        sets="scaleSetPriority",
        change="replaces",
        doc="Spot VMs, e.g. `{maxPrice: -1}` or `{}`; their taint is tolerated by itself.",
    )


@dataclass(frozen=True)
class MagnumPlacement:
    """What Magnum needs to make the node group. `labels` configure Magnum's driver; they do not reach the nodes."""

    flavor: str = row(
        "Nova flavor.",
        Kind(_flavor, "str"),
        "",
        needed=True,
        sets="flavorId",
        change="replaces",
        doc="Nova flavor: a key of `gpu-pools:flavors`.",
    )
    image: str | None = row(
        "Image of the nodes; the template's by default.",
        _OPENSTACK,
        sets="imageId",
        change="replaces",
        doc=f"Image of the nodes; the template's by default. {_PASSED_OVER}",
    )
    labels: Mapping[str, str] = row(
        "Settings of Magnum's driver for this group.",
        texts(),
        {},
        key="nodeGroupLabels",
        sets="labels",
        change="replaces",
        doc=f"Settings of Magnum's driver for this group; they do not reach nodes. {_PASSED_OVER}",
    )
    docker_volume_size: int | None = row(
        "GiB of the volume for container images.",
        whole_number(1),
        sets="dockerVolumeSize",
        change="replaces",
        doc=f"GiB of the volume for container images. {_PASSED_OVER}",
    )


@dataclass(frozen=True)
class ExistingPlacement:
    """Which nodes of an existing cluster make up the pool."""

    node_selector: Mapping[str, str] = row(
        "Labels that the pool's nodes have, and no other nodes.", Kind(_node_selector, "dict[str, str]"), {}, needed=True
    )


@dataclass(frozen=True)
class DeclaredHardware:
    """GPUs that only the author of the stack file can tell: of a flavor, or of nodes that are there already."""

    gpu_model: str | None = row(
        "A GPU model, e.g. a100-80gb.",
        text(allowed=", ".join(model_keys()), remedy="Name the GPU model, e.g. a100-80gb."),
        needed=True,
        doc="A GPU model (`python -m gpu_pools models` lists them), or a product name as NVML answers it.",
    )
    gpus_per_node: int | None = row(
        {"magnum": "GPUs of one machine.", "existing": "GPUs of one node."}, whole_number(1, 16), needed=True
    )


@dataclass(frozen=True)
class Minimum:
    """The oldest driver and CUDA version that a pool's workloads can use; None: any."""

    driver: str | None = row(
        "A driver version, e.g. 570.124.06.", text(_DRIVER_VERSION, 'a driver version in quotes, e.g. "570.124.06"')
    )
    cuda: str | None = row(
        "The newest CUDA version that the driver must know at least, e.g. 12.8.",
        text(_CUDA_VERSION, 'a CUDA version in quotes, e.g. "12.8"'),
    )


@dataclass(frozen=True)
class Pool:
    """A GPU node pool as declared.

    Attributes:
        path: where it stands in the stack file.
        name: unique in the stack.
        placed: the GPUs of each node, None where they could not be told (a problem was reported); and the platform's part.
        nodes: how many; their most is None where the cloud decides.
        sharing: name of a declaration.
        labels: the user's own node labels.
        taints: node taints, without those that the cloud adds.
        driver: who installs driver and toolkit; None: as the stack's default says.
        minimum: what each node's driver must be at least.
        protect: whether the cloud's resource must be neither deleted nor replaced.
    """

    path: str
    name: str = row(
        {
            "aks": "1 to 12 lower-case letters and digits; never cut.",
            "magnum": "1 to 40 lower-case letters, digits and dashes.",
            "existing": "1 to 40 lower-case letters, digits and dashes.",
        },
        Kind(_name, "str"),
        "",
        needed=True,
        sets={"aks": "agentPoolName", "magnum": "name"},
        change={"aks": "replaces", "magnum": "replaces"},
        doc="Unique, and never cut. AKS: 1 to 12 lower-case letters and digits; else 1 to 40, and dashes.",
    )
    placed: tuple[Hardware | None, AksPlacement | MagnumPlacement | ExistingPlacement] = reads(Kind(_placed, ""))
    nodes: NodeCount = row(
        "A fixed number of nodes; or `nodes`.",
        Kind(_nodes, "int"),
        key="count",
        needed=True,
        either="nodes",
        sets={"aks": "count", "magnum": "nodeCount"},
        change={"aks": "updates", "magnum": "updates"},
        doc="A fixed number of nodes. On an existing cluster neither is needed: at least one by default.",
        or_else=Row(
            "nodes",
            "Bounds for the autoscaler; or `count`.",
            RANGE,
            needed=True,
            either="count",
            sets={"aks": "minCount, maxCount", "magnum": "minNodeCount, maxNodeCount"},
            change={"aks": "updates", "magnum": "updates"},
            doc="`{min, max}`: the autoscaler owns the number, also where both are the same.",
        ),
    )
    sharing: str = row(
        'A sharing component, or a mapping like {"timeSlicing": {"replicas": 4}}.',
        Kind(_sharing, "Any"),
        "",
        needed=True,
        sets={"aks": "nodeLabels"},
        doc="The name of a declaration.",
    )
    labels: Mapping[str, str] = row(
        "Node labels besides those of the plan.",
        Kind(_labels, "dict[str, str]"),
        {},
        sets={"aks": "nodeLabels"},
        change={"aks": "updates"},
        doc="Node labels besides those of the plan; on AKS not below `kubernetes.azure.com`, `kubernetes.io` and "
        "`k8s.io` (but `node.`, `kubelet.` and `node-role.` of the latter two), and changed there by the stack alone.",
    )
    taints: tuple[Taint, ...] = row(
        {
            "aks": "Node taints, e.g. sku=gpu:NoSchedule.",
            "magnum": "Node taints.",
            "existing": "Taints that the nodes have; they are tolerated.",
        },
        Kind(_taints, "list[str]"),
        (),
        sets={"aks": "nodeTaints"},
        change={"aks": "updates"},
        doc="`key=value:Effect`, on AKS not below `kubernetes.azure.com`; operands tolerate them by themselves. On "
        "existing clusters they are tolerated, not set.",
    )
    driver: DriverOwner | None = row(
        {
            "aks": "Who installs the driver: operator or preinstalled.",
            "magnum": "Who installs the GPU driver: operator or preinstalled.",
            "existing": "Who installs the GPU driver: operator or preinstalled.",
        },
        one_of(DRIVER_OWNERS),
        sets={"aks": "gpuProfile"},
        change={"aks": "replaces"},
        doc="Who installs the GPU driver: `operator` or `preinstalled`; the same for all pools of a cluster.",
    )
    minimum: Minimum = row(
        "The oldest driver and CUDA version that will do.",
        inner(Minimum, "a mapping with driver or cuda"),
        Minimum(),
        doc='The oldest driver and CUDA version that will do: `{driver: "570.124.06", cuda: "12.8"}`, one or both, in quotes. '
        "The [verification](#gpu-poolsverification) holds each node against it. A driver that the operator installs "
        "(`values.driver.version`, else the chart's own) is held against it in the plan; what CUDA version a driver knows, and "
        "what an image has, only the node can tell.",
    )
    protect: bool = row(
        {"aks": "Refuse to delete or replace the pool.", "magnum": "Refuse to delete or replace the group."},
        Kind(_protect, "bool"),
        default=False,
        doc="Refuse to delete or replace the pool, unless that is [acknowledged](#gpu-poolsacknowledged).",
    )

    @property
    def hardware(self) -> Hardware | None:
        """The GPUs of each node."""
        return self.placed[0]

    @property
    def placement(self) -> AksPlacement | MagnumPlacement | ExistingPlacement:
        """The platform's part."""
        return self.placed[1]

    @property
    def min_nodes(self) -> int:
        """Fewest nodes."""
        return self.nodes.fewest

    @property
    def max_nodes(self) -> int | None:
        """Most nodes; equal to min_nodes for a fixed size, None where the cloud decides."""
        return self.nodes.most

    @property
    def autoscaled(self) -> bool:
        """Whether the number of nodes may change by itself."""
        return self.nodes.autoscaled


def parse_flavor(value: object, path: str, problems: Problems) -> Flavor | None:
    """One entry of ``gpu-pools:flavors``."""
    section = Section(value, path, problems, what="a mapping with gpuModel and gpusPerNode")
    if not section.readable:
        return None
    hardware = _declared_hardware(section, f"flavor {path.removeprefix('gpu-pools:flavors.')}")
    vcpus, memory = section.integer("vcpus", minimum=1), section.number("memoryGiB", minimum=1)
    section.finish()
    return Flavor(hardware, vcpus, memory)


def parse_pool(value: object, path: str, context: PoolContext) -> Pool | None:
    """One pool; None where it is not even a mapping."""
    section = PoolSection(value, path, context)
    if not section.readable:
        return None
    pool = read(Pool, section, path=path)
    section.finish()
    return pool


def _placed_on_aks(section: PoolSection) -> tuple[Hardware | None, AksPlacement]:
    return _azure_hardware(section), read(AksPlacement, section)


def _placed_on_magnum(section: PoolSection) -> tuple[Hardware | None, MagnumPlacement]:
    placement = read(MagnumPlacement, section)
    flavor = section.context.flavors.get(placement.flavor)
    return flavor.hardware if flavor else None, placement


def _placed_on_existing(section: PoolSection) -> tuple[Hardware | None, ExistingPlacement]:
    placement = read(ExistingPlacement, section)
    return _declared_hardware(section, f"pool {section.raw('name')}"), placement


_PLACED: Final = {"aks": _placed_on_aks, "magnum": _placed_on_magnum, "existing": _placed_on_existing}


def _azure_hardware(section: Section) -> Hardware | None:
    name = section.text("vmSize", required=True, remedy="Name the VM size, e.g. Standard_NC24ads_A100_v4.")
    if name is None:
        return None
    size = azure_sizes.size(name)
    if size is None:
        date = azure_sizes.retired(name)
        meant = None if date else azure_sizes.meant_size(name)
        section.problems.add(
            section.at("vmSize"),
            f'"{name}" was retired by Azure on {date}' if date else f'"{name}" is not a known Azure GPU size',
            allowed="a GPU size that `python -m gpu_pools sizes` lists",
            remedy=f"Did you mean {meant}?" if meant else f"Use another size, e.g. {azure_sizes.smallest_size(name)}.",
        )
        return None
    if size.gpus.denominator != 1:
        section.problems.add(
            section.at("vmSize"),
            f'"{name}" has {size.gpus} of a GPU',
            allowed="a size with whole GPUs",
            remedy="Choose Standard_NV36ads_A10_v5 or larger; a vGPU fraction can be neither partitioned nor shared further.",
        )
        return None
    return Hardware(model(size.gpu_model), size.product, int(size.gpus), f"vmSize {name}", mig_offered=size.mig is not False)


def _declared_hardware(section: Section, source: str) -> Hardware | None:
    declared = read(DeclaredHardware, section)
    if declared.gpu_model is None:
        return None
    found = find_model(declared.gpu_model)
    if found is None:
        near = nearest_model(declared.gpu_model)
        section.problems.add(
            section.at("gpuModel"),
            f'"{declared.gpu_model}" is not a known GPU model',
            allowed=", ".join(model_keys()),
            remedy=f"Did you mean {near}? A product name as NVML answers it works too." if near else "Choose one of those.",
        )
        return None
    known, product = found
    if product is None and len(known.products) == 1:
        product = known.products[0]
    gpus = declared.gpus_per_node
    return None if gpus is None else Hardware(known, product, gpus, source)
