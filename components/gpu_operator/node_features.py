"""Node Feature Discovery, and the labels of pools whose cloud does not bring them to the nodes.

NFD puts labels on nodes by rules, so that nodes which join later get them without a deploy. Its rules cannot see node
labels; a small DaemonSet per pool marks the pool's nodes for them (gpu_pools.plan.placing tells why and how). AKS needs no
PoolLabels: its agent pools carry their labels themselves. No node is ever patched from here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.apps.v1 import DaemonSet

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.sections import Config
from gpu_pools.components.arguments.stack import ExistingPoolLike, PoolLike
from gpu_pools.components.arguments.to_stack import plan_alone, plan_of
from gpu_pools.components.engine.options import child_options
from gpu_pools.components.gpu_operator.config_keys import after_operator, find_pool_plan, once_agreed
from gpu_pools.components.gpu_operator.upgrade_first import asks_for_crds
from gpu_pools.components.kubernetes.helm import chart_release, chart_values, privileged_namespace
from gpu_pools.components.kubernetes.owners import looks_for_another, tells_of_another_owner
from gpu_pools.components.kubernetes.pull_secret import pull_secret
from gpu_pools.components.kubernetes.recorded_objects import Stored
from gpu_pools.plan.placing import labeller_daemon_set_spec, labeller_name, node_feature_rule, rule_name
from gpu_pools.plan.planned import Plan, PoolPlan
from gpu_pools.stack.charts import DEFAULT_LABELLER_IMAGE
from gpu_pools.text.errors import InvalidStackError, Problem

if TYPE_CHECKING:
    from gpu_pools.components.gpu_operator.operator import GpuOperator

NFD_NAMESPACE = "node-feature-discovery"


class NodeFeatureDiscoveryArgs(TypedDict):
    """Which pools NFD must tolerate, and its chart: by `pools`, or by the sections of a stack file."""

    pools: NotRequired[list[pulumi.Input[PoolLike]]]
    """All GPU pools of the cluster, as of a GpuOperator."""
    config: NotRequired[Config]
    """Sections of a stack file by name: node_feature_discovery, cluster (its platform), …; without `pools` these, too."""
    secret_values: NotRequired[bool]
    """Keep the chart values encrypted in the state."""
    kubeconfig: NotRequired[pulumi.Input[str]]
    """How to look first whether a cluster that was there has one, and which CRDs; without it nothing is looked for."""
    context: NotRequired[str]
    """Of the kubeconfig; its current one by default."""


class NodeFeatureDiscovery(pulumi.ComponentResource):
    """Node Feature Discovery in a namespace of its own."""

    namespace: pulumi.Output[str]
    """Where NFD runs."""
    version: pulumi.Output[str]
    """The chart's version."""
    values: pulumi.Output[dict[str, Any]]
    """The final values of the chart."""

    def __init__(
        self,
        name: str,
        args: NodeFeatureDiscoveryArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: Plan | None = None,
    ) -> None:
        """Install NFD.

        Args:
            name: of the component.
            args: the pools, and the chart.
            opts: options of the component.
            planned: a plan, where there is one, instead of pools and sections.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments.
        """
        what = f"NodeFeatureDiscovery({name})"
        args = known_args(what, args, NodeFeatureDiscoveryArgs)
        plan = plan_of(what, planned, cast("Any", args))
        if plan.settings.nfd.adopted:
            raise InvalidStackError([_nothing_to_install(what)])
        super().__init__("gpu-pools:index:NodeFeatureDiscovery", name, None, opts)
        hooks, reached = tells_of_another_owner(name, plan.settings.cluster), (args.get("kubeconfig"), args.get("context"))
        first = looks_for_another(name, plan.settings.cluster, "nfd", reached, hooks)
        namespace = privileged_namespace(f"{name}-namespace", NFD_NAMESPACE, child_options(self, opts, hooks=first))
        chart = plan.settings.nfd.chart
        self.namespace = pulumi.Output.from_input(NFD_NAMESPACE)
        self.version = pulumi.Output.from_input(chart.version)
        self.values = chart_values(plan.nfd_values, secret=args.get("secret_values", False))
        pulling = pull_secret(name, NFD_NAMESPACE, plan.settings.registry, child_options(self, opts, depends_on=[namespace]))
        upgrade = asks_for_crds(name, chart, reached, hooks)
        options = child_options(self, opts, depends_on=[namespace, *pulling], hooks=upgrade)
        chart_release(f"{name}-release", chart, NFD_NAMESPACE, self.values, options)
        self.register_outputs({"namespace": self.namespace, "version": self.version, "values": self.values})


class PoolLabelsArgs(TypedDict):
    """Whose labels, and where they come from."""

    namespace: pulumi.Input[str]
    """Where the labeller runs; it must allow hostPath volumes."""
    pool: NotRequired[pulumi.Input[ExistingPoolLike]]
    """The pool: a component that declares it (ExistingPool, MagnumPool), its `declared`, or a mapping."""
    mig_strategy: NotRequired[pulumi.Input[str]]
    """The operator's output of this name: the cluster's MIG strategy."""
    gpu_models: NotRequired[dict[str, dict[str, Any]]]
    """GPU models that no table has, by name, in the words of a stack file; of a declared pool its own."""
    config_keys: NotRequired[pulumi.Input[list[str]]]
    """The operator's output of this name; a pool whose config the operator lacks is then refused."""
    node_selector: NotRequired[dict[str, str]]
    """What selects the pool's nodes; by default the pool's own selector."""
    magnum_driver: NotRequired[str]
    """Magnum's driver, on Magnum."""
    tolerations: NotRequired[list[dict[str, str]]]
    """What the labeller tolerates; by default the pool's own taints."""
    image: NotRequired[str]
    """Image of the labeller; it needs sh."""


def pool_rule(name: str, pool_plan: PoolPlan, driver: str | None, opts: pulumi.ResourceOptions) -> CustomResource:
    """The rule of one of the groups that replace each other. The group comes after it, so that nodes keep their labels.

    Args:
        name: unique in the program.
        pool_plan: the pool.
        driver: Magnum's.
        opts: of the rule.
    """
    return _rule(f"{name}-{pool_plan.replacement_id}", pool_plan, node_feature_rule(pool_plan, driver), opts)


def _rule(name: str, pool_plan: PoolPlan, spec: Any, opts: pulumi.ResourceOptions) -> CustomResource:  # noqa: ANN401 - an input
    return CustomResource(
        name,
        api_version="nfd.k8s-sigs.io/v1alpha1",
        kind="NodeFeatureRule",
        metadata={"name": rule_name(pool_plan)},
        spec=spec,
        opts=opts,
    )


class PoolLabels(pulumi.ComponentResource):
    """Labels (and, where NFD may, taints) of one pool's nodes, present and future."""

    labels: pulumi.Output[dict[str, str]]
    """What the nodes get."""
    advertises: pulumi.Output[dict[str, int]]
    """Resource -> count that every node must advertise."""

    def __init__(
        self,
        name: str,
        args: PoolLabelsArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: PoolPlan | None = None,
        operator: "GpuOperator | None" = None,
        group: pulumi.Output[dict[str, str]] | None = None,
    ) -> None:
        """Mark the nodes and make the rule.

        Args:
            name: of the component.
            args: the settings.
            opts: options of the component.
            planned: the pool as part of a plan, instead of `pool`.
            operator: the one that was given the pool; what others decide of it is taken from there, and it comes first.
            group: of a pool with `replace` on Magnum what selects its nodes; its rule is there then.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments.
        """
        args = known_args(f"PoolLabels({name})", args, PoolLabelsArgs)
        pool_plan = find_pool_plan(f"PoolLabels({name})", args, planned, operator, _alone(name, args))
        opts = after_operator(opts, operator)
        super().__init__("gpu-pools:index:PoolLabels", name, None, opts)
        #: What follows from the declaration, for whoever installs the GPU operator.
        self.planned = pool_plan
        tolerations, image = _tolerations(pool_plan, args), args.get("image", DEFAULT_LABELLER_IMAGE)
        spec: Any
        #: The Kubernetes objects that belong to the pool, for the check that the cluster still has them.
        self.objects: list[Stored] = []
        if group is None:
            rule = node_feature_rule(pool_plan, args.get("magnum_driver"))
            agreed = once_agreed(f"PoolLabels({name})", pool_plan, args.get("config_keys"), rule)
            self.objects.append(Stored(_rule(f"{name}-rule", pool_plan, agreed, child_options(self, opts))))
            spec = labeller_daemon_set_spec(pool_plan, _selector(pool_plan, args), tolerations, image)
        else:
            spec = group.apply(lambda selector: labeller_daemon_set_spec(pool_plan, selector, tolerations, image))
        labeller = DaemonSet(
            f"{name}-marker" if group is None else f"{name}-marker-{pool_plan.replacement_id}",
            metadata={"name": labeller_name(pool_plan), "namespace": args["namespace"]},
            spec=spec,
            opts=child_options(self, opts),
        )
        self.objects.append(Stored(labeller))
        self.labels = pulumi.Output.from_input(dict(pool_plan.labels))
        self.advertises = pulumi.Output.from_input(dict(pool_plan.advertises))
        self.register_outputs({"labels": self.labels, "advertises": self.advertises})


def _nothing_to_install(what: str) -> Problem:
    """Of an NFD that is there already this component would make a namespace and a second release."""
    return Problem(
        what,
        "node_feature_discovery.install is false: the cluster has one, and this component does nothing but install one",
        "install: true, or left out",
        "Leave the component out; PoolLabels and GpuOperator use the one that is there.",
    )


def _alone(name: str, args: PoolLabelsArgs) -> Callable[[Any], PoolPlan]:
    what, cluster, models = f"PoolLabels({name})", {"platform": "existing"}, args.get("gpu_models")
    return lambda pool: plan_alone(what, cluster, pool, args.get("mig_strategy"), models=models)


def _selector(pool_plan: PoolPlan, args: PoolLabelsArgs) -> dict[str, str]:
    placement = pool_plan.pool.placement
    own = dict(placement.node_selector)
    return args.get("node_selector", own)


def _tolerations(pool_plan: PoolPlan, args: PoolLabelsArgs) -> list[dict[str, str]]:
    own = [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in pool_plan.taints]
    return args.get("tolerations", own)
