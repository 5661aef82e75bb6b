"""The startup taint of new nodes, where the API server puts it on: gpu_pools/rendering/startup_taint.py says when, and why so.

One policy for the cluster, one binding per pool, which selects the pool's nodes. Both must be there before the pool is: a node
that registers earlier has no taint. Who takes it away again is the verifier.

The taint keeps off all that does not tolerate it: operands, NFD's workers and verifiers do where their own plan has the taint. So
a plan that does not say `startupTaint: true` is refused here, and so is an operator's. NFD's is not seen from here.
"""

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_kubernetes.admissionregistration.v1 import MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.sections import Config
from gpu_pools.components.arguments.stack import PoolLike
from gpu_pools.components.arguments.to_stack import plan_of
from gpu_pools.components.engine.options import child_options
from gpu_pools.plan.placing import pool_selector
from gpu_pools.plan.planned import Plan
from gpu_pools.rendering.startup_taint import POLICY, STARTUP_TAINT, admission_binding_spec, admission_policy_spec
from gpu_pools.text.errors import InvalidStackError, Problem

if TYPE_CHECKING:
    from gpu_pools.components.gpu_operator.operator import GpuOperator


class StartupTaintArgs(TypedDict):
    """Which pools: by `pools`, or by the sections of a stack file."""

    pools: NotRequired[list[pulumi.Input[PoolLike]]]
    """All GPU pools of the cluster, as of a GpuOperator."""
    config: NotRequired[Config]
    """Sections of a stack file by name; verification, cluster, …; without `pools` these, too."""


class StartupTaint(pulumi.ComponentResource):
    """Lets the nodes of a cluster's GPU pools register with the startup taint."""

    taint: pulumi.Output[str]
    """The taint, as kubectl writes it."""

    def __init__(
        self,
        name: str,
        args: StartupTaintArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: Plan | None = None,
        operator: "GpuOperator | None" = None,
    ) -> None:
        """Make policy and bindings.

        Args:
            name: of the component.
            args: the settings.
            opts: options of the component.
            planned: a plan, where there is one, instead of pools and sections.
            operator: the cluster's operator, whose plan is taken then.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments, or if the plan does not have the taint.
        """
        what = f"StartupTaint({name})"
        args = known_args(what, args, StartupTaintArgs)
        plan = plan_of(what, operator.planned if operator else planned, cast("Any", args))
        _refuse_untold(what, plan, "that of the operator" if operator else "its own")
        super().__init__("gpu-pools:index:StartupTaint", name, None, opts)
        spec: Any = admission_policy_spec()
        policy = MutatingAdmissionPolicy(f"{name}-policy", metadata={"name": POLICY}, spec=spec, opts=child_options(self, opts))
        for pool in plan.pools:
            binding: Any = admission_binding_spec(pool_selector(plan.settings.cluster, pool))
            MutatingAdmissionPolicyBinding(
                f"{name}-{pool.name}-binding",
                metadata={"name": f"{POLICY}-{pool.name}"},
                spec=binding,
                opts=child_options(self, opts, depends_on=[policy]),
            )
        self.taint = pulumi.Output.from_input(str(STARTUP_TAINT))
        self.register_outputs({"taint": self.taint})


def _refuse_untold(what: str, plan: Plan, whose: str) -> None:
    """A plan without the taint: whatever else was made of such a plan would never start on the nodes."""
    if plan.settings.verification.startup_taint:
        return
    problem = Problem(
        f"{what}.config.verification.startupTaint",
        f"is not true in the plan, {whose}",
        "true",
        'Give `config: {"verification": {"startupTaint": True}}` to this component and to NodeFeatureDiscovery, GpuOperator and '
        "Verification: each tolerates the taint only where it is told of it.",
    )
    raise InvalidStackError([problem])
