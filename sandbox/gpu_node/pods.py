"""The GPU pods of a play: each asks for one GPU as users' pods do, and computes on it until it is taken away.

They may keep a ledger, in a folder of the node: who computes there cannot write to it any more once it was killed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Collection

    from sandbox.cluster.api import Api
    from sandbox.real_node.place import Place

_PODS: Final = "/api/v1/namespaces/default/pods"
#: Which pod it is, for a disruption budget.
NAME: Final = "gpu-node-pod"
_LEDGERS: Final = "/var/lib/gpu-node-ledgers"
_APP: Final = "gpu-node-work"
_PROGRAM: Final = Path(__file__).parent / "work.py"
#: The real node's registry has it: this machine's Python.
_IMAGE: Final = "sandbox.invalid/python:own"
_BEGINS: Final = re.compile(r"begins on (GPU-[^\n]*)")
_ROUND: Final = re.compile(r"round (\d+) is right")
_MISSING: Final = 404


@dataclass(frozen=True)
class Work:
    """What a pod does once it is told to go.

    Attributes:
        seconds: how long it then goes on, to the end of what it has begun.
        grace: how long it may, as it declares.
    """

    seconds: float
    grace: int = 30


@dataclass(frozen=True)
class PodSnapshot:
    """A GPU pod at a moment.

    Attributes:
        name: the pod's.
        uid: of the object, which another pod of that name has not.
        phase: as its status says.
        container: the container's id and how often it was restarted; empty before there is one.
        why: what the scheduler, or the container, says where it does not run.
        rounds: how many right sums its log tells of.
        gpus: UUIDs of those that it computes on.
        is_going: whether it was told to go.
    """

    name: str
    uid: str
    phase: str
    container: str
    why: str
    rounds: int
    gpus: tuple[str, ...] = ()
    is_going: bool = False

    def goes_on(self, before: PodSnapshot) -> bool:
        """Whether it is the same container as before, and has computed since."""
        same = (self.uid, self.container, self.phase) == (before.uid, before.container, "Running")
        return same and self.rounds > before.rounds


def make(api: Api, name: str, node: str, gpus: int = 1, work: Work | None = None) -> None:
    """Make a pod that wants so many GPUs, or shares, of a node; with work it keeps a ledger of it."""
    container: dict[str, Any] = {
        "name": "work",
        "image": _IMAGE,
        "command": ["python3", "-c", _PROGRAM.read_text(encoding="utf-8")],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
    }
    spec = {
        # Where it may run, and not where it runs: the scheduler has to find that there is a GPU left.
        "nodeSelector": {"kubernetes.io/hostname": node},
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
    }
    if work:
        spec["terminationGracePeriodSeconds"] = work.grace
        spec["volumes"] = [{"name": "ledgers", "hostPath": {"path": _LEDGERS, "type": "DirectoryOrCreate"}}]
        container["volumeMounts"] = [{"name": "ledgers", "mountPath": _LEDGERS}]
        container["env"] = [{"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]
        container["command"] += ["inf", f"{_LEDGERS}/{name}.$(UID)", str(work.seconds)]
    metadata = {"name": name, "labels": {"app": _APP, NAME: name}}
    api.create(_PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def remove(api: Api, name: str) -> None:
    """Take one away; one that is not there is fine."""
    try:
        api.delete(f"{_PODS}/{name}")
    except ApiError as error:
        if error.status != _MISSING:
            raise


def look(api: Api, place: Place) -> dict[str, PodSnapshot]:
    """All of them, by name."""
    found = api.list(f"{_PODS}?labelSelector=app={_APP}")["items"]
    return {pod["metadata"]["name"]: _seen(pod, place) for pod in found}


def lost(place: Place, present: Collection[str]) -> list[str]:
    """The pods that have begun something, have not signed off and are no longer there, by name.

    Args:
        place: of the node.
        present: uids of the pods that are there.
    """
    entries = {path: path.name.rpartition(".") for path in (place.root / _LEDGERS.lstrip("/")).glob("*")}
    return sorted(name for path, (name, _, uid) in entries.items() if uid not in present and path.read_text("utf-8") != "saved")


def _seen(pod: dict[str, Any], place: Place) -> PodSnapshot:
    meta, status = pod["metadata"], pod["status"]
    containers = status.get("containerStatuses") or []
    identity = "; ".join(f"{one.get('containerID', '')} {one['restartCount']}" for one in containers if one.get("containerID"))
    said = [_said(one) for one in containers] + [
        f"{one.get('reason')}: {one.get('message')}" for one in status.get("conditions") or [] if one["status"] != "True"
    ]
    logs = (place.root / "var/log/pods" / f"default_{meta['name']}_{meta['uid']}").glob("work/*.log")
    text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)
    rounds = max(map(int, _ROUND.findall(text)), default=0)
    begun = _BEGINS.search(text)
    gpus = tuple(begun[1].split(", ")) if begun else ()
    # The kubelet says of the pod itself what it refuses.
    refused = f"{status['reason']}: {status.get('message', '')}" if status.get("reason") else ""
    why = next(filter(None, [refused, *said]), "")
    return PodSnapshot(meta["name"], meta["uid"], status["phase"], identity, why, rounds, gpus, "deletionTimestamp" in meta)


def _said(container: dict[str, Any]) -> str:
    state = container.get("state") or {}
    ended = state.get("terminated") or state.get("waiting") or {}
    return f"{ended.get('reason')}: {ended.get('message') or ended.get('exitCode')}" if ended else ""
