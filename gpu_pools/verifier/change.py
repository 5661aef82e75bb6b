"""``change``: brings a living node to what is declared, in its turn and without ending pods beyond what was allowed.

What comes next is decided in gpu_pools/verifier/steps.py; here it is done, and waited for. It ends well once the labels are set
and the GPUs are as declared; that the whole node is, is for ``assert`` to prove, and ``release`` gives it back after that. Where
it fails, the node says why in its annotation, and the kubelet tries again.

Pods are asked to go by the eviction API, so that their disruption budgets hold, and with the grace that they declare.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from .api import ApiError
from .moments import moment, seconds_of
from .operands import CONFIG_LABEL, MIG_CONFIG_LABEL, MIG_STATE_LABEL
from .steps import Mark, Seen, Step, Target, hangs, has_labels, is_paused, marked, next_step, stopped, uncordons

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .expectation import Expectation
    from .living_node import LivingNode
    from .steps import Holder
    from .turns import Turns

_POLL_SECONDS: Final = 2.0
#: Between two requests to evict the same pods, at most.
_LONGEST_PAUSE_SECONDS: Final = 15.0
#: Between two looks at the clock, while a window is closed: the declaration may change meanwhile.
_LONGEST_CLOSED_SECONDS: Final = 60.0
_FORBIDDEN: Final = 403
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
    """

    drain_seconds: float
    staying: str
    wait_seconds: float


def target_of(expected: Expectation) -> Target:
    """What the node becomes.

    Raises:
        ChangeError: where the expectation says nothing of the label.
    """
    node = expected.node
    if node is None or CONFIG_LABEL not in node.labels:
        message = f"the expectation says nothing of the label {CONFIG_LABEL}"
        raise ChangeError(message)
    return Target({key: node.labels[key] for key in (CONFIG_LABEL, MIG_CONFIG_LABEL) if key in node.labels}, node.allocatable)


@dataclass
class Change:
    """A change of a node, from wherever it is to its end.

    Attributes:
        target: what it becomes.
        node: the node.
        turns: of its pool.
        manner: how.
        nvml: whether NVML says what is declared.
        opens_in: seconds until a change may begin; 0 while it may.
        now, sleep: the clock.
        wall: seconds since the epoch, as marks have them.
    """

    target: Target
    node: LivingNode
    turns: Turns
    manner: Manner
    nvml: Callable[[], bool]
    opens_in: Callable[[], float] = lambda: 0.0
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time
    #: The step that is being done, and since when.
    _at: tuple[Step | None, float] = (None, 0.0)
    #: What stands against the evictions; since when mig-manager is in its state; whether it was started anew.
    _refused: dict[str, str] = field(default_factory=dict)
    _state: tuple[str, bool, float] = ("", False, 0.0)
    _mended: bool = False
    _pause: float = _POLL_SECONDS
    _closed: float = 0.0

    def run(self) -> None:
        """Go on until nothing is left to do.

        Raises:
            ChangeError: where it cannot go on.
        """
        while True:
            try:
                if self._go_on():
                    return
            except ApiError as error:
                if error.status == _FORBIDDEN:
                    raise ChangeError(str(error)) from None
                # The node has changed since it was read, or the API server is away.
                _tell(str(error))
                self.sleep(_POLL_SECONDS)

    def _go_on(self) -> bool:
        """One step; whether all is done."""
        node = self.node.read()
        self._closed = self.opens_in()
        seen = self.node.seen(node, turn=self.turns.mine(), is_open=self._closed <= 0, as_declared=self._as_declared)
        step = next_step(self.target, seen)
        if step is not self._at[0]:
            self._at, self._pause = (step, self.now()), _POLL_SECONDS
            _tell(f"{step.value}: {self.target.name}")
        if step is Step.DONE:
            return True
        self._do(step, node, seen)
        return False

    def _do(self, step: Step, node: dict[str, Any], seen: Seen) -> None:
        if step is Step.SET:
            self.node.set_labels(node, self.target.labels)
        elif step is Step.MARK:
            self.node.mark(node, marked(self.target, seen, moment(self.wall())), cordoned=True)
        elif step is Step.TAKE_TURN:
            if not self.turns.take():
                self.sleep(_POLL_SECONDS)
        elif step is Step.EMPTY:
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
            self._fail(node, seen.mark, _why_not(step, seen))

    def _as_declared(self, labels: Mapping[str, str], mark: Mark | None, held: bool) -> bool:  # noqa: FBT001 - as it is called
        """Asks NVML only where something depends on it: it opens the driver, which a change of MIG wants closed."""
        wanted = (has_labels(self.target, labels) and mark is not None and MIG_CONFIG_LABEL in self.target.labels) or (
            CONFIG_LABEL not in labels and held
        )
        return wanted and self.nvml()

    def _let_go(self) -> None:
        if self.now() - self._at[1] > self.manner.wait_seconds:
            message = f"NFD still sets {CONFIG_LABEL}: another NodeFeatureRule names it. Remove the label from that rule."
            raise ChangeError(message)
        self.sleep(_POLL_SECONDS)

    def _empty(self, node: dict[str, Any], seen: Seen) -> None:
        late = self.now() - self._at[1] >= self.manner.drain_seconds
        if late and self.manner.staying == "stop":
            self._stop(node, seen)
        ask = self.node.delete if late and self.manner.staying == "delete" else self.node.evict
        if late:
            self._tell_late(node, seen)
        went = False
        for pod in seen.holders:
            if not pod.leaves:
                self._refused[pod.uid] = ask(pod)
                went = went or not self._refused[pod.uid]
        self.sleep(self._pause)
        self._pause = _POLL_SECONDS if went else min(_LONGEST_PAUSE_SECONDS, self._pause * 1.5)

    def _tell_late(self, node: dict[str, Any], seen: Seen) -> None:
        how = "deleted, whatever their disruption budgets say" if self.manner.staying == "delete" else "waited for"
        why = f"these pods did not go in {self.manner.drain_seconds:g} s and are {how}: {self._named(seen.holders)}"
        if seen.mark and seen.mark.why != why[:_MOST_WHY]:
            _tell(why)
            self.node.mark(node, replace(seen.mark, why=why[:_MOST_WHY]))

    def _stop(self, node: dict[str, Any], seen: Seen) -> None:
        why = f"these pods did not go in {self.manner.drain_seconds:g} s: {self._named(seen.holders)}"
        mark = seen.mark
        if mark is not None:
            # Nothing was changed yet, so the node goes on as it was. It keeps its turn, so that the others do not begin.
            given_up = stopped(mark, seen.holders, why[:_MOST_WHY])
            self.node.mark(node, given_up, cordoned=False if uncordons(mark) else None)
        raise ChangeError(why + ". The node works on as before. End them, or declare podsThatStay: wait or delete.")

    def _would_go(self, seen: Seen) -> bool:
        """Whether the pods for which it was stopped would go now; nothing is evicted that might come back for nothing."""
        stayed = [one for one in seen.holders if seen.mark and one.uid in seen.mark.stopped]
        return not any(one.leaves or self.node.evict(one, only_ask=True) for one in stayed)

    def _named(self, holders: tuple[Holder, ...]) -> str:
        named = (f"{one}: {self._refused[one.uid]}" if self._refused.get(one.uid) else str(one) for one in holders)
        return "; ".join(named)

    def _wait(self, node: dict[str, Any], seen: Seen) -> None:
        state, paused = seen.labels.get(MIG_STATE_LABEL, ""), is_paused(seen.labels)
        if (state, paused) != self._state[:2]:
            self._state = (state, paused, self.now())
        why = f"mig-manager's state is {state or 'not there'}" + (", and its clients are paused" if paused else "")
        if hangs(state, paused=paused, seconds=max(self.now() - self._state[2], self._pending(state, seen.mark))):
            if self._mended:
                self._fail(node, seen.mark, f"{why}, also after it was started anew. Its log says why.")
            _tell(f"{why}: it is started anew")
            self.node.restart_mig_manager()
            # From here on it has as long again.
            self._mended, self._state, self._at = True, (state, paused, self.now()), (Step.WAIT, self.now())
        if self.now() - self._at[1] > self.manner.wait_seconds:
            self._fail(node, seen.mark, f"the GPUs were not as declared in {self.manner.wait_seconds:g} s: {why}")
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


def _why_not(step: Step, seen: Seen) -> str:
    if step is Step.STOPPED and seen.mark is not None:
        return seen.mark.why
    pods = "; ".join(str(one) for one in seen.holders)
    return f"{step.value}: {pods}. Keep them from the node by its labels, or end them; nothing was changed."


def released(node: LivingNode, turns: Turns) -> None:
    """Give the node back, and then its turn: so the next one begins only when this one works.

    Raises:
        ApiError: where that is not possible.
    """
    if node.give_back(node.read()):
        _tell("the node is given back")
    turns.free()


def _tell(text: str) -> None:
    print(f"{moment()} {text}", file=sys.stderr, flush=True)  # noqa: T201 - the log of its container
