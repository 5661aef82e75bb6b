"""The interface of a sharing mode: all that differs between the modes, and what the rest of the project asks them.

A mode is a frozen dataclass that derives from `Sharing`; one module per mode implements it, and gpu_pools/sharing/modes.py lists
them. Code outside this package never asks which mode it has: it asks what the mode does. So a new mode is one module and one
entry of that list. How a mode reaches Kubernetes is the business of gpu_pools/allocation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from gpu_pools.reading.fields import flag, read, row
from gpu_pools.reading.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.hardware.models import GpuModel, Version
    from gpu_pools.hardware.node import Hardware
    from gpu_pools.hardware.operands import Feature, Operand
    from gpu_pools.sharing.needs import Needs
    from gpu_pools.text.errors import Problems

#: The device plugin refuses fewer: "number of replicas must be >= 2".
FEWEST_REPLICAS = 2

#: A MIG layout: (profile, instances), sorted; empty for a GPU that stays whole.
Layout = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class GpuLayout:
    """The MIG layout of some of a node's GPUs.

    Attributes:
        index: the GPUs' indexes on the node; None stands for all of them.
        layout: (profile, instances), sorted; empty: these GPUs stay whole.
    """

    index: tuple[int, ...] | None
    layout: Layout


@dataclass(frozen=True)
class PoolUse:
    """One pool that uses a declaration: what a mode must know to check itself.

    Attributes:
        pool: the pool's name.
        pool_path: the pool's path in the stack file.
        name: the declaration's name.
        path: the declaration's path in the stack file.
        hardware: the GPUs of each node.
    """

    pool: str
    pool_path: str
    name: str
    path: str
    hardware: Hardware


@dataclass(frozen=True)
class MpsExpectation:
    """The split of a GPU that the MPS daemon must have.

    Attributes:
        replicas: clients per GPU.
        pinned_memory_mib: memory limit per client, total/replicas; None where the GPU's memory is unknown.
        active_thread_percentage: 100/replicas, rounded down as the daemon's integer division does.
        multiprocessors: SMs that a client sees: that percentage of the GPU's, rounded down (on the H200, where it was
            measured, to an even number and at least 8); None where the GPU's are unknown.
    """

    replicas: int
    pinned_memory_mib: int | None
    active_thread_percentage: int
    multiprocessors: int | None

    def as_json(self) -> dict[str, Any]:
        """The split as the daemon reports it; the number of SMs follows from it and cannot be read on a node."""
        return {
            "replicas": self.replicas,
            "pinnedMemoryMiB": self.pinned_memory_mib,
            "activeThreadPercentage": self.active_thread_percentage,
        }


@dataclass(frozen=True)
class Sharing(ABC):
    """A declaration of how GPUs are shared.

    Attributes:
        needs: what each pod needs, None where the declaration does not say.
    """

    #: The key that selects the mode in a stack file, such as ``timeSlicing``.
    strategy: ClassVar[str]
    #: The mode in running text, such as ``time-slicing``.
    title: ClassVar[str]
    #: The compute mode of each GPU, as NVML names it.
    compute_mode: ClassVar[str] = "DEFAULT"
    #: Whether each pod is held to its part of a GPU's memory.
    limits_memory: ClassVar[bool] = True
    #: Whether each node runs NVIDIA's MPS control daemon.
    needs_mps_daemon: ClassVar[bool] = False
    #: What the exporter's values of a pod mean where several pods share a GPU and the exporter measures each of them.
    measured_pods: ClassVar[str] = "use and memory are the pod's own, by its processes."

    needs: Needs | None = field(default=None, kw_only=True)

    # --- the declaration -----------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def parse(cls, value: object, path: str, problems: Problems) -> Self | None:
        """Read the value of the mode's key; None, and problems, where it is wrong."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the declaration in the words of a stack file, defaults included, without `needs`."""

    @abstractmethod
    def text(self) -> str:
        """Return the declaration in a few words, for tables and comments."""

    @abstractmethod
    def slug(self) -> str:
        """Return the readable part of the declaration's config key: lower case, dashes."""

    # --- how a GPU is divided ------------------------------------------------------------------------------------

    @property
    def gpu_layouts(self) -> tuple[GpuLayout, ...]:
        """The MIG layouts: one entry for all GPUs, or one per group of GPU indexes; empty for a mode that does not partition."""
        return ()

    @property
    def layouts(self) -> frozenset[Layout]:
        """The distinct MIG layouts of the node's GPUs."""
        return frozenset(entry.layout for entry in self.gpu_layouts)

    def layout_of(self, index: int) -> dict[str, int]:
        """Return the MIG instances of one GPU, profile -> count; empty for a GPU that stays whole."""
        for entry in self.gpu_layouts:
            if entry.index is None or index in entry.index:
                return dict(entry.layout)
        return {}

    @property
    def partitioned(self) -> bool:
        """Whether GPUs are partitioned by MIG."""
        return bool(self.gpu_layouts)

    @property
    def uniform_profile(self) -> str | None:
        """The one profile into which every GPU is partitioned, which MIG strategy `single` needs; None: there is none."""
        if len(self.layouts) != 1 or len(layout := next(iter(self.layouts))) != 1:
            return None
        return layout[0][0]

    @property
    def replication(self) -> Replicated | None:
        """How pods share a unit, that is a GPU or a MIG instance; of several units the one with most pods. None: one pod each."""
        return None

    def replication_of(self, profile: str | None) -> Replicated | None:  # noqa: ARG002 - whole GPUs are all alike
        """Return how pods share an instance of a profile, or a whole GPU (None); None where one pod has it."""
        return self.replication

    # --- what it needs and costs ---------------------------------------------------------------------------------

    def mps_split(self, model: GpuModel) -> MpsExpectation | None:  # noqa: ARG002 - only MPS splits
        """Return the split that the MPS daemon of a node must have; None without MPS."""
        return None

    def check(self, use: PoolUse, problems: Problems) -> list[str]:  # noqa: ARG002 - most modes fit every GPU
        """Add a problem for everything that cannot work on the pool's GPUs; return what works with a catch."""
        return []

    def operand_features(self, mig_strategy: str, mig_owner: str) -> Iterator[tuple[Operand, Feature, str]]:  # noqa: ARG002
        """Yield which operand must know which feature, and what happens otherwise.

        Args:
            mig_strategy: of the cluster.
            mig_owner: who partitions the pool's GPUs: ``operator`` or ``aks``.
        """
        yield from ()

    def drivers(self, model: GpuModel) -> Mapping[str, Version]:  # noqa: ARG002 - see check
        """Return what needs a driver, in words -> the first driver version that has it."""
        return {}

    def changed_to(self, after: Sharing, *, reloaded: bool) -> Iterator[str]:  # noqa: ARG002 - most modes leave nothing behind
        """Yield what a change of a living pool from this declaration to another one ends or leaves behind.

        Args:
            after: the other declaration.
            reloaded: whether the nodes' configuration changes.
        """
        yield from ()


@dataclass(frozen=True)
class Replicated(Sharing):
    """A mode in which several pods get one whole GPU, through the device plugin's replicas.

    Each such mode has a row of its own for `replicas`: how many pods may share one unit.
    """

    #: The most replicas that the mode allows.
    most_replicas: ClassVar[int]
    #: The key of the mode under ``sharing`` in the device plugin's config file.
    plugin_key: ClassVar[str]
    #: The value of gpu-feature-discovery's label ``nvidia.com/gpu.sharing-strategy``.
    node_label: ClassVar[str]

    replicas: int
    rename_by_default: bool = row(
        "Advertise nvidia.com/gpu.shared instead of nvidia.com/gpu; off by default.", flag(), default=False
    )
    # They might get the same GPU twice.
    fail_requests_greater_than_one: bool = row("Refuse pods that ask for two or more; on by default.", flag(), default=True)

    @classmethod
    def parse(cls, value: object, path: str, problems: Problems) -> Self | None:
        """Read ``{replicas: 4, renameByDefault: false, failRequestsGreaterThanOne: true}``."""
        section = Section(value, path, problems)
        declaration = read(cls, section)
        section.finish()
        return declaration if declaration.replicas else None

    def settings(self) -> dict[str, Any]:
        """Return the declaration in the words of a stack file."""
        return {
            "replicas": self.replicas,
            "renameByDefault": self.rename_by_default,
            "failRequestsGreaterThanOne": self.fail_requests_greater_than_one,
        }

    def text(self) -> str:
        """Return for example ``time-slicing 4, renamed``."""
        return f"{self.title} {self.replicas}" + (", renamed" if self.rename_by_default else "")

    def slug(self) -> str:
        """Return for example ``time-slicing-4``."""
        return f"{self.node_label}-{self.replicas}"

    @property
    def replication(self) -> Replicated:
        """The declaration itself."""
        return self
