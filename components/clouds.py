"""What each platform has of a cluster and its pools: the part of GpuPlatform that differs between clouds.

One class per platform, by the names of gpu_pools/platforms/known.py. Each cloud's SDK is loaded only where it is used: it takes a
good part of the time of a preview.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import pulumi

from gpu_pools.components.engine.outputs import put_back
from gpu_pools.components.gpu_operator.node_features import pool_rule
from gpu_pools.components.kubernetes.recorded_objects import Stored
from gpu_pools.components.replacement import old_nodes_emptied
from gpu_pools.plan.placing import replaced_pools, replacement_ids
from gpu_pools.plan.planned import Plan, PoolPlan
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE

if TYPE_CHECKING:
    from gpu_pools.components.aks.cluster import AksGpuNodePoolArgs
    from gpu_pools.components.magnum.cluster import MagnumGpuNodePool, MagnumGpuNodePoolArgs

#: Pool -> what makes its nodes what they are.
Made = Mapping[str, list[pulumi.Resource]]


class ClusterComponent(Protocol):
    """What every component of a cluster has."""

    cluster_name: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    kubernetes: Any
    resource: Any


class Cloud(ABC):
    """What a platform makes for a GpuPlatform."""

    def ask(self, plan: Plan, parent: pulumi.Resource) -> None:  # noqa: B027 - an existing cluster has nobody to ask
        """Ask the cloud for what the stack needs of it, before anything is made.

        Raises:
            InvalidStackError: with everything that it would refuse.
        """

    @abstractmethod
    def cluster(
        self,
        name: str,
        plan: Plan,
        section: Mapping[str, Any],
        opts: pulumi.ResourceOptions,
        given: pulumi.ResourceOptions | None,
    ) -> ClusterComponent:
        """Make the cluster, or find it.

        Args:
            name: of the component.
            plan: the stack.
            section: the cluster section as it is written.
            opts: of the component's children.
            given: options of the platform component itself.
        """

    def pools(  # noqa: B027 - an existing cluster has its nodes
        self,
        name: str,
        plan: Plan,
        cluster: Any,  # noqa: ANN401 - the cloud's own component
        opts: pulumi.ResourceOptions,
        made: Made,
        objects: list[Stored],
    ) -> None:
        """Make the cloud's part of each pool.

        Args:
            name: of the component.
            plan: the stack.
            cluster: what `cluster` returned.
            opts: of the component's children.
            made: is added to.
            objects: the Kubernetes objects that belong to pools; is added to.
        """

    def group_names(self, plan: Plan, made: Made) -> dict[str, pulumi.Output[str]]:  # noqa: ARG002 - see Magnum
        """Of pools that are replaced, what the cloud calls them, where only the engine knows."""
        return {}


class AksCloud(Cloud):
    """Agent pools of AKS."""

    def ask(self, plan: Plan, parent: pulumi.Resource) -> None:
        """Ask Azure, unless the cluster is there: that one is asked for itself."""
        if plan.settings.cluster.was_there:
            return
        from gpu_pools.components.aks.check import check_cloud  # noqa: PLC0415

        check_cloud(cast("Any", plan.settings.cluster), parent, plan.settings, replacement_ids(plan))

    def cluster(
        self,
        name: str,
        plan: Plan,
        section: Mapping[str, Any],
        opts: pulumi.ResourceOptions,
        given: pulumi.ResourceOptions | None,  # noqa: ARG002
    ) -> ClusterComponent:
        """Make the cluster, protected as declared, unless an acknowledgement lifts that."""
        settings: Any = plan.settings.cluster
        if settings.existing:
            from gpu_pools.components.aks.existing import ExistingAksCluster, existing_aks_args  # noqa: PLC0415

            return ExistingAksCluster(
                name,
                existing_aks_args(settings.existing),
                opts,
                stack=plan.settings,
                inside=not plan.settings.imported,
                replacement_ids=replacement_ids(plan),
            )
        from gpu_pools.components.aks.cluster import AksCluster  # noqa: PLC0415

        # Azure was asked already, together with the pools.
        args: Any = section
        return AksCluster(name, args, opts, planned=replace(settings, protect=plan.protect, check_cloud=False))

    def pools(
        self,
        name: str,
        plan: Plan,
        cluster: Any,  # noqa: ANN401 - the cloud's own component
        opts: pulumi.ResourceOptions,
        made: Made,
        objects: list[Stored],  # noqa: ARG002 - Azure needs none
    ) -> None:
        """Make the agent pools."""
        from gpu_pools.components.aks.cluster import AksGpuNodePool  # noqa: PLC0415
        from gpu_pools.components.aks.existing import ExistingAksCluster  # noqa: PLC0415

        settings: Any = plan.settings.cluster
        args: AksGpuNodePoolArgs = {
            "cluster_name": cluster.cluster_name,
            "resource_group_name": cluster.resource_group_name,
            "tags": put_back(dict(settings.tags)),
        }
        if (network := settings.options.network) is not None:
            args |= cast(
                "Any", {key: value for key in ("node_subnet", "pod_subnet") if (value := put_back(getattr(network, key)))}
            )
        if settings.kubernetes_version is not None:
            args["kubernetes_version"] = settings.kubernetes_version
        for pool in plan.pools:
            of_pool = cluster.pool_args(pool, args) if isinstance(cluster, ExistingAksCluster) else args
            before = _old_nodes_emptied(name, pool, cluster, opts)
            group = AksGpuNodePool(f"{name}-{pool.name}", of_pool, waiting(opts, before), planned=pool)
            made[pool.name].append(group)


class MagnumCloud(Cloud):
    """Node groups of Magnum."""

    def ask(self, plan: Plan, parent: pulumi.Resource) -> None:
        """Ask OpenStack."""
        from gpu_pools.components.magnum.check import check_cloud  # noqa: PLC0415

        check_cloud(cast("Any", plan.settings.cluster), plan.settings.pools, parent, replaced_pools(plan))

    def cluster(
        self,
        name: str,
        plan: Plan,
        section: Mapping[str, Any],
        opts: pulumi.ResourceOptions,
        given: pulumi.ResourceOptions | None,  # noqa: ARG002
    ) -> ClusterComponent:
        """Make the cluster; the cloud was asked already, together with the pools."""
        settings: Any = plan.settings.cluster
        args: Any = section
        if settings.existing:
            from gpu_pools.components.magnum.existing import ExistingMagnumCluster  # noqa: PLC0415

            return ExistingMagnumCluster(
                name, args, opts, planned=replace(settings, check_cloud=False), inside=not plan.settings.imported
            )
        from gpu_pools.components.magnum.cluster import MagnumCluster  # noqa: PLC0415

        return MagnumCluster(name, args, opts, planned=replace(settings, protect=plan.protect, check_cloud=False))

    def pools(
        self,
        name: str,
        plan: Plan,
        cluster: Any,  # noqa: ANN401 - the cloud's own component
        opts: pulumi.ResourceOptions,
        made: Made,
        objects: list[Stored],
    ) -> None:
        """Make the node groups one after the other: Magnum changes one at a time."""
        from gpu_pools.components.magnum.cluster import MagnumGpuNodePool  # noqa: PLC0415
        from gpu_pools.components.magnum.existing import ExistingMagnumCluster  # noqa: PLC0415

        settings: Any = plan.settings.cluster
        args: MagnumGpuNodePoolArgs = {
            "cluster_id": cluster.cluster_id,
            "magnum_driver": str(settings.driver),
            "autoscaling": settings.autoscales,
        }
        if isinstance(cluster, ExistingMagnumCluster):
            args = cluster.pool_args(args)
        groups: list[pulumi.Resource] = []
        for pool in plan.pools:
            before = [*groups]
            if pool.replacement_id:
                before.append(pool_rule(f"{name}-{pool.name}-rule", pool, settings.driver, opts))
                objects.append(Stored(before[-1]))
            before += _old_nodes_emptied(name, pool, cluster, opts)
            group = MagnumGpuNodePool(f"{name}-{pool.name}", args, waiting(opts, before), planned=pool)
            groups.append(group)
            made[pool.name].append(group)

    def group_names(self, plan: Plan, made: Made) -> dict[str, pulumi.Output[str]]:
        """A group that was there before ``replace`` has kept its name."""
        return {pool.name: cast("MagnumGpuNodePool", made[pool.name][0]).group_name for pool in plan.pools if pool.replacement_id}


class ExistingCloud(Cloud):
    """A cluster with its nodes."""

    def cluster(
        self,
        name: str,
        plan: Plan,
        section: Mapping[str, Any],
        opts: pulumi.ResourceOptions,
        given: pulumi.ResourceOptions | None,
    ) -> ClusterComponent:
        """Reach the cluster by its kubeconfig, or by a provider that the program gives."""
        from gpu_pools.components.existing.cluster import ExistingCluster, given_provider  # noqa: PLC0415

        settings: Any = plan.settings.cluster
        if provider := given_provider(settings.kubeconfig, settings.kubeconfig_content, given):
            opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(provider=provider))
        args: Any = section
        return ExistingCluster(name, args, opts, planned=settings)


def _old_nodes_emptied(
    name: str, pool: PoolPlan, cluster: ClusterComponent, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """What drains a pool before it is replaced in place; nothing for other pools."""
    if pool.pool.replacement != "inPlace":
        return []
    return [old_nodes_emptied(f"{name}-{pool.name}", pool, (cluster.kubeconfig, None), OPERATOR_NAMESPACE, opts, [])]


def waiting(options: pulumi.ResourceOptions, before: list[pulumi.Resource]) -> pulumi.ResourceOptions:
    """The same options, waiting for something."""
    return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=before))


#: Name of the platform -> what it makes.
CLOUDS: dict[str, Cloud] = {"aks": AksCloud(), "magnum": MagnumCloud(), "existing": ExistingCloud()}
