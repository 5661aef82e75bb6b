"""Waits for the operator's pods on a pool's living nodes before its verifiers are told of another expectation.

After an update of its release the operator replaces its programs node by node, and drivers minutes apart, while an update of the
verifiers has one time limit for all nodes. A limit for the whole fleet would let each failed proof take as long as a fleet's
drivers, so it is waited here: as long as nodes get done. How long that may take follows from the plan
(gpu_pools/plan/drivers.py), and what is left is in gpu_pools/plan/operands_due.py. Where the driver's pods become others
of the same version only their revisions tell, and these not before the operator has followed its policy: for that it gets a
minute. It may have nothing to do.

Nothing is refused here. Where a node has failed, nothing moves, or the cluster does not answer, the verifiers begin, and say on
which node what is wrong. An update that replaces nothing costs one look. Not here: pools that are made, whose nodes get the new
pods at once, and an operator of another owner, which replaces nothing because of a deploy.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from gpu_pools.components.engine import log
from gpu_pools.components.kubernetes.ask_first import (
    cluster_at,
    daemon_sets_of,
    nodes_of,
    once_known,
    plain,
    pods_of,
    policies_of,
    revisions_of,
)
from gpu_pools.plan.drivers import rounds, seconds_per_round
from gpu_pools.plan.operands_due import SELECTOR, Due, Wanted, followed, older, operands_due, others, wanted
from gpu_pools.plan.operator_upgrade import named
from gpu_pools.plan.planned import Plan, PoolPlan
from gpu_pools.proof.verifier_pods import DRIVER_NOTE
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE, POOL_LABEL
from gpu_pools.text.nested import at

_LOOK_EVERY: Final = 5.0
_TOLD_EVERY: Final = 60.0
#: Answers in a row that may fail to come: an API server may be away for a moment.
_PATIENCE: Final = 5
#: For the operator to follow its policy. It does at once; another pod of it needs the lease first.
_FOLLOWS_WITHIN: Final = 60.0
#: After so many looks it is said what is waited for.
_TELL_AFTER: Final = 3


@dataclass(frozen=True)
class Clock:
    """What a wait goes by."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


def operand_hooks(
    name: str, plan: Plan, pool_plan: PoolPlan, kubeconfig: pulumi.Input[str] | None, clock: Clock | None = None
) -> list[pulumi.ResourceHook | pulumi.ResourceHookFunction]:
    """For before an update of the pool's verifiers; none where nothing can be told, or nobody said how to reach the cluster.

    Args:
        name: unique among the hooks of the program.
        plan: what shall be deployed.
        pool_plan: the pool.
        kubeconfig: of the cluster.
        clock: what the wait goes by.
    """
    shall = wanted(plan, pool_plan)
    if kubeconfig is None or not (shall.driver or shall.chart or shall.pods):
        return []
    known, context = once_known(kubeconfig), plan.settings.cluster.context

    async def wait(change: pulumi.ResourceHookArgs) -> None:
        if not (content := known()):
            return
        runs, before = clock or Clock(), _note(await plain(change.old_inputs))
        if before and shall.pods and before != shall.pods:
            await _followed(lambda: _follows(content, context, pool_plan.name), runs)
        await _wait(lambda: _look(content, context, pool_plan.name, shall), plan, pool_plan, runs)

    return [pulumi.ResourceHook(f"{name}-operands", wait)]


def _note(inputs: Mapping[str, Any]) -> object:
    """What the verifiers' pods say of the driver's, as they were; nothing where an earlier program has made them."""
    return at(inputs, "spec", "template", "metadata", "annotations", DRIVER_NOTE)


def _look(kubeconfig: str, context: str | None, pool: str, shall: Wanted) -> Due:
    api = cluster_at(kubeconfig, context)
    selectors = [others(shall)]
    if shall.pods:
        of_driver = (api, OPERATOR_NAMESPACE, SELECTOR)
        selectors.append(older(daemon_sets_of(*of_driver), revisions_of(*of_driver)))
    behind = [pod for selector in selectors if selector for pod in pods_of(api, OPERATOR_NAMESPACE, selector)]
    return operands_due(nodes_of(api), behind, pool, shall)


def _follows(kubeconfig: str, context: str | None, pool: str) -> bool:
    """Whether the operator has followed its policy, or the pool has no node: without any GPU node it follows none."""
    api = cluster_at(kubeconfig, context)
    if not any(at(node, "metadata", "labels", POOL_LABEL) == pool for node in nodes_of(api)):
        return True
    return followed(policies_of(api), daemon_sets_of(api, OPERATOR_NAMESPACE, SELECTOR))


async def _followed(look: Callable[[], bool], clock: Clock) -> None:
    """Until the operator has followed its policy, or had the time for it; what cannot be asked is asked again."""
    begun, looks = clock.now(), 0
    while clock.now() - begun < _FOLLOWS_WITHIN:
        try:
            if await asyncio.to_thread(look):
                return
        except Exception:  # noqa: BLE001, S110 - whatever it is, a cluster that cannot be asked stops nothing
            pass
        looks += 1
        if looks == _TELL_AFTER:
            log.info(f"waiting until the operator has written its ClusterPolicy into the driver's DaemonSet ({SELECTOR})")
        await clock.sleep(_LOOK_EVERY)


async def _wait(look: Callable[[], Due], plan: Plan, pool_plan: PoolPlan, clock: Clock) -> None:
    """Until the pool has its pods, or nothing is to be hoped for."""
    course, unanswered, said_at = _Course(plan, clock.now()), 0, -_TOLD_EVERY
    what = f"it is not waited for the operator's pods of pool {pool_plan.name}"
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
                log.warn(f"{what} ({named(due.pool)}): {over}")
                return
            if now - said_at >= _TOLD_EVERY:
                said_at = now
                log.info(
                    f"pool {pool_plan.name}: {len(due.pool)} of its nodes get other pods of the operator first: {named(due.pool)}"
                )
        await clock.sleep(_LOOK_EVERY)
    log.warn(f"{what}: the cluster does not say which nodes have them")


class _Course:
    """How a wait goes: it ends where no node gets done for as long as one round may take, and when all rounds are over."""

    def __init__(self, plan: Plan, now: float) -> None:
        self._plan, self._round = plan, seconds_per_round(plan)
        self._begun = self._moved = now
        self._first = self._fewest = 0

    def over(self, due: Due, now: float) -> str:
        """Why it is waited no longer; empty: it is."""
        if due.failed:
            return f"the driver upgrade of {named(due.failed)} has failed"
        self._first = self._first or due.cluster
        if not self._fewest or due.cluster < self._fewest:
            self._fewest, self._moved = due.cluster, now
        if now - self._moved > self._round:
            return f"no node got done in {self._round} s"
        if now - self._begun > (longest := self._round * rounds(self._plan, self._first)):
            return f"it took longer than {longest} s"
        return ""
