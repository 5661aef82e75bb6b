"""The mapping of one pool, and what reading it needs from the rest of the stack file. No key of it is read here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_pools.reading.section import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.hardware.platforms import Platform
    from gpu_pools.stack.node_hardware import Flavor
    from gpu_pools.text.errors import Problems


@dataclass(frozen=True)
class PoolContext:
    """What parsing a pool needs from the rest of the file."""

    platform: Platform
    flavors: Mapping[str, Flavor]
    problems: Problems
    #: Models that the stack declares itself; None: what is written of it is wrong.
    models: Mapping[str, GpuModel | None] = field(default_factory=dict)
    magnum_driver: str | None = None
    sharing_names: tuple[str, ...] | None = None
    flavor_names: tuple[str, ...] | None = None
    #: Whether the cluster names a subnet for nodes that name none.
    node_subnet: bool = False


class PoolSection(Section):
    """The mapping of one pool, with what its readers need besides."""

    def __init__(self, value: object, path: str, context: PoolContext) -> None:
        super().__init__(value, path, context.problems, what="a mapping with name, hardware and sharing")
        self.context = context
