"""Repairs a node, from wherever it is to its end: does each step, waits for it, and says what it waits for.

What comes next is decided in gpu_pools/repairing/steps.py from a new look at the node each time. Pods are asked to go by the
eviction API, so that disruption budgets hold, and with the grace that they declare; what becomes of those that stay is said in
the words of a pool's `rollout`. It never gives back a node that is not proven, but where nothing was changed yet.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.verdicts import Verdict
from gpu_pools.repairing.looking import NoNodeError
from gpu_pools.repairing.steps import Step, begun, looked, next_step
from gpu_pools.repairing.ways import Way
from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.changer.living_node import despite_others
from gpu_pools.verifier.names import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gpu_pools.repairing.looking import Look, Looker
    from gpu_pools.verifier.changer.rollout_steps import Holder

_POLL_SECONDS: Final = 2.0
#: Between two requests to evict the same pods, and between two looks at what takes long.
_LONGEST_PAUSE_SECONDS: Final = 15.0
_FORBIDDEN: Final = 403
UPGRADE_STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
_UPGRADE_REQUIRED: Final = "upgrade-required"
STOP, WAIT, DELETE = "stop", "wait", "delete"


class RepairError(Exception):
    """It cannot go on; its text says why, how the node stands, and what to do."""


@dataclass(frozen=True)
class Manner:
    """How it is wanted.

    Attributes:
        drain_seconds: how long pods may take to go.
        staying: what becomes of those that do not go: STOP, WAIT or DELETE.
        hand_seconds: how long a reboot, a reset or another machine may take.
        proof_seconds: how long the proof may take.
    """

    drain_seconds: float
    staying: str
    hand_seconds: float
    proof_seconds: float


@dataclass
class Repair:
    """A repair of a node.

    Attributes:
        looker: at the node.
        ways: what is done, where nothing is being done yet.
        manner: how.
        tell: says what happens.
        now, sleep: the clock.
    """

    looker: Looker
    ways: tuple[Way, ...]
    manner: Manner
    tell: Callable[[str], None]
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    #: The step that is being done, and since when.
    _at: tuple[Step | None, float] = (None, 0.0)
    _refused: dict[str, str] = field(default_factory=dict)
    _pause: float = _POLL_SECONDS
    _said: str = ""

    def begin(self) -> None:
        """Write what is done onto the node, in the place of a repair that came to its end without a proof.

        Raises:
            RepairError: where that is not possible.
        """
        try:
            despite_others(lambda: self._mark(self.looker.look()))
        except (ApiError, NoNodeError) as error:
            message = f"{error}. Nothing was done."
            raise RepairError(message) from None

    def new_node(self, pool: str, known: Collection[str]) -> str:
        """Wait for the one that comes in the place of one that went; what came of it.

        Args:
            pool: whose.
            known: uids of the nodes that there were before.

        Raises:
            RepairError: where none comes that is proven.
        """
        self._at = (None, self.now())
        self.tell("wait for the node that comes in its place")
        while not self._late(self.manner.hand_seconds):
            try:
                found = self.looker.pool(pool)
            except ApiError as error:
                self._say(f"{error}; it is tried again")
            else:
                new = [node for node in found.nodes if node.uid not in known]
                if proven := [node.name for node in new if node.verdict is Verdict.PROVEN]:
                    return f"{self.looker.name} has gone; {', '.join(proven)} has come, and is proven."
                if len(found.nodes) >= found.declared.min_nodes and not new:
                    return f"{self.looker.name} has gone. {pool} has as many nodes as it must have, so nobody is waited for."
                self._say("; ".join(f"  {node.name}: {node.verdict.value} {node.reason}" for node in new))
            self.sleep(_LONGEST_PAUSE_SECONDS / 3)
        message = f"no new node of {pool} was proven in {self.manner.hand_seconds:g} s. See: gpu-pools evidence"
        raise RepairError(message)

    def run(self) -> bool:
        """Go on until nothing is left to do; whether the node was uncordoned, and not replaced.

        Raises:
            EvidenceError: it is no longer a node of the stack.
            RepairError: where it cannot go on.
        """
        while True:
            try:
                look = self.looker.look()
                step = self._begun(look)
                self._do(step, look)
            except NoNodeError:
                if Way.REPLACE in self.ways:
                    return False
                message = f"{self.looker.name} is not there any more."
                raise RepairError(message) from None
            except ApiError as error:
                if error.status == _FORBIDDEN:
                    raise RepairError(str(error)) from None
                # The node has changed since it was read, or the API server is away: the next look says what is so.
                self._say(f"{error}; it is tried again")
                self.sleep(_POLL_SECONDS)
            else:
                if step is Step.GIVE_BACK:
                    return True

    def _begun(self, look: Look) -> Step:
        step = next_step(look.seen)
        if step is not self._at[0]:
            self._at, self._pause = (step, self.now()), _POLL_SECONDS
            self.tell(step.value)
        return step

    def _do(self, step: Step, look: Look) -> None:
        {
            Step.MARK: self._mark,
            Step.EMPTY: self._empty,
            Step.GONE: self._wait_for_hand,
            Step.HAND: self._wait_for_hand,
            Step.UPGRADE: self._upgrade,
            Step.LABEL: self._label,
            Step.RESTART: self._restart,
            Step.LOOK: self._look,
            Step.PROVE: self._prove,
            Step.GIVE_BACK: self._give_back,
        }[step](look)

    # ------------------------------------------------------------------ steps

    def _mark(self, look: Look) -> None:
        starting = look.starting(self.ways, self.looker.declared.namespace)
        mark = begun(self.ways, tuple(str(pod["metadata"]["uid"]) for pod in starting), look.seen, moment())
        self.looker.living(look).mark(look.node, mark, cordoned=True)

    def _empty(self, look: Look) -> None:
        living, going = self.looker.living(look), look.seen.going
        late = self._late(self.manner.drain_seconds)
        if late and self.manner.staying == STOP:
            living.give_back(look.node)
            message = f"these pods did not go in {self.manner.drain_seconds:g} s: {self._named(going)}. "
            raise RepairError(f"{message}The node is as it was before. End them, or say --pods-that-stay wait or delete.")
        if late:
            how = "deleted, whatever their disruption budgets say" if self.manner.staying == DELETE else "waited for"
            self._say(f"these pods did not go in {self.manner.drain_seconds:g} s and are {how}: {self._named(going)}")
        ask = living.delete if late and self.manner.staying == DELETE else living.evict
        went = False
        for pod in going:
            if not pod.leaves:
                self._refused[pod.uid] = ask(pod)
                went = went or not self._refused[pod.uid]
        self.sleep(self._pause)
        self._pause = _POLL_SECONDS if went else min(_LONGEST_PAUSE_SECONDS, self._pause * 1.5)

    def _wait_for_hand(self, look: Look) -> None:
        del look
        if self._late(self.manner.hand_seconds):
            message = f"nothing of that was seen in {self.manner.hand_seconds:g} s. "
            raise RepairError(
                f"{message}The node stays cordoned and empty. When it is done, run the command again: it goes on here."
            )
        self._longer()

    def _upgrade(self, look: Look) -> None:
        mark = look.seen.mark
        assert mark is not None, "steps"  # noqa: S101 - next_step gives UPGRADE with a mark only
        living = self.looker.living(look)
        # Marked in a second request: an upgrade that is asked for twice is one.
        living.set_labels(look.node, {UPGRADE_STATE: _UPGRADE_REQUIRED})
        again = self.looker.look()
        living.mark(again.node, replace(mark, upgrade=True))

    def _label(self, look: Look) -> None:
        if self._late(self.manner.proof_seconds):
            wrong = ", ".join(sorted(look.seen.labels))
            message = f"somebody else keeps writing the labels {wrong}: metadata.managedFields of the node says who. "
            raise RepairError(f"{message}The node stays cordoned; stop the writer, and run the command again.")
        self._say("  " + ", ".join(f"{key}={value}" for key, value in sorted(look.seen.labels.items())))
        self.looker.living(look).set_labels(look.node, look.seen.labels)

    def _restart(self, look: Look) -> None:
        first = look.seen.starting[0]
        pod = next(one for one in look.pods if one["metadata"]["uid"] == first)
        if self._late(self.manner.proof_seconds):
            message = f"{look.seen.pods[first]} did not end in {self.manner.proof_seconds:g} s. "
            raise RepairError(f"{message}The node stays cordoned; run the command again when it has ended.")
        if not pod["metadata"].get("deletionTimestamp"):
            self.tell(f"  {look.seen.pods[first]}")
            self._delete(pod["metadata"])
        else:
            self.sleep(_POLL_SECONDS)

    def _delete(self, metadata: dict[str, Any]) -> None:
        self.looker.api.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", metadata["uid"])

    def _look(self, look: Look) -> None:
        mark = look.seen.mark
        assert mark is not None, "steps"  # noqa: S101 - next_step gives LOOK with a mark only
        self.looker.living(look).mark(look.node, looked(mark, look.seen))

    def _prove(self, look: Look) -> None:
        found = look.evidence.reason or "; ".join(f"{one.where}: {one.text}" for one in look.findings[:3])
        if self._late(self.manner.proof_seconds):
            remedy = " ".join(one.remedy for one in look.findings[:1])
            message = f"the node was not proven in {self.manner.proof_seconds:g} s: {look.evidence.verdict.value}: {found}. "
            raise RepairError(
                f"{message}{remedy} The node stays cordoned; the same command begins anew, --replace replaces its machine."
            )
        if found:
            self._say(f"  {look.evidence.verdict.value}: {found}")
        self._longer()

    def _give_back(self, look: Look) -> None:
        self.looker.living(look).give_back(look.node)

    # ------------------------------------------------------------------ waiting, telling

    def _late(self, seconds: float) -> bool:
        return self.now() - self._at[1] >= seconds

    def _longer(self) -> None:
        self.sleep(self._pause)
        self._pause = min(_LONGEST_PAUSE_SECONDS, self._pause * 1.2)

    def _say(self, text: str) -> None:
        """Say it, but not again and again."""
        if text != self._said:
            self._said = text
            self.tell(text)

    def _named(self, going: tuple[Holder, ...]) -> str:
        return "; ".join(f"{one}: {self._refused[one.uid]}" if self._refused.get(one.uid) else str(one) for one in going)
