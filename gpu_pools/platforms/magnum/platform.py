"""Magnum as a platform: its part of a stack file, and the rules of its drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from gpu_pools.platforms.magnum.cluster import NODE_GROUP_LABELS, TAINTED_BY_NFD, MagnumSettings, read_existing
from gpu_pools.platforms.magnum.drivers import check_magnum_drivers, magnum_driver_warnings, scales_groups
from gpu_pools.platforms.magnum.placement import ROW_TEXTS, MagnumPlacement, place
from gpu_pools.platforms.platform import Platform
from gpu_pools.reading.fields import read
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL, refused_by_nfd
from gpu_pools.stack.settings import NAMESPACE, used_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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

_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy")
#: Node groups that Magnum makes itself.
_OWN_GROUPS: Final = ("default-worker", "default-master")


class Magnum(Platform[MagnumSettings]):
    """OpenStack Magnum."""

    name: ClassVar[str] = "magnum"
    cluster: ClassVar[type[Cluster]] = MagnumSettings
    pool_key: ClassVar[str] = "flavor"
    row_texts: ClassVar[Mapping[str, RowText]] = ROW_TEXTS

    def read_cluster(self, section: Section, *, complete: bool) -> MagnumSettings:
        """Read a cluster that the stack makes, or one that is there."""
        if section.given("existing"):
            return read_existing(section)
        settings = read(MagnumSettings, section, complete=complete)
        section.finish()
        return settings

    def place(self, section: PoolSection) -> tuple[Hardware | None, MagnumPlacement]:
        """Read a node group's flavor and options."""
        return place(section)

    def check_taints(self, taints: tuple[Taint, ...], section: PoolSection) -> None:
        """Refuse taints that NFD does not set, where the driver's kubelets set none."""
        driver = section.context.magnum_driver
        if driver not in TAINTED_BY_NFD:
            return
        for index, taint in enumerate(taints):
            if reason := refused_by_nfd(taint.key):
                section.problems.add(
                    f"{section.at('taints')}[{index}]",
                    f'"{taint}" cannot reach the nodes: {reason}, and the driver {driver} sets no taints',
                    allowed="a prefixed key outside kubernetes.io, e.g. nvidia.com/gpu=true:NoSchedule",
                    remedy="Choose such a key, or use the heat driver, whose kubelets register with taints.",
                )

    def check_config(self, config: Mapping[str, object], problems: Problems) -> None:
        """Report once that no flavor is declared; that no pool finds its own only follows from it."""
        path = f"{NAMESPACE}:flavors"
        names = used_names(config, "flavor")
        if names and config.get(path) in (None, {}):
            problems.add(
                path,
                "is missing or empty",
                allowed="a mapping of flavors to their gpuModel and gpusPerNode",
                remedy=f"Declare {', '.join(names)} there with gpuModel and gpusPerNode; OpenStack cannot tell them.",
            )

    def check(self, settings: Settings, drivers: Mapping[str, str], problems: Problems) -> None:  # noqa: ARG002
        """Add what the driver would refuse once Magnum has accepted it, and names that Magnum gives itself."""
        check_magnum_drivers(settings, problems)
        for pool in settings.pools:
            if pool.name in _OWN_GROUPS:
                problems.add(
                    f"{pool.path}.name",
                    f'"{pool.name}" is a node group that Magnum makes itself',
                    allowed="any other name",
                    remedy="Rename the pool; Magnum would answer that the node group exists already.",
                )

    def pool_warnings(self, pool: Pool, sharing: Sharing, settings: Settings, driver: str) -> Iterator[str]:  # noqa: ARG002
        """Yield what the stack's driver does not look at."""
        yield from magnum_driver_warnings(pool, settings)

    def adopted_group_problem(self) -> tuple[str, str, str]:
        """Return why: kubelets register with what a label of the node group says, which never changes."""
        return (
            "true, and the startup taint needs a label of the node group's, which never changes",
            "groups that the stack makes, or a stack without `verification.startupTaint`",
            "Leave `startupTaint` out; the deploy still waits until the nodes have passed.",
        )

    def scaling_from_zero(self, cluster: MagnumSettings) -> str:
        """Return that the driver tells the autoscaler of no GPU."""
        if not scales_groups(cluster):
            return ""
        return (
            f"scaling from zero: the driver {cluster.driver} tells the autoscaler of no GPU, so no pod that requests one starts "
            "the first node (W88): write `min: 1`"
        )

    def node_selector(self, cluster: MagnumSettings, pool_plan: PlannedPool, group: str) -> dict[str, str]:
        """Return the label that the driver sets with the group's name; without it, of a replaced pool, those that NFD sets."""
        if pool_plan.replacement_id and not group:
            return {POOL_LABEL: pool_plan.name, REPLACEMENT_LABEL: pool_plan.replacement_id}
        if not cluster.driver:
            message = f"pool {pool_plan.name} on magnum needs no labeller, or its Magnum driver is not known"
            raise ValueError(message)
        return {NODE_GROUP_LABELS[cluster.driver]: group or pool_plan.made_name}

    def labels_of_group(self, cluster: MagnumSettings, pool_plan: PlannedPool) -> dict[str, str]:
        """Return the user's labels of the node group, and the taints where the driver's kubelets set them."""
        labels = dict(pool_plan.pool.placement.labels)
        born_with = [taint for taint in (*pool_plan.taints, pool_plan.startup_taint) if taint]
        if cluster.driver == "heat" and born_with:
            # The shape is the kubelet's: key=value:Effect, the equals sign also where there is no value.
            taints = ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in born_with)
            option = f"--register-with-taints={taints}"
            labels["kubelet_options"] = f"{labels['kubelet_options']} {option}" if "kubelet_options" in labels else option
        return labels

    def declared(self, cluster: MagnumSettings) -> dict[str, Any]:
        """Return the settings; of options and proxies those that are written."""
        declared = super().declared(cluster)
        if declared["existing"] is None:
            del declared["existing"]
        options = {key: value for key, value in declared.pop("options").items() if value is not None}
        if declared["template"]:
            declared["template"] = {
                key: value for key, value in declared["template"].items() if value is not None or key not in _PROXIES
            }
        return declared | ({"options": options} if options else {})

    def pool_identity(self, cluster: MagnumSettings, pool_plan: PlannedPool) -> dict[str, Any]:
        """Return the placement with every label of the node group, which may hold taints, too."""
        placed = super().pool_identity(cluster, pool_plan)
        return {
            **{key: value for key, value in placed.items() if key not in {"driver", "gpuInstanceProfile"}},
            "labels": self.labels_of_group(cluster, pool_plan),
        }

    def fixed_at_creation(self, cluster: MagnumSettings, pool_plan: PlannedPool) -> Mapping[str, Any]:
        """Return what terraform-provider-openstack 3.4.0 replaces a node group for (`ForceNew` of its resource)."""
        placement: Any = pool_plan.pool.placement
        return {
            "flavor": placement.flavor,
            "image": placement.image,
            "volume": placement.docker_volume_size,
            "labels": self.labels_of_group(cluster, pool_plan),
        }

    def missing_nodes(self, cluster: MagnumSettings, pool_plan: PlannedPool, group: str, selector: str) -> str:  # noqa: ARG002
        """Return the command that shows a node group's state."""
        return (
            f"`openstack coe nodegroup show {cluster.name} {group or pool_plan.name}` shows its number and why it failed; "
            "where that says fewer nodes, run `pulumi refresh --target '**openstack:**'` first."
        )
