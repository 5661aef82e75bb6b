"""The GPU operator, and the two ConfigMaps that tell its operands how GPUs are shared.

The chart's values follow from the plan; raw overrides were merged last and can be read in the outputs. The ClusterPolicy is
the chart's own, so nothing here waits for it: a ready release means that the operator runs, not that GPUs are shared. The
ConfigMaps come before the release, and pools wait for this component: a label must never name a key that is not there yet.
"""

from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap

from components._helm import chart_release
from components._options import child_options
from components._words import plan_of
from components.node_features import chart_values, privileged_namespace
from gpus.plan import DEVICE_PLUGIN_CONFIG_MAP, MIG_PARTED_CONFIG_MAP, Plan

OPERATOR_NAMESPACE = "gpu-operator"


class GpuOperatorArgs(TypedDict):
    """Which pools the operator serves, and its chart: `config` when used alone, `planned` with a plan at hand."""

    config: NotRequired[dict[str, Any]]
    """Sections of a stack file by name: cluster (its platform), sharing, pools, operator, …"""
    planned: NotRequired[Any]
    """A gpus.plan.Plan."""
    secret_values: NotRequired[bool]
    """Keep the chart values encrypted in the state."""


class GpuOperator(pulumi.ComponentResource):
    """The GPU operator with the sharing configuration of all pools."""

    namespace: pulumi.Output[str]
    """Where the operator and its operands run."""
    version: pulumi.Output[str]
    """The chart's version."""
    values: pulumi.Output[dict[str, Any]]
    """The final values of the chart."""
    overrides: pulumi.Output[dict[str, Any]]
    """What of the values was given by hand."""
    config_keys: pulumi.Output[list[str]]
    """Keys of the device plugin's ConfigMap."""

    def __init__(self, name: str, args: GpuOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Install the operator.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments.
        """
        plan = plan_of(f"GpuOperator({name})", args.get("planned"), args.get("config"))
        secret = args.get("secret_values", False)
        super().__init__("gpu-pools:index:GpuOperator", name, None, opts)
        chart = plan.settings.operator.chart
        self.namespace = pulumi.Output.from_input(OPERATOR_NAMESPACE)
        self.version = pulumi.Output.from_input(chart.version)
        self.values = chart_values(plan.operator_values, secret=secret)
        self.overrides = chart_values(dict(chart.values), secret=secret)
        self.config_keys = pulumi.Output.from_input(list(plan.device_plugin_configs))
        config_maps = self._config_maps(name, plan, opts)
        chart_release(
            f"{name}-release",
            chart,
            OPERATOR_NAMESPACE,
            self.values,
            child_options(self, opts, depends_on=config_maps),
        )
        self.register_outputs(
            {
                "namespace": self.namespace,
                "version": self.version,
                "values": self.values,
                "overrides": self.overrides,
                "config_keys": self.config_keys,
            }
        )

    def _config_maps(self, name: str, plan: Plan, opts: pulumi.ResourceOptions | None) -> list[ConfigMap]:
        namespace = privileged_namespace(f"{name}-namespace", OPERATOR_NAMESPACE, child_options(self, opts))
        wanted = {
            "device-plugin": (DEVICE_PLUGIN_CONFIG_MAP, dict(plan.device_plugin_configs)),
            "mig-parted": (MIG_PARTED_CONFIG_MAP, {"config.yaml": plan.mig_parted_config}),
        }
        return [
            ConfigMap(
                f"{name}-{what}",
                metadata={"name": config_map, "namespace": OPERATOR_NAMESPACE},
                data=data,
                opts=child_options(self, opts, depends_on=[namespace]),
            )
            for what, (config_map, data) in wanted.items()
        ]
