"""Which pools can change node by node (``rollout``), and how long that may take.

On AKS they cannot: there the two labels are labels of the agent pool, by which policies and previews tell what a pool is, and
which AKS brings to all of its nodes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.verifier.turns import at_once

if TYPE_CHECKING:
    from gpu_pools.plan.planned import PoolPlan
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
        if settings.cluster.platform == "aks":
            problems.add(
                f"{pool.path}.rollout",
                "nodes of an AKS pool cannot change one by one: AKS gives a pool's labels to all of its nodes at once",
                allowed="rollout on Magnum and on existing clusters",
                remedy="Leave it out, and empty the pool's nodes before the change.",
            )
        elif not settings.verification.enabled:
            problems.add(
                f"{pool.path}.rollout",
                "needs the verification, which changes each node and proves it before the next",
                allowed="a section gpu-pools:verification",
                remedy="Add `gpu-pools:verification: {}`, or leave rollout out.",
            )


def rollout_seconds(planned: PoolPlan, verification: VerificationSettings) -> int:
    """How long a change of all nodes may take: what one may take, times the turns that there are; 0 without `rollout`."""
    rollout = planned.pool.rollout
    if rollout is None:
        return 0
    nodes = planned.pool.max_nodes or max(planned.pool.min_nodes, _ASSUMED_NODES)
    turns = -(-nodes // at_once(str(rollout.max_unavailable), nodes))
    # The GPUs may take the deadline, once more after mig-manager was started anew, and so may the proof afterwards.
    return turns * (rollout.drain_seconds + 3 * verification.deadline_seconds + _SLACK_SECONDS)
