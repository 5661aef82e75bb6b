"""What reads the GPUs' metrics: monitors and a PrometheusRule for a Prometheus Operator, dashboards for a Grafana.

With `to: azure` both are Azure's, and rules are resources there (components/observability/azure_monitor.py). Else both are
somebody else's and in the cluster already, or come by the chart kube-prometheus-stack, which is installed first since it brings
the kinds. The exporter is the GPU operator's, and is configured with it (components/gpu_operator/operator.py): this component
comes after the operator and takes the same pools. Its objects are in the operator's namespace, dashboards in that of a Grafana
of its own. A cluster without the Prometheus Operator's kinds is refused before, where it can be asked; so is a second operator.
"""

from typing import Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import ConfigMap

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.sections import Config
from gpu_pools.components.arguments.stack import PoolLike
from gpu_pools.components.arguments.to_stack import plan_of
from gpu_pools.components.engine.options import child_options
from gpu_pools.components.engine.outputs import put_back
from gpu_pools.components.kubernetes.helm import chart_release, chart_values, privileged_namespace
from gpu_pools.components.kubernetes.pull_secret import pull_secret
from gpu_pools.components.observability.monitors_there import (
    looks_for_another_prometheus,
    looks_for_monitors,
    waits_for_azures_monitors,
)
from gpu_pools.observing.azure_monitor import API_VERSION as AZURE_API_VERSION
from gpu_pools.observing.objects import (
    API_VERSION,
    MONITOR,
    RULES,
    VERIFIERS,
    dashboard_config_maps,
    pod_monitor_spec,
    prometheus_rule_spec,
    service_monitor_spec,
)
from gpu_pools.observing.prometheus_stack import NAMESPACE, prometheus_stack_values
from gpu_pools.plan.planned import Plan
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.proof.verifier_pods import METRICS_LABEL
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.stack.observability import PATH
from gpu_pools.text.errors import InvalidStackError, Problem


class ObservabilityArgs(TypedDict):
    """Whose GPUs: by `pools`, or by the sections of a stack file; the section `observability` must be among these."""

    pools: NotRequired[list[pulumi.Input[PoolLike]]]
    """All GPU pools of the cluster, as of a GpuOperator."""
    config: NotRequired[Config]
    """Sections of a stack file by name, as of the GpuOperator; observability, cluster, …; without `pools` these, too."""
    kubeconfig: NotRequired[pulumi.Input[str]]
    """How to look first whether the cluster has a Prometheus Operator; without it nothing is looked for."""
    context: NotRequired[str]
    """Of the kubeconfig; its current one by default."""
    cluster_name: NotRequired[str]
    """Of an AKS cluster, with `to: azure`; its name in Azure."""
    resource_group_name: NotRequired[pulumi.Input[str]]
    """Of an AKS cluster, with `to: azure`: where workspace, rules and Grafana are made."""
    cluster_id: NotRequired[pulumi.Input[str]]
    """Of an AKS cluster whose metrics go nowhere yet, with `to: azure`: its ARM id. Left out: its owner has switched them on."""
    secret_values: NotRequired[bool]
    """Keep the values of kube-prometheus-stack encrypted in the state."""


class Observability(pulumi.ComponentResource):
    """Monitors, rules and dashboards of a cluster's GPU pools."""

    monitor: pulumi.Output[str | None]
    """Name of the ServiceMonitor; None where no Prometheus reads."""
    rules: pulumi.Output[str | None]
    """Name of the PrometheusRule; None where no Prometheus reads."""
    dashboards: pulumi.Output[list[str]]
    """Names of the ConfigMaps of dashboards."""

    def __init__(
        self,
        name: str,
        args: ObservabilityArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: Plan | None = None,
    ) -> None:
        """Make monitors, rules and dashboards.

        Args:
            name: of the component.
            args: the settings.
            opts: options of the component.
            planned: a plan, where there is one, instead of pools and sections.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments.
        """
        what = f"Observability({name})"
        args = known_args(what, args, ObservabilityArgs)
        plan = plan_of(what, planned, cast("Any", args))
        if not plan.settings.observability.enabled:
            raise InvalidStackError([_nothing_said(what)])
        super().__init__("gpu-pools:index:Observability", name, None, opts)
        settings = plan.settings.observability
        namespace, installed = self._installed(name, plan, args, opts) if settings.installs else (OPERATOR_NAMESPACE, [])
        after = child_options(self, opts, depends_on=installed)
        made: tuple[str | None, str | None] = (None, None)
        if settings.monitored:
            made = self._monitored(name, plan, args, after)
        if settings.azure_reads:
            made = self._by_azure(name, plan, args, opts)
        boards = self._dashboards(name, plan, namespace, after) if settings.dashboards else []
        self.monitor, self.rules = (pulumi.Output.from_input(one) for one in made)
        self.dashboards = pulumi.Output.from_input(boards)
        self.register_outputs({"monitor": self.monitor, "rules": self.rules, "dashboards": self.dashboards})

    def _installed(
        self, name: str, plan: Plan, args: ObservabilityArgs, opts: pulumi.ResourceOptions | None
    ) -> tuple[str, list[pulumi.Resource]]:
        """The namespace of a Prometheus and a Grafana of the stack's own, and what brings the kinds."""
        hooks = looks_for_another_prometheus(name, NAMESPACE, args.get("kubeconfig"), args.get("context"))
        namespace = privileged_namespace(
            f"{name}-namespace", NAMESPACE, child_options(self, opts, hooks=hooks), **{METRICS_LABEL[0]: METRICS_LABEL[1]}
        )
        inside = child_options(self, opts, depends_on=[namespace])
        pulling = pull_secret(name, NAMESPACE, plan.settings.registry, inside)
        values = chart_values(prometheus_stack_values(plan), secret=args.get("secret_values", False))
        after = child_options(self, opts, depends_on=[namespace, *pulling])
        chart = plan.settings.observability.prometheus_stack
        return NAMESPACE, [chart_release(f"{name}-release", chart, NAMESPACE, values, after)]

    def _by_azure(self, name: str, plan: Plan, args: ObservabilityArgs, opts: pulumi.ResourceOptions | None) -> tuple[str, None]:
        """Azure's resources, and monitors of its kinds. Rules are resources of Azure's, too."""
        # Loaded only where it is used: no other target needs Azure's SDK.
        from gpu_pools.components.observability.azure_monitor import AzureCluster, azure_monitor  # noqa: PLC0415

        # Whatever else is refused with the plan.
        cluster = cast("AksSettings", plan.settings.cluster)
        there = cluster.existing
        given = AzureCluster(
            name=args.get("cluster_name") or (there.name if there else cluster.name),
            group=args.get("resource_group_name") or (there.resource_group if there else cluster.resource_group),
            id=args.get("cluster_id"),
            location=plan.settings.observability.azure.location or cluster.location,
            tags=put_back(dict(cluster.tags)),
        )
        # What is in Azure does not go with the cluster, as what is in the cluster does, and has no provider of Kubernetes.
        azure_monitor(name, plan, given, pulumi.ResourceOptions(parent=self))
        reached = args.get("kubeconfig"), args.get("context")
        hooks = waits_for_azures_monitors(name, *reached, own="cluster_id" in args)
        self._monitors(name, plan, AZURE_API_VERSION, child_options(self, opts, hooks=hooks))
        return MONITOR, None

    def _monitored(self, name: str, plan: Plan, args: ObservabilityArgs, opts: pulumi.ResourceOptions) -> tuple[str, str]:
        reached = args.get("kubeconfig"), args.get("context")
        hooks = None if plan.settings.observability.installs else looks_for_monitors(name, *reached)
        first = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(hooks=hooks))
        after = pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(depends_on=self._monitors(name, plan, API_VERSION, first))
        )
        self._object(f"{name}-rules", plan, (API_VERSION, "PrometheusRule", RULES), prometheus_rule_spec(plan), after)
        return MONITOR, RULES

    def _monitors(self, name: str, plan: Plan, version: str, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """The first of them has the hooks of the options, and the second comes after it."""
        monitor = self._object(f"{name}-monitor", plan, (version, "ServiceMonitor", MONITOR), service_monitor_spec(plan), opts)
        if plan.settings.verification.enabled:
            plain = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[monitor]))
            plain.hooks = None
            self._object(f"{name}-verifiers", plan, (version, "PodMonitor", VERIFIERS), pod_monitor_spec(plan), plain)
        return [monitor]

    @staticmethod
    def _object(
        name: str, plan: Plan, what: tuple[str, str, str], spec: dict[str, Any], opts: pulumi.ResourceOptions
    ) -> CustomResource:
        version, kind, named = what
        labels = dict(plan.settings.observability.labels)
        # The API server does not keep an empty mapping: after a refresh it would be a change.
        metadata: Any = {"name": named, "namespace": OPERATOR_NAMESPACE, **({"labels": labels} if labels else {})}
        return CustomResource(name, api_version=version, kind=kind, metadata=metadata, spec=spec, opts=opts)

    @staticmethod
    def _dashboards(name: str, plan: Plan, namespace: str, opts: pulumi.ResourceOptions) -> list[str]:
        found = dashboard_config_maps(plan)
        for config_map, data in found.items():
            labels = dict(plan.settings.observability.dashboard_labels)
            ConfigMap(
                f"{name}-{config_map}",
                metadata={"name": config_map, "namespace": namespace, "labels": labels},
                data=dict(data),
                opts=opts,
            )
        return list(found)


def _nothing_said(what: str) -> Problem:
    return Problem(
        what,
        f"has no section {PATH}",
        "the section `observability` in `config`, e.g. {'observability': {}}",
        "Add it, there and in the `config` of the GpuOperator, which configures the exporter.",
    )
