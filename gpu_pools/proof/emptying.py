"""Empties the nodes of a replaced pool, once the new pool is proven; and uncordons nodes that are wanted again.

All older nodes are cordoned at once, so that no pod moves from one to the next. Then their pods are asked to go by the eviction
API, so that disruption budgets hold, each with the grace that it declares; whatever takes them elsewhere is the scheduler's and
the autoscaler's. Nodes that an autoscaler brings to an old pool meanwhile are cordoned as they are seen. Pods of DaemonSets and
static pods stay: they come back by themselves, and go with the node. Nothing is deleted here and nobody is forced: pods that do
not go in time fail the deploy, and the next one goes on.

A node is old only if its label says another replacement id; one without the label was there before, and is left alone. What is
cordoned for it is written on the node, as a rollout has it (gpu_pools/verifier/changer/rollout_steps.py), and only that is
uncordoned.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.proof.verifier_rights import CONDITION
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL
from gpu_pools.verifier.api import ApiError, shaped
from gpu_pools.verifier.changer.living_node import ANNOTATION, LivingNode, as_holder, despite_others, is_over, read_pods
from gpu_pools.verifier.changer.owners import Owners
from gpu_pools.verifier.changer.rollout_steps import Mark, movable, read_mark
from gpu_pools.verifier.names import moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpu_pools.verifier.api import Client
    from gpu_pools.verifier.changer.rollout_steps import Holder

_NODES: Final = "/api/v1/nodes"
_PODS: Final = "/api/v1/pods"
_POLL_SECONDS: Final = 2.0
_LONGEST_PAUSE_SECONDS: Final = 15.0
_TOLD_EVERY_SECONDS: Final = 60.0
_FORBIDDEN: Final = 403
#: How the target begins in the mark of a node that is emptied here.
_SUCCEEDED_BY: Final = "succeeded by "


class NotEmptiedError(Exception):
    """The old nodes are not empty; the text is for users."""


@dataclass
class Emptying:
    """Of one pool.

    Attributes:
        api: of the cluster.
        pool: its name.
        replacement_id: of the pool that stays.
        seconds: how long pods may take to go.
        tell: says how it goes.
        proven: whether a proven node of the pool that stays must be there before pods are asked to go. Of an autoscaled
            pool the autoscaler may have taken the last one away, and then no verifier has said anything.
        now, sleep: the clock.
    """

    api: Client
    pool: str
    replacement_id: str
    seconds: float
    tell: Callable[[str], None]
    proven: bool = False
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _refused: dict[str, str] = field(default_factory=dict)

    def give_back(self) -> None:
        """Uncordon the nodes of the pool that stays, where they were cordoned here: it is wanted again.

        Raises:
            NotEmptiedError: where that is not possible.
        """
        try:
            despite_others(self._give_back)
        except ApiError as error:
            message = f"nodes of pool {self.pool} could not be given back: {error}. Deploy again."
            raise NotEmptiedError(message) from None

    @shaped("nodes of the pool")
    def _give_back(self) -> None:
        for node in self._nodes(f"{REPLACEMENT_LABEL}={self.replacement_id}"):
            if _ours(node):
                self._living(node).give_back(node)
                self.tell(f"node {node['metadata']['name']} of pool {self.pool} is given back")

    def run(self) -> None:
        """Cordon the old nodes, and go on until no pod is left there that could be elsewhere.

        Raises:
            NotEmptiedError: they did not go in time, or the API server does not allow it.
        """
        began, told, pause, away = self.now(), "", _POLL_SECONDS, ""
        told_at = began
        while True:
            left: tuple[Holder, ...] = ()
            try:
                self._refuse_unproven()
                nodes, left = self._look()
                if not left:
                    self._tell_done(nodes, told)
                    return
                away = ""
                if not told or self.now() - told_at >= _TOLD_EVERY_SECONDS:
                    told, told_at = self._tell_left(nodes, left), self.now()
                went = self._ask_to_go(left) if self.now() - began < self.seconds else False
                pause = _POLL_SECONDS if went else min(_LONGEST_PAUSE_SECONDS, pause * 1.5)
            except ApiError as error:
                away = str(error)
                if error.status == _FORBIDDEN:
                    raise self._not_emptied(away) from None
            if self.now() - began >= self.seconds:
                raise self._not_emptied(away or f"these pods did not go in {self.seconds:g} s: {self._named(left)}")
            self.sleep(pause)

    @shaped("nodes of the pool")
    def _refuse_unproven(self) -> None:
        """Once, and before anything is done.

        Raises:
            NotEmptiedError: pods are to go, and no node is proven that could take them.
        """
        if not self.proven:
            return
        new = self._nodes(f"{REPLACEMENT_LABEL}={self.replacement_id}")
        if not any(_is_proven(node) for node in new) and (pods := self._pods(list(self._old()))):
            message = (
                f"pool {self.pool} has no proven node but old ones, so these are left alone: {self._named(pods)}. Has the "
                "autoscaler taken it away, have the pool scaled to 1 and deploy again; or deploy the old declaration."
            )
            raise NotEmptiedError(message)
        self.proven = False

    @shaped("nodes of the pool")
    def _look(self) -> tuple[list[dict[str, Any]], tuple[Holder, ...]]:
        """The old nodes, cordoned, and the pods that are to leave them."""
        nodes = list(self._old())
        for node in nodes:
            self._cordon(node)
        return nodes, self._pods(nodes)

    def _old(self) -> Iterator[dict[str, Any]]:
        yield from self._nodes(f"{REPLACEMENT_LABEL},{REPLACEMENT_LABEL}!={self.replacement_id}")

    def _pods(self, nodes: Sequence[Mapping[str, Any]]) -> tuple[Holder, ...]:
        """Those on these nodes that can be elsewhere."""
        names = {node["metadata"]["name"] for node in nodes}
        listed = self.api.get(_PODS).get("items") or [] if names else []

        def read(pod: Mapping[str, Any]) -> Holder | None:
            there = pod["spec"].get("nodeName") in names and not is_over(pod)
            return as_holder(pod, {}) if there else None

        # What comes back onto the very node goes with it.
        return tuple(filter(movable, read_pods(listed, read, Owners(self.api))))

    def _nodes(self, replacement_ids: str) -> Iterator[dict[str, Any]]:
        listed = self.api.get(_NODES, labelSelector=f"{POOL_LABEL}={self.pool},{replacement_ids}")
        yield from listed.get("items") or []

    def _cordon(self, node: dict[str, Any]) -> None:
        cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        mark = read_mark((node["metadata"].get("annotations") or {}).get(ANNOTATION))
        wanted = f"{_SUCCEEDED_BY}{self.replacement_id}"
        if cordoned and mark is not None and mark.to == wanted:
            return
        # What a change of the node in place has cordoned is taken over.
        ours = not cordoned or (mark is not None and mark.cordoned)
        self._living(node).mark(node, Mark(wanted, cordoned=ours, since=moment()), cordoned=True)

    def _living(self, node: Mapping[str, Any]) -> LivingNode:
        return LivingNode(self.api, node["metadata"]["name"], "")

    def _ask_to_go(self, pods: Sequence[Holder]) -> bool:
        """Whether one of them goes."""
        any_node, went = LivingNode(self.api, "", ""), False
        for pod in pods:
            if not pod.leaves:
                self._refused[pod.uid] = any_node.evict(pod)
                went = went or not self._refused[pod.uid]
        return went

    def _tell_left(self, nodes: Sequence[Mapping[str, Any]], left: Sequence[Holder]) -> str:
        text = f"pool {self.pool}: {len(left)} pods are to leave {len(nodes)} old nodes: {self._named(left)}"
        self.tell(text)
        return text

    def _tell_done(self, nodes: Sequence[Mapping[str, Any]], told: str) -> None:
        if told or nodes:
            self.tell(f"pool {self.pool}: no pod is left on its {len(nodes)} old nodes")

    def _not_emptied(self, why: str) -> NotEmptiedError:
        return NotEmptiedError(
            f"the old nodes of pool {self.pool} are not empty, so nothing of it is deleted: {why}. They stay cordoned. "
            "End these pods or make room for them and deploy again; or deploy the old declaration, which takes the nodes back."
        )

    def _named(self, pods: Sequence[Holder]) -> str:
        return "; ".join(f"{one}: {self._refused[one.uid]}" if self._refused.get(one.uid) else str(one) for one in pods)


def _ours(node: Mapping[str, Any]) -> bool:
    mark = read_mark((node["metadata"].get("annotations") or {}).get(ANNOTATION))
    return mark is not None and mark.to.startswith(_SUCCEEDED_BY)


def _is_proven(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any((one.get("type"), one.get("status")) == (CONDITION, "True") for one in conditions)
