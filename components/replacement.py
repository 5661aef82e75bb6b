"""How the engine replaces a pool with ``replace``, which knows neither pools nor pods.

With `surge` the digits of what is fixed (gpu_pools/plan/placing.py) end the pool's name in the program: another id
is another resource. So the engine makes it, goes on to what depends on it, and deletes the old one at its very end, and only if
all went well; after a failure or a `git revert` the old one is there, as before. The name in the cloud is not looked at again
once the pool lives, so a pool that was there before `replace` becomes the first one under the name that it has.

Between the proof and the deletion stand two ConfigMaps that say which replacement id is wanted, and that the nodes of all others
are empty. The hook before the latter's update empties them. It names the version of the former, so it is due whenever that was
changed since the nodes were empty last: also when a deploy that broke off is followed by one of the old declaration.

With `inPlace` it is one resource, which the engine deletes before it makes it anew; the two ConfigMaps come before it.

These are hooks before an update, not before the deletion of a pool: those the engine would ask for at each `pulumi destroy`,
which then needs the program, and when a pool is taken out of it. Told to continue on errors, the engine would delete what was not
emptied: do not.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap

from gpu_pools.components.engine import log
from gpu_pools.components.engine.not_known_yet import not_known_yet
from gpu_pools.components.kubernetes.ask_first import cluster_at, once_known
from gpu_pools.plan.planned import PoolPlan
from gpu_pools.proof.emptying import Emptying

if TYPE_CHECKING:
    from collections.abc import Mapping


def resource_name(name: str, pool_plan: PoolPlan) -> str:
    """The name in the program of what the cloud has of the pool."""
    return f"{name}-{pool_plan.replacement_id}" if pool_plan.pool.replacement == "surge" else name


def other_names(name: str, pool_plan: PoolPlan) -> list[pulumi.Alias]:
    """The name that the same pool had in the program before `replace` was declared, or was the other one."""
    if not pool_plan.replacement_id:
        return []
    return [pulumi.Alias(name=name if pool_plan.pool.replacement == "surge" else f"{name}-{pool_plan.replacement_id}")]


def keeps_its_name(pool_plan: PoolPlan, key: str) -> list[str]:
    """The property with its name in the cloud, where a living pool keeps the one that it has."""
    return [key] if pool_plan.replacement_id else []


def old_nodes_emptied(
    name: str,
    pool_plan: PoolPlan,
    reached: tuple[pulumi.Input[str], str | None],
    namespace: str,
    opts: pulumi.ResourceOptions,
    after: list[pulumi.Resource],
) -> ConfigMap:
    """Have the nodes of all other pools under the same name emptied, before what is returned is there.

    Args:
        name: unique in the program.
        pool_plan: the pool.
        reached: kubeconfig of the cluster, and a context of it.
        namespace: of the ConfigMaps.
        opts: of both of them.
        after: what comes first: with `surge` the proof of the pool that stays.
    """
    hook = _Hook(pool_plan, reached)
    wanted = ConfigMap(
        f"{name}-wanted",
        metadata={"name": f"generation-of-{pool_plan.name}", "namespace": namespace},
        data={"generation": pool_plan.replacement_id},
        opts=_with(
            opts, hooks=pulumi.ResourceHookBinding(before_create=[hook.is_new(name)], before_update=[hook.give_back(name)])
        ),
    )
    empty = hook.empty(name)
    return ConfigMap(
        f"{name}-emptied",
        metadata={"name": f"emptied-for-{pool_plan.name}", "namespace": namespace},
        data=wanted.metadata.apply(lambda made: hook.emptied_since(made.resource_version)),
        opts=_with(opts, depends_on=after, hooks=pulumi.ResourceHookBinding(before_create=[empty], before_update=[empty])),
    )


def _with(opts: pulumi.ResourceOptions, **more: Any) -> pulumi.ResourceOptions:  # noqa: ANN401 - options of the SDK
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(**more))


class _Hook:
    """Of one pool; the kubeconfig is known before the ConfigMaps are made, by whose provider it is needed as well."""

    def __init__(self, planned: PoolPlan, reached: tuple[pulumi.Input[str], str | None]) -> None:
        self._planned = planned
        self._context = reached[1]
        self._known = once_known(reached[0])
        #: Whether the wanted id becomes another in this run.
        self._changes = False

    def give_back(self, name: str) -> pulumi.ResourceHook:
        """For before the wanted id is another."""

        async def give_back(_change: pulumi.ResourceHookArgs) -> None:
            self._changes = True
            if not pulumi.runtime.is_dry_run():
                await asyncio.to_thread(self._emptying().give_back)

        return pulumi.ResourceHook(f"{name}-given-back", give_back, pulumi.ResourceHookOptions(on_dry_run=True))

    def is_new(self, name: str) -> pulumi.ResourceHook:
        """For before an id is wanted for the first time."""

        def note(_change: pulumi.ResourceHookArgs) -> None:
            self._changes = True

        return pulumi.ResourceHook(f"{name}-wanted", note, pulumi.ResourceHookOptions(on_dry_run=True))

    def emptied_since(self, version: str | None) -> "dict[str, str] | pulumi.Output[Any]":
        """What is written once the others are empty.

        A preview knows no version of what it would change, whatever the provider tells there; and an engine that is held to
        the plan of a preview takes none that was told otherwise, and nothing new within what was known in part.
        """
        if self._changes and pulumi.runtime.is_dry_run():
            return not_known_yet()
        return {"generation": self._planned.replacement_id, "since": version or ""}

    def empty(self, name: str) -> pulumi.ResourceHook:
        """For before it is said that the others are empty."""

        async def empty(change: pulumi.ResourceHookArgs) -> None:
            emptying = self._emptying()
            emptying.proven = self._is_new_here(change.old_inputs)
            await asyncio.to_thread(emptying.run)

        return pulumi.ResourceHook(f"{name}-emptied", empty)

    def _is_new_here(self, before: "Mapping[str, Any] | None") -> bool:
        """Whether the nodes were last emptied for another id than is wanted now; one that comes back was proven then."""
        last = ((before or {}).get("data") or {}).get("generation")
        return self._planned.pool.replacement == "surge" and last not in {None, self._planned.replacement_id}

    def _emptying(self) -> Emptying:
        api = cluster_at(self._known(), self._context)
        pool = self._planned.pool
        return Emptying(api, pool.name, self._planned.replacement_id, float(pool.drain_seconds), log.info)
