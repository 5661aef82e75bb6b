"""Which pools can change node by node (``rollout``), what that means for new nodes, how long it may take, and when it may begin.

On AKS such an agent pool does not have the two labels: AKS would bring them to all of its nodes at once, and refuses whoever
changes on a node what its pool has (azure-aks-docs, use-labels and use-node-taints). So new nodes of it register without them,
where those of other AKS pools have them from the start.

A pool's windows are held against a clock when a change of its nodes is deployed. A deploy outside of them is refused before the
pool's verifiers change. It could only wait, for days perhaps, or end well with nothing done. What harms nobody needs no window,
so it needs none here: more replicas, other verifiers, other windows. Whether fewer replicas of time-slicing end a share only
the nodes know, and their changers wait for the window where they do. Pure: whoever asks says what time it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.rendering.startup_taint import LEAST_KUBERNETES
from gpu_pools.stack.kubernetes_names import DRA_DRIVER_LABEL
from gpu_pools.text.errors import Problem
from gpu_pools.verifier.changer.rollout_slots import at_once
from gpu_pools.verifier.changer.windows import opens_in, read_window
from gpu_pools.verifier.names import CONFIG_LABEL, MIG_CONFIG_LABEL, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.plan.planned import PoolPlan
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.stack.verification import VerificationSettings
    from gpu_pools.text.errors import Problems

# --- which pools, and how long ------------------------------------------------------------------------------------

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


# --- windows ------------------------------------------------------------------------------------------------------

#: Annotations of the DaemonSet that changes a pool: each of the labels that it sets.
BECOMES: Final = {
    CONFIG_LABEL: "gpu-pools/becomes-sharing",
    MIG_CONFIG_LABEL: "gpu-pools/becomes-mig",
    DRA_DRIVER_LABEL: "gpu-pools/becomes-allocation",
}
_SLICED: Final = "time-slicing-"
_NO_CLAIMS: Final = "none"


def becomes(pool_plan: PoolPlan) -> dict[str, str]:
    """The annotations of a pool; none without `rollout`."""
    return {BECOMES[key]: value for key, value in pool_plan.changed_labels.items() if key in BECOMES}


def closed(pool_plan: PoolPlan, old: Mapping[str, Any], new: Mapping[str, Any], at: float) -> Problem | None:
    """What stands against an update of a pool's DaemonSet now.

    Args:
        pool_plan: the pool.
        old: the DaemonSet's inputs in the state.
        new: those that the program asks for.
        at: seconds since the epoch.
    """
    rollout = pool_plan.pool.rollout
    if rollout is None or not _takes_nodes_away(_annotations(old), _annotations(new)):
        return None
    windows = [read_window(str(one)) for one in rollout.windows]
    left = opens_in(windows, at)
    if not left:
        return None
    return Problem(
        f"{pool_plan.pool.path}.rollout.windows",
        f"none of them is open, so no node of {pool_plan.name} may change now",
        ", ".join(map(str, rollout.windows)),
        f"Deploy it from {moment(at + left)} on, or take `windows` out for this deploy.",
    )


def _annotations(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    return (inputs.get("metadata") or {}).get("annotations") or {}


def _takes_nodes_away(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether other labels are declared than replicas of time-slicing alone; a pool that gets a rollout changes none."""
    sharing, mig, allocation = BECOMES.values()
    # A pool that never said how pods get its GPUs uses the device plugin.
    same = old.get(allocation, _NO_CLAIMS) == new.get(allocation, _NO_CLAIMS)
    if sharing not in old or (same and all(old.get(key) == new.get(key) for key in (sharing, mig))):
        return False
    sliced = all(str(one.get(sharing)).startswith(_SLICED) for one in (old, new))
    return not (sliced and same and old.get(mig) == new.get(mig))
