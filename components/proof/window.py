"""Refuses to change a pool's nodes outside of its maintenance windows, before anything of the pool's verifiers is changed.

A preview only warns, since people review changes at any hour. The check itself is in gpu_pools/plan/rollouts.py.
The clock is that of the machine that deploys; the changers on the nodes go by the API server's.
"""

import time
from collections.abc import Callable

import pulumi

from gpu_pools.components.engine import log
from gpu_pools.plan.planned import PoolPlan
from gpu_pools.plan.rollouts import closed
from gpu_pools.text.errors import RefusedError


def window_hooks(name: str, pool_plan: PoolPlan) -> list[pulumi.ResourceHook | pulumi.ResourceHookFunction]:
    """For before an update of the pool's DaemonSet; none where it has no windows.

    Args:
        name: unique among the hooks of the program.
        pool_plan: the pool.
    """
    if pool_plan.pool.rollout is None or not pool_plan.pool.rollout.windows:
        return []
    refuse = refuses(pool_plan, preview=pulumi.runtime.is_dry_run)
    return [pulumi.ResourceHook(f"{name}-window", refuse, pulumi.ResourceHookOptions(on_dry_run=True))]


def refuses(
    pool_plan: PoolPlan, *, preview: Callable[[], bool], now: Callable[[], float] = time.time
) -> Callable[[pulumi.ResourceHookArgs], None]:
    """What the hook does.

    Args:
        pool_plan: the pool.
        preview: whether nothing is changed now.
        now: the clock.
    """

    def refuse(change: pulumi.ResourceHookArgs) -> None:
        problem = closed(pool_plan, change.old_inputs or {}, change.new_inputs or {}, now())
        if problem is None:
            return
        if not preview():
            raise RefusedError([problem], "the stack file", f"done to {pool_plan.name}")
        log.warn(f"this deploy would be refused now. {problem}")

    return refuse
