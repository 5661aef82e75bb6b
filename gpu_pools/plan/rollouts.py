"""Which pools can change node by node (``rollout``), what that means for their new nodes, and how long it may take.

On AKS such an agent pool does not have the two labels: AKS would bring them to all of its nodes at once, and refuses whoever
changes on a node what its pool has (azure-aks-docs, use-labels and use-node-taints). So new nodes of it register without them,
where those of other AKS pools have them from the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.rendering.startup_taint import LEAST_KUBERNETES
from gpu_pools.verifier.changer.rollout_slots import at_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.plan.planned import PoolPlan
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.stack.verification import VerificationSettings
    from gpu_pools.text.errors import Problems

#: Of a pool whose most nodes only the cloud knows.
_ASSUMED_NODES: Final = 10
#: Beside what a node may take by its settings: until the new pod has its image and the old one has gone.
_SLACK_SECONDS: Final = 60


def check_rollouts(settings: Settings, problems: Problems) -> None:
    """What stands against the pools that want one."""
    for pool in settings.pools:
        if pool.rollout is None or settings.imported:
            continue
        if not settings.verification.enabled:
            problems.add(
                f"{pool.path}.rollout",
                "needs the verification, which changes each node and proves it before the next",
                allowed="a section gpu-pools:verification",
                remedy="Add `gpu-pools:verification: {}`, or leave rollout out.",
            )


def rollout_warnings(pool: Pool, settings: Settings) -> Iterator[str]:
    """What it makes of new nodes of this pool where these have their labels from the start without it."""
    if pool.rollout is None or not settings.cluster.labels_nodes or settings.verification.startup_taint:
        return
    yield (
        "with rollout a new node has no sharing labels until its verifier sets them: it advertises whole GPUs before that, and "
        f"pods may start too early; set gpu-pools:verification.startupTaint, which needs Kubernetes {LEAST_KUBERNETES}"
    )


def rollout_seconds(pool_plan: PoolPlan, verification: VerificationSettings) -> int:
    """How long a change of all nodes may take: what one may take, times the rounds that it needs; 0 without `rollout`."""
    rollout = pool_plan.pool.rollout
    if rollout is None:
        return 0
    nodes = pool_plan.pool.max_nodes or max(pool_plan.pool.min_nodes, _ASSUMED_NODES)
    rounds = -(-nodes // at_once(str(rollout.max_unavailable), nodes))
    # The GPUs may take the deadline, once more after mig-manager was started anew, and so may the proof afterwards.
    return rounds * (rollout.drain_seconds + 3 * verification.deadline_seconds + _SLACK_SECONDS)
