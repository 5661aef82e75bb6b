"""The startup taint of new nodes, where the API server puts it on: gpu_pools/rendering/startup_taint.py says when, and why so.

One policy for the cluster, one binding per pool, which selects the pool's nodes. Both must be there before the pool is: a node
that registers earlier has no taint. Who takes it away again is the verifier.
"""

from typing import Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_kubernetes.admissionregistration.v1 import MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding

from gpu_pools.plan.placing import pool_selector
from gpu_pools.plan.planned import Plan
from gpu_pools.rendering.startup_taint import POLICY, STARTUP_TAINT, admission_binding_spec, admission_policy_spec

from ._args import PoolLike
from ._options import child_options
from ._section_args import Config
from ._to_stack import plan_of


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
    ) -> None:
        """Make policy and bindings.

        Args:
            name: of the component.
            args: the settings.
            opts: options of the component.
            planned: a plan, where there is one, instead of pools and sections.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments.
        """
        plan = plan_of(f"StartupTaint({name})", planned, cast("Any", args))
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
