"""An existing cluster as a platform: nodes are selected, and nothing of a cloud is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from gpu_pools.platforms.existing.cluster import ExistingSettings
from gpu_pools.platforms.existing.placement import ROW_TEXTS, ExistingPlacement, place
from gpu_pools.platforms.platform import Platform
from gpu_pools.reading.fields import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from gpu_pools.hardware.node import Hardware
    from gpu_pools.platforms.platform import PlannedPool
    from gpu_pools.reading.fields import RowText
    from gpu_pools.reading.section import Section
    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.platform_reader import PoolSection


class Existing(Platform[ExistingSettings]):
    """A cluster that is there already."""

    name: ClassVar[str] = "existing"
    cluster: ClassVar[type[Cluster]] = ExistingSettings
    pool_key: ClassVar[str] = "nodeSelector"
    row_texts: ClassVar[Mapping[str, RowText]] = ROW_TEXTS

    def read_cluster(self, section: Section, *, complete: bool) -> ExistingSettings:
        """Read how the cluster is reached."""
        settings = read(ExistingSettings, section, complete=complete)
        section.finish()
        return settings

    def place(self, section: PoolSection) -> tuple[Hardware | None, ExistingPlacement]:
        """Read which nodes are the pool's, and what GPUs they have."""
        return place(section)

    def is_meant_by(self, keys: AbstractSet[str]) -> bool:
        """Whether nodes are selected, or GPUs named that no VM size tells."""
        return "nodeSelector" in keys or ("gpuModel" in keys and "vmSize" not in keys)

    def startup_taint_warnings(self, cluster: ExistingSettings, least: str) -> Iterator[str]:  # noqa: ARG002
        """Yield which nodes the taint reaches."""
        yield (
            f"startupTaint needs Kubernetes {least} or newer, and reaches only nodes that have the labels of "
            "nodeSelector when they register; nodes that are there already get none"
        )

    def declared(self, cluster: ExistingSettings) -> dict[str, Any]:
        """Return the settings without a kubeconfig's text, which is a secret, and no part of what the cluster is."""
        declared = super().declared(cluster)
        del declared["kubeconfig_content"]
        return declared

    def node_selector(self, cluster: ExistingSettings, pool_plan: PlannedPool, group: str) -> dict[str, str]:  # noqa: ARG002
        """Return the labels that the nodes have."""
        return dict(pool_plan.pool.placement.node_selector)

    def missing_nodes(self, cluster: ExistingSettings, pool_plan: PlannedPool, group: str, selector: str) -> str:  # noqa: ARG002
        """Return how nodes join the pool."""
        return f"Have nodes with the labels {selector} join the cluster; `kubectl get nodes -l {selector}` shows those that have."
