"""NVIDIA's DRA driver, for pools whose GPUs pods get through resource claims: its chart, DeviceClasses, DaemonSets for shares.

The chart's release serves whole GPUs and MIG instances. A process of the driver has one number of shares. So this component adds
a DaemonSet for each declared number, with the chart's service account. A label of the pool's nodes selects one of the DaemonSets
(gpu_pools/allocation/dra.py).

The GPU operator stays: driver, toolkit, gpu-feature-discovery, mig-manager and DCGM are its. NVIDIA's GPUCluster is not used: it
excludes ClusterPolicy, and has one number of shares for all nodes.
"""

from typing import Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_kubernetes.apps.v1 import DaemonSet
from pulumi_kubernetes.resource.v1 import DeviceClass

from gpu_pools.allocation.dra import DRA_NAMESPACE, DraPlan, share_daemon_set
from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.sections import Config
from gpu_pools.components.arguments.stack import PoolLike
from gpu_pools.components.arguments.to_stack import plan_of
from gpu_pools.components.engine.options import child_options
from gpu_pools.components.kubernetes.helm import chart_release, chart_values, privileged_namespace
from gpu_pools.components.kubernetes.pull_secret import pull_secret
from gpu_pools.plan.planned import Plan
from gpu_pools.text.errors import InvalidStackError, Problem


class DraDriverArgs(TypedDict):
    """Which pools the driver serves, and its chart: by `pools`, or by the sections of a stack file."""

    pools: NotRequired[list[pulumi.Input[PoolLike]]]
    """All GPU pools of the cluster: components that declare them (AksPool, …), their `declared`, or mappings."""
    config: NotRequired[Config]
    """Sections of a stack file by name: draDriver, cluster (its platform), …; without `pools` sharing and pools, too."""
    secret_values: NotRequired[bool]
    """Keep the chart values encrypted in the state."""


class DraDriver(pulumi.ComponentResource):
    """NVIDIA's DRA driver, with the DeviceClasses of all pools."""

    namespace: pulumi.Output[str]
    """Where the driver runs."""
    version: pulumi.Output[str]
    """The chart's version."""
    values: pulumi.Output[dict[str, Any]]
    """The final values of the chart."""
    device_classes: pulumi.Output[list[str]]
    """Names of the DeviceClasses besides the chart's own."""

    def __init__(
        self,
        name: str,
        args: DraDriverArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: Plan | None = None,
    ) -> None:
        """Install the driver.

        Args:
            name: of the component.
            args: its pools, and its chart.
            opts: options of the component.
            planned: a plan, where there is one, instead of pools and sections.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments, or where no pool has claims.
        """
        args = known_args(f"DraDriver({name})", args, DraDriverArgs)
        plan = plan_of(f"DraDriver({name})", planned, cast("Any", args))
        if plan.dra is None:
            raise InvalidStackError([_no_claims(f"DraDriver({name})")])
        super().__init__("gpu-pools:index:DraDriver", name, None, opts)
        chart = plan.settings.dra_driver.chart
        self.namespace = pulumi.Output.from_input(DRA_NAMESPACE)
        self.version = pulumi.Output.from_input(chart.version)
        self.values = chart_values(dict(plan.dra.values), secret=args.get("secret_values", False))
        self.device_classes = pulumi.Output.from_input([one.name for one in plan.dra.classes])
        self._install(name, plan, plan.dra, opts)
        self.register_outputs(
            {
                "namespace": self.namespace,
                "version": self.version,
                "values": self.values,
                "device_classes": self.device_classes,
            }
        )

    def _install(self, name: str, plan: Plan, needed: DraPlan, opts: pulumi.ResourceOptions | None) -> None:
        namespace = privileged_namespace(f"{name}-namespace", DRA_NAMESPACE, child_options(self, opts))
        inside = child_options(self, opts, depends_on=[namespace])
        pulling = pull_secret(name, DRA_NAMESPACE, plan.settings.registry, inside)
        release = chart_release(
            f"{name}-release",
            plan.settings.dra_driver.chart,
            DRA_NAMESPACE,
            self.values,
            child_options(self, opts, depends_on=[namespace, *pulling]),
        )
        for one in needed.classes:
            spec: Any = one.spec()
            DeviceClass(f"{name}-{one.name}", metadata={"name": one.name}, spec=spec, opts=child_options(self, opts))
        # The release makes their account.
        after = child_options(self, opts, depends_on=[release])
        for shares, pods in needed.share_pods.items():
            metadata: Any = {"name": share_daemon_set(shares), "namespace": DRA_NAMESPACE}
            DaemonSet(f"{name}-shares-{shares}", metadata=metadata, spec=cast("Any", dict(pods)), opts=after)


def _no_claims(what: str) -> Problem:
    return Problem(
        f"{what}.pools",
        "no pool says `allocation: dra`, so nothing needs the driver",
        "at least one pool with `allocation: dra`",
        "Add it to a pool, or to `config.cluster` for all of them; or leave the component out.",
    )
