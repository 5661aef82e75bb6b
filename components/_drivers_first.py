"""Waits for the drivers of a pool's living nodes before its verifiers are told of another expectation.

After an update of its release the operator replaces drivers node by node, minutes apart, and an update of the verifiers has one
time limit for all nodes. A limit for the whole fleet would let each failed proof take as long as a fleet's drivers, so it is
waited here: as long as nodes get done. How long that may take follows from the plan (gpu_pools/plan/driver_upgrades.py).

Nothing is refused here. Where a node has failed, nothing moves, or the cluster does not answer, the verifiers begin, and say on
which node what is wrong. An update that changes no driver costs one look. Not here: pools that are made, whose nodes get the new
driver at once, and a stack whose verifiers demand none.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import pulumi

from gpu_pools.plan.before_upgrade import named
from gpu_pools.plan.driver_pods import demanded
from gpu_pools.plan.driver_upgrades import turn_seconds, turns
from gpu_pools.plan.drivers_due import Due, drivers_due
from gpu_pools.plan.planned import Plan, PoolPlan

from . import _log
from ._ask_first import client_of, nodes_of, once_known

_LOOK_EVERY: Final = 5.0
_TOLD_EVERY: Final = 60.0
#: Answers in a row that may fail to come: an API server may be away for a moment.
_PATIENCE: Final = 5


@dataclass(frozen=True)
class Clock:
    """What a wait goes by."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


def driver_hooks(
    name: str, plan: Plan, planned: PoolPlan, kubeconfig: pulumi.Input[str] | None, clock: Clock | None = None
) -> list[pulumi.ResourceHook | pulumi.ResourceHookFunction]:
    """For before an update of the pool's verifiers; none where no driver is demanded, or nobody said how to reach the cluster.

    Args:
        name: unique among the hooks of the program.
        plan: what shall be deployed.
        planned: the pool.
        kubeconfig: of the cluster.
        clock: what the wait goes by.
    """
    version = demanded(plan) if planned.driver == "operator" else None
    if version is None or kubeconfig is None:
        return []
    known, context = once_known(kubeconfig), getattr(plan.settings.cluster, "context", None)

    async def wait(_change: pulumi.ResourceHookArgs) -> None:
        if content := known():
            await _wait(
                lambda: drivers_due(nodes_of(client_of(content, context)), planned.name, version), plan, planned, clock or Clock()
            )

    return [pulumi.ResourceHook(f"{name}-drivers", wait)]


async def _wait(look: Callable[[], Due], plan: Plan, planned: PoolPlan, clock: Clock) -> None:
    """Until the pool has its drivers, or nothing is to be hoped for."""
    course, unanswered, said_at = _Course(plan, clock.now()), 0, -_TOLD_EVERY
    while unanswered < _PATIENCE:
        try:
            due = await asyncio.to_thread(look)
        except Exception:  # noqa: BLE001 - whatever it is, a cluster that cannot be asked stops nothing
            unanswered += 1
        else:
            unanswered, now = 0, clock.now()
            if not due.pool:
                return
            if over := course.over(due, now):
                _log.warn(f"it is not waited for the drivers of pool {planned.name} ({named(due.pool)}): {over}")
                return
            if now - said_at >= _TOLD_EVERY:
                said_at = now
                _log.info(f"pool {planned.name}: {len(due.pool)} of its nodes get another driver first: {named(due.pool)}")
        await clock.sleep(_LOOK_EVERY)
    _log.warn(f"it is not waited for the drivers of pool {planned.name}: the cluster does not say which nodes have them")


class _Course:
    """How a wait goes: it ends where no node gets done for as long as one turn may take, and when all turns are over."""

    def __init__(self, plan: Plan, now: float) -> None:
        self._plan, self._turn = plan, turn_seconds(plan)
        self._begun = self._moved = now
        self._first = self._fewest = 0

    def over(self, due: Due, now: float) -> str:
        """Why it is waited no longer; empty: it is."""
        if due.failed:
            return f"the driver upgrade of {named(due.failed)} has failed"
        self._first = self._first or due.cluster
        if not self._fewest or due.cluster < self._fewest:
            self._fewest, self._moved = due.cluster, now
        if now - self._moved > self._turn:
            return f"no node got another one in {self._turn} s"
        if now - self._begun > (longest := self._turn * turns(self._plan, self._first)):
            return f"it took longer than {longest} s"
        return ""
