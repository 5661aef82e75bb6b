"""The GPU operator, the two ConfigMaps that tell its operands how GPUs are shared, and where it is declared what is measured.

What the operator must be follows from all pools together: the MIG strategy, the keys of the configs, what operands tolerate. So
the pools are declared first (components/pools.py), the operator takes them, and what makes their nodes takes the operator.

The chart's values follow from the plan; raw overrides were merged last and can be read in the outputs. The ClusterPolicy is
the chart's own, so nothing here waits for it: a ready release means that the operator runs, not that GPUs are shared. The
ConfigMaps come before the release, and pools wait for this component: a label must never name a key that is not there yet. Nor
one that is there, but not yet in the volumes of the nodes' pods: where nodes have such labels already and keys change, this
component waits until the kubelets have brought them (gpu_pools/proof/key_wait.py).

Where the cluster has an operator already (`install: false`) nothing is installed, and its namespace stays its owner's: the
ConfigMaps go into it, and the few fields of the ClusterPolicy that the plan decides are taken over (gpu_pools.stack.adoption). A
cluster without one then refuses the change, since a ClusterPolicy has required fields that are not among them. When the stack
goes, the fields go with it, and the operator falls back to its own defaults until its owner's next upgrade.
"""

from typing import Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_kubernetes.apiextensions import CustomResourcePatch
from pulumi_kubernetes.apps.v1 import DaemonSet
from pulumi_kubernetes.core.v1 import ConfigMap

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.sections import Config
from gpu_pools.components.arguments.stack import PoolLike
from gpu_pools.components.arguments.to_stack import plan_of, pool_keys
from gpu_pools.components.engine.options import child_options
from gpu_pools.components.gpu_operator.mps_first import Reached, asks_about_mps, signal_policy
from gpu_pools.components.gpu_operator.sharing_keys import config_keys
from gpu_pools.components.gpu_operator.upgrade_first import judges_the_step
from gpu_pools.components.kubernetes.helm import chart_release, chart_values, privileged_namespace
from gpu_pools.components.kubernetes.owners import looks_for_another, tells_of_another_owner, tells_of_layouts
from gpu_pools.components.kubernetes.pull_secret import pull_secret
from gpu_pools.plan.adoption import cluster_policy_changes
from gpu_pools.plan.planned import Plan
from gpu_pools.proof.key_wait import KEY_WAIT, key_wait_spec
from gpu_pools.rendering.dcgm_exporter import COUNTERS_FILE, counters_config_map, counters_file
from gpu_pools.stack.adoption import CLUSTER_POLICY
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE

#: Beyond the wait itself, until its pods run on all nodes.
_SLACK_SECONDS = 300


class GpuOperatorArgs(TypedDict):
    """Which pools the operator serves, and its chart: by `pools`, or by the sections of a stack file."""

    pools: NotRequired[list[pulumi.Input[PoolLike]]]
    """All GPU pools of the cluster: components that declare them (AksPool, …), their `declared`, or mappings."""
    config: NotRequired[Config]
    """Sections of a stack file by name: operator, cluster (its platform), …; without `pools` sharing and pools, too."""
    secret_values: NotRequired[bool]
    """Keep the chart values encrypted in the state."""
    kubeconfig: NotRequired[pulumi.Input[str]]
    """How to look first whether a cluster that was there has one, and what is half done; without it nothing is looked for."""
    context: NotRequired[str]
    """Of the kubeconfig; its current one by default."""


class GpuOperator(pulumi.ComponentResource):
    """The GPU operator with the sharing configuration of all pools."""

    namespace: pulumi.Output[str]
    """Where the operator and its operands run."""
    version: pulumi.Output[str | None]
    """The chart's version; None of an operator that was there already."""
    values: pulumi.Output[dict[str, Any]]
    """The final values of the chart, or what was changed of the ClusterPolicy that was there."""
    overrides: pulumi.Output[dict[str, Any]]
    """What of the values was given by hand."""
    config_keys: pulumi.Output[list[str]]
    """Keys of the device plugin's ConfigMap."""
    mig_strategy: pulumi.Output[str]
    """How the cluster's MIG nodes name their resources: single or mixed."""

    def __init__(
        self,
        name: str,
        args: GpuOperatorArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: Plan | None = None,
    ) -> None:
        """Install the operator, or configure the one that is there.

        Args:
            name: of the component.
            args: its pools, and its chart.
            opts: options of the component.
            planned: a plan, where there is one, instead of pools and sections.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments.
        """
        args = known_args(f"GpuOperator({name})", args, GpuOperatorArgs)
        plan = plan_of(f"GpuOperator({name})", planned, cast("Any", args))
        secret = args.get("secret_values", False)
        super().__init__("gpu-pools:index:GpuOperator", name, None, opts)
        chart, adopted = plan.settings.operator.chart, plan.settings.operator.adopted
        values = cluster_policy_changes(plan.operator_values) if adopted else plan.operator_values
        self.namespace = pulumi.Output.from_input(OPERATOR_NAMESPACE)
        self.version = pulumi.Output.from_input(None if adopted else chart.version)
        self.values = chart_values(values, secret=secret)
        self.overrides = chart_values(dict(chart.values), secret=secret)
        self.config_keys = pulumi.Output.from_input(list(plan.device_plugin_configs))
        self.mig_strategy = pulumi.Output.from_input(str(plan.mig_strategy))
        #: What follows from all pools, for the components that make them.
        self.planned = plan
        #: The pools as they were declared, by name; of sections and plans there are none.
        self.pools = {str(pool["name"]): pool for pool in (pool_keys(one, name) for one in args.get("pools", ()))}
        if adopted:
            pulling = pull_secret(name, OPERATOR_NAMESPACE, plan.settings.registry, child_options(self, opts))
            reached = args.get("kubeconfig"), args.get("context")
            self._configure(name, self._keys(name, plan, opts, pulling, reached), opts)
        else:
            self._install(name, plan, args, opts)
        self.register_outputs(
            {
                "namespace": self.namespace,
                "version": self.version,
                "values": self.values,
                "overrides": self.overrides,
                "config_keys": self.config_keys,
                "mig_strategy": self.mig_strategy,
            }
        )

    def _install(self, name: str, plan: Plan, args: GpuOperatorArgs, opts: pulumi.ResourceOptions | None) -> None:
        reached = args.get("kubeconfig"), args.get("context")
        hooks = tells_of_another_owner(name, plan.settings.cluster)
        looks = looks_for_another(name, plan.settings.cluster, "operator", reached, hooks)
        options = child_options(self, opts, hooks=tells_of_layouts(name, plan.settings, reached, looks))
        namespace = privileged_namespace(f"{name}-namespace", OPERATOR_NAMESPACE, options)
        inside = child_options(self, opts, depends_on=[namespace])
        pulling = pull_secret(name, OPERATOR_NAMESPACE, plan.settings.registry, inside)
        keys = self._keys(name, plan, opts, [namespace, *pulling], reached)
        counters = self._counters(name, plan, inside)
        signal = signal_policy(self, name, plan, reached, opts, [namespace])
        chart_release(
            f"{name}-release",
            plan.settings.operator.chart,
            OPERATOR_NAMESPACE,
            self.values,
            child_options(
                self,
                opts,
                depends_on=[*keys, *counters, *signal],
                hooks=judges_the_step(name, plan, reached, hooks),
            ),
        )

    @staticmethod
    def _counters(name: str, plan: Plan, inside: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """What the exporter collects. Another list is another resource: the old one stays until no pod reads it."""
        if not plan.settings.observability.enabled:
            return []
        config_map = counters_config_map()
        metadata: Any = {"name": config_map, "namespace": OPERATOR_NAMESPACE}
        data = {COUNTERS_FILE: counters_file()}
        return [ConfigMap(f"{name}-{config_map}", metadata=metadata, data=data, immutable=True, opts=inside)]

    def _configure(self, name: str, before: list[pulumi.Resource], opts: pulumi.ResourceOptions | None) -> None:
        CustomResourcePatch(
            f"{name}-policy",
            api_version="nvidia.com/v1",
            kind="ClusterPolicy",
            # The owner's chart has set these fields, and would win.
            metadata={"name": CLUSTER_POLICY, "annotations": {"pulumi.com/patchForce": "true"}},
            spec=self.values,
            opts=child_options(self, opts, depends_on=before),
        )

    def _keys(
        self, name: str, plan: Plan, opts: pulumi.ResourceOptions | None, before: list[pulumi.Resource], reached: Reached
    ) -> list[pulumi.Resource]:
        #: The Kubernetes objects with the pools' configurations, for the check that the cluster still has them.
        self.objects = config_keys(self, name, plan, opts, before, asks_about_mps(name, plan, reached))
        keys = [stored.resource for stored in self.objects]
        spec: Any = key_wait_spec(plan, plan.settings.nfd.labeller_image)
        limit = f"{spec['minReadySeconds'] + _SLACK_SECONDS}s"
        DaemonSet(
            f"{name}-key-wait",
            metadata={"name": KEY_WAIT, "namespace": OPERATOR_NAMESPACE},
            spec=spec,
            opts=child_options(self, opts, depends_on=keys, custom_timeouts=pulumi.CustomTimeouts(create=limit, update=limit)),
        )
        return keys
