"""Whether a change of a pool's nodes may begin when it is deployed: its windows against a clock. Pure.

A deploy outside of them is refused before the pool's verifiers change. It could only wait, for days perhaps, or end well with
nothing done. What harms nobody needs no window, so it needs none here: more replicas, other verifiers, other windows. Whether
fewer replicas of time-slicing end a share only the nodes know, and their changers wait for the window where they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.errors import Problem
from gpu_pools.verifier.changer.windows import opens_in, read_window
from gpu_pools.verifier.moments import moment
from gpu_pools.verifier.operands import CONFIG_LABEL, MIG_CONFIG_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.plan.planned import PoolPlan

#: Annotations of the DaemonSet that changes a pool: each of the labels that it sets.
BECOMES: Final = {CONFIG_LABEL: "gpu-pools/becomes-sharing", MIG_CONFIG_LABEL: "gpu-pools/becomes-mig"}
_SLICED: Final = "time-slicing-"


def becomes(pool_plan: PoolPlan) -> dict[str, str]:
    """The annotations of a pool; none without `rollout`."""
    return {BECOMES[key]: value for key, value in pool_plan.changed_labels.items()}


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
    sharing, mig = BECOMES.values()
    if sharing not in old or all(old.get(key) == new.get(key) for key in (sharing, mig)):
        return False
    sliced = all(str(one.get(sharing)).startswith(_SLICED) for one in (old, new))
    return not (sliced and old.get(mig) == new.get(mig))
