"""Where the nodes of a pool on AKS come from: an agent pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, cast

from gpu_pools.hardware import azure_sizes
from gpu_pools.platforms.aks.asked import asked, place_of
from gpu_pools.platforms.aks.cluster import ZONES
from gpu_pools.platforms.aks.labels import AKS_SPOT_TAINT
from gpu_pools.platforms.aks.pool_options import AksPoolOptions, pool_options
from gpu_pools.platforms.aks.vm_size import azure_hardware
from gpu_pools.reading.fields import Kind, Row, RowText, number, one_of, read, read_inner, reads, row, text, whole_number
from gpu_pools.stack.cluster import MigOwner, Placement
from gpu_pools.stack.node_hardware import ALL_MODELS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.node import Hardware
    from gpu_pools.stack.kubernetes_names import Taint
    from gpu_pools.stack.platform_reader import PoolSection
    from gpu_pools.stack.pools import Pool

#: The image without AppArmor (components of its nodes: microsoft/azurelinux).
_WITHOUT_APP_ARMOR: Final = "AzureLinux"
#: What AKS says of the keys that pools of other platforms have, too.
ROW_TEXTS: Final[Mapping[str, RowText]] = {
    "name": RowText("1 to 12 lower-case letters and digits; never cut.", "agentPoolName", "replaces"),
    "count": RowText(sets="count", change="updates"),
    "nodes": RowText(sets="minCount, maxCount", change="updates"),
    "sharing": RowText(sets="nodeLabels"),
    "labels": RowText(sets="nodeLabels", change="updates"),
    "taints": RowText("Node taints, e.g. sku=gpu:NoSchedule.", "nodeTaints", "updates"),
    "driver": RowText("Who installs the driver: operator or preinstalled.", "gpuProfile", "replaces"),
    "protect": RowText("Refuse to delete or replace the pool."),
    "adopted": RowText("The pool was made by hand, and imported: what the stack does not say of it stays as it is."),
    "replace": RowText("Where a change needs another pool: surge (made and proven first) or inPlace; this one is drained."),
    "drainTimeoutSeconds": RowText("With replace: how long the pods of the old pool may take to go, in seconds."),
}


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
    def added_taint(self) -> Taint | None:
        """That of spot pools."""
        return AKS_SPOT_TAINT if self.spot else None

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
        return replace(asked(self, properties, only=("os_sku", "zones")), options=asked(self.options, properties))

    def written_at(self, key: str) -> str:
        """Where the value of a key of the pool is written: its own place, or the property that wins over it."""
        whole = AksPlacement if key in {"osSku", "zones"} else AksPoolOptions
        return place_of(whole, key, self.options.properties)


def place(section: PoolSection) -> tuple[Hardware | None, AksPlacement]:
    """Read the platform's part of a pool; the hardware is None where it cannot be told, which is then a problem."""
    placement = read(AksPlacement, section)
    return azure_hardware(section, placement.gpu_model, placement.gpus_per_node, section.context.models), placement


def placement_of(pool: Pool) -> AksPlacement:
    """Return where a pool's nodes come from, of a stack on this platform: such a stack has no other pools."""
    return cast("AksPlacement", pool.placement)
