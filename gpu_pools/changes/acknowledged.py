"""What ends pods and somebody has to have read about: all there is of it, and what the stack file acknowledges.

One rule for all: whatever takes a pool's nodes or GPUs from the pods on them. The engine tells what is replaced and deleted, the
plans what is repartitioned, loses nodes, or has its nodes renewed one by one (gpu_pools/changes/pools.py,
gpu_pools/changes/upkeep.py). What an acknowledgement is, and what its id follows from, is in gpu_pools/stack/acknowledged.py; the
plan lifts protection by it. Here it is held against what would really happen, and against the stack file before: an entry that
stood there already was for an earlier change. What happens to a pool only because its cluster is replaced needs no
acknowledgement of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gpu_pools.changes.pools import ENDS_PODS, pool_name, pools_of
from gpu_pools.changes.resource_types import CLUSTER_TYPES, POOL_TYPES
from gpu_pools.changes.steps import top
from gpu_pools.plan.change_ids import cluster_use, pool_goes, pool_use
from gpu_pools.stack.acknowledged import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gpu_pools.changes.pools import PoolChange
    from gpu_pools.changes.steps import Preview, Step
    from gpu_pools.changes.upkeep import Upkeep
    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.stack.acknowledged import Acknowledgement

#: What happens to the pods: in a sentence after the name.
_TAKEN: Final = {
    "rotated": "is replaced by another pool",
    "deleted": "is deleted",
    "left": "is left to itself",
    "shrunk": "loses nodes",
    "rebooted": "is repartitioned, with a reboot",
    "repartitioned": "is repartitioned",
}
_REPLACED: Final = "is replaced"


@dataclass(frozen=True)
class Ending:
    """Something by which pods end.

    Attributes:
        resource: as the stack file names it: a pool's name, or ``cluster``; the name in the program of what it does not declare.
        what: ``cluster`` or ``pool``.
        how: in a sentence after its name, e.g. ``is replaced``.
        id: of becoming what is declared; None: the stack file does not declare it, so nothing in it can acknowledge this.
        first: of what is deployed, where that must be acknowledged and deployed before, for its protection to go; else None.
        changes: (input, before, after) of what forces it, as shown to people; empty where it follows another's.
        acknowledged: the reason in the stack file; None: it is not acknowledged.
        used: whether an acknowledgement stands there that was there before this change.
    """

    resource: str
    what: str
    how: str
    id: str | None
    first: str | None = None
    changes: tuple[tuple[str, str, str], ...] = ()
    acknowledged: str | None = None
    used: bool = False

    def called(self, written: Callable[[str], str] = str) -> str:
        """What people call it; `written` is how its name is written."""
        return "the cluster" if self.what == self.resource else f"the {self.what} {written(self.resource)}"


@dataclass(frozen=True)
class Standing:
    """An acknowledgement that nothing here asks for; `holds` says whether it keeps a protection off all the same."""

    resource: str
    change: str
    holds: bool


def whole(preview: Preview) -> bool:
    """Whether the cluster is replaced, with everything in it."""
    return not preview.complete or any(one.op == "replace" and one.type in CLUSTER_TYPES for one in preview.steps)


def endings(
    preview: Preview, before: Plan | None, after: Plan, pools: Iterable[PoolChange] = (), renewed: Iterable[Upkeep] = ()
) -> tuple[Ending, ...]:
    """All of them: replacements, what concerns the whole cluster, then pool by pool.

    Args:
        preview: of the engine.
        before: the plan of what is deployed.
        after: the plan of what shall be.
        pools: what becomes of each pool.
        renewed: what is on nodes that stay.
    """
    found = [_held(one, before, after) for one in _replacements(preview, before, after)]
    if not whole(preview):
        found += [_held(one, before, after) for one in _renewals(renewed, after)]
        found += [_held(one, before, after) for pool in pools for one in _of_pool(pool)]
        found += [_held(one, before, after) for one in _unknown(preview, pools_of(before, after), {pool.name for pool in pools})]
    return tuple(found)


def _replacements(preview: Preview, before: Plan | None, after: Plan) -> Iterator[Ending]:
    with_cluster = whole(preview)
    replaced = [one for one in preview.steps if one.op == "replace"]
    clusters = [one for one in replaced if one.type in CLUSTER_TYPES]
    pools = [one for one in replaced if one.type in POOL_TYPES and (one.because or not with_cluster)]
    ids = {pool.name: pool.change for pool in after.pools}
    shown = [_shown(one) for one in clusters] or ([()] if with_cluster else [])
    for changes in shown:
        yield Ending(CLUSTER, CLUSTER, _REPLACED, after.change, _first(before), changes)
    for one in sorted(pools, key=lambda one: one.name):
        name = pool_name(one, pools_of(before, after)) or ""
        yield Ending(name if name in ids else one.name, "pool", _REPLACED, ids.get(name), None, _shown(one))


def _renewals(renewed: Iterable[Upkeep], after: Plan) -> Iterator[Ending]:
    """One for all that is renewed node by node, or against its makers' support: it is one entry, of the cluster's versions."""
    ending = [one for one in renewed if one.effect == "upgraded" or one.against]
    if ending:
        changes = tuple((one.what, json.dumps(one.before), json.dumps(one.after)) for one in ending if one.before or one.after)
        how = f"has {' and '.join(one.what for one in ending)} renewed on its nodes"
        yield Ending(CLUSTER, CLUSTER, how, cluster_use(after), changes=changes)


def _of_pool(pool: PoolChange) -> Iterator[Ending]:
    """What becomes of a pool other than its replacement, of which the engine tells."""
    effect = next((one for one in ("left", *ENDS_PODS) if one in pool.effects and one in _TAKEN), None)
    if pool.before is None or effect is None:
        return
    if effect == "rotated" and pool.after is not None:
        yield Ending(pool.name, "pool", _TAKEN[effect], pool.after.change)
        return
    goes = pool.after is None or effect in {"deleted", "left"}
    yield Ending(pool.name, "pool", _TAKEN[effect], pool_goes(pool.before) if goes or not pool.after else pool_use(pool.after))


def _unknown(preview: Preview, declared: Iterable[PoolPlan], known: set[str]) -> Iterator[Ending]:
    """Pools that neither stack file declares, and clusters: the engine deletes them."""
    for one in preview.steps:
        if one.op == "delete" and one.type in POOL_TYPES and pool_name(one, declared) not in known:
            yield Ending(one.name, "pool", _TAKEN["deleted"], None)
        elif one.op == "delete" and one.type in CLUSTER_TYPES:
            yield Ending(one.name, "cluster", _TAKEN["deleted"], None)


def _first(before: Plan | None) -> str | None:
    """The engine looks at the protection in its state for all that goes with something else, so it must go in a deploy before."""
    if before is None or not (before.protect or any(pool.protect for pool in before.pools)):
        return None
    return before.change


def _held(one: Ending, before: Plan | None, after: Plan) -> Ending:
    """It with its acknowledgement, of which the plan allows one."""
    earlier = before.settings.acknowledged if before else ()
    for entry in after.settings.acknowledged:
        if (entry.resource, entry.change) == (one.resource, one.id):
            return replace(one, used=True) if entry in earlier else replace(one, acknowledged=entry.reason)
    freed = _freed(one, before, earlier) if one.how in {_TAKEN["deleted"], _TAKEN["left"]} else None
    return replace(one, acknowledged=freed.reason) if freed else one


def _freed(one: Ending, before: Plan | None, earlier: Iterable[Acknowledgement]) -> Acknowledgement | None:
    """The entry by which a protected pool that goes now was freed in the deploy before; it had no other purpose."""
    for pool in before.pools if before else ():
        if pool.name == one.resource and pool.pool.protect and not pool.protect:
            return next((entry for entry in earlier if (entry.resource, entry.change) == (pool.name, pool.change)), None)
    return None


def standing(found: Iterable[Ending], after: Plan) -> Iterator[Standing]:
    """The acknowledgements that nothing of `found` asks for."""
    asked = {(one.resource, one.id) for one in found}
    fitting = {(CLUSTER, after.change), *((pool.name, pool.change) for pool in after.pools)}
    for one in after.settings.acknowledged:
        key = one.resource, one.change
        if key not in asked:
            yield Standing(one.resource, one.change, holds=key in fitting)


def _shown(step: Step) -> tuple[tuple[str, str, str], ...]:
    keys = dict.fromkeys(map(top, step.because))
    return tuple((key, json.dumps(step.old.get(key)), json.dumps(step.new.get(key))) for key in keys)
