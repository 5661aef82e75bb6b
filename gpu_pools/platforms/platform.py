"""What a platform is to the rest of the project: one class per cloud implements it (gpu_pools/platforms/known.py lists them).

`PlatformReader` reads the platform's part of a stack file; `Platform` adds the rules of the cloud, and what follows from a plan.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

from gpu_pools.stack.cluster import Cluster
from gpu_pools.stack.platform_reader import PlatformReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.reading.fields import RowText
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.kubernetes_names import Taint
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems


class PlannedPool(Protocol):
    """What a platform must know of a pool that is planned (gpu_pools/plan/planned.py)."""

    @property
    def name(self) -> str:
        """The pool's name in the stack."""

    @property
    def made_name(self) -> str:
        """The pool's name in the cloud."""

    @property
    def pool(self) -> Pool:
        """The pool as declared."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Every label that must reach the nodes."""

    @property
    def placed_labels(self) -> Mapping[str, str]:
        """The labels that all nodes get at once."""

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The declared taints, and those that the cloud adds."""

    @property
    def startup_taint(self) -> Taint | None:
        """What new nodes register with until the verifier has passed them."""

    @property
    def driver(self) -> str:
        """Who installs driver and toolkit."""

    @property
    def gpu_instance_profile(self) -> str | None:
        """What AKS is told where AKS partitions."""

    @property
    def imported(self) -> bool:
        """Whether it is only held as it was imported."""

    @property
    def replacement_id(self) -> str:
        """Return which of the pools that replace each other under one name it is; empty: there is one."""


#: What the cluster section holds.
ClusterT = TypeVar("ClusterT", bound=Cluster)


class Platform(PlatformReader, Generic[ClusterT]):
    """One platform: how its part of a stack file is read, and the rules of its cloud."""

    #: The longest name of a pool in the cloud, and what stands before the digits of a pool that is replaced.
    made_names: ClassVar[tuple[int, str]] = (40, "-")
    #: Key of a pool -> what this platform says of it, where platforms say different things.
    row_texts: ClassVar[Mapping[str, RowText]] = {}

    # --- rules ---------------------------------------------------------------------------------------------------

    def check(self, settings: Settings, drivers: Mapping[str, str], problems: Problems) -> None:
        """Add a problem for everything that the cloud would refuse.

        Args:
            settings: of the stack.
            drivers: pool -> who installs its driver.
            problems: are added to.
        """

    def check_kubernetes(self, settings: Settings, version: str, whose: str, problems: Problems) -> None:
        """Add a problem for everything of this platform that needs a newer Kubernetes.

        Args:
            settings: of the stack.
            version: of the cluster, such as 1.34.2.
            whose: how a message names the origin of the version.
            problems: are added to.
        """

    def cluster_warnings(self, settings: Settings) -> Iterator[str]:  # noqa: ARG002
        """Yield what of the cluster works with a catch, or cannot be told before the deploy."""
        yield from ()

    def pool_warnings(self, pool: Pool, sharing: Sharing, settings: Settings, driver: str) -> Iterator[str]:  # noqa: ARG002
        """Yield the same of a pool.

        Args:
            pool: any.
            sharing: its declaration.
            settings: of the stack.
            driver: who installs its driver.
        """
        yield from ()

    def startup_taint_warnings(self, cluster: ClusterT, least: str) -> Iterator[str]:  # noqa: ARG002
        """Yield what the startup taint needs that the stack file does not tell; `least`: version of Kubernetes."""
        yield from ()

    def adopted_group_problem(self) -> tuple[str, str, str] | None:
        """Why a pool that was made by hand cannot have the startup taint: message, allowed, remedy; None: it can."""
        return None

    def scaling_from_zero(self, cluster: ClusterT) -> str:  # noqa: ARG002
        """What of scaling from zero the user must know; empty: nothing."""
        return "scaling from zero: until a node lives, pods can select only by labels declared on the pool (C03)"

    # --- what follows --------------------------------------------------------------------------------------------

    @abstractmethod
    def node_selector(self, cluster: ClusterT, pool_plan: PlannedPool, group: str) -> dict[str, str]:
        """Return the labels that tell the pool's nodes apart from the moment they register.

        Args:
            cluster: of the stack.
            pool_plan: the pool.
            group: the name in the cloud of a pool that is replaced, where it is known.

        Raises:
            ValueError: where the declaration does not tell.
        """

    def labels_of_group(self, cluster: ClusterT, pool_plan: PlannedPool) -> dict[str, str]:  # noqa: ARG002
        """Return the settings of the cloud's pool that are not node labels."""
        return {}

    def declared(self, cluster: ClusterT) -> dict[str, Any]:
        """Return the cluster's settings for the ids of changes; of newer ones those that are written, so that ids stay."""
        declared = dataclasses.asdict(cast("Any", cluster))
        # It changes how pods get GPUs, and nothing of the cluster.
        declared.pop("allocation", None)
        return declared

    def declared_identity(self, cluster: ClusterT) -> dict[str, Any]:
        """Return those whose change may replace the cluster."""
        return {key: value for key, value in self.declared(cluster).items() if key != "protect"}

    def pool_identity(self, cluster: ClusterT, pool_plan: PlannedPool) -> dict[str, Any]:  # noqa: ARG002
        """Return whatever of a pool may force a replacement, beside its name."""
        placed = dataclasses.asdict(cast("Any", pool_plan.pool.placement))
        return {**placed, "driver": pool_plan.driver, "gpuInstanceProfile": pool_plan.gpu_instance_profile}

    def rolling_options(self, pool_plan: PlannedPool) -> Mapping[str, Any]:  # noqa: ARG002
        """Return what of a pool is changed by replacing its nodes, as far as it is written."""
        return {}

    def fixed_at_creation(self, cluster: ClusterT, pool_plan: PlannedPool) -> Mapping[str, Any]:  # noqa: ARG002
        """Return what the cloud fixes at a pool's creation: another value makes another pool (``replace``)."""
        return {}

    @abstractmethod
    def missing_nodes(self, cluster: ClusterT, pool_plan: PlannedPool, group: str, selector: str) -> str:
        """Return where to look when a pool has fewer nodes than declared: sentences.

        Args:
            cluster: of the stack.
            pool_plan: the pool.
            group: its name in the cloud, where it is known.
            selector: a label selector of its nodes.
        """
