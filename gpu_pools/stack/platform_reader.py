"""How the platform's part of a stack file is read: what gpu_pools/platforms implements, and what it is handed.

No key of a pool is read here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from gpu_pools.reading.section import Section
from gpu_pools.stack.pool_labels import check_labels_by_nfd

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.hardware.node import Hardware
    from gpu_pools.stack.cluster import Cluster, Placement
    from gpu_pools.stack.kubernetes_names import Taint
    from gpu_pools.stack.node_hardware import Flavor
    from gpu_pools.text.errors import Problems


@dataclass(frozen=True)
class PoolContext:
    """What parsing a pool needs from the rest of the file."""

    platform: PlatformReader
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


class PlatformReader(ABC):
    """How one platform's part of a stack file is read."""

    #: The value of ``platform`` in a stack file.
    name: ClassVar[str]
    #: What the cluster section holds.
    cluster: ClassVar[type[Cluster]]
    #: The key of a pool that no other platform has.
    pool_key: ClassVar[str]
    #: Which names of pools the cloud takes: a pattern, and the same in words.
    pool_names: ClassVar[tuple[str, str]] = (
        r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?",
        "1 to 40 lower-case letters, digits and dashes, starting with a letter",
    )

    @abstractmethod
    def read_cluster(self, section: Section, *, complete: bool) -> Cluster:
        """Read the cluster section, and finish it.

        Args:
            section: with `platform`, which was read.
            complete: whether what a deploy needs must be there.
        """

    @abstractmethod
    def place(self, section: PoolSection) -> tuple[Hardware | None, Placement]:
        """Read the platform's part of a pool; the hardware is None where it cannot be told, which is then a problem."""

    def is_meant_by(self, keys: AbstractSet[str]) -> bool:
        """Whether pools with these keys are of this platform: for the rest of a file that names none."""
        return self.pool_key in keys

    def check_labels(self, labels: Mapping[str, str], section: Section) -> None:
        """Add a problem for each label that has no way to the nodes."""
        check_labels_by_nfd(labels, section)

    def check_taints(self, taints: tuple[Taint, ...], section: PoolSection) -> None:  # noqa: B027 - most platforms take all
        """Add a problem for each taint that has no way to the nodes."""

    def check_config(self, config: Mapping[str, object], problems: Problems) -> None:  # noqa: B027 - most need none
        """Add a problem for sections of the file that this platform needs and that are missing."""

    def with_metrics(self, cluster: Cluster) -> Cluster:
        """Return the cluster with what Azure Monitor needs of it, where it is to read the metrics."""
        return cluster
