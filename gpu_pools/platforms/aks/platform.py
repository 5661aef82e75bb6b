"""AKS as a platform: its part of a stack file, and Azure's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from gpu_pools.platforms.aks import labels
from gpu_pools.platforms.aks.cluster import AksSettings, read_existing
from gpu_pools.platforms.aks.found import check_images
from gpu_pools.platforms.aks.inputs import merged, sent
from gpu_pools.platforms.aks.node_boot import check_node_boot, node_boot_warnings
from gpu_pools.platforms.aks.options import Monitoring
from gpu_pools.platforms.aks.placement import ROW_TEXTS, AksPlacement, place
from gpu_pools.platforms.aks.pool_inputs import PLACE, Around, pool_inputs
from gpu_pools.platforms.aks.properties import inputs_that
from gpu_pools.platforms.aks.together import aks_cluster_warnings, aks_warnings, check_aks
from gpu_pools.platforms.platform import Platform
from gpu_pools.reading.fields import read
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from gpu_pools.hardware.node import Hardware
    from gpu_pools.platforms.platform import PlannedPool
    from gpu_pools.reading.fields import RowText
    from gpu_pools.reading.section import Section
    from gpu_pools.sharing.mode import Sharing
    from gpu_pools.stack.cluster import Cluster
    from gpu_pools.stack.kubernetes_names import Taint
    from gpu_pools.stack.platform_reader import PoolSection
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: What is declared of a VM size that no table has.
_TOLD = ("gpu_model", "gpus_per_node")


class Aks(Platform[AksSettings]):
    """Azure Kubernetes Service."""

    name: ClassVar[str] = "aks"
    cluster: ClassVar[type[Cluster]] = AksSettings
    pool_key: ClassVar[str] = "vmSize"
    row_texts: ClassVar[Mapping[str, RowText]] = ROW_TEXTS
    pool_names: ClassVar[tuple[str, str]] = (
        r"[a-z][a-z0-9]{0,11}",
        "1 to 12 lower-case letters and digits, starting with a letter (AKS)",
    )
    # Azure knows no dashes.
    made_names: ClassVar[tuple[int, str]] = (12, "")

    def read_cluster(self, section: Section, *, complete: bool) -> AksSettings:
        """Read a cluster that the stack makes, or one that is there."""
        if section.given("existing"):
            return read_existing(section)
        settings = read(AksSettings, section, complete=complete)
        section.finish()
        group = settings.options.existing_resource_group or settings.resource_group or settings.name
        return replace(settings, resource_group=group)

    def place(self, section: PoolSection) -> tuple[Hardware | None, AksPlacement]:
        """Read an agent pool's VM size and options."""
        return place(section)

    def is_meant_by(self, keys: AbstractSet[str]) -> bool:  # noqa: ARG002 - it is what others are told from
        """Never: it is the platform of a file whose pools point to no other one."""
        return False

    def check_labels(self, labels_: Mapping[str, str], section: Section) -> None:
        """Refuse what Azure reserves."""
        labels.check_labels(labels_, section)

    def check_taints(self, taints: tuple[Taint, ...], section: PoolSection) -> None:
        """Refuse what Azure reserves."""
        labels.check_taints(taints, section)

    def with_metrics(self, cluster: Cluster) -> Cluster:
        """Switch the add-on on that Azure's Managed Prometheus needs; `false` is refused with the plan."""
        aks = cast("AksSettings", cluster)
        if aks.existing:
            return aks
        monitoring = aks.options.monitoring or Monitoring()
        if monitoring.metrics is None:
            monitoring = replace(monitoring, metrics=True)
        return replace(aks, options=replace(aks.options, monitoring=monitoring))

    def check(self, settings: Settings, drivers: Mapping[str, str], problems: Problems) -> None:
        """Add what Azure refuses, some of it minutes into a deploy."""
        check_aks(settings, problems)
        check_node_boot(settings, drivers, problems)

    def check_kubernetes(self, settings: Settings, version: str, whose: str, problems: Problems) -> None:
        """Add the pools whose image needs a newer Kubernetes."""
        check_images(settings, version, whose, problems)

    def cluster_warnings(self, settings: Settings) -> Iterator[str]:
        """Yield what of the cluster's own request works with a catch."""
        yield from aks_cluster_warnings(
            cast("AksSettings", settings.cluster), metrics_have_a_way=settings.observability.azure_reads
        )

    def pool_warnings(self, pool: Pool, sharing: Sharing, settings: Settings, driver: str) -> Iterator[str]:
        """Yield what of a pool's machines and options works with a catch."""
        yield from aks_warnings(pool, sharing, driver)
        yield from node_boot_warnings(pool, settings, driver)

    def startup_taint_warnings(self, cluster: AksSettings, least: str) -> Iterator[str]:
        """Yield that Azure's own default is not known."""
        if not cluster.kubernetes_version:
            yield (
                f"startupTaint needs Kubernetes {least} or newer: whether Azure's own default is cannot be checked before "
                "the deploy (set gpu-pools:cluster.kubernetesVersion)"
            )

    def node_selector(self, cluster: AksSettings, pool_plan: PlannedPool, group: str) -> dict[str, str]:  # noqa: ARG002
        """Return the label that AKS sets; of a pool that is replaced those that the stack sets.

        The old pool has the name as well, until it goes; its nodes are proven by nobody then. A pool that was there before
        `replace` has kept its name in Azure, so that is known to Azure alone. When the labels are there: decision 258.
        """
        if pool_plan.replacement_id:
            return {POOL_LABEL: pool_plan.name, REPLACEMENT_LABEL: pool_plan.replacement_id}
        # AKS sets it by itself, and takes no label of that prefix from anybody else (azure-aks-docs, use-labels).
        return {"kubernetes.azure.com/agentpool": pool_plan.name}

    def declared(self, cluster: AksSettings) -> dict[str, Any]:
        """Return the settings without whether Azure is asked before a deploy, which changes nothing of the cluster."""
        declared = super().declared(cluster)
        if declared["existing"] is None:
            del declared["existing"]
        del declared["check_cloud"]
        return declared

    def declared_identity(self, cluster: AksSettings) -> dict[str, Any]:
        """Return what is fixed at creation, in the words of the ids that stand in stack files."""
        own = _without_options(super().declared_identity(cluster)) | _fixed_options("ManagedCluster", cluster.options)
        own["system_pool"] = {key: value for key, value in own["system_pool"].items() if key != "properties"}
        # Who scales it replaces nothing.
        nodes = own["system_pool"].pop("nodes")
        own["system_pool"] |= {"min_nodes": nodes["fewest"], "max_nodes": nodes["most"]}
        return own

    def pool_identity(self, cluster: AksSettings, pool_plan: PlannedPool) -> dict[str, Any]:
        """Return what Azure fixes at creation; what a size has is declared, not asked for, and replaces nothing."""
        placement: Any = pool_plan.pool.placement
        placed = {key: value for key, value in super().pool_identity(cluster, pool_plan).items() if key not in _TOLD}
        placed = _without_options(placed) | _fixed_options("AgentPool", placement.options)
        if placed["spot"] and placed["spot"]["eviction_policy"] == "Delete":
            # As ids were before there was a choice.
            del placed["spot"]["eviction_policy"]
        return placed

    def rolling_options(self, pool_plan: PlannedPool) -> Mapping[str, Any]:
        """Return what Azure changes by replacing the pool's nodes, as far as it is written."""
        placed: Any = pool_plan.pool.placement
        asked = merged({"osSKU": placed.os_sku, **sent(placed.options)}, placed.options.properties)
        return inputs_that("rolling", "AgentPool", asked)

    def fixed_at_creation(self, cluster: AksSettings, pool_plan: PlannedPool) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the inputs whose change replaces an agent pool."""
        asked = inputs_that("replaces", "AgentPool", pool_inputs(pool_plan, Around()))
        return {key: value for key, value in asked.items() if key not in PLACE}

    def missing_nodes(self, cluster: AksSettings, pool_plan: PlannedPool, group: str, selector: str) -> str:  # noqa: ARG002
        """Return the command that shows an agent pool's state."""
        place_ = f"--resource-group {cluster.resource_group} --cluster-name {cluster.name}"
        name = pool_plan.made_name if pool_plan.replacement_id else pool_plan.name
        return (
            f"`az aks nodepool show {place_} --name {name}` shows its state, and the activity log of its node resource group why "
            "a machine is missing: quota, capacity, or a node that did not join."
        )


def _without_options(declared: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in declared.items() if key != "options"}


def _fixed_options(type_: str, options: Any) -> dict[str, Any]:  # noqa: ANN401 - options of pools or of clusters
    """Those that are fixed at creation, where any is written: a stack without options keeps its ids."""
    fixed = inputs_that("replaces", type_, merged(sent(options), options.properties))
    return {"options": fixed} if fixed else {}
