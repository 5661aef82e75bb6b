"""What the next step of a repair is: decided from what is there, and from nothing else.

So a repair can end anywhere, with its process, its terminal or the node, and the next one goes on from there. What is being
done is written on the node itself (the mark), as a pool's changer does it, in an annotation of its own.

Nothing compares two clocks: pods that were to start anew are known by their uids, a reboot by the node's boot id, and a report is
fresh if it is another one than that which was there when everything had started anew, the verifier at last.
Pure: talks to nobody.
"""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.repairing.ways import Way, empties_node, frees_gpus, ways_of
from gpu_pools.verifier.changer import rollout_steps as changing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.verifier.changer.rollout_steps import Holder

#: Pods of these belong to the node: they come back to it, and end with it.
OF_THE_NODE: Final = changing.COMES_BACK


class Step(enum.Enum):
    """What is to be done next."""

    MARK = "cordon the node"
    EMPTY = "evict its pods"
    GONE = "wait until its machine is replaced"
    HAND = "wait for a reboot, or a reset of its GPUs"
    RESTART = "start anew"
    UPGRADE = "have the operator try its driver's upgrade again"
    LABEL = "set the declared labels"
    LOOK = "note which report is the last one"
    PROVE = "wait for the verifier's report"
    GIVE_BACK = "give the node back"


@dataclass(frozen=True)
class Mark(changing.Mark):
    """What is being done to the node; an annotation of it.

    Attributes:
        ways: the names of what is done.
        pods: uids of those that are to start anew, in this order.
        boot: the node's boot id when it began.
        report: the time of the last report when it began.
        last: the time of the last report when everything had started anew, ``-`` where there was none; empty before that.
        upgrade: whether the operator was told to try again.
    """

    ways: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    boot: str = ""
    report: str = ""
    last: str = ""
    upgrade: bool = False

    def text(self) -> str:
        """As the annotation's value."""
        return json.dumps(asdict(self))

    @property
    def what(self) -> tuple[Way, ...]:
        """The ways; one of another version of this program is left out."""
        return tuple(Way[name] for name in self.ways if name in Way.__members__)


def read_mark(text: str | None) -> Mark | None:
    """The mark of an annotation's value; one that cannot be read uncordons nothing, and is done anew."""
    if not text:
        return None
    try:
        found: Any = json.loads(text)
        return Mark(
            to=str(found["to"]),
            cordoned=found["cordoned"] is True,
            since=str(found["since"]),
            ways=tuple(str(way) for way in found["ways"]),
            pods=tuple(str(uid) for uid in found["pods"]),
            boot=str(found["boot"]),
            report=str(found["report"]),
            last=str(found["last"]),
            upgrade=found["upgrade"] is True,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Mark("repair", cordoned=False, since="")


@dataclass(frozen=True)
class NodeUnderRepair:
    """What is there.

    Attributes:
        cordoned: whether the node takes no new pods.
        ready: whether its kubelet says so.
        mark: what is being done to it.
        holders: pods that hold its GPUs.
        others: further pods that can go elsewhere.
        pods: uid -> name, of all that are on it.
        boot: its boot id.
        report: the time of its last report; ``-`` where there is none.
        causes: what that says; None where it says nothing that counts.
        proven: whether that report proves the node.
        labels: those of the deployed expectation that the node lacks or has with another value.
    """

    cordoned: bool
    ready: bool
    mark: Mark | None
    holders: tuple[Holder, ...]
    others: tuple[Holder, ...]
    pods: Mapping[str, str]
    boot: str
    report: str
    causes: tuple[str, ...] | None
    proven: bool
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def going(self) -> tuple[Holder, ...]:
        """The pods that have to go for what is being done."""
        return leaving(self.mark.what if self.mark else (), self)

    @property
    def starting(self) -> tuple[str, ...]:
        """The pods that are still to start anew, by uid."""
        return tuple(uid for uid in (self.mark.pods if self.mark else ()) if uid in self.pods)


def leaving(ways: tuple[Way, ...], seen: NodeUnderRepair) -> tuple[Holder, ...]:
    """The pods that have to go for this, but those that would come back by themselves."""
    wanted = (*seen.holders, *seen.others) if empties_node(ways) else seen.holders if frees_gpus(ways) else ()
    return tuple(one for one in wanted if one.owner not in OF_THE_NODE)


def blocking(ways: tuple[Way, ...], seen: NodeUnderRepair) -> tuple[Holder, ...]:
    """Pods that hold GPUs which have to be free, and that would come back by themselves; a reboot needs nobody's leave."""
    if empties_node(ways) or not frees_gpus(ways):
        return ()
    return tuple(one for one in seen.holders if one.owner in OF_THE_NODE)


def next_step(seen: NodeUnderRepair) -> Step:  # noqa: PLR0911 - one after the other is how it is read
    """The next step."""
    mark = seen.mark
    if mark is None or not mark.what:
        return Step.MARK
    if mark.last:
        return Step.GIVE_BACK if seen.proven and seen.report != mark.last else Step.PROVE
    if seen.going:
        return Step.EMPTY
    if Way.REPLACE in mark.what:
        return Step.GONE
    if Way.HAND in mark.what and not _had_a_hand(mark, seen):
        return Step.HAND
    if Way.UPGRADE in mark.what and not mark.upgrade:
        return Step.UPGRADE
    if Way.LABEL in mark.what and seen.labels:
        return Step.LABEL
    return Step.RESTART if seen.starting else Step.LOOK


def _had_a_hand(mark: Mark, seen: NodeUnderRepair) -> bool:
    """Whether it has been rebooted, or a new report no longer says what a hand is needed for."""
    if seen.boot != mark.boot:
        return seen.ready
    new = seen.report != mark.report and seen.causes is not None
    return new and not any(Way.HAND in ways_of(cause) for cause in seen.causes or ())


def begun(ways: tuple[Way, ...], pods: tuple[str, ...], seen: NodeUnderRepair, now: str) -> Mark:
    """The mark of a repair that begins, or begins anew: what was cordoned for the one before is still to be uncordoned."""
    ours = seen.mark is not None and seen.mark.cordoned
    names = tuple(way.name for way in ways)
    return Mark(
        "repair", cordoned=ours or not seen.cordoned, since=now, ways=names, pods=pods, boot=seen.boot, report=seen.report
    )


def looked(mark: Mark, seen: NodeUnderRepair) -> Mark:
    """The mark once everything has started anew."""
    return replace(mark, last=seen.report)


def failed(seen: NodeUnderRepair) -> bool:
    """Whether a repair came to its end, and its node was not as declared: then it is begun anew, by what is found now."""
    mark = seen.mark
    return mark is not None and bool(mark.last) and seen.report != mark.last and not seen.proven and seen.causes is not None
