"""Raises the system pool of a cluster that the program makes, after its control plane and before its GPU pools.

No resource of the stack is that pool, so hooks do it (gpu_pools/platforms/aks/system_pool.py says why, and what is asked). After
an update of the cluster that has raised `kubernetesVersion`, Azure is asked how both are, and where the pool is behind it is sent
back as it was answered, with the control plane's version; then the deploy waits until Azure is done. The engine waits for such a
hook before it goes on with what depends on the cluster. After a failure it stops; told to continue on errors it goes on, and
then each GPU pool that would be made or raised stops. The next deploy finds the cluster up to date, so a GPU pool that is to be
raised asks the same question first.

In previews nothing is sent. Who cannot log in here, or has no right, is told the command for afterwards: nothing is stopped that
would work without. What Azure refuses, or does not get done, stops the deploy. Deliberately not here: GPU pools with a version of
their own, which wait for nothing, and clusters that a stack only uses.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import pulumi

from gpu_pools.components.aks.check import CONTAINERS, cluster_path, read_made
from gpu_pools.components.aks.session import RefusedError, Session, UnreadError, log_in
from gpu_pools.components.engine import log
from gpu_pools.platforms.aks.changes import SYSTEM_POOL
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.system_pool import Raise, due, left_to_others, raise_request, raised
from gpu_pools.text import harmless

_T = TypeVar("_T")

#: Azure takes some minutes for each node, and with a drain timeout of its own half an hour or more.
_LONGEST_SECONDS: Final = 4 * 3600.0
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 30.0
_TOLD_EVERY: Final = 60.0
#: Answers in a row that may fail to come, while Azure is at work.
_PATIENCE: Final = 5
_OVER: Final = {"Succeeded", "Failed", "Canceled"}
#: Resource group and name of a cluster that this program makes, in lower case -> its system pool.
_MADE: dict[tuple[str, str], "SystemPool"] = {}


class NotRaisedError(Exception):
    """The system pool is not where it should be; the text is for users."""


class SystemPool:
    """The system pool of one cluster; it is raised once in a deploy, whoever asks first."""

    def __init__(self, cluster: AksSettings, parent: pulumi.Resource) -> None:
        """Know the cluster; its GPU pools find it by the cluster's name.

        Args:
            cluster: as it is declared.
            parent: the component, whose provider logs in, and where messages are shown.
        """
        self._cluster = cluster
        self._parent = parent
        self._path = f"{cluster_path(cluster)}/agentPools/{SYSTEM_POOL}"
        self._one_at_a_time = asyncio.Lock()
        self._is_settled = False
        self._failure = ""
        _MADE[cluster.resource_group.lower(), cluster.name.lower()] = self

    def login_problem(self) -> str:
        """Why nobody is logged in who could ask Azure; empty: somebody is."""
        try:
            log_in(self._parent)
        except UnreadError as error:
            return str(error)
        return ""

    def hook(self, name: str) -> pulumi.ResourceHook:
        """For after an update of the cluster; not in previews.

        Args:
            name: of the component.
        """

        async def follow(change: pulumi.ResourceHookArgs) -> None:
            if version := raised(change.old_inputs or {}, change.new_inputs or {}, "kubernetesVersion"):
                await self.follow(version)

        return pulumi.ResourceHook(f"{name}-system-pool", follow)

    async def follow(self, version: str) -> None:
        """Raise the pool to the control plane's version, where it is behind.

        Args:
            version: that the stack asks for.

        Raises:
            NotRaisedError: Azure refuses it, or does not get it done, now or earlier in this deploy.
        """
        async with self._one_at_a_time:
            self.stop_after_failure()
            if self._is_settled:
                return
            try:
                await self._follow(version)
            except NotRaisedError as error:
                self._failure = str(error)
                raise
            self._is_settled = True

    def stop_after_failure(self) -> None:
        """Stop what must come after the pool.

        Raises:
            NotRaisedError: it was not raised.
        """
        if self._failure:
            raise NotRaisedError(f"nothing was done here: {self._failure}")

    async def _follow(self, version: str) -> None:
        try:
            made = await self._ask(lambda session: read_made(session, self._cluster))
            if made is None:
                return
            # Somebody may be at it already: a deploy that was killed, or a colleague.
            pool = await self._settled()
        except UnreadError as error:
            self._leave(version, error)
            return
        step = due(made.version, pool)
        if step is None:
            return
        try:
            operation = await self._begin(pool, step)
        except RefusedError as error:
            if not error.is_of_rights:
                raise self._not_raised(step, f"{error}: {error.said}") from None
            self._leave(step.to, error)
        except UnreadError as error:
            raise self._not_raised(step, str(error)) from None
        else:
            await self._wait_for(step, operation)

    def _leave(self, version: str, error: UnreadError) -> None:
        cluster = self._cluster
        log.warn(left_to_others(cluster.resource_group, cluster.name, version, str(error)), self._parent)

    async def _begin(self, pool: Mapping[str, Any], step: Raise) -> str | None:
        self._tell(f"goes from Kubernetes {step.was} to {step.to}")
        body, etag = raise_request(pool, step.to), str(pool["properties"].get("eTag") or "")
        return await self._ask(lambda session: session.put_below(self._path, CONTAINERS, body, etag))

    async def _wait_for(self, step: Raise, operation: str | None) -> None:
        try:
            if operation:
                done = await self._until(lambda session: session.operation(operation), lambda answer: str(answer.get("status")))
                if done.get("status") != "Succeeded":
                    error = done.get("error") or {}
                    raise self._not_raised(step, f"{error.get('code') or done.get('status')}: {error.get('message') or ''}")
            pool = await self._settled()
        except UnreadError as error:
            raise self._not_raised(step, f"nothing is known of it any more: {error}") from None
        if left := due(step.to, pool):
            raise self._not_raised(step, f"Azure shows it as {_state(pool)}, at {left.was}")
        self._tell(f"is at Kubernetes {step.to}")

    async def _settled(self) -> dict[str, Any]:
        """The pool, once nobody is at work on it."""
        return await self._until(lambda session: session.below(self._path, CONTAINERS), _state)

    async def _until(self, read: Callable[[Session], dict[str, Any]], state: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
        """The first answer of which the state is final."""
        started = reported = time.monotonic()
        wait, failed = _FIRST_WAIT, _PATIENCE
        while True:
            try:
                answer = await self._ask(read)
            except UnreadError:
                failed += 1
                # The first answer must come.
                if failed > _PATIENCE:
                    raise
            else:
                failed = 0
                if state(answer) in _OVER:
                    return answer
                if time.monotonic() - reported > _TOLD_EVERY:
                    reported = time.monotonic()
                    self._tell(f"is {state(answer)} for {(reported - started) / 60:.0f} minutes")
            if time.monotonic() - started > _LONGEST_SECONDS:
                raise UnreadError(f"Azure is not done after {_LONGEST_SECONDS / 3600:.0f} hours")
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    async def _ask(self, question: Callable[[Session], _T]) -> _T:
        """On a thread of its own, with a login of now: that of an hour ago may be none any more."""
        return await asyncio.to_thread(question, log_in(self._parent))

    def _tell(self, what: str) -> None:
        log.info(f"the pool `{SYSTEM_POOL}` of {self._cluster.name} {what}", self._parent)

    def _not_raised(self, step: Raise, why: str) -> NotRaisedError:
        return NotRaisedError(
            harmless.text(
                f"the pool `{SYSTEM_POOL}` of {self._cluster.name} is not raised to Kubernetes {step.to}: {why.strip()} "
                "GPU pools are left at their version. Mend it and deploy again: before a GPU pool is raised, it is tried again."
            )
        )


def comes_first(name: str, *, is_pinned: bool) -> list[pulumi.ResourceHook]:
    """Hooks for before a GPU pool is made or updated, whose cluster's system pool comes first; not in previews.

    Args:
        name: of the pool's component.
        is_pinned: whether it has a version of its own, and follows nothing.
    """
    if is_pinned:
        return []

    async def ask(change: pulumi.ResourceHookArgs) -> None:
        new = change.new_inputs or {}
        system = _MADE.get((str(new.get("resourceGroupName")).lower(), str(new.get("resourceName")).lower()))
        version = raised(change.old_inputs or {}, new, "orchestratorVersion")
        if system is None or version is None:
            return
        if change.old_inputs:
            await system.follow(version)
        else:
            system.stop_after_failure()

    return [pulumi.ResourceHook(f"{name}-system-pool-first", ask)]


def _state(pool: Mapping[str, Any]) -> str:
    return str(pool["properties"].get("provisioningState"))
