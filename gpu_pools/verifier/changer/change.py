"""``change``: brings a living node to what is declared, once it has a rollout slot, and ends no pods beyond what was allowed.

What comes next is decided in gpu_pools/verifier/changer/rollout_steps.py; here it is done, and waited for. It ends well once the
labels are set and the GPUs are as declared; that the whole node is, is for ``assert`` to prove, and ``release`` uncordons it
after that. Where it fails, the node says why in its annotation, and the kubelet tries again.

Pods are asked to go by the eviction API, so that their disruption budgets hold, and with the grace that they declare.

A request may fail at any time, and may have been done although its answer is lost: so after each failure everything is read anew.
Who only waits asks rarely and not in step with the others: each slot that comes free would be asked for by all nodes at once.
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ..api import ApiError
from ..names import ALLOCATION_LABELS, CONFIG_LABEL, MIG_CONFIG_LABEL, MIG_STATE_LABEL, moment, seconds_of
from .rollout_steps import (
    MIG_FAILED,
    LivingNodeState,
    Mark,
    Step,
    Target,
    begun,
    hangs,
    has_labels,
    is_paused,
    marked,
    movable,
    next_step,
    stopped,
    uncordons,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..expectation import Expectation
    from .living_node import LivingNode
    from .rollout_slots import RolloutSlots
    from .rollout_steps import Holder

_POLL_SECONDS: Final = 2.0
#: Between two requests to evict the same pods, and after one that failed, at most.
_LONGEST_PAUSE_SECONDS: Final = 15.0
#: Between two looks whether those have gone that were told to, at most.
_LONGEST_LEAVING_SECONDS: Final = 5.0
#: Who waits for others asks after this part of what it has waited, so often at least, and looks at everything so often.
_PART_OF_WAIT, _LONGEST_IDLE_SECONDS, _LOOK_SECONDS = 0.05, 20.0, 120.0
#: How long a device plugin takes to offer what the label says, at most: after that the proof tells what is wrong.
_PLUGIN_SECONDS: Final = 30.0
#: Between two looks at the clock, while a window is closed: the declaration may change meanwhile.
_LONGEST_CLOSED_SECONDS: Final = 60.0
#: How long NFD takes to remove a label that no rule sets any more, at most: after that, whose rule sets it is looked up.
_NFD_SECONDS: Final = 60.0
_FORBIDDEN, _CONFLICT = 403, 409
_MOST_WHY: Final = 400


class ChangeError(Exception):
    """The change cannot go on; its text says why, and what to do."""


@dataclass(frozen=True)
class Manner:
    """How the pool wants it.

    Attributes:
        drain_seconds: how long pods may take to go.
        staying: ``wait``, ``stop`` or ``delete``.
        wait_seconds: how long the GPUs may take to become what is declared.
        restarts_mps: whether a running MPS daemon learns of the labels only when its pod is replaced.
    """

    drain_seconds: float
    staying: str
    wait_seconds: float
    restarts_mps: bool = False


def target_of(expected: Expectation) -> Target:
    """What the node becomes.

    Raises:
        ChangeError: where the expectation says nothing of the label.
    """
    node = expected.node
    if node is None or CONFIG_LABEL not in node.labels:
        message = f"the expectation says nothing of the label {CONFIG_LABEL}"
        raise ChangeError(message)
    keys = (CONFIG_LABEL, MIG_CONFIG_LABEL, *ALLOCATION_LABELS)
    return Target({key: node.labels[key] for key in keys if key in node.labels}, node.allocatable)


@dataclass
class Change:
    """A change of a node, from wherever it is to its end.

    Attributes:
        target: what it becomes.
        node: the node.
        slots: of its pool.
        manner: how.
        nvml: whether NVML says what is declared.
        opens_in: seconds until a change may begin; 0 while it may.
        now, sleep: the clock.
        wall: seconds since the epoch, as marks have them.
        chance: from 0 to 1, so that nodes do not ask in step.
    """

    target: Target
    node: LivingNode
    slots: RolloutSlots
    manner: Manner
    nvml: Callable[[], bool]
    opens_in: Callable[[], float] = lambda: 0.0
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random
    #: The step that is being done, and since when.
    _at: tuple[Step | None, float] = (None, 0.0)
    #: What stands against the evictions; since when mig-manager is in its state; whether it was started anew.
    _refused: dict[str, str] = field(default_factory=dict)
    _state: tuple[str, bool, float] = ("", False, 0.0)
    _mended: bool = False
    #: Whether the pod of the MPS daemon was replaced since the labels were set.
    _mps_restarted: bool = False
    _pause: float = _POLL_SECONDS
    _closed: float = 0.0
    #: How many slots there are, and when that was asked, while all of them are taken.
    _queue: tuple[int, float] | None = None
    #: Since when there are pods that came late; how long to wait after the next failure.
    _late: float | None = None
    _after_failure: float = _POLL_SECONDS

    def run(self) -> None:
        """Go on until nothing is left to do.

        Raises:
            ChangeError: where it cannot go on.
        """
        while not self.look():
            pass

    def look(self) -> bool:
        """Look once and do what follows; whether all is done.

        Raises:
            ChangeError: where it cannot go on.
        """
        try:
            done = self._go_on()
        except ApiError as error:
            if error.status == _FORBIDDEN:
                raise ChangeError(str(error)) from None
            # The node has changed since it was read, or the API server is away.
            tell(str(error))
            self._rest(_POLL_SECONDS if error.status == _CONFLICT else self._after_failure)
            self._after_failure = min(_LONGEST_PAUSE_SECONDS, self._after_failure * 1.5)
            return False
        self._after_failure = _POLL_SECONDS
        return done

    def _go_on(self) -> bool:
        """One step; whether all is done."""
        if self._queue and self.now() - self._queue[1] < _LOOK_SECONDS and self.slots.taken() >= self._queue[0]:
            self._idle()
            return False
        self._queue = None
        node = self.node.read()
        self._closed = self.opens_in()
        seen = self.node.seen(node, has_slot=self.slots.mine(), is_open=self._closed <= 0, as_declared=self._as_declared)
        step = next_step(self.target, seen)
        if step is not self._at[0]:
            self._at, self._pause = (step, self.now()), _POLL_SECONDS
            tell(f"{step.value}: {self.target.name}")
        if step in {Step.DONE, Step.WAIT} and self._mps_is_old(seen):
            tell("the MPS daemon's pod is replaced: a running one keeps its old replicas")
            self.node.restart_mps_daemon()
            self._mps_restarted = True
            return False
        if step is Step.DONE or (step is Step.WAIT and self._left_to_the_proof()):
            return True
        self._do(step, node, seen)
        return False

    def _do(self, step: Step, node: dict[str, Any], seen: LivingNodeState) -> None:
        if step is Step.SET:
            self.node.set_labels(node, self.target.labels)
        elif step is Step.MARK:
            self.node.mark(node, marked(self.target, seen, moment(self.wall())), cordoned=True)
        elif step is Step.TAKE_SLOT:
            self._take_slot()
        elif step in {Step.EMPTY, Step.LATE}:
            self._empty(node, seen)
        elif step is Step.WAIT:
            self._wait(node, seen)
        elif step is Step.LET_GO:
            self._let_go()
        elif step is Step.CLOSED:
            self.sleep(min(self._closed, _LONGEST_CLOSED_SECONDS))
        elif step is Step.STOPPED and self._would_go(seen):
            self.node.mark(node, marked(self.target, seen, moment(self.wall())), cordoned=True)
        else:
            if step is Step.BLOCKED and seen.has_slot and seen.mark is None:
                # It took its slot before the pods came, and has not begun.
                self.slots.free()
            self._fail(node, seen.mark, _why_not(step, seen))

    def _as_declared(self, labels: Mapping[str, str], mark: Mark | None, held: bool) -> bool:  # noqa: FBT001 - as it is called
        """Asks NVML only where something depends on it: it opens the driver, which a change of MIG wants closed."""
        if CONFIG_LABEL not in labels:
            return held and self.nvml()
        changes = mark is not None or (held and labels.get(MIG_STATE_LABEL) == MIG_FAILED)
        return changes and MIG_CONFIG_LABEL in self.target.labels and has_labels(self.target, labels) and self.nvml()

    def _mps_is_old(self, seen: LivingNodeState) -> bool:
        """Whether the MPS daemon may still serve what was before; asked only with a slot, while no pod holds its GPUs.

        A changer that is killed after it has replaced the pod does it again, which ends nobody's work.
        """
        return self.manner.restarts_mps and begun(seen.mark) and not self._mps_restarted

    def _take_slot(self) -> None:
        if not self.slots.take():
            self._queue = (self.slots.count(), self.now())
            self._idle()

    def _idle(self) -> None:
        """Wait for others: the longer it takes, the longer, but never a large part of what was waited."""
        self._rest(max(_POLL_SECONDS, min(_LONGEST_IDLE_SECONDS, (self.now() - self._at[1]) * _PART_OF_WAIT)))

    def _rest(self, seconds: float) -> None:
        self.sleep(seconds * (0.75 + self.chance() / 2))

    def _left_to_the_proof(self) -> bool:
        return MIG_CONFIG_LABEL not in self.target.labels and self.now() - self._at[1] >= _PLUGIN_SECONDS

    def _let_go(self) -> None:
        waited = self.now() - self._at[1]
        rules = self.node.rules_setting(CONFIG_LABEL) if waited > _NFD_SECONDS else ()
        if rules or waited > self.manner.wait_seconds:
            named = f"NodeFeatureRule {', '.join(rules)} names it" if rules else "a NodeFeatureRule names it, or NFD does not run"
            raise ChangeError(f"NFD still sets {CONFIG_LABEL}: {named}. Remove the label from that rule.")
        self._idle()

    def _empty(self, node: dict[str, Any], seen: LivingNodeState) -> None:
        began = self._at[1]
        if self._at[0] is Step.LATE:
            # One may come after the other.
            began = self._late = self._late or began
        left = began + self.manner.drain_seconds - self.now()
        late = left <= 0
        if late and self.manner.staying == "stop":
            self._stop(node, seen)
        ask = self.node.delete if late and self.manner.staying == "delete" else self.node.evict
        if late:
            self._tell_late(node, seen)
        asked = [pod for pod in seen.holders if not pod.leaves and movable(pod)]
        self._refused |= {pod.uid: ask(pod) for pod in asked}
        refused = [pod for pod in asked if self._refused[pod.uid]]
        if len(refused) < len(asked):
            self._pause = _POLL_SECONDS
        self.sleep(self._pause if late else min(self._pause, left))
        # Who leaves may be gone at any moment, and the node is for nobody until then.
        self._pause = min(_LONGEST_PAUSE_SECONDS if refused else _LONGEST_LEAVING_SECONDS, self._pause * 1.5)

    def _tell_late(self, node: dict[str, Any], seen: LivingNodeState) -> None:
        how = "deleted, whatever their disruption budgets say" if self.manner.staying == "delete" else "waited for"
        why = f"these pods did not go in {self.manner.drain_seconds:g} s and are {how}: {self._named(seen.holders)}"
        if seen.mark and seen.mark.why != why[:_MOST_WHY]:
            tell(why)
            self.node.mark(node, replace(seen.mark, why=why[:_MOST_WHY]))

    def _stop(self, node: dict[str, Any], seen: LivingNodeState) -> None:
        why = f"these pods did not go in {self.manner.drain_seconds:g} s: {self._named(seen.holders)}"
        mark = seen.mark
        if self._at[0] is Step.LATE:
            self._fail(node, mark, f"{why}. The labels are set, so the node stays as it is until they have ended.")
        if mark is not None:
            # Nothing was changed yet, so the node goes on as it was. It keeps its slot, so that the others do not begin.
            given_up = stopped(mark, seen.holders, why[:_MOST_WHY])
            self.node.mark(node, given_up, cordoned=False if uncordons(mark) else None)
        raise ChangeError(why + ". The node works on as before. End them, or declare podsThatStay: wait or delete.")

    def _would_go(self, seen: LivingNodeState) -> bool:
        """Whether the pods for which it was stopped would go now; nothing is evicted that might come back for nothing."""
        stayed = [one for one in seen.holders if seen.mark and one.uid in seen.mark.stopped]
        return not any(one.leaves or self.node.evict(one, only_ask=True) for one in stayed)

    def _named(self, holders: tuple[Holder, ...]) -> str:
        named = (f"{one}: {self._refused[one.uid]}" if self._refused.get(one.uid) else str(one) for one in holders)
        return "; ".join(named)

    def _wait(self, node: dict[str, Any], seen: LivingNodeState) -> None:
        state, paused = seen.labels.get(MIG_STATE_LABEL, ""), is_paused(seen.labels)
        if (state, paused) != self._state[:2]:
            self._state = (state, paused, self.now())
        why = f"mig-manager's state is {state or 'not there'}" + (", and its clients are paused" if paused else "")
        if hangs(state, paused=paused, seconds=max(self.now() - self._state[2], self._pending(state, seen.mark))):
            if self._mended:
                self._fail(node, seen.mark, f"{why}, also after it was started anew. Its log says why.")
            tell(f"{why}: it is started anew")
            self.node.restart_mig_manager()
            # From here on it has as long again.
            self._mended, self._state, self._at = True, (state, paused, self.now()), (Step.WAIT, self.now())
        if self.now() - self._at[1] > self.manner.wait_seconds:
            held = f"; these pods hold GPUs: {self._named(seen.holders)}" if seen.holders else ""
            self._fail(node, seen.mark, f"the GPUs were not as declared in {self.manner.wait_seconds:g} s: {why}{held}")
        # A node with a slot keeps others waiting; those that have joined may be many.
        if seen.mark is None:
            self._idle()
        else:
            self.sleep(_POLL_SECONDS)

    def _pending(self, state: str, mark: Mark | None) -> float:
        """Seconds that mig-manager was pending at least, earlier containers' waits included: each gives up before it hangs."""
        began = mark and seconds_of(mark.since)
        if state != "pending" or self._mended or not began:
            return 0.0
        return self.wall() - began - self.manner.drain_seconds

    def _fail(self, node: dict[str, Any], mark: Mark | None, why: str) -> None:
        if mark is not None and mark.why != why[:_MOST_WHY]:
            self.node.mark(node, replace(mark, why=why[:_MOST_WHY]))
        raise ChangeError(why)


def _why_not(step: Step, seen: LivingNodeState) -> str:
    if step is Step.STOPPED and seen.mark is not None:
        return seen.mark.why
    pods = "; ".join(str(one) for one in seen.holders)
    return f"{step.value}: {pods}. Keep them from the node by its labels, or end them; nothing was changed."


def tell(text: str) -> None:
    """Say it in the log of the container."""
    print(f"{moment()} {text}", file=sys.stderr, flush=True)  # noqa: T201
