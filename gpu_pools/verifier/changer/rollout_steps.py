"""What the next step of a change of this node is: decided from what is there, and from nothing else.

So a change can end anywhere, with its process, its pod or its node, and whoever looks next goes on from there. What is being done
is written on the node itself (the mark); whether it has a rollout slot, in a Lease. Both are read anew before each step.

A node keeps working until it has a slot. It is cordoned before anything is evicted, and it is uncordoned only by who has
proven it. A node that somebody else has cordoned stays so.

A cordon does not keep every pod away: some were bound before and wait for their volumes, some tolerate it, some name their node.
So who holds GPUs is looked at until the change is done, and who came late has a share of what was before, and is to go as well.

A change begins within a maintenance window, where there are any, and goes on to its end.

Three changes need no slot. A node that was never given the labels joins, and has nobody to harm. Where the labels were taken
away and the GPUs are as declared, they are put back. And more replicas of time-slicing end no share: running pods keep theirs.
Pure: talks to nobody.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ..names import (
    ALLOCATION_LABELS,
    CONFIG_LABEL,
    DRA_DRIVER_LABEL,
    MIG_CONFIG_LABEL,
    MIG_PENDING_SECONDS,
    MIG_STATE_LABEL,
    NO_CLAIMS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_SLICED: Final = "time-slicing-"
_PAUSED: Final = "paused-for-mig-change"
#: What mig-manager says of its node where it has given up.
MIG_FAILED: Final = "failed"
_UNFINISHED: Final = ("pending", MIG_FAILED)
#: A pod of these comes back by itself onto a node that takes no others: evicting it empties nothing.
COMES_BACK: Final = ("DaemonSet", "Node")
#: Seconds after which mig-manager does nothing more by itself, by its state.
PATIENCE: Final = {"pending": float(MIG_PENDING_SECONDS), MIG_FAILED: 30.0, "success": 60.0}


class Step(enum.Enum):
    """What is to be done next."""

    DONE = "as declared"
    LET_GO = "wait until NFD no longer sets the labels"
    CLOSED = "wait for a maintenance window"
    TAKE_SLOT = "wait for a rollout slot"
    BLOCKED = "pods that come back by themselves hold GPUs"
    STOPPED = "pods that were to go are still there"
    MARK = "cordon the node"
    EMPTY = "evict the pods that hold GPUs"
    SET = "set the labels"
    LATE = "evict the pods that came after the last look"
    WAIT = "wait until the GPUs are as declared"


@dataclass(frozen=True)
class Target:
    """What the node becomes: the labels to set, and resource -> count that it then advertises."""

    labels: Mapping[str, str]
    advertises: Mapping[str, int]

    @property
    def name(self) -> str:
        """As the mark has it."""
        return " ".join(f"{key}={value}" for key, value in sorted(self.labels.items()))


@dataclass(frozen=True)
class Holder:
    """A pod that holds GPUs of the node.

    Attributes:
        owner: the kind of its controller; empty: a bare pod.
        holds: resource -> count.
        leaves: whether it is ending.
        note: what is odd about it, for people; empty where nothing is.
    """

    namespace: str
    name: str
    uid: str
    owner: str
    holds: Mapping[str, int]
    leaves: bool = False
    note: str = ""

    def __str__(self) -> str:
        """As messages show it."""
        of = self.note or {"": "a bare pod", "Node": "a static pod", "DaemonSet": "of a DaemonSet"}.get(self.owner)
        return f"{self.namespace}/{self.name}" + (f" ({of})" if of else "")


@dataclass(frozen=True)
class Mark:
    """What is being done to the node; an annotation of it.

    Attributes:
        to: the name of the target.
        cordoned: whether the node was cordoned for it, and so is to be uncordoned.
        since: when that began, RFC 3339.
        stopped: uids of the pods for which the change was stopped; the node has been given back then.
        why: what stands against it.
    """

    to: str
    cordoned: bool
    since: str
    stopped: tuple[str, ...] = ()
    why: str = ""

    def text(self) -> str:
        """As the annotation's value."""
        rest: dict[str, Any] = {"stopped": list(self.stopped)} if self.stopped else {}
        if self.why:
            rest["why"] = self.why
        return json.dumps({"to": self.to, "cordoned": self.cordoned, "since": self.since, **rest})


def read_mark(text: str | None) -> Mark | None:
    """The mark of an annotation's value; one that cannot be read uncordons nothing."""
    if not text:
        return None
    try:
        found: Any = json.loads(text)
        stopped = tuple(str(uid) for uid in found.get("stopped") or [])
        return Mark(str(found["to"]), found["cordoned"] is True, str(found["since"]), stopped, str(found.get("why") or ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Mark("", cordoned=False, since="")


@dataclass(frozen=True)
class LivingNodeState:
    """What is there.

    Attributes:
        labels: of the node.
        by_nfd: the labels that NFD takes for its own, and takes away once no rule sets them.
        cordoned: whether the node takes no new pods.
        mark: what is being done to it.
        holders: pods that hold its GPUs.
        has_slot: whether this node has a rollout slot.
        as_declared: whether NVML says what is declared.
        open: whether a change may begin now.
        offers: resource -> count that the node offers to pods.
    """

    labels: Mapping[str, str]
    by_nfd: frozenset[str]
    cordoned: bool
    mark: Mark | None
    holders: tuple[Holder, ...]
    has_slot: bool
    as_declared: bool
    open: bool = True
    offers: Mapping[str, int] = field(default_factory=dict)


def next_step(target: Target, seen: LivingNodeState) -> Step:  # noqa: PLR0911 - one after the other is how it is read
    """The next step."""
    if seen.by_nfd & set(target.labels):
        return Step.LET_GO
    there = has_labels(target, seen.labels)
    if there and not _failed_in_use(target, seen):
        if _came_late(target, seen):
            return Step.LATE
        return Step.WAIT if _settles(target, seen) else Step.DONE
    if not there and seen.mark is None and harmless(target, seen):
        return Step.SET
    if not seen.open and not begun(seen.mark):
        return Step.CLOSED
    if not all(map(movable, seen.holders)):
        # Before it takes a slot: a node that cannot begin must not keep the others waiting.
        return Step.BLOCKED
    if not seen.has_slot:
        return Step.TAKE_SLOT
    if seen.mark is None or seen.mark.to != target.name:
        return Step.MARK
    if seen.mark.stopped:
        return Step.STOPPED if any(one.uid in seen.mark.stopped for one in seen.holders) else Step.MARK
    return Step.EMPTY if seen.holders else Step.SET


def _failed_in_use(target: Target, seen: LivingNodeState) -> bool:
    """Whether mig-manager has failed on a node that pods use and no change has emptied, such as one that has joined."""
    failed = MIG_CONFIG_LABEL in target.labels and seen.labels.get(MIG_STATE_LABEL) == MIG_FAILED and not seen.as_declared
    return failed and bool(seen.holders) and not _is_for(target, seen.mark)


def _is_for(target: Target, mark: Mark | None) -> bool:
    return mark is not None and mark.to == target.name and not mark.stopped


def _came_late(target: Target, seen: LivingNodeState) -> bool:
    """Whether a pod holds what was before. Where NVML says that nothing of that is left, it has a share of what is declared."""
    if not _is_for(target, seen.mark):
        return False
    return not (MIG_CONFIG_LABEL in target.labels and seen.as_declared) and any(map(movable, seen.holders))


def movable(holder: Holder) -> bool:
    """Whether an eviction takes it away."""
    return holder.owner not in COMES_BACK


def _settles(target: Target, seen: LivingNodeState) -> bool:
    """Whether the operator's programs are still to follow the labels.

    The device plugin, where there was a change: until the node offers what is declared a pod may still get what was before. And
    mig-manager, also where a node has joined, and nobody is there to be harmed: before it has said anything the operator may
    still set its default over what was set here, since it goes by what it has read before (gpu-operator v26.7.0,
    controllers/nodelabeling_controller.go: a patch without the version that it is about).
    """
    if by_claims(target.labels) and begun(seen.mark) and any(seen.offers.values()):
        # Of the device plugin nothing may be left: a pod might get by it what a claim gets, too.
        return True
    if MIG_CONFIG_LABEL not in target.labels:
        return begun(seen.mark) and any(seen.offers.get(name, 0) != count for name, count in target.advertises.items())
    if seen.mark is not None:
        return not seen.as_declared
    unfinished = seen.labels.get(MIG_STATE_LABEL) in (None, *_UNFINISHED) or is_paused(seen.labels)
    return unfinished and not seen.holders


def is_paused(labels: Mapping[str, str]) -> bool:
    """Whether mig-manager keeps its clients away from the node."""
    return _PAUSED in labels.values()


def begun(mark: Mark | None) -> bool:
    """Whether a change is being made of the node; one that was given up for pods begins anew."""
    return mark is not None and not mark.stopped


def has_labels(target: Target, labels: Mapping[str, str]) -> bool:
    """Whether they are set."""
    return not wrong_labels(target.labels, labels)


def wrong_labels(wanted: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """The wanted labels that a node lacks or has with another value."""
    return {key: value for key, value in wanted.items() if labels.get(key) != value}


def harmless(target: Target, seen: LivingNodeState) -> bool:
    """Whether the labels can be set at once: no pod loses what it holds, and no GPUs are away for a time."""
    now, becomes = seen.labels.get(CONFIG_LABEL), target.labels[CONFIG_LABEL]
    if now is None:
        return not seen.holders or seen.as_declared
    same_mig = seen.labels.get(MIG_CONFIG_LABEL) == target.labels.get(MIG_CONFIG_LABEL)
    if allocation_of(seen.labels) != allocation_of(target.labels):
        return False
    if now == becomes and same_mig and set(ALLOCATION_LABELS) & wrong_labels(target.labels, seen.labels).keys():
        # Only labels are missing that say what is so already.
        return True
    sliced = now.startswith(_SLICED) and becomes.startswith(_SLICED)
    return same_mig and sliced and _fits(seen.holders, target.advertises)


def allocation_of(labels: Mapping[str, str]) -> str:
    """Which DaemonSet of the DRA driver a node runs; NO_CLAIMS: the device plugin."""
    return labels.get(DRA_DRIVER_LABEL, NO_CLAIMS)


def by_claims(labels: Mapping[str, str]) -> bool:
    """Whether pods get the node's GPUs through resource claims."""
    return allocation_of(labels) != NO_CLAIMS


def may_set(target: Target, seen: LivingNodeState) -> bool:
    """Whether labels that somebody has removed or overwritten can be set again without a slot: nobody loses what he holds."""
    if has_labels(target, seen.labels) or seen.by_nfd & set(target.labels):
        return False
    return not seen.holders or harmless(target, seen)


def _fits(holders: tuple[Holder, ...], advertises: Mapping[str, int]) -> bool:
    held: dict[str, int] = {}
    for one in holders:
        for resource, count in one.holds.items():
            held[resource] = held.get(resource, 0) + count
    return all(count <= advertises.get(resource, 0) for resource, count in held.items())


def marked(target: Target, seen: LivingNodeState, now: str) -> Mark:
    """The mark of a change that begins, or that gets another target; what was cordoned for it is still to be uncordoned."""
    ours = seen.mark is not None and seen.mark.cordoned and not seen.mark.stopped
    return Mark(target.name, cordoned=ours or not seen.cordoned, since=now)


def stopped(mark: Mark, holders: tuple[Holder, ...], why: str) -> Mark:
    """The mark of a change that is given up until those pods have gone."""
    return replace(mark, stopped=tuple(one.uid for one in holders), why=why)


def uncordons(mark: Mark | None) -> bool:
    """Whether the node is to be uncordoned when it is given back."""
    return mark is not None and mark.cordoned and not mark.stopped


def hangs(state: str, *, paused: bool, seconds: float) -> bool:
    """Whether mig-manager will do nothing more: it has been in this state so long, and failed or keeps its clients away."""
    return state in PATIENCE and (paused or state == MIG_FAILED) and seconds >= PATIENCE[state]
