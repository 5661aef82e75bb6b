"""Waits for a pool's rollout, tells how it goes, and fails as soon as it stands still, with node, reason and remedy.

It looks and decides nothing itself (gpu_pools/proof/rollout_end.py), and changes nothing: what is to be done on a node the
verifiers' pods do. Whoever waits sleeps between two looks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.proof.rollout_end import Counts, Ends, PoolObjects, counts, ends, lost, mark_of, only_waits, stands_still
from gpu_pools.text.harmless import line
from gpu_pools.verifier.api import ApiError, shaped
from gpu_pools.verifier.names import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpu_pools.verifier.api import Client

_LOOK_SECONDS: Final = 5.0
#: Between two things that are told, at least; and how long nothing is told where nothing changes.
_TOLD_SECONDS: Final = 15.0
_SILENT_SECONDS: Final = 300.0
#: While no window is open: what needs none has begun by then.
_CLOSED_SECONDS: Final = 60.0
_FORBIDDEN: Final = 403
#: Looks in a row that must say so before a wait is given up.
_IN_VAIN: Final = 3


class NotRolledOutError(Exception):
    """The nodes of a pool are not all as declared; the text is for users."""


@dataclass(frozen=True)
class Place:
    """Where a rollout is to be seen.

    Attributes:
        namespace: of the verifiers.
        daemon_set: its name.
        pods: label selector of its pods.
        nodes: label selector of the pool's nodes.
    """

    namespace: str
    daemon_set: str
    pods: str
    nodes: str


@dataclass
class RolloutWait:
    """Of one pool.

    Attributes:
        api: of the cluster.
        pool: its name.
        place: where.
        most: how many nodes may change at the same time, or which share of them.
        seconds: how long it may take.
        first_seconds: how long the first proof of a node may take that nobody changes.
        tell: says how it goes.
        opens_in: seconds until nodes may begin to change; 0 while they may.
        in_vain: why no node of the pool can become what is declared; empty as long as that is not known.
        rolls: whether the pool has `rollout`.
        now: the clock.
        wall: seconds since the epoch.
    """

    api: Client
    pool: str
    place: Place
    most: int | str
    seconds: float
    first_seconds: float
    tell: Callable[[str], None]
    opens_in: Callable[[], float] = lambda: 0.0
    in_vain: Callable[[], str] = lambda: ""
    rolls: bool = True
    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    _began: float | None = None
    _before: Ends | None = None
    _told: str = ""
    _told_at: float = field(default=0.0)
    _closed_since: float | None = None
    _last: str = "it could not be looked at"
    _vain: int = 0

    def look(self) -> float:
        """Seconds until the next look; 0 where the rollout is over.

        Raises:
            NotRolledOutError: it stands still, or the time is over, or the API server does not allow the look.
        """
        self._seconds()
        try:
            if self._is_over():
                return 0.0
        except ApiError as error:
            self._last = str(error)
            if error.status == _FORBIDDEN:
                raise self._failed(f"its rollout could not be looked at: {error}") from None
        self._judge_hope()
        if self._seconds() >= self.seconds:
            what = "its rollout was not over" if self.rolls else "not all nodes were as declared"
            raise self._failed(f"{what} in {self.seconds:g} s: {self._last}")
        return _LOOK_SECONDS

    def _judge_hope(self) -> None:
        """End where several looks after each other say that waiting helps nothing: one may see a state that passes."""
        why = self.in_vain()
        self._vain = self._vain + 1 if why else 0
        if self._vain >= _IN_VAIN:
            raise self._failed(f"waiting helps nothing: {why}")

    def _seconds(self) -> float:
        """Since the first look."""
        if self._began is None:
            self._began = self.now()
        return self.now() - self._began

    @shaped("the rollout")
    def _is_over(self) -> bool:
        """One look."""
        path = f"/apis/apps/v1/namespaces/{self.place.namespace}/daemonsets/{self.place.daemon_set}"
        daemon_set = self.api.get(path)
        numbers = counts(daemon_set)
        if numbers.over:
            self._tell(f"{numbers.nodes} of {numbers.nodes} nodes are as declared") if self._told else None
            return True
        nodes = self.api.get("/api/v1/nodes", labelSelector=self.place.nodes).get("items") or []
        pods = self.api.get(f"/api/v1/namespaces/{self.place.namespace}/pods", labelSelector=self.place.pods).get("items") or []
        self._judge(numbers, PoolObjects(daemon_set, nodes, pods))
        return False

    def _judge(self, told: Counts, seen: PoolObjects) -> None:
        self._last = "; ".join([f"{told.done} of {told.nodes} nodes are as declared", *_changing(seen)])
        self._tell_now_and_then()
        if not told.observed:
            return
        if self._before is None:
            self._before = ends(seen)
        found = lost(seen, self._before, early=self._seconds() < self.first_seconds)
        if stands_still(told, len(found), self.most):
            named = "; ".join(f"{node}: {why}" for node, why in sorted(found.items()))
            raise self._failed(
                f"its rollout stands still: {told.done} of {told.nodes} nodes are as declared, and of {len(found)} the change "
                f"failed. {named}"
            )
        self._judge_windows(seen)

    def _judge_windows(self, seen: PoolObjects) -> None:
        left = self.opens_in()
        if not left or not only_waits(seen):
            self._closed_since = None
            return
        if self._closed_since is None:
            self._closed_since = self.now()
        if self.now() - self._closed_since >= _CLOSED_SECONDS:
            opens = moment(self.wall() + left)
            raise self._failed(
                f"its rollout waits for a window, which opens at {opens}: {self._last}. What is left begins then by itself; "
                "deploy again to see how it ends"
            )

    def _tell_now_and_then(self) -> None:
        since = self.now() - self._told_at
        if not self._told or since >= (_SILENT_SECONDS if self._told == self._last else _TOLD_SECONDS):
            self._tell(self._last)

    def _tell(self, text: str) -> None:
        self._told, self._told_at = text, self.now()
        self.tell(f"pool {self.pool}: {text}")

    def _failed(self, why: str) -> NotRolledOutError:
        if not self.rolls:
            return NotRolledOutError(f"pool {self.pool}: {why.rstrip('.')}. Remove the cause and deploy again.")
        return NotRolledOutError(
            f"pool {self.pool}: {why.rstrip('.')}. Nodes without a rollout slot work on as before. Remove the cause and deploy "
            "again, which goes on from here; or deploy the old declaration, which takes the changed nodes back."
        )


def _changing(seen: PoolObjects) -> Iterator[str]:
    """What the nodes say that are being changed, by name."""
    for node in sorted(seen.nodes, key=_name):
        mark = mark_of(node)
        if mark is not None:
            state = "was given back as it was" if mark.stopped else "is being changed"
            why = f" ({line(mark.why)})" if mark.why else ""
            yield f"{line(_name(node))} {state} since {line(mark.since)}{why}"


def _name(node: Mapping[str, Any]) -> str:
    return str(node["metadata"]["name"])
