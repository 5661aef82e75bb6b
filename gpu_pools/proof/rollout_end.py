"""Whether a pool's rollout is over, and whether it stands still: told from its DaemonSet and the verifiers' pods. Pure.

It is over as the Kubernetes provider has it (pulumi-kubernetes, provider/pkg/await/daemonset.go, by kstatus of cli-utils), and
`kubectl rollout status`: the generation was observed, every pod is of the newest template, and all are available.

It stands still once as many nodes are lost as may change at the same time, or all but the lost ones are over. A node is lost when
a container of its verifier has ended badly since somebody began to look: what was there before may be of a cause that has been
removed, and the kubelet waits for up to five minutes before it tries again. One end with the verdict "differs" is enough, since
`change` and `assert` give up only after the time that is declared. Where mig-manager still works at it `change` goes on after
such an end, and every other end (killed, no memory, no verdict) may be a mishap: of those it takes several. A node that nobody
changes, since it is new, is proven as in pools without `rollout`: for the time that a first proof has it may fail and try again.

Pods of an older template are not told apart. Those that are not available are deleted before the controller says that it has
observed a generation (kubernetes, pkg/controller/daemon/daemon_controller.go, syncDaemonSet: the status is written last), and
what is being deleted is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.harmless import line
from gpu_pools.verifier.changer.living_node import ANNOTATION
from gpu_pools.verifier.changer.rollout_slots import at_once
from gpu_pools.verifier.changer.rollout_steps import Mark, begun, read_mark
from gpu_pools.verifier.findings import Verdict
from gpu_pools.verifier.names import MIG_STATE_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Of ends that are no verdict, or of a change that goes on.
_SEVERAL: Final = 3
_CHANGE: Final = "change"
_PENDING: Final = "pending"
_MOST_WHY: Final = 500

#: (pod's uid, container) -> how often it has ended badly.
Ends = dict[tuple[str, str], int]


@dataclass(frozen=True)
class PoolObjects:
    """What there is.

    Attributes:
        daemon_set: of the pool's verifiers.
        nodes: of the pool.
        pods: of the verifiers.
    """

    daemon_set: Mapping[str, Any]
    nodes: Sequence[Mapping[str, Any]]
    pods: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Counts:
    """What the DaemonSet tells.

    Attributes:
        observed: whether it is about the newest declaration.
        nodes: how many there are.
        updated: how many have a pod of the newest template.
        available: how many have a pod that has proven what it was declared for, be it the old or the new template.
    """

    observed: bool
    nodes: int
    updated: int
    available: int

    @property
    def over(self) -> bool:
        """Whether all nodes are as declared."""
        return self.observed and self.updated >= self.nodes and self.available >= self.nodes

    @property
    def done(self) -> int:
        """How many are; the old pods of the others are taken to be available."""
        return max(0, self.available - max(0, self.nodes - self.updated))


def counts(daemon_set: Mapping[str, Any]) -> Counts:
    """Read a DaemonSet."""
    status = daemon_set.get("status") or {}
    names = ("desiredNumberScheduled", "updatedNumberScheduled", "currentNumberScheduled", "numberAvailable", "numberReady")
    nodes, updated, current, available, ready = (int(status.get(name) or 0) for name in names)
    observed = int(status.get("observedGeneration") or 0) >= int(daemon_set["metadata"].get("generation") or 0)
    return Counts(observed, nodes, min(updated, current), min(available, ready))


def ends(seen: PoolObjects) -> Ends:
    """How often each container has ended badly so far; one that tries again began with what was there, so that counts, too."""
    return {key: _bad_ends(status)[0] + int(_runs_now(status)) for _, key, status in _ended(seen)}


def lost(seen: PoolObjects, before: Ends, *, early: bool = False) -> dict[str, str]:
    """Node -> why it does not come out as declared.

    Args:
        seen: what there is.
        before: what had ended when somebody began to look.
        early: a node that nobody changes may still become what is declared, its first proof having failed.
    """
    marked = {str(node["metadata"]["name"]) for node in seen.nodes if mark_of(node)}
    pending = {
        str(node["metadata"]["name"])
        for node in seen.nodes
        if (node["metadata"].get("labels") or {}).get(MIG_STATE_LABEL) == _PENDING
    }
    found: dict[str, str] = {}
    for node, key, status in _ended(seen):
        if early and node not in marked:
            continue
        count, last = _bad_ends(status)
        verdict = last.get("exitCode") == Verdict.DIFFERS.value and not (key[1] == _CHANGE and node in pending)
        if count - before.get(key, 0) >= (1 if verdict else _SEVERAL):
            found[node] = _why(key[1], last)
    return found


def stands_still(told: Counts, nodes_lost: int, most: int | str) -> bool:
    """Whether no other node goes on.

    Args:
        told: by the DaemonSet.
        nodes_lost: how many.
        most: how many may change at the same time, or which share of them.
    """
    if not nodes_lost or not told.observed:
        return False
    rest_is_over = told.updated >= told.nodes and told.available >= told.nodes - nodes_lost
    return rest_is_over or nodes_lost >= at_once(str(most), told.nodes)


def only_waits(seen: PoolObjects) -> bool:
    """Whether nothing is being done: no node's change has begun, and verifiers without a proof are in `change`."""
    if any(begun(mark_of(node)) for node in seen.nodes):
        return False
    left = [pod for pod in seen.pods if not _is_ready(pod)]
    return bool(left) and all(_runs(pod, _CHANGE) for pod in left)


def mark_of(node: Mapping[str, Any]) -> Mark | None:
    """What a node says of its change; None where it says nothing."""
    return read_mark((node["metadata"].get("annotations") or {}).get(ANNOTATION))


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _runs(pod: Mapping[str, Any], container: str) -> bool:
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    return any(one.get("name") == container and _runs_now(one) for one in statuses)


def _ended(seen: PoolObjects) -> Iterator[tuple[str, tuple[str, str], Mapping[str, Any]]]:
    """(node, which container, its status) of containers that have ended badly, in pods that are to stay."""
    for pod in seen.pods:
        metadata, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName")
        if not node or metadata.get("deletionTimestamp"):
            continue
        for status in (pod.get("status") or {}).get("initContainerStatuses") or []:
            if _bad_ends(status)[0]:
                yield str(node), (str(metadata["uid"]), str(status["name"])), status


def _bad_ends(status: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """How often it has ended badly, and how it did last; none where it has ended well since."""
    state, restarts = status.get("state") or {}, int(status.get("restartCount") or 0)
    now = state.get("terminated")
    last: Mapping[str, Any] = now or (status.get("lastState") or {}).get("terminated") or {}
    if not last.get("exitCode"):
        return 0, {}
    # The kubelet counts when it starts it again.
    return restarts + (0 if _runs_now(status) else 1), last


def _runs_now(status: Mapping[str, Any]) -> bool:
    return "running" in (status.get("state") or {})


def _why(container: str, last: Mapping[str, Any]) -> str:
    said = line(str(last.get("message") or "").strip())[:_MOST_WHY]
    return said or f"{container} ended with {last.get('exitCode')} ({line(str(last.get('reason')))})"
