"""Where the nodes of a pool on Magnum come from: a node group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, cast

from gpu_pools.platforms.magnum.cluster import OPENSTACK_NAME, OPENSTACK_NAMES
from gpu_pools.reading.fields import Kind, Row, RowText, read, row, text, texts, whole_number
from gpu_pools.stack.cluster import Placement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.node import Hardware
    from gpu_pools.stack.platform_reader import PoolSection
    from gpu_pools.stack.pools import Pool

#: What Magnum says of the keys that pools of other platforms have, too, and of a flavor's hardware.
ROW_TEXTS: Final[Mapping[str, RowText]] = {
    "name": RowText("1 to 40 lower-case letters, digits and dashes.", "name", "replaces"),
    "count": RowText(sets="nodeCount", change="updates"),
    "nodes": RowText(sets="minNodeCount, maxNodeCount", change="updates"),
    "taints": RowText("Node taints."),
    "driver": RowText("Who installs the GPU driver: operator or preinstalled."),
    "protect": RowText("Refuse to delete or replace the group."),
    "adopted": RowText("The group was made by hand, and imported: what the stack does not say of it stays as it is."),
    "replace": RowText("Where a change needs another group: surge (made and proven first) or inPlace; only in a GpuPlatform."),
    "drainTimeoutSeconds": RowText("With replace: how long the pods of the old group may take to go, in seconds."),
    "gpusPerNode": RowText("GPUs of one machine."),
}
_PASSED_OVER: Final = "capi-helm passes over it (W80)."
_OPENSTACK: Final = text(OPENSTACK_NAME, OPENSTACK_NAMES)


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


def place(section: PoolSection) -> tuple[Hardware | None, MagnumPlacement]:
    """Read the platform's part of a pool; the hardware is None where it cannot be told, which is then a problem."""
    placement = read(MagnumPlacement, section)
    flavor = section.context.flavors.get(placement.flavor)
    return flavor.hardware if flavor else None, placement


def placement_of(pool: Pool) -> MagnumPlacement:
    """Return where a pool's nodes come from, of a stack on this platform: such a stack has no other pools."""
    return cast("MagnumPlacement", pool.placement)
