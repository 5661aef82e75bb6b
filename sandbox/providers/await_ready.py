"""When an object is ready, when it has failed for good, and what its pods say about it. The judging is pure.

Waited for: Deployment, StatefulSet, DaemonSet, Job, Pod, the conditions of a `pulumi.com/waitFor` annotation, and
the end of anything that is deleted. Every other kind is ready once the API server has it; Services among them, which
the real provider also waits for: nothing here gives out addresses.

An error carries what a person would otherwise ask kubectl for: per pod why containers wait and the termination
message of each container that ended badly.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sandbox.providers.kube_rules import annotations_of, identity, is_true

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping

    from sandbox.providers.kube_api import Api

DEFAULT_SECONDS: Final = 600.0
_SKIP, _WAIT_FOR, _TIMEOUT = "pulumi.com/skipAwait", "pulumi.com/waitFor", "pulumi.com/timeoutSeconds"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
_PATH = re.compile(r"\{((?:\.[A-Za-z0-9_-]+|\[\d+\])+)\}")
_PATH_PART = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+)\]")
# The pods of these are worth quoting; a Job's pods carry a label of their own.
_WITH_PODS = frozenset({"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job"})
_MOST_PODS = 10


class AwaitError(Exception):
    """The object exists, but it is not what was waited for.

    Attributes:
        reasons: one text per cause; the first says what was waited for.
        live: the object as it was last seen.
    """

    def __init__(self, reasons: list[str], live: Mapping[str, Any]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons
        self.live = dict(live)


@dataclass(frozen=True)
class Verdict:
    """What an object's status says.

    Attributes:
        ready: nothing is left to wait for.
        failed: why waiting is pointless ("" while it is not).
        missing: what is waited for, in words.
    """

    ready: bool
    failed: str = ""
    missing: str = ""


_READY = Verdict(ready=True)


def timeout_of(obj: Mapping[str, Any], seconds: float) -> float:
    """How long to wait: customTimeouts (0 when not set), else the annotation, else ten minutes."""
    if seconds > 0:
        return seconds
    text = annotations_of(obj).get(_TIMEOUT, "")
    return float(text) if text.isdigit() and int(text) > 0 else DEFAULT_SECONDS


def judge(obj: Mapping[str, Any]) -> Verdict:
    """Say whether a live object is ready.

    Raises:
        ValueError: its `pulumi.com/waitFor` annotation cannot be understood.
    """
    if is_true(obj, _SKIP):
        return _READY
    wanted = annotations_of(obj).get(_WAIT_FOR)
    if wanted is not None:
        return _judge_conditions(obj, wait_conditions(wanted))
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
    progress = _condition(status, "Progressing")
    if progress.get("reason") == "ProgressDeadlineExceeded" and status.get("observedGeneration", 0) >= generation:
        return Verdict(ready=False, failed=f"[ProgressDeadlineExceeded] {progress.get('message', '')}")
    wanted = spec.get("replicas", 1)
    return _counts(
        status,
        generation,
        updatedReplicas=wanted,
        replicas=wanted,
        availableReplicas=wanted,
        readyReplicas=wanted,
    )


def _stateful_set(spec: Mapping[str, Any], status: Mapping[str, Any], generation: int) -> Verdict:
    wanted = spec.get("replicas", 1)
    return _counts(status, generation, replicas=wanted, readyReplicas=wanted, updatedReplicas=wanted)


def _daemon_set(_: Mapping[str, Any], status: Mapping[str, Any], generation: int) -> Verdict:
    wanted = status.get("desiredNumberScheduled", 0)
    return _counts(
        status,
        generation,
        currentNumberScheduled=wanted,
        updatedNumberScheduled=wanted,
        numberAvailable=wanted,
        numberReady=wanted,
    )


def _counts(status: Mapping[str, Any], generation: int, **wanted: int) -> Verdict:
    if status.get("observedGeneration", 0) < generation:
        return Verdict(ready=False, missing="its controller has not seen this version yet")
    for field, number in wanted.items():
        if status.get(field, 0) != number:
            return Verdict(ready=False, missing=f"{field} is {status.get(field, 0)} of {number}")
    return _READY


def _job(_: Mapping[str, Any], status: Mapping[str, Any], __: int) -> Verdict:
    failed = _condition(status, "Failed")
    if failed.get("status") == "True":
        return Verdict(ready=False, failed=f"[{failed.get('reason', 'Failed')}] {failed.get('message', '')}")
    if _condition(status, "Complete").get("status") == "True" or _condition(status, "Suspended").get("status") == "True":
        return _READY
    counts = ", ".join(f"{status.get(key, 0)} {key}" for key in ("active", "succeeded", "failed"))
    return Verdict(ready=False, missing=f"the Job is not complete: {counts}")


def _pod(_: Mapping[str, Any], status: Mapping[str, Any], __: int) -> Verdict:
    phase = status.get("phase", "Pending")
    if phase == "Succeeded" or _condition(status, "Ready").get("status") == "True":
        return _READY
    if phase == "Failed":
        return Verdict(ready=False, failed=f"the Pod failed: {status.get('message') or status.get('reason') or phase}")
    return Verdict(ready=False, missing=f"the Pod is {phase} and not Ready")


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
        found = _lookup(obj, self.path)
        if self.value is None:
            return found is not None
        text = str(found).lower() if isinstance(found, bool) else str(found)
        return found is not None and text == self.value


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


def _judge_conditions(obj: Mapping[str, Any], conditions: tuple[WaitCondition, ...]) -> Verdict:
    open_ = [condition.text for condition in conditions if not condition.holds(obj)]
    return Verdict(ready=False, missing=f"waiting for {', '.join(open_)}") if open_ else _READY


# -------------------------------------------------------------------- what pods say


def pod_reports(pods: list[dict[str, Any]]) -> list[str]:
    """One text per pod that is not well; a pod that is well has none."""
    reports = []
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        causes = list(_causes(pod.get("status") or {}))
        if causes:
            node = (pod.get("spec") or {}).get("nodeName")
            place = f" on {node}" if node else ""
            reports.append(f"[Pod {identity(pod)}{place}]: {' -- '.join(causes)}")
    if len(reports) > _MOST_PODS:
        reports = [*reports[:_MOST_PODS], f"... and {len(reports) - _MOST_PODS} more pods that are not well"]
    return reports


def _causes(status: Mapping[str, Any]) -> Iterator[str]:
    if status.get("phase") == "Succeeded":
        return
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        yield f"[{scheduled.get('reason', 'Unschedulable')}] {scheduled.get('message', '')}".rstrip()
    if status.get("phase") == "Failed" and status.get("message"):
        yield str(status["message"])
    for part in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(part) or []:
            yield from _container_causes(container)


def _container_causes(container: Mapping[str, Any]) -> Iterator[str]:
    name = container.get("name", "")
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    if waiting and waiting.get("reason") not in {"PodInitializing", "ContainerCreating"}:
        yield f"container {name!r}: [{waiting.get('reason', 'Waiting')}] {waiting.get('message', '')}".rstrip()
    # A container that was started again tells of its end only in the last state.
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    if ended and ended.get("exitCode", 0) != 0:
        reason = ended.get("reason", "Error")
        message = str(ended.get("message") or "").strip()
        yield f"container {name!r} terminated: [{reason}] exit code {ended['exitCode']}" + (f": {message}" if message else "")


def _pods_of(api: Api, obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    kind, metadata = obj.get("kind"), obj["metadata"]
    if kind == "Pod":
        return [dict(obj)]
    if kind not in _WITH_PODS:
        return []
    if kind == "Job":
        labels = {"batch.kubernetes.io/job-name": metadata["name"]}
    else:
        labels = ((obj.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return api.find("v1", "Pod", metadata["namespace"], labels) if labels else []


# -------------------------------------------------------------------- waiting


@dataclass(frozen=True)
class Waiter:
    """Waits at an API server, by asking: few objects at a time, and the pauses grow to a second.

    Attributes:
        api: the server.
        stops: each ends the waiting when it is set; the first is watched without pause.
    """

    api: Api
    stops: tuple[threading.Event, ...]

    def until_ready(self, obj: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Wait until an object is ready and return it as it is then.

        Raises:
            AwaitError: it failed, the time is over, or the operation was cancelled.
        """
        live = obj
        label = f"{obj['kind']} {identity(obj)!r}"
        for _ in self._turns(seconds):
            try:
                verdict = judge(live)
            except ValueError as error:
                raise AwaitError([str(error)], live) from error
            if verdict.ready:
                return live
            if verdict.failed:
                raise AwaitError([f"{label} failed: {verdict.failed}", *self._reports(live)], live)
            found = self._get(obj)
            if found is None:
                raise AwaitError([f"{label} was deleted while it was waited for"], live)
            live = found
        if self._stopped():
            raise AwaitError([f"resource operation was cancelled for {identity(obj)!r}"], live)
        missing = judge(live).missing
        raise AwaitError([f"{label} timed out waiting to be Ready after {seconds:g} s: {missing}", *self._reports(live)], live)

    def until_gone(self, obj: dict[str, Any], seconds: float) -> None:
        """Wait until an object does not exist any more; another one of the same name counts as gone.

        Raises:
            AwaitError: the time is over, or the operation was cancelled.
        """
        live = obj
        uid = obj["metadata"].get("uid")
        for _ in self._turns(seconds):
            found = self._get(obj)
            if found is None or (uid and found["metadata"].get("uid") != uid):
                return
            live = found
        if self._stopped():
            raise AwaitError([f"resource operation was cancelled for {identity(obj)!r}"], live)
        holders = live["metadata"].get("finalizers")
        held = f"; finalizers: {', '.join(holders)}" if holders else ""
        raise AwaitError(
            [f"{obj['kind']} {identity(obj)!r} timed out waiting to be deleted after {seconds:g} s{held}",
             *self._conditions(live)],
            live,
        )  # fmt: skip

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

    def _get(self, obj: Mapping[str, Any]) -> dict[str, Any] | None:
        metadata = obj["metadata"]
        return self.api.get(obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"])

    def _reports(self, obj: Mapping[str, Any]) -> list[str]:
        return pod_reports(_pods_of(self.api, obj))

    @staticmethod
    def _conditions(obj: Mapping[str, Any]) -> list[str]:
        """What a namespace says about its contents while it cannot end."""
        conditions = (obj.get("status") or {}).get("conditions") or []
        return [f"[{item.get('reason')}] {item.get('message')}" for item in conditions if item.get("status") == "True"]
