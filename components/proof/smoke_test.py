"""The smoke test of a pool: pods that use it as its users will, one more than a node has shares.

Pulumi waits for the Jobs, so a deploy ends well only if all pods came to their end. gpu_pools/proof/smoke_test.py says what they
do and why their names change with what is tested. A Job that failed is replaced by the next deploy: what was repaired is tested
again.
"""

from typing import Any, NotRequired, TypedDict, cast

import pulumi
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import Namespace

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.sections import Config
from gpu_pools.components.arguments.stack import PoolLike
from gpu_pools.components.arguments.to_stack import plan_of, pool_of
from gpu_pools.components.engine import log
from gpu_pools.components.engine.options import child_options, once_named
from gpu_pools.plan.planned import Plan
from gpu_pools.proof.smoke_test import DEADLINE_SECONDS, SMOKE_TEST_NAMESPACE, smoke_tests, why_not

#: Beyond the Job's own deadline, so that it is Kubernetes that says how it ended.
_SLACK_SECONDS = 60


class SharingSmokeTestArgs(TypedDict):
    """Which pool of which plan: by `pools`, or by the sections of a stack file."""

    pool: str
    """The pool's name."""
    namespace: pulumi.Input[str]
    """A namespace that is there; Pod Security's `baseline` is enough, and `restricted` but for pools that share by MPS."""
    pools: NotRequired[list[pulumi.Input[PoolLike]]]
    """All GPU pools of the cluster, as of a GpuOperator."""
    config: NotRequired[Config]
    """Sections of a stack file by name; verification (smokeTestImage), cluster, …; without `pools` these, too."""


class SharingSmokeTest(pulumi.ComponentResource):
    """The smoke test of one pool; its nodes should have been verified before."""

    jobs: pulumi.Output[dict[str, str]]
    """Advertised resource -> the Job that has used it."""
    pods: pulumi.Output[dict[str, int]]
    """Advertised resource -> how many pods have used it: one more than a node has."""
    skipped: pulumi.Output[str]
    """Why there is no Job; empty where there is."""

    def __init__(
        self,
        name: str,
        args: SharingSmokeTestArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: Plan | None = None,
    ) -> None:
        """Run the Jobs.

        Args:
            name: of the component.
            args: the settings.
            opts: options of the component.
            planned: a plan, where there is one, instead of pools and sections.

        Raises:
            InvalidStackError: with everything that is wrong with the arguments.
        """
        what = f"SharingSmokeTest({name})"
        args = known_args(what, args, SharingSmokeTestArgs)
        plan = plan_of(what, planned, cast("Any", args))
        of_pool = pool_of(what, plan, args["pool"])
        super().__init__("gpu-pools:index:SharingSmokeTest", name, None, opts)
        tests = smoke_tests(plan, of_pool)
        limit = f"{DEADLINE_SECONDS + _SLACK_SECONDS}s"
        for test in tests:
            metadata: Any = {
                "name": test.name,
                "namespace": args["namespace"],
                "annotations": {"pulumi.com/replaceUnready": "true"},
            }
            spec: Any = test.spec
            timeouts = pulumi.CustomTimeouts(create=limit, update=limit)
            # Another test is another resource: as a replacement it would wait for its deletion, while a revert wants it back.
            options = child_options(self, opts, custom_timeouts=timeouts, **once_named(f"{name}-{test.short_resource}"))
            Job(f"{name}-{test.name}", metadata=metadata, spec=spec, opts=options)
        if not tests:
            log.info(why_not(of_pool), self)
        self.jobs = pulumi.Output.from_input({test.resource: test.name for test in tests})
        self.pods = pulumi.Output.from_input({test.resource: int(test.spec["completions"]) for test in tests})
        self.skipped = pulumi.Output.from_input(why_not(of_pool))
        self.register_outputs({"jobs": self.jobs, "pods": self.pods, "skipped": self.skipped})


def smoke_test_namespace(name: str, opts: pulumi.ResourceOptions) -> Namespace:
    """The namespace of the smoke tests of a cluster, in which nobody has rights."""
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    return Namespace(name, metadata={"name": SMOKE_TEST_NAMESPACE, "labels": labels}, opts=opts)
