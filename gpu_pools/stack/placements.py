"""Where the nodes of a pool come from: what AKS and Magnum need to make them, or which nodes of an existing cluster they are.

The keys of one platform each. Those that all platforms have are in pools.py, the GPUs in node_hardware.py.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from gpu_pools.hardware import azure_sizes
from gpu_pools.reading.fields import Kind, Row, number, one_of, read, read_inner, reads, row, text, texts, whole_number
from gpu_pools.stack.aks_asked import asked, place_of
from gpu_pools.stack.aks_pools import AksPoolOptions, pool_options
from gpu_pools.stack.clusters import OPENSTACK_NAME, OPENSTACK_NAMES, ZONES
from gpu_pools.stack.node_hardware import ALL_MODELS, azure_hardware, declared_hardware
from gpu_pools.stack.platform import MigOwner, Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_pools.hardware.node import Hardware
    from gpu_pools.stack.pool_section import PoolSection


#: The image without AppArmor (components of its nodes: microsoft/azurelinux).
_WITHOUT_APP_ARMOR: Final = "AzureLinux"
_PASSED_OVER: Final = "capi-helm passes over it (W80)."
_OPENSTACK: Final = text(OPENSTACK_NAME, OPENSTACK_NAMES)


# The readers of single fields.


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
    # Looked up beside (azure_hardware), which tells what is wrong with it. As Azure writes it: another case would be a change.
    written = str(section.raw(one.key) or "")
    size = azure_sizes.size(written)
    # Whoever made an adopted pool wrote it in a case of his own, which Azure keeps, and a size in another case is another pool.
    return size.name if size and section.raw("adopted") is not True else written


def _flavor(section: PoolSection, one: Row) -> str | None:
    # Without flavors the section is the problem, once.
    names = section.context.flavor_names
    return section.text(
        one.key,
        required=True,
        choices=names,
        allowed=" | ".join(names or ()) or "a key of gpu-pools:flavors",
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
    eviction_policy: str = row(
        "What becomes of machines that Azure takes back: Delete or Deallocate.",
        one_of(("Delete", "Deallocate")),
        "Delete",
        sets="scaleSetEvictionPolicy",
        change="replaces",
        doc="What becomes of machines that Azure takes back: `Delete`, or `Deallocate`: they stop, and keep their quota.",
    )


@dataclass(frozen=True)
class AksPlacement(Placement):
    """What AKS needs to make the pool."""

    labelled_by: ClassVar[str] = "AKS"

    vm_size: str = row(
        "A GPU size, e.g. Standard_NC24ads_A100_v4.",
        Kind(_vm_size, "str"),
        "",
        needed=True,
        sets="vmSize",
        change="replaces",
        doc="A GPU size, in any case (`python -m gpu_pools sizes` lists them); fractional GPUs are refused. Another size needs "
        "`gpuModel` and `gpusPerNode`.",
    )
    gpu_model: str | None = row(
        "The GPU model, where no table has the size.",
        text(allowed=ALL_MODELS, remedy="Name the GPU model, e.g. a100-80gb."),
        doc="The GPU model of a size that no table has, with `gpusPerNode`; it may be [one of your own](#gpu-poolsgpumodels). "
        "What is declared is taken as it is.",
    )
    gpus_per_node: int | None = row("GPUs of one machine, where no table has the size.", whole_number(1, 16))
    os_sku: str | None = row(
        "Ubuntu, Ubuntu2204, Ubuntu2404, AzureLinux or AzureLinux3.",
        one_of(("Ubuntu", "Ubuntu2204", "Ubuntu2404", "AzureLinux", "AzureLinux3")),
        sets="osSKU",
        change="rolling",
        doc="`Ubuntu`, `Ubuntu2204`, `Ubuntu2404`, `AzureLinux` or `AzureLinux3`; see [node images](#node-images-of-aks).",
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
    options: AksPoolOptions = reads(Kind(pool_options, ""), AksPoolOptions())

    @property
    def is_spot(self) -> bool:
        """Whether they are spot VMs."""
        return self.spot is not None

    @property
    def machine(self) -> str:
        """The VM size."""
        return self.vm_size

    @property
    def architecture(self) -> str:
        """The VM size's."""
        known = azure_sizes.size(self.vm_size)
        return known.arch if known else ""

    @property
    def has_app_armor(self) -> bool:
        """Azure Linux 3 has none."""
        return self.os_sku != _WITHOUT_APP_ARMOR

    @property
    def asked(self) -> AksPlacement:
        """What Azure is asked for, with what `properties` says in the place of keys: for judging only."""
        properties = self.options.properties
        if not properties:
            return self
        return dataclasses.replace(asked(self, properties, only=("os_sku", "zones")), options=asked(self.options, properties))

    def written_at(self, key: str) -> str:
        """Where the value of a key of the pool is written: its own place, or the property that wins over it."""
        whole = AksPlacement if key in {"osSku", "zones"} else AksPoolOptions
        return place_of(whole, key, self.options.properties)


@dataclass(frozen=True)
class MagnumPlacement(Placement):
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
    taints_may_come_from_nfd: ClassVar[bool] = True
    docker_volume_size: int | None = row(
        "GiB of the volume for container images.",
        whole_number(1),
        sets="dockerVolumeSize",
        change="replaces",
        doc=f"GiB of the volume for container images. {_PASSED_OVER}",
    )

    @property
    def machine(self) -> str:
        """The flavor."""
        return self.flavor


@dataclass(frozen=True)
class ExistingPlacement(Placement):
    """Which nodes of an existing cluster make up the pool."""

    selects_nodes: ClassVar[bool] = True

    node_selector: Mapping[str, str] = row(
        "Labels that the pool's nodes have, and no other nodes.", Kind(_node_selector, "dict[str, str]"), {}, needed=True
    )


def placed(section: PoolSection) -> tuple[Hardware | None, Placement]:
    """The GPUs of each node, None where they could not be told (a problem was reported); and the platform's part."""
    return _PLACED[section.context.platform](section)


def _placed_on_aks(section: PoolSection) -> tuple[Hardware | None, AksPlacement]:
    placement = read(AksPlacement, section)
    return azure_hardware(section, placement.gpu_model, placement.gpus_per_node, section.context.models), placement


def _placed_on_magnum(section: PoolSection) -> tuple[Hardware | None, MagnumPlacement]:
    placement = read(MagnumPlacement, section)
    flavor = section.context.flavors.get(placement.flavor)
    return flavor.hardware if flavor else None, placement


def _placed_on_existing(section: PoolSection) -> tuple[Hardware | None, ExistingPlacement]:
    placement = read(ExistingPlacement, section)
    return declared_hardware(section, f"pool {section.raw('name')}", section.context.models), placement


_PLACED: Final[Mapping[str, Callable[[PoolSection], tuple[Hardware | None, Placement]]]] = {
    "aks": _placed_on_aks,
    "magnum": _placed_on_magnum,
    "existing": _placed_on_existing,
}
