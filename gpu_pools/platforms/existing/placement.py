"""Which nodes of an existing cluster make up a pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from gpu_pools.reading.fields import Kind, Row, RowText, read, row
from gpu_pools.stack.cluster import Placement
from gpu_pools.stack.node_hardware import declared_hardware

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.node import Hardware
    from gpu_pools.stack.platform_reader import PoolSection

#: What an existing cluster says of the keys that pools of other platforms have, too.
ROW_TEXTS: Final[Mapping[str, RowText]] = {
    "name": RowText("1 to 40 lower-case letters, digits and dashes."),
    "taints": RowText("Taints that the nodes have; they are tolerated."),
    "driver": RowText("Who installs the GPU driver: operator or preinstalled."),
    "gpusPerNode": RowText("GPUs of one node."),
}


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
class ExistingPlacement(Placement):
    """Which nodes of an existing cluster make up the pool."""

    selects_nodes: ClassVar[bool] = True

    node_selector: Mapping[str, str] = row(
        "Labels that the pool's nodes have, and no other nodes.", Kind(_node_selector, "dict[str, str]"), {}, needed=True
    )


def place(section: PoolSection) -> tuple[Hardware | None, ExistingPlacement]:
    """Read the platform's part of a pool; the hardware is None where it cannot be told, which is then a problem."""
    placement = read(ExistingPlacement, section)
    return declared_hardware(section, f"pool {section.raw('name')}", section.context.models), placement
