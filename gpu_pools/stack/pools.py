"""One entry of ``gpu-pools:pools``: the hardware, how many nodes, how they are labelled and tainted, which sharing.

The hardware comes from the VM size (AKS), the flavor (Magnum, declared by the user under ``gpu-pools:flavors``) or the
model itself (existing clusters). Rules that involve the sharing declaration or other pools are in gpu_pools/plan/planning.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from gpu_pools.hardware import azure_sizes
from gpu_pools.hardware.models import GpuModel, find_model, model, model_keys, nearest_model
from gpu_pools.stack.clusters import OPENSTACK_NAME, OPENSTACK_NAMES, NodeCount, parse_node_count, parse_zone
from gpu_pools.stack.kubernetes_names import check_labels, label_refused_by_aks, parse_taint, refused_by_nfd, taint_refused_by_aks
from gpu_pools.stack.section import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.stack.clusters import Platform
    from gpu_pools.stack.kubernetes_names import Taint
    from gpu_pools.text.errors import Problems

DriverOwner = Literal["operator", "preinstalled"]
MigOwner = Literal["operator", "aks"]
DRIVER_OWNERS: Final = ("operator", "preinstalled")

AKS_POOL_NAME: Final = r"[a-z][a-z0-9]{0,11}"
#: NVIDIA's own: a branch, or branch and release.
_DRIVER_VERSION: Final = r"\d{1,6}(\.\d{1,6}){0,2}"
_CUDA_VERSION: Final = r"\d{1,3}\.\d{1,3}"
#: Labels by which driver manager and mig-manager pause the operator's pods on a node.
_DEPLOY_SWITCH: Final = "nvidia.com/gpu.deploy."
_OTHER_POOL_NAME: Final = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"


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
class Spot:
    """AKS spot VMs. ``max_price`` in US dollars per hour; -1: up to the on-demand price."""

    max_price: float


@dataclass(frozen=True)
class AksPlacement:
    """What AKS needs to make the pool."""

    vm_size: str
    os_sku: str | None
    zones: tuple[str, ...]
    spot: Spot | None
    mig_owner: MigOwner


@dataclass(frozen=True)
class MagnumPlacement:
    """What Magnum needs to make the node group. `labels` configure Magnum's driver; they do not reach the nodes."""

    flavor: str
    image: str | None
    labels: Mapping[str, str]
    docker_volume_size: int | None


@dataclass(frozen=True)
class ExistingPlacement:
    """Which nodes of an existing cluster make up the pool."""

    node_selector: Mapping[str, str]


@dataclass(frozen=True)
class Minimum:
    """The oldest driver and CUDA version that a pool's workloads can use, such as ``570.124.06`` and ``12.8``; None: any."""

    driver: str | None = None
    cuda: str | None = None


@dataclass(frozen=True)
class Pool:
    """A GPU node pool as declared.

    Attributes:
        path: where it stands in the stack file.
        name: unique in the stack.
        hardware: the GPUs of each node; None where it could not be told (a problem was reported).
        min_nodes: fewest nodes.
        max_nodes: most nodes; equal to min_nodes for a fixed size, None where the cloud decides.
        autoscaled: whether the number of nodes may change by itself; with `nodes`, also where both bounds are the same.
        sharing: name of a declaration.
        labels: the user's own node labels.
        taints: node taints, without those that the cloud adds.
        driver: who installs driver and toolkit; None: as the stack's default says.
        placement: the platform's part.
        minimum: what each node's driver must be at least.
        protect: whether the cloud's resource must be neither deleted nor replaced.
    """

    path: str
    name: str
    hardware: Hardware | None
    min_nodes: int
    max_nodes: int | None
    autoscaled: bool
    sharing: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    driver: DriverOwner | None
    placement: AksPlacement | MagnumPlacement | ExistingPlacement
    minimum: Minimum = field(default_factory=Minimum)
    protect: bool = False


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
    section = Section(value, path, context.problems, what="a mapping with name, hardware and sharing")
    if not section.readable:
        return None
    name = _parse_name(section, context.platform)
    hardware, placement = _PLACEMENTS[context.platform](section, context)
    default = NodeCount(1, None, autoscaled=True) if context.platform == "existing" else None
    nodes = parse_node_count(section, default=default)
    sharing = _parse_sharing_name(section, context)
    labels = section.texts("labels")
    check_labels(labels, section.at("labels"), context.problems)
    taints = section.each("taints", lambda value, where: parse_taint(value, where, context.problems), what="a list of taints")
    _check_distinct(taints, section)
    _check_reach(labels, taints, section, context)
    driver = section.text("driver", choices=DRIVER_OWNERS)
    minimum = _parse_minimum(section)
    # Nodes that are there already are nobody's to replace.
    protect = section.flag("protect") if context.platform != "existing" else None
    section.finish()
    return Pool(
        path,
        name,
        hardware,
        nodes.fewest,
        nodes.most,
        nodes.autoscaled,
        sharing,
        labels,
        taints,
        driver,  # type: ignore[arg-type]
        placement,  # type: ignore[arg-type]
        minimum,
        protect=bool(protect),
    )


def _parse_minimum(section: Section) -> Minimum:
    inner = section.section("minimum", what="a mapping with driver or cuda")
    if inner is None:
        return Minimum()
    driver = inner.text("driver", pattern=_DRIVER_VERSION, allowed='a driver version in quotes, e.g. "570.124.06"')
    cuda = inner.text("cuda", pattern=_CUDA_VERSION, allowed='a CUDA version in quotes, e.g. "12.8"')
    inner.finish()
    return Minimum(driver, cuda)


def _parse_name(section: Section, platform: Platform) -> str:
    if platform == "aks":
        pattern, allowed = AKS_POOL_NAME, "1 to 12 lower-case letters and digits, starting with a letter (AKS)"
    else:
        pattern, allowed = _OTHER_POOL_NAME, "1 to 40 lower-case letters, digits and dashes, starting with a letter"
    remedy = "Choose a shorter or simpler name; it is never cut, since two pools could then collide."
    raw = section.raw("name")
    name = section.text("name", required=True, pattern=pattern, allowed=allowed, remedy=remedy if raw is not None else "")
    return name or (raw if isinstance(raw, str) else "")


def _parse_sharing_name(section: Section, context: PoolContext) -> str:
    names = context.sharing_names
    value = section.raw("sharing")
    if isinstance(value, dict):
        section.problems.add(
            section.at("sharing"),
            "a declaration is written into the pool",
            allowed="the name of a declaration",
            remedy="Move it to gpu-pools:sharing under a name, and give that name here.",
        )
        return ""
    known = " | ".join(names) or "none is declared"
    remedy = "" if value is not None else "Add `sharing: <name>`; use a declaration `{exclusive: {}}` for whole GPUs."
    return section.text("sharing", required=True, choices=names, allowed=known, remedy=remedy) or ""


def _parse_aks(section: Section, context: PoolContext) -> tuple[Hardware | None, AksPlacement]:
    hardware = _azure_hardware(section)
    os_sku = section.text("osSku", choices=("Ubuntu", "AzureLinux", "Ubuntu2204", "Ubuntu2404"))
    zones = section.each("zones", lambda value, path: parse_zone(value, path, context.problems))
    mig_owner = section.text("partitionedBy", choices=("operator", "aks")) or "operator"
    vm_size = section.raw("vmSize")
    placement = AksPlacement(str(vm_size or ""), os_sku, zones, _parse_spot(section), mig_owner)  # type: ignore[arg-type]
    return hardware, placement


def _parse_spot(section: Section) -> Spot | None:
    spot = section.section("spot", what="a mapping with maxPrice")
    if spot is None:
        return None
    price = spot.number("maxPrice", minimum=-1)
    spot.finish()
    if price is not None and (price == 0 or -1 < price < 0):
        spot.problems.add(
            spot.at("maxPrice"),
            f"{price:g} is not a price",
            allowed="-1, or more than 0",
            remedy="Use -1 for the on-demand price.",
        )
    return Spot(-1 if price is None else price)


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


def _parse_magnum(section: Section, context: PoolContext) -> tuple[Hardware | None, MagnumPlacement]:
    name = section.text(
        "flavor",
        required=True,
        choices=context.flavor_names,
        allowed=" | ".join(context.flavor_names) or "none is declared under gpu-pools:flavors",
        remedy="Declare the flavor under gpu-pools:flavors with its gpuModel and gpusPerNode; OpenStack cannot tell them.",
    )
    flavor = context.flavors.get(name) if name else None
    image = section.text("image", pattern=OPENSTACK_NAME, allowed=OPENSTACK_NAMES)
    labels = section.texts("nodeGroupLabels")
    volume = section.integer("dockerVolumeSize", minimum=1)
    return flavor.hardware if flavor else None, MagnumPlacement(name or "", image, labels, volume)


def _parse_existing(section: Section, context: PoolContext) -> tuple[Hardware | None, ExistingPlacement]:
    selector = section.texts("nodeSelector")
    if not selector:
        context.problems.add(
            section.at("nodeSelector"),
            "is missing",
            allowed="at least one node label, e.g. {kubernetes.io/hostname: gpu-1}",
            remedy="Select the pool's nodes by labels that they have.",
        )
    hardware = _declared_hardware(section, f"pool {section.raw('name')}")
    return hardware, ExistingPlacement(selector)


def _declared_hardware(section: Section, source: str) -> Hardware | None:
    name = section.text("gpuModel", required=True, allowed=", ".join(model_keys()), remedy="Name the GPU model, e.g. a100-80gb.")
    gpus = section.integer("gpusPerNode", minimum=1, maximum=16, required=True)
    if name is None:
        return None
    found = find_model(name)
    if found is None:
        near = nearest_model(name)
        section.problems.add(
            section.at("gpuModel"),
            f'"{name}" is not a known GPU model',
            allowed=", ".join(model_keys()),
            remedy=f"Did you mean {near}? A product name as NVML answers it works too." if near else "Choose one of those.",
        )
        return None
    known, product = found
    if product is None and len(known.products) == 1:
        product = known.products[0]
    return None if gpus is None else Hardware(known, product, gpus, source)


def _check_distinct(taints: tuple[Taint, ...], section: Section) -> None:
    """Kubernetes tells taints apart by key and effect, not by value."""
    seen: set[tuple[str, str]] = set()
    for taint in taints:
        if (taint.key, taint.effect) in seen:
            section.problems.add(
                section.at("taints"),
                f'"{taint.key}" is given twice with the effect {taint.effect}',
                allowed="each key once per effect",
                remedy="Remove one of the two; Kubernetes refuses the node otherwise.",
            )
        seen.add((taint.key, taint.effect))


def _check_reach(labels: Mapping[str, str], taints: tuple[Taint, ...], section: Section, context: PoolContext) -> None:
    """Labels and taints must have a way to the nodes on this platform."""
    if context.platform == "aks":
        _check_aks_labels(labels, section, context.problems)
        _check_aks_taints(taints, section, context.problems)
        return
    for key in labels:
        if reason := refused_by_nfd(key):
            context.problems.add(
                f"{section.at('labels')}.{key}",
                f'"{key}" cannot reach the nodes: {reason}',
                allowed="a prefixed key outside kubernetes.io, e.g. example.com/team",
                remedy="Choose such a key; on this platform NFD sets the labels, so that new nodes get them too.",
            )
    if context.platform == "magnum" and context.magnum_driver in {"magnum-cluster-api", "capi-helm"}:
        for index, taint in enumerate(taints):
            if reason := refused_by_nfd(taint.key):
                context.problems.add(
                    f"{section.at('taints')}[{index}]",
                    f'"{taint}" cannot reach the nodes: {reason}, and the driver {context.magnum_driver} sets no taints',
                    allowed="a prefixed key outside kubernetes.io, e.g. nvidia.com/gpu=true:NoSchedule",
                    remedy="Choose such a key, or use the heat driver, whose kubelets register with taints.",
                )


def _check_aks_labels(labels: Mapping[str, str], section: Section, problems: Problems) -> None:
    for key, value in labels.items():
        if reason := label_refused_by_aks(key):
            problems.add(
                f"{section.at('labels')}.{key}",
                f'"{key}" is reserved by AKS: {reason}',
                allowed="any prefix but kubernetes.azure.com/, kubernetes.io/ and k8s.io/",
                remedy="Choose another prefix, e.g. example.com/team; AKS refuses the whole pool otherwise.",
            )
        elif key.startswith(_DEPLOY_SWITCH) and value != "false":
            problems.add(
                f"{section.at('labels')}.{key}",
                f'"{value}" could not be paused by driver and MIG managers: AKS lets nobody change a pool\'s label on its nodes',
                allowed='"false", which nobody changes',
                remedy="Leave the label out: the GPU operator sets it to true by itself.",
            )


def _check_aks_taints(taints: tuple[Taint, ...], section: Section, problems: Problems) -> None:
    for index, taint in enumerate(taints):
        if taint_refused_by_aks(taint, spot=section.given("spot")):
            problems.add(
                f"{section.at('taints')}[{index}]",
                f'"{taint}" is refused by AKS, which keeps the prefix kubernetes.azure.com for itself',
                allowed="any other prefix, e.g. sku=gpu:NoSchedule",
                remedy="Choose another key; the taint of spot pools comes with `spot: {}`.",
            )


_PLACEMENTS: Final = {"aks": _parse_aks, "magnum": _parse_magnum, "existing": _parse_existing}
