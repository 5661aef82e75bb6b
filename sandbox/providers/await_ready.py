"""When an object is ready, and what is said of one that does not become so. The judging is pure.

Both as pulumi-kubernetes has it (provider/pkg/await), its silences included: a DaemonSet that does not become ready is told as
`timed out waiting for the condition`, whatever its pods say; a Job quotes them, but never their init containers; a Pod that has
failed, or a Deployment past its own deadline, is waited for until the time is over. So what nobody could learn from the real
provider nobody learns here.

Waited for: Deployment, StatefulSet, DaemonSet, Job, Pod, the conditions of a `pulumi.com/waitFor` annotation, and the end of
anything that is deleted. Every other kind is ready once the API server has it; Services among them, for whose endpoints the
real provider waits: nothing here gives out addresses. A Job's time is not counted anew with each event, as it is there.
"""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sandbox.providers.kube_rules import annotations_of, identity, is_true

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping

    from sandbox.providers.kube_objects import Objects

DEFAULT_SECONDS: Final = 600.0
TIMED_OUT: Final = "timed out waiting for the condition"
_SKIP, _WAIT_FOR, _TIMEOUT = "pulumi.com/skipAwait", "pulumi.com/waitFor", "pulumi.com/timeoutSeconds"
#: Whose deletion `pulumi.com/skipAwait` does not wait for either; that of everything else is waited for all the same.
_SKIPPED_WHEN_DELETED: Final = frozenset(
    {"Namespace", "Pod", "ReplicationController", "DaemonSet", "Deployment", "StatefulSet", "Job"}
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 0.25
_PATH = re.compile(r"\{((?:\.[A-Za-z0-9_-]+|\[\d+\])+)\}")
_PATH_PART = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]")
#: Kinds that have words of their own for a wait that came to nothing; of the others the general ones are said.
_NAMED = frozenset({"Deployment", "StatefulSet", "Job", "Pod"})
_WITH_PODS = frozenset({"Deployment", "StatefulSet", "Job"})
#: A Job that failed for another reason is waited for until the time is over.
_ENDS_A_JOB = frozenset({"BackoffLimitExceeded", "DeadlineExceeded"})


class AwaitError(Exception):
    """The object exists, but it is not what was waited for.

    Attributes:
        further: what else was seen, a text each.
        live: the object as it was last seen.
    """

    def __init__(self, text: str, live: Mapping[str, Any], further: list[str] | None = None) -> None:
        super().__init__(text)
        self.further = further or []
        self.live = dict(live)


@dataclass(frozen=True)
class Verdict:
    """What an object's status says.

    Attributes:
        ready: nothing is left to wait for.
        failed: why waiting is pointless ("" while it is not).
    """

    ready: bool
    failed: str = ""


_READY, _WAITING = Verdict(ready=True), Verdict(ready=False)


def timeout_of(obj: Mapping[str, Any], seconds: float) -> float:
    """How long to wait: customTimeouts (0 when not set), else the annotation, else ten minutes."""
    if seconds > 0:
        return seconds
    text = annotations_of(obj).get(_TIMEOUT, "")
    return float(text) if text.isdigit() and int(text) > 0 else DEFAULT_SECONDS


def is_deleted_unseen(obj: Mapping[str, Any]) -> bool:
    """Whether nobody waits for the end of an object."""
    return is_true(obj, _SKIP) and obj.get("kind") in _SKIPPED_WHEN_DELETED


def judge(obj: Mapping[str, Any]) -> Verdict:
    """Say whether a live object is ready.

    Raises:
        ValueError: its `pulumi.com/waitFor` annotation cannot be understood.
    """
    if is_true(obj, _SKIP):
        return _READY
    wanted = annotations_of(obj).get(_WAIT_FOR)
    if wanted is not None:
        return _READY if all(condition.holds(obj) for condition in wait_conditions(wanted)) else _WAITING
    judges = {
        "Deployment": _deployment,
        "StatefulSet": _stateful_set,
        "DaemonSet": _daemon_set,
        "Job": _job,
        "Pod": _pod,
    }
    rule = judges.get(str(obj.get("kind")))
    if rule is None:
        return _READY
    return rule(obj.get("spec") or {}, obj.get("status") or {}, (obj.get("metadata") or {}).get("generation", 0))


def _deployment(spec: Mapping[str, Any], status: Mapping[str, Any], generation: int) -> Verdict:
    wanted = spec.get("replicas", 1)
    return _at_least(
        status,
        generation,
        updatedReplicas=wanted,
        replicas=wanted,
        availableReplicas=wanted,
        readyReplicas=wanted,
    )


def _stateful_set(spec: Mapping[str, Any], status: Mapping[str, Any], generation: int) -> Verdict:
    wanted = spec.get("replicas", 1)
    return _at_least(status, generation, replicas=wanted, readyReplicas=wanted, updatedReplicas=wanted)


def _daemon_set(_: Mapping[str, Any], status: Mapping[str, Any], generation: int) -> Verdict:
    wanted = status.get("desiredNumberScheduled", 0)
    return _at_least(
        status,
        generation,
        currentNumberScheduled=wanted,
        updatedNumberScheduled=wanted,
        numberAvailable=wanted,
        numberReady=wanted,
    )


def _at_least(status: Mapping[str, Any], generation: int, **wanted: int) -> Verdict:
    if status.get("observedGeneration", 0) < generation:
        return _WAITING
    return _READY if all(status.get(field, 0) >= number for field, number in wanted.items()) else _WAITING


def _job(_: Mapping[str, Any], status: Mapping[str, Any], __: int) -> Verdict:
    failed = _condition(status, "Failed")
    if failed.get("status") == "True" and failed.get("reason") in _ENDS_A_JOB:
        return Verdict(ready=False, failed=f"[{failed['reason']}] {failed.get('message', '')}")
    complete = _condition(status, "Complete").get("status") == "True"
    return _READY if complete and status.get("startTime") else _WAITING


def _pod(_: Mapping[str, Any], status: Mapping[str, Any], __: int) -> Verdict:
    ready = status.get("phase") == "Succeeded" or _condition(status, "Ready").get("status") == "True"
    return _READY if ready else _WAITING


def _condition(status: Mapping[str, Any], type_: str) -> dict[str, Any]:
    found = [item for item in status.get("conditions") or [] if item.get("type") == type_]
    return dict(found[0]) if found else {}


# -------------------------------------------------------------------- pulumi.com/waitFor


@dataclass(frozen=True)
class WaitCondition:
    """One condition of the annotation.

    Attributes:
        path: the parts of a JSON path: field names and list indexes; () for a condition of the status.
        condition: the type of a status condition ("" for a JSON path).
        value: what must be there; None for anything at all.
        text: how the user wrote it.
    """

    path: tuple[str | int, ...]
    condition: str
    value: str | None
    text: str

    def holds(self, obj: Mapping[str, Any]) -> bool:
        """Whether the object fulfils it."""
        if self.condition:
            status = str(_condition(obj.get("status") or {}, self.condition).get("status", ""))
            return status.lower() == (self.value or "True").lower()
        if _observed(obj) < (obj.get("metadata") or {}).get("generation", 0):
            return False
        found = _lookup(obj, self.path)
        if self.value is None:
            return found is not None
        text = str(found).lower() if isinstance(found, bool) else str(found)
        return found is not None and text == self.value


def _observed(obj: Mapping[str, Any]) -> float:
    """The generation that the status is about; of a status that says none it does not matter (await/condition/jsonpath.go)."""
    return float((obj.get("status") or {}).get("observedGeneration", math.inf))


def wait_conditions(text: str) -> tuple[WaitCondition, ...]:
    """Read the annotation: one condition or a JSON array of them, all of which must hold.

    Raises:
        ValueError: it is neither; the message says what is understood.
    """
    items = [text]
    if text.lstrip().startswith("["):
        try:
            items = json.loads(text)
        except ValueError:
            items = []
    conditions = [_wait_condition(item) for item in items if isinstance(item, str)]
    if not conditions or len(conditions) != len(items):
        raise ValueError(_not_understood(text))
    return tuple(conditions)


def _wait_condition(text: str) -> WaitCondition:
    form, _, rest = text.partition("=")
    if form == "condition" and rest:
        type_, equals, value = rest.partition("=")
        return WaitCondition((), type_, value if equals else None, text)
    if form == "jsonpath":
        match = _PATH.match(rest)
        tail = rest[match.end() :] if match else ""
        if match and (not tail or tail.startswith("=")):
            parts = tuple(name or int(index) for name, index in _PATH_PART.findall(match[1]))
            return WaitCondition(parts, "", tail[1:] if tail else None, text)
    raise ValueError(_not_understood(text))


def _not_understood(text: str) -> str:
    return (
        f"invalid {_WAIT_FOR} annotation {text!r}: expected jsonpath={{.field[0].field}}=value, jsonpath={{.field}}, "
        "condition=Type, condition=Type=False, or a JSON array of these (the stand-in knows no filters or wildcards)"
    )


def _lookup(value: Any, path: tuple[str | int, ...]) -> Any:  # noqa: ANN401  (JSON)
    for part in path:
        if isinstance(part, str) and isinstance(value, dict):
            value = value.get(part)
        elif isinstance(part, int) and isinstance(value, list) and part < len(value):
            value = value[part]
        else:
            return None
    return value


# -------------------------------------------------------------------- what is quoted


def quotes(obj: Mapping[str, Any], pods: list[dict[str, Any]]) -> list[str]:
    """What the real provider would add to the error about an object that is not ready, a text each.

    Args:
        obj: the object.
        pods: its own.
    """
    status = obj.get("status") or {}
    own = []
    if obj.get("kind") == "Deployment":
        open_ = [one for one in status.get("conditions") or [] if one.get("type") in {"Progressing", "Available"}]
        own = [f"[{one.get('reason')}] {one.get('message')}" for one in open_ if one.get("status") != "True"]
    return [*own, *filter(None, map(pod_message, sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))))]


def pod_message(pod: Mapping[str, Any]) -> str:
    """What is said of a pod that is not ready; "" while it only waits for a node.

    The first condition that does not hold is told, with the errors of the main containers; init containers are never looked at.
    """
    status = pod.get("status") or {}
    if _condition(status, "PodScheduled").get("status") != "True":
        return ""
    for type_ in ("Initialized", "Ready"):
        condition = _condition(status, type_)
        if condition.get("status") == "True" or (type_ == "Ready" and status.get("phase") == "Succeeded"):
            continue
        errors = "\n".join(error for one in status.get("containerStatuses") or [] for error in _container_errors(one))
        text = condition.get("message", "") if condition.get("reason") else ""
        return f"[Pod {identity(pod)}]: {text}{errors}" if text or errors else ""
    return ""


def _container_errors(container: Mapping[str, Any]) -> Iterator[str]:
    if container.get("ready"):
        return
    name, state = container.get("name", ""), container.get("state") or {}
    waiting = state.get("waiting")
    if waiting and waiting.get("reason") != "ContainerCreating":
        yield f"[{waiting.get('reason', '')}] {waiting.get('message', '')}"
    ended = state.get("terminated") or {}
    if ended.get("reason"):
        code = ended.get("exitCode", 0)
        yield f"[{ended['reason']}] {ended['message']}" if ended.get("message") else _completed(name, code)
    before = (container.get("lastState") or {}).get("terminated")
    if before:
        ending = f"({before.get('reason', '')}: exit code {before.get('exitCode', 0)})"
        yield f'container "{name}" terminated at {before.get("finishedAt", "")} {ending}'
        if before.get("message"):
            yield str(before["message"])


def _completed(name: str, code: int) -> str:
    return f'container "{name}" completed with exit code {code}'


def _pods_of(objects: Objects, obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    kind, metadata = obj.get("kind"), obj["metadata"]
    if kind not in _WITH_PODS:
        return []
    if kind == "Job":
        labels = {"batch.kubernetes.io/job-name": metadata["name"]}
    else:
        labels = ((obj.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return objects.find("v1", "Pod", metadata["namespace"], labels) if labels else []


# -------------------------------------------------------------------- waiting


@dataclass(frozen=True)
class Waiter:
    """Waits at an API server, by asking several times a second; the real provider watches.

    Attributes:
        objects: of the server.
        stops: each ends the waiting when it is set; the first is watched without pause.
    """

    objects: Objects
    stops: tuple[threading.Event, ...]

    def until_ready(self, obj: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Wait until an object is ready and return it as it is then.

        Raises:
            AwaitError: it failed, the time is over, or the operation was cancelled.
        """
        live = obj
        # What a Job's pods have said is kept, also of those that are gone.
        heard: dict[str, None] = {}
        for _ in self._turns(seconds):
            try:
                verdict = judge(live)
            except ValueError as error:
                raise AwaitError(str(error), live) from error
            if verdict.ready:
                return live
            if live.get("kind") in _WITH_PODS:
                heard |= dict.fromkeys([verdict.failed] if verdict.failed else [])
                heard |= dict.fromkeys(quotes(live, _pods_of(self.objects, live)))
            if verdict.failed:
                raise AwaitError(not_initialized(live), live, list(heard))
            # One that somebody deletes meanwhile is waited for all the same.
            live = self.objects.live(obj) or live
        raise AwaitError(self._in_vain(live), live, list(heard))

    def is_ready(self, live: dict[str, Any]) -> None:
        """Look once.

        Raises:
            AwaitError: it is not ready.
        """
        # Unlike in an update the annotation is not looked at.
        if live.get("kind") not in _NAMED | {"DaemonSet"} or judge(_without_conditions(live)).ready:
            return
        raise AwaitError(not_initialized(live), live, quotes(live, _pods_of(self.objects, live)))

    def until_gone(self, obj: dict[str, Any], seconds: float) -> None:
        """Wait until an object does not exist any more; another one of the same name counts as gone.

        Raises:
            AwaitError: the time is over, or the operation was cancelled.
        """
        live = obj
        uid = obj["metadata"].get("uid")
        for _ in self._turns(seconds):
            found = self.objects.live(obj)
            if found is None or (uid and found["metadata"].get("uid") != uid):
                return
            live = found
        raise AwaitError("context canceled" if self._stopped() else TIMED_OUT, live)

    def _in_vain(self, live: Mapping[str, Any]) -> str:
        name = live["metadata"]["name"]
        if live.get("kind") in _NAMED and _WAIT_FOR not in annotations_of(live):
            return (
                f'Resource operation was cancelled for "{name}"' if self._stopped() else f"'{name}' timed out waiting to be Ready"
            )
        # A cancelled wait for a DaemonSet says that its time was over, too.
        return "context canceled" if self._stopped() and live.get("kind") != "DaemonSet" else TIMED_OUT

    def _turns(self, seconds: float) -> Iterator[None]:
        """One turn at once, then one after each pause, until the time is over or the wait is cancelled."""
        end = time.monotonic() + seconds
        pause = _FIRST_PAUSE
        while True:
            yield
            left = end - time.monotonic()
            if left <= 0 or self.stops[0].wait(min(pause, left)) or self._stopped():
                return
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _stopped(self) -> bool:
        return any(stop.is_set() for stop in self.stops)


def not_initialized(live: Mapping[str, Any]) -> str:
    """The words for an object that was looked at once, or that failed for good."""
    return f"Resource '{live['metadata']['name']}' was created but failed to initialize"


def _without_conditions(live: Mapping[str, Any]) -> dict[str, Any]:
    annotations = {key: value for key, value in annotations_of(live).items() if key != _WAIT_FOR}
    return {**live, "metadata": {**live["metadata"], "annotations": annotations}}
