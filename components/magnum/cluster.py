"""OpenStack Magnum: a cluster template (made or given), a cluster, and GPU node groups.

Magnum's API accepts a second operation while one is in progress and then loses or fails one of the two. So a node group
waits for every group before it: creations run in file order, deletions in reverse, whichever groups come and go. Node-group
labels configure Magnum's driver and do not reach the nodes: node labels are the business of
gpu_pools.components.gpu_operator.node_features, taints that of the kubelets where the driver lets them (gpu_pools.plan.placing).
components/replacement.py says how one group replaces another (`replace`). Not managed here: networks, images, flavors,
keypairs and quotas, which belong to the cloud's operators. A changed label of the cluster means a new cluster; `protect` refuses
that.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_openstack import containerinfra

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.stack import FlavorArgs, MagnumClusterArgs, MagnumPoolArgs, MagnumPoolLike
from gpu_pools.components.arguments.to_stack import ALONE, located_in, plan_alone, stack_keys
from gpu_pools.components.engine.held import held_hook
from gpu_pools.components.engine.options import child_options, unless_false
from gpu_pools.components.engine.outputs import put_back, put_off
from gpu_pools.components.gpu_operator.config_keys import after_operator, find_pool_plan
from gpu_pools.components.kubernetes.provider import kubernetes_provider
from gpu_pools.components.magnum.check import check_cloud
from gpu_pools.components.replacement import keeps_its_name, other_names, resource_name
from gpu_pools.plan.placing import node_group_labels
from gpu_pools.plan.planned import PoolPlan
from gpu_pools.platforms.known import parse_cluster
from gpu_pools.platforms.magnum.cluster import MagnumSettings, MagnumTemplate
from gpu_pools.platforms.magnum.drivers import limits_decide, worker_limits
from gpu_pools.platforms.magnum.placement import MagnumPlacement
from gpu_pools.text.errors import InvalidStackError, Problem, Problems

if TYPE_CHECKING:
    from gpu_pools.components.gpu_operator.operator import GpuOperator

__all__ = ["MagnumCluster", "MagnumClusterArgs", "MagnumGpuNodePool", "MagnumGpuNodePoolArgs", "MagnumPoolArgs"]

#: Magnum builds machines one by one and the driver's own jobs come on top.
_SLOW = pulumi.CustomTimeouts(create="90m", update="90m", delete="60m")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class MagnumCluster(pulumi.ComponentResource):
    """A Kubernetes cluster by Magnum, ready for GPU node groups."""

    cluster_id: pulumi.Output[str]
    """The cluster's UUID."""
    cluster_name: pulumi.Output[str]
    """The cluster's name."""
    kubeconfig: pulumi.Output[str]
    """A kubeconfig of an administrator; a secret."""

    def __init__(
        self,
        name: str,
        args: MagnumClusterArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: MagnumSettings | None = None,
    ) -> None:
        """Make the cluster, and its template where none is given.

        Args:
            name: of the component.
            args: the settings.
            opts: options of the component.
            planned: what the arguments mean, where they were checked with a whole stack.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments, or everything that the cloud lacks.
        """
        what = f"MagnumCluster({name})"
        args = known_args(what, args, MagnumClusterArgs)
        settings = planned or _cluster_settings(what, args)
        super().__init__("gpu-pools:index:MagnumCluster", name, None, opts)
        with located_in(what, ALONE):
            check_cloud(settings, (), self)
        options = settings.options
        written, limits = {**settings.labels, **options.labels}, worker_limits(settings)
        labels = {**written, **limits}
        #: What everything inside the cluster goes away with.
        self.resource = containerinfra.Cluster(
            f"{name}-cluster",
            name=settings.name,
            cluster_template_id=self._template_id(name, settings, opts),
            keypair=put_back(settings.keypair),
            master_count=settings.masters,
            node_count=settings.workers,
            flavor=settings.worker_flavor,
            labels=labels or None,
            # Magnum replaces the template's labels by these unless it is told to merge them.
            merge_labels=True if labels else None,
            fixed_network=put_back(options.fixed_network),
            fixed_subnet=put_back(options.fixed_subnet),
            floating_ip_enabled=options.floating_ip,
            master_lb_enabled=options.master_load_balancer,
            opts=child_options(
                self,
                opts,
                protect=unless_false(settings.protect),
                custom_timeouts=_SLOW,
                # Only a new cluster gets them: a changed label would replace one that lives, with all its groups.
                ignore_changes=[*(f'labels["{label}"]' for label in limits), *([] if written or not limits else ["mergeLabels"])],
            ),
        )
        self.cluster_id = self.resource.id
        self.cluster_name = self.resource.name
        self.kubeconfig = pulumi.Output.secret(self.resource.kubeconfig["raw_config"])
        #: For everything that is put into this cluster.
        self.kubernetes = kubernetes_provider(name, self, self.kubeconfig, self.cluster_id, given=opts)
        self.register_outputs({"cluster_id": self.cluster_id, "cluster_name": self.cluster_name, "kubeconfig": self.kubeconfig})

    def _template_id(self, name: str, settings: MagnumSettings, opts: pulumi.ResourceOptions | None) -> pulumi.Input[str]:
        if settings.template is None:
            return self._given_template_id(cast("str", settings.template_id))
        template = containerinfra.ClusterTemplate(
            f"{name}-template",
            **put_back(_template_inputs(settings, settings.template)),
            # Magnum refuses to change a template that a cluster uses; a new one lets the cluster move over.
            opts=child_options(self, opts, replace_on_changes=["*"]),
        )
        return template.id

    def _given_template_id(self, name_or_id: str) -> pulumi.Input[str]:
        """The template's UUID: Magnum answers with it, so that a name would look like a change after every refresh."""
        if _UUID.fullmatch(name_or_id):
            return name_or_id
        found = containerinfra.get_cluster_template_output(name=name_or_id, opts=pulumi.InvokeOutputOptions(parent=self))
        return found.id


class MagnumGpuNodePoolArgs(TypedDict):
    """Where the group goes, and the group."""

    cluster_id: pulumi.Input[str]
    """The Magnum cluster."""
    magnum_driver: str
    """Magnum's driver in this cloud: heat, magnum-cluster-api or capi-helm."""
    autoscaling: NotRequired[bool]
    """Whether the cluster's autoscaler is on, by its label auto_scaling_enabled."""
    pool: NotRequired[pulumi.Input[MagnumPoolLike]]
    """The pool: a component that declares it (MagnumPool), its `declared`, or a mapping."""
    flavor: NotRequired[FlavorArgs]
    """What its flavor has, where the pool does not say it."""
    mig_strategy: NotRequired[pulumi.Input[str]]
    """The operator's output of this name: the cluster's MIG strategy."""
    gpu_models: NotRequired[dict[str, dict[str, Any]]]
    """GPU models that no table has, by name, in the words of a stack file; of a declared pool its own."""
    labels: NotRequired[dict[str, str]]
    """More labels of the group, for whoever looks at it in Magnum; no driver must read them."""


class MagnumGpuNodePool(pulumi.ComponentResource):
    """One GPU node group; let it depend on all groups of its cluster declared before.

    All, not only the last: when groups are removed, the engine deletes those at the same time that do not depend on each
    other directly.
    """

    group_id: pulumi.Output[str]
    """The node group's UUID."""
    group_name: pulumi.Output[str]
    """The node group's name."""
    advertises: pulumi.Output[dict[str, int]]
    """Resource -> count that every node must advertise."""

    def __init__(
        self,
        name: str,
        args: MagnumGpuNodePoolArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: PoolPlan | None = None,
        operator: "GpuOperator | None" = None,
    ) -> None:
        """Make the node group.

        Args:
            name: of the component.
            args: where it goes, and the pool.
            opts: options of the component.
            planned: the pool as part of a plan, instead of `pool`.
            operator: the one that was given the pool; what others decide of it is taken from there, and it comes first.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments.
        """
        is_part = planned is not None
        args = known_args(f"MagnumGpuNodePool({name})", args, MagnumGpuNodePoolArgs)
        pool_plan = find_pool_plan(f"MagnumGpuNodePool({name})", args, planned, operator, _alone(name, args))
        if pool_plan.pool.replacement and not is_part:
            raise InvalidStackError([_nobody_knows(name, pool_plan)])
        opts = after_operator(opts, operator)
        super().__init__("gpu-pools:index:MagnumGpuNodePool", name, None, opts)
        #: What follows from the declaration, for whoever installs the GPU operator.
        self.planned = pool_plan
        group = containerinfra.NodeGroup(
            resource_name(f"{name}-group", pool_plan),
            cluster_id=args["cluster_id"],
            **_group_inputs(pool_plan, args),
            opts=child_options(
                self,
                opts,
                # The name is unique in the cluster, so a replacement cannot stand beside the old group.
                delete_before_replace=True,
                protect=unless_false(pool_plan.protect),
                ignore_changes=[*(["nodeCount"] if pool_plan.pool.autoscaled else []), *keeps_its_name(pool_plan, "name")],
                custom_timeouts=_SLOW,
                hooks=pulumi.ResourceHookBinding(before_update=[held_hook(name, "node group")]) if pool_plan.imported else None,
                aliases=other_names(f"{name}-group", pool_plan),
            ),
        )
        self.group_id = group.id
        # One that was there before `replace` has kept its name.
        self.group_name = group.name if pool_plan.replacement_id else pulumi.Output.from_input(pool_plan.name)
        self.advertises = pulumi.Output.from_input(dict(pool_plan.advertises))
        self.register_outputs(
            {"group_id": self.group_id, "group_name": self.group_name, "advertises": self.advertises},
        )


def _nobody_knows(name: str, pool_plan: PoolPlan) -> Problem:
    return Problem(
        f"MagnumGpuNodePool({name}).replace",
        f"{pool_plan.pool.replacement} needs labellers and verifiers that know the group's name, and a way to reach the cluster",
        "replace in a GpuPlatform or a stack file",
        "Leave it out, or make the pool with GpuPlatform.",
    )


def _cluster_settings(what: str, args: MagnumClusterArgs) -> MagnumSettings:
    problems = Problems()
    settings = parse_cluster({**put_off(stack_keys(args, "template")), "platform": "magnum"}, what, problems, complete=True)
    problems.raise_if_any()
    return cast("MagnumSettings", settings)


def _template_inputs(settings: MagnumSettings, template: MagnumTemplate) -> dict[str, Any]:
    return {
        "name": settings.name,
        "coe": "kubernetes",
        "image": template.image,
        "external_network_id": template.external_network,
        "flavor": template.flavor,
        "master_flavor": template.master_flavor,
        "network_driver": template.network_driver,
        "docker_volume_size": template.docker_volume_size,
        "dns_nameserver": template.dns_nameserver,
        # Magnum refuses several masters without a load balancer before them.
        "master_lb_enabled": settings.masters > 1,
        "labels": dict(template.labels) or None,
        "http_proxy": template.http_proxy,
        "https_proxy": template.https_proxy,
        "no_proxy": template.no_proxy,
    }


def _alone(name: str, args: MagnumGpuNodePoolArgs) -> Callable[[Any], PoolPlan]:
    what, models = f"MagnumGpuNodePool({name})", args.get("gpu_models")
    cluster = {"platform": "magnum", "driver": args["magnum_driver"]}
    return lambda pool: plan_alone(what, cluster, pool, args.get("mig_strategy"), args.get("flavor"), models=models)


def _group_inputs(pool_plan: PoolPlan, args: MagnumGpuNodePoolArgs) -> dict[str, Any]:
    driver, autoscaling = args["magnum_driver"], args.get("autoscaling", False)
    pool, placement = pool_plan.pool, cast("MagnumPlacement", pool_plan.pool.placement)
    if pool.adopted:
        return _adopted_inputs(pool_plan, placement)
    labels = {**node_group_labels(pool_plan, MagnumSettings(driver=cast("Any", driver))), **args.get("labels", {})}
    # No limits for a fixed number: the plugin changes them before the number, and Magnum refuses limits that the number of
    # before does not fit, so that no such group could ever be resized. The lower one is Magnum's default, and written out: left
    # out, the plugin keeps that of a pool that was autoscaled before. Where the limits decide how many nodes there are, they
    # hold the number.
    limited = pool.autoscaled or limits_decide(driver, autoscales=autoscaling)
    limits = {"min_node_count": pool.min_nodes, "max_node_count": pool.max_nodes} if limited else {"min_node_count": 0}
    return {
        "name": pool_plan.made_name,
        "role": "gpu",
        "flavor_id": placement.flavor,
        "image_id": placement.image,
        "docker_volume_size": placement.docker_volume_size,
        "node_count": pool.first_nodes,
        **limits,
        "labels": labels or None,
        "merge_labels": True if labels else None,
    }


def _adopted_inputs(pool_plan: PoolPlan, placement: MagnumPlacement) -> dict[str, Any]:
    """Of a group that somebody else has made: what is not given stays as it is, and its labels can only be made anew with it.

    So there is no label of the stack's, and no lower limit of 0 for a fixed number of nodes.
    """
    pool = pool_plan.pool
    return {
        "name": pool_plan.name,
        "flavor_id": placement.flavor,
        "image_id": placement.image,
        "docker_volume_size": placement.docker_volume_size,
        "node_count": pool.min_nodes,
        **({"min_node_count": pool.min_nodes, "max_node_count": pool.max_nodes} if pool.autoscaled else {}),
        "labels": dict(placement.labels) or None,
    }
