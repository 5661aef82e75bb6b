"""Replacements that somebody has to have read about: which there are, and which the stack file acknowledges.

What an acknowledgement is, and what its id follows from, is in gpus/acknowledged.py; the plan lifts protection by it. Here it is
held against what the engine would really replace, and against the stack file before: an entry that stood there already was for an
earlier change. A pool that is replaced only because its cluster is needs no acknowledgement of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from changes.pools import CLUSTER_TYPES, POOL_TYPES, pool_name
from changes.steps import top
from gpus.acknowledged import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from changes.steps import Preview, Step
    from gpus.plan import Plan


@dataclass(frozen=True)
class Replacement:
    """A cluster or pool that is replaced.

    Attributes:
        resource: as the stack file names it: a pool's name, or ``cluster``; the name in the program of what it does not declare.
        what: ``cluster`` or ``pool``.
        id: of becoming what is declared; None: the stack file does not declare it, so nothing in it can acknowledge this.
        first: of what is deployed, where that must be acknowledged and deployed before, for its protection to go; else None.
        changes: (input, before, after) of what forces it, as shown to people; empty where it follows another's.
        acknowledged: the reason in the stack file; None: it is not acknowledged.
        used: whether an acknowledgement stands there that was there before this change.
    """

    resource: str
    what: str
    id: str | None
    first: str | None
    changes: tuple[tuple[str, str, str], ...]
    acknowledged: str | None = None
    used: bool = False

    def called(self, written: Callable[[str], str] = str) -> str:
        """What people call it; `written` is how its name is written."""
        return "the cluster" if self.what == self.resource else f"the {self.what} {written(self.resource)}"


@dataclass(frozen=True)
class Standing:
    """An acknowledgement that no replacement here asks for; `holds` says whether it keeps a protection off all the same."""

    resource: str
    change: str
    holds: bool


def whole(preview: Preview) -> bool:
    """Whether the cluster is replaced, with everything in it."""
    return not preview.complete or any(one.op == "replace" and one.type in CLUSTER_TYPES for one in preview.steps)


def replacements(preview: Preview, before: Plan | None, after: Plan) -> tuple[Replacement, ...]:
    """All replacements of clusters and pools, clusters first."""
    with_cluster = whole(preview)
    replaced = [one for one in preview.steps if one.op == "replace"]
    clusters = [one for one in replaced if one.type in CLUSTER_TYPES]
    pools = [one for one in replaced if one.type in POOL_TYPES and (one.because or not with_cluster)]
    ids = {pool.name: pool.change for pool in after.pools}
    told = [_shown(one) for one in clusters] or ([()] if with_cluster else [])
    found = [Replacement(CLUSTER, CLUSTER, after.change, _first(before), changes) for changes in told]
    for one in sorted(pools, key=lambda one: one.name):
        name = pool_name(one) or ""
        found.append(Replacement(name if name in ids else one.name, "pool", ids.get(name), None, _shown(one)))
    return tuple(_held(one, before, after) for one in found)


def _first(before: Plan | None) -> str | None:
    """The engine looks at the protection in its state for all that goes with something else, so it must go in a deploy before."""
    if before is None or not (before.protect or any(pool.protect for pool in before.pools)):
        return None
    return before.change


def _held(one: Replacement, before: Plan | None, after: Plan) -> Replacement:
    """The replacement with its acknowledgement, of which the plan allows one."""
    earlier = before.settings.acknowledged if before else ()
    for entry in after.settings.acknowledged:
        if (entry.resource, entry.change) == (one.resource, one.id):
            return replace(one, used=True) if entry in earlier else replace(one, acknowledged=entry.reason)
    return one


def standing(found: Iterable[Replacement], after: Plan) -> Iterator[Standing]:
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
