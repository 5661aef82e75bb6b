"""What becomes of a pod, as a program on the machine decides it and the kubelet shows it.

Plain data and the pure function from it to a pod's status. When a crashed container is tried again is the kubelet's
business, not in here. As a kubelet (k8s.io/kubernetes v1.36, pkg/kubelet/kuberuntime getTerminationMessage), a status has of a
container that has ended what it left at its terminationMessagePath, and the end of its log only where it left nothing, ended
with an error and has the terminationMessagePolicy FallbackToLogsOnError.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sandbox.machines import objects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.objects import Json


#: The label app.kubernetes.io/name of the pods whose containers really run.
VERIFIER_APP: Final = "gpu-pools-verifier"
_FROM_LOG: Final = "FallbackToLogsOnError"


@dataclass(frozen=True)
class Creating:
    """No container can be created yet.

    Attributes:
        reason: the containers' waiting reason, e.g. ``ContainerCreating``.
        event: the reason of the event that tells why, e.g. ``FailedMount``.
        message: the event's and, for reasons other than ContainerCreating, the container's message.
    """

    reason: str
    event: str
    message: str


@dataclass(frozen=True)
class InitWaiting:
    """An init container runs and waits; those before it are done."""

    container: str


@dataclass(frozen=True)
class InitCrash:
    """An init container exits with an error, again and again.

    Attributes:
        container: its name.
        message: last words of its log.
        code: its exit code.
        left: what it left at its terminationMessagePath.
    """

    container: str
    message: str
    code: int = 1
    left: str = ""


@dataclass(frozen=True)
class Up:
    """All containers run, but for those that crash.

    Attributes:
        crashed: name -> last words of its log.
        codes: name -> exit code of those that did not end with 1.
        unready: names of those that run and are not ready.
        left: name -> what it left at its terminationMessagePath.
    """

    crashed: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, int] = field(default_factory=dict)
    unready: frozenset[str] = frozenset()
    left: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """All containers have ended: well, badly with an exit code, or never begun for the pod's reason and message.

    Attributes:
        reason: empty where they have ended well.
        message: the pod's, or last words of the log.
        code: the exit code; 0 where they have never begun.
        left: what a container left at its terminationMessagePath, or what the kubelet says of it.
    """

    reason: str = ""
    message: str = ""
    code: int = 0
    left: str = ""


Outcome = Creating | InitWaiting | InitCrash | Up | Finished


def crashed(outcome: Outcome) -> frozenset[str]:
    """The containers that have ended and are to be started again later."""
    if isinstance(outcome, InitCrash):
        return frozenset({outcome.container})
    return frozenset(outcome.crashed) if isinstance(outcome, Up) else frozenset()


def last_texts(pod: Json, outcome: Outcome) -> Mapping[str, tuple[int, str]]:
    """Container -> exit code and last words of the log of each that has ended with an error."""
    if isinstance(outcome, Finished) and outcome.code:
        return {item["name"]: (outcome.code, outcome.message) for item in objects.containers(pod["spec"])}
    if isinstance(outcome, InitCrash):
        return {outcome.container: (outcome.code, outcome.message)}
    if isinstance(outcome, Up):
        return {name: (outcome.codes.get(name, 1), words) for name, words in outcome.crashed.items()}
    return {}


def pod_status(pod: Json, outcome: Outcome, restarts: Mapping[str, int], backoffs: Mapping[str, float]) -> Json:
    """The whole status that a kubelet would report.

    Args:
        pod: the pod; times of its present status are kept where the state is the same.
        outcome: what becomes of it.
        restarts: container -> how often it was started again.
        backoffs: container that has ended -> seconds that it has to wait; none where it is started again at once.
    """
    old = pod.get("status") or {}
    now = objects.timestamp()
    start = old.get("startTime") or now
    address = _address(f"node/{objects.node_of(pod)}", 254)
    rejected = isinstance(outcome, Finished) and bool(outcome.reason) and not outcome.code
    status: Json = {
        "phase": _phase(outcome),
        "startTime": start,
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "initContainerStatuses": None if rejected else _inits(pod, outcome, restarts, backoffs, now),
        "containerStatuses": None if rejected else _mains(pod, outcome, restarts, backoffs, now),
        "reason": outcome.reason if isinstance(outcome, Finished) and rejected else None,
        "message": outcome.message or None if isinstance(outcome, Finished) and rejected else None,
    }
    if not isinstance(outcome, Creating) and not rejected:
        status["podIP"] = address if pod["spec"].get("hostNetwork") else pod_address(pod)
        status["podIPs"] = [{"ip": status["podIP"]}]
    status["conditions"] = _conditions(old.get("conditions") or [], outcome, now)
    return {key: value for key, value in status.items() if value is not None or key in old}


def pod_address(pod: Json) -> str:
    """A pod's address: made up, and one of this machine's own for the pods that really listen on theirs."""
    listens = objects.labels(pod).get("app.kubernetes.io/name") == VERIFIER_APP
    return _address(objects.uid(pod), 244, 127 if listens else 10)


def _phase(outcome: Outcome) -> str:
    if isinstance(outcome, Finished):
        return "Failed" if outcome.reason else "Succeeded"
    return "Running" if isinstance(outcome, Up) else "Pending"


def _conditions(old: list[Json], outcome: Outcome, now: str) -> list[Json]:
    initialized = isinstance(outcome, (Up, Finished))
    ready = isinstance(outcome, Up) and not outcome.crashed and not outcome.unready
    done = isinstance(outcome, Finished)
    ended = "PodFailed" if isinstance(outcome, Finished) and outcome.reason else "PodCompleted"
    reason = ended if done else "ContainersNotReady"
    wanted: list[tuple[str, bool, str | None]] = [
        ("PodReadyToStartContainers", not isinstance(outcome, Creating), None),
        ("Initialized", initialized, None if initialized else "ContainersNotInitialized"),
        ("Ready", ready, None if ready else reason),
        ("ContainersReady", ready, None if ready else reason),
    ]
    known = {item["type"]: item for item in old}
    kept = [item for item in old if item["type"] not in {kind for kind, _, _ in wanted}]
    return [*(_condition(known.get(kind), kind, holds, why, now) for kind, holds, why in wanted), *kept]


def _condition(old: Json | None, kind: str, holds: bool, reason: str | None, now: str) -> Json:  # noqa: FBT001
    status = "True" if holds else "False"
    if old is not None and old["status"] == status and old.get("reason") == reason:
        return old
    condition = {"type": kind, "status": status, "lastTransitionTime": now, "lastProbeTime": None}
    return {**condition, "reason": reason} if reason else condition


def _inits(
    pod: Json, outcome: Outcome, restarts: Mapping[str, int], backoffs: Mapping[str, float], now: str
) -> list[Json] | None:
    containers = objects.containers(pod["spec"], init=True)
    if not containers:
        return None
    old = {item["name"]: item for item in (pod.get("status") or {}).get("initContainerStatuses") or []}
    at = outcome.container if isinstance(outcome, (InitWaiting, InitCrash)) else None
    reached = isinstance(outcome, (Up, Finished, InitWaiting, InitCrash))
    found: list[Json] = []
    for container in containers:
        name = container["name"]
        counts = (restarts.get(name, 0), backoffs.get(name, 0.0))
        if name == at:
            reached = False
            if isinstance(outcome, InitCrash):
                message = _message(container, outcome.left, outcome.message)
                state = _crashed(_Crash(name, message, outcome.code, *counts), old.get(name), now)
            else:
                state = _running(old.get(name), now)
        elif reached:
            state = _terminated(old.get(name), now)
        else:
            state = {"state": {"waiting": {"reason": "PodInitializing"}}, "ready": False, "started": False}
        found.append(_container(pod, container, state, old.get(name), restarts.get(name, 0)))
    return found


def _mains(pod: Json, outcome: Outcome, restarts: Mapping[str, int], backoffs: Mapping[str, float], now: str) -> list[Json]:
    old = {item["name"]: item for item in (pod.get("status") or {}).get("containerStatuses") or []}
    found: list[Json] = []
    for container in objects.containers(pod["spec"]):
        name = container["name"]
        counts = (restarts.get(name, 0), backoffs.get(name, 0.0))
        if isinstance(outcome, Creating):
            waiting = {"reason": outcome.reason}
            if outcome.reason != "ContainerCreating":
                waiting["message"] = outcome.message
            state: Json = {"state": {"waiting": waiting}, "ready": False, "started": False}
        elif isinstance(outcome, (InitWaiting, InitCrash)):
            state = {"state": {"waiting": {"reason": "PodInitializing"}}, "ready": False, "started": False}
        elif isinstance(outcome, Finished):
            bad = _ended(outcome.code, _message(container, outcome.left, outcome.message), now)
            state = {"state": {"terminated": bad}, "ready": False, "started": False}
            state = state if outcome.code else _terminated(old.get(name), now, ready=False)
        elif name in outcome.crashed:
            message = _message(container, outcome.left.get(name, ""), outcome.crashed[name])
            state = _crashed(_Crash(name, message, outcome.codes.get(name, 1), *counts), old.get(name), now)
        else:
            state = _running(old.get(name), now, ready=name not in outcome.unready)
        found.append(_container(pod, container, state, old.get(name), restarts.get(name, 0)))
    return found


def _container(pod: Json, container: Json, state: Json, old: Json | None, restarts: int) -> Json:
    kept = {
        key: value for key, value in (old or {}).items() if key in {"allocatedResources", "resources", "volumeMounts", "user"}
    }
    created = "waiting" not in state["state"] or "lastState" in state
    ended = ((old or {}).get("state") or {}).get("terminated")
    before = {"terminated": ended} if ended and "running" in state["state"] else (old or {}).get("lastState") or {}
    base: Json = {
        **kept,
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "restartCount": restarts,
        "lastState": before,
    }
    if created:
        base["containerID"] = f"sandbox://{hashlib.sha256((objects.uid(pod) + container['name']).encode()).hexdigest()}"
    return {**base, **state}


def _running(old: Json | None, now: str, *, ready: bool = True) -> Json:
    before = ((old or {}).get("state") or {}).get("running")
    return {"state": {"running": before or {"startedAt": now}}, "ready": ready, "started": True}


def _terminated(old: Json | None, now: str, *, ready: bool = True) -> Json:
    before = ((old or {}).get("state") or {}).get("terminated") or {}
    ended = before if before.get("exitCode") == 0 else {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
    return {"state": {"terminated": ended}, "ready": ready, "started": False}


def _message(container: Json, left: str, log: str) -> str:
    """What the status says of a container that has ended with an error."""
    return left or (log if container.get("terminationMessagePolicy") == _FROM_LOG else "")


def _ended(code: int, message: str, now: str) -> Json:
    ended: Json = {"exitCode": code, "reason": "Error", "startedAt": now, "finishedAt": now}
    return {**ended, "message": message} if message else ended


@dataclass(frozen=True)
class _Crash:
    """The end of a container, after so many restarts, that is followed by a wait."""

    name: str
    message: str
    code: int
    restarts: int
    backoff: float


def _crashed(crash: _Crash, old: Json | None, now: str) -> Json:
    last = _ended(crash.code, crash.message, now)
    known = old or {}
    if known.get("restartCount") == crash.restarts and "running" not in known["state"]:
        # It has been told already that it has ended.
        last = known["state"].get("terminated") or (known.get("lastState") or {}).get("terminated") or last
    if not crash.backoff:
        return {"state": {"terminated": last}, "ready": False, "started": False}
    message = f"back-off {crash.backoff:g}s restarting failed container={crash.name}"
    waiting = {"reason": "CrashLoopBackOff", "message": message}
    return {"state": {"waiting": waiting}, "lastState": {"terminated": last}, "ready": False, "started": False}


def _address(seed: str, second: int, first: int = 10) -> str:
    digest = hashlib.sha256(seed.encode()).digest()
    return f"{first}.{second}.{digest[0]}.{digest[1] % 254 + 1}"
