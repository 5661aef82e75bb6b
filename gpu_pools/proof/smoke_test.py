"""The smoke test of a pool: Jobs that use it as its users will, and one pod more than a node has shares, so that one must wait.

Per advertised resource a Job, since each is something that users ask for: of four time-slices five pods want one, four run, the
fifth waits until one is done. Every pod asks for exactly one, says what it sees, and computes something on it. What the verifier
reads from the driver is not looked at again; this is the way of a user's pod: scheduler, kubelet, device plugin, runtime, CUDA.

All pods of a Job go to one node, by an affinity to themselves: only there must one wait, and the one that waits is then no
reason for the cluster autoscaler to buy a node. Like users' pods they have no runtime class of their own, mount nothing of the
node and may do nothing there.

A Job never changes and is not removed by itself: its name ends in a hash of all that is tested, so another declaration is another
Job, and the one that is there stands for what was tested. With a time to live it would be gone from the cluster but not from
Pulumi's state, and each refresh would test again. What has ended holds no GPU.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.resource_names import WHOLE_GPU
from gpu_pools.plan.placing import pool_selector
from gpu_pools.stack.kubernetes_names import POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import Plan, PoolPlan

SMOKE_TEST_NAMESPACE: Final = "gpu-pools-smoke-test"
SMOKE_TEST_APP: Final = "gpu-pools-smoke-test"
#: Until it has ended, well or not: pulling the image, and waiting for shares that others hold, included.
DEADLINE_SECONDS: Final = 900
_RESOURCE_LABEL: Final = "gpu-pools/resource"
_DECLARATION: Final = "gpu-pools/declaration"
#: Pods that fail are tried again so often, all together: one may meet a device plugin that is just being restarted.
_MOST_FAILURES: Final = 2
_DIGITS: Final = 10
_NOBODY: Final = 65534
#: nvidia-smi comes with the driver, the sample (it adds vectors) with the image. It sleeps so that its neighbours run beside it.
_SCRIPT: Final = """\
set -u
seen=$(nvidia-smi -L) || { echo "nvidia-smi: $seen"; exit 1; }
echo "$seen"
gpus=$(echo "$seen" | grep -c '^GPU ')
instances=$(echo "$seen" | grep -c '^ *MIG ')
if [ "$gpus" != 1 ] || [ "$instances" != "$MIG_INSTANCES" ]; then
  echo "sees $gpus GPUs and $instances MIG instances instead of 1 and $MIG_INSTANCES"
  exit 1
fi
/cuda-samples/sample || exit 1
sleep 5
"""


@dataclass(frozen=True)
class SmokeTest:
    """The Job of one advertised resource.

    Attributes:
        resource: what its pods ask for.
        name: the Job's; ends in a hash of the spec.
        spec: the Job's.
    """

    resource: str
    name: str
    spec: dict[str, Any]

    @property
    def short_resource(self) -> str:
        """The resource without its vendor."""
        return self.resource.removeprefix("nvidia.com/")


def why_not(pool_plan: PoolPlan) -> str:
    """Why a pool has no smoke test: it may have no node, and a Job must not wait for one or buy one; empty where it has."""
    return "" if pool_plan.pool.min_nodes else f"pool {pool_plan.name} may have no node (its fewest are 0): it has no smoke test"


def smoke_tests(plan: Plan, pool_plan: PoolPlan) -> tuple[SmokeTest, ...]:
    """The smoke tests of a pool of the plan, one per resource that its nodes advertise; none where `why_not` says so.

    Raises:
        ValueError: for a Magnum section without driver.
    """
    return () if why_not(pool_plan) else tuple(_smoke_test(plan, pool_plan, resource) for resource in pool_plan.advertises)


def _smoke_test(plan: Plan, pool_plan: PoolPlan, resource: str) -> SmokeTest:
    pods = pool_plan.advertises[resource] + 1
    spec = {
        "completions": pods,
        "parallelism": pods,
        "completionMode": "Indexed",
        "backoffLimit": _MOST_FAILURES,
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "template": _template(plan, pool_plan, resource),
    }
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()
    # A pod's host name is the Job's name and an index, and must not be longer than 63 characters.
    return SmokeTest(resource, f"smoke-{pool_plan.name}-{digest[:_DIGITS]}", spec)


def _template(plan: Plan, pool_plan: PoolPlan, resource: str) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/name": SMOKE_TEST_APP,
        POOL_LABEL: pool_plan.name,
        _RESOURCE_LABEL: resource.removeprefix("nvidia.com/"),
    }
    # Two ways of sharing may advertise the same: what is declared makes the test another one.
    declared = " ".join(key for key in (pool_plan.config_key, pool_plan.mig_config_key) if key)
    container = _container(plan.settings.verification.smoke_test_image, pool_plan, resource)
    return {
        "metadata": {"labels": labels, "annotations": {_DECLARATION: declared}},
        "spec": users_pod(plan, pool_plan, labels, container),
    }


def users_pod(plan: Plan, pool_plan: PoolPlan, labels: Mapping[str, str], container: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a pod as a pool's users have them, of a Job whose pods all go to one node.

    Args:
        plan: of the stack.
        pool_plan: the pool.
        labels: of all pods of the Job, and of no others.
        container: its one container.
    """
    # Of this pool only, and not of nodes that are still to be verified: users' pods have no others.
    tolerations = [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in pool_plan.taints]
    itself = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "restartPolicy": "Never",
        "nodeSelector": pool_selector(plan.settings.cluster, pool_plan),
        # An empty list is not kept by the API server: after a refresh the engine would see a change, and make the Job anew.
        **({"tolerations": tolerations} if tolerations else {}),
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [itself]}},
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": _pod_security(pool_plan),
        "containers": [dict(container)],
        **plan.settings.registry.in_pods,
    }


def _container(image: str, pool_plan: PoolPlan, resource: str) -> dict[str, Any]:
    return {
        "name": "smoke-test",
        "image": image,
        "command": ["sh", "-c", _SCRIPT],
        "env": [{"name": "MIG_INSTANCES", "value": str(int(_is_instance(pool_plan, resource)))}],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "1Gi", resource: "1"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        # What it printed last is what Kubernetes keeps, and Pulumi shows.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _pod_security(pool_plan: PoolPlan) -> dict[str, Any]:
    profile = {"seccompProfile": {"type": "RuntimeDefault"}}
    if pool_plan.sharing.needs_mps_daemon:
        # An MPS server serves one user at a time, and others wait until its last client has gone (nvidia-cuda-mps-control(1));
        # clients other than root were seen to be refused (bottlerocket-os/bottlerocket#4673). So it is who users' images are.
        return {**profile, "runAsUser": 0}
    return {**profile, "runAsNonRoot": True, "runAsUser": _NOBODY, "runAsGroup": _NOBODY}


def _is_instance(pool_plan: PoolPlan, resource: str) -> bool:
    """Whether the resource stands for MIG instances: always, but for whole GPUs beside partitioned ones."""
    sharing = pool_plan.sharing
    return sharing.partitioned and (resource.removesuffix(".shared") != WHOLE_GPU or sharing.uniform_profile is not None)
