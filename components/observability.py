"""What reads the GPUs' metrics: monitors and a PrometheusRule for a Prometheus Operator, dashboards for a Grafana.

Both are somebody else's and in the cluster already, or come by the chart kube-prometheus-stack, which is installed first since it
brings the kinds. The exporter is the GPU operator's, and is configured with it (components/gpu_operator.py): this component comes
after the operator and takes the same pools. Its objects are in the operator's namespace, dashboards in that of a Grafana of its
own. A cluster without the Prometheus Operator's kinds is refused before, where it can be asked; so is a second operator.
"""

from typing import Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import ConfigMap

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
from gpu_pools.proof.verifier_pods import METRICS_LABEL
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.stack.observability import PATH
from gpu_pools.text.errors import InvalidStackError, Problem

from ._args import PoolLike
from ._helm import chart_release, chart_values, privileged_namespace
from ._monitors_there import looks_for_another_prometheus, looks_for_monitors
from ._options import child_options
from ._pull_secret import pull_secret
from ._section_args import Config
from ._to_stack import plan_of


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
        plan = plan_of(what, planned, cast("Any", args))
        if not plan.settings.observability.enabled:
            raise InvalidStackError([_nothing_said(what)])
        super().__init__("gpu-pools:index:Observability", name, None, opts)
        settings = plan.settings.observability
        namespace, installed = self._installed(name, plan, args, opts) if settings.installs else (OPERATOR_NAMESPACE, [])
        after = child_options(self, opts, depends_on=installed)
        made = self._monitored(name, plan, args, after) if settings.monitored else (None, None)
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

    def _monitored(self, name: str, plan: Plan, args: ObservabilityArgs, opts: pulumi.ResourceOptions) -> tuple[str, str]:
        def made(part: str, kind: str, named: str, spec: dict[str, Any], options: pulumi.ResourceOptions) -> CustomResource:
            labels = dict(plan.settings.observability.labels)
            metadata: Any = {"name": named, "namespace": OPERATOR_NAMESPACE, "labels": labels}
            return CustomResource(
                f"{name}-{part}", api_version=API_VERSION, kind=kind, metadata=metadata, spec=spec, opts=options
            )

        reached = args.get("kubeconfig"), args.get("context")
        hooks = None if plan.settings.observability.installs else looks_for_monitors(name, *reached)
        first = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(hooks=hooks))
        monitor = made("monitor", "ServiceMonitor", MONITOR, service_monitor_spec(plan), first)
        after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[monitor]))
        if plan.settings.verification.enabled:
            made("verifiers", "PodMonitor", VERIFIERS, pod_monitor_spec(plan), after)
        made("rules", "PrometheusRule", RULES, prometheus_rule_spec(plan), after)
        return MONITOR, RULES

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
