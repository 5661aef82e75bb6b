"""Who made a pod whose programs would really run: only a workload that still says the same, in the pod's own namespace.

What runs here runs as whoever started the sandbox, outside of any container. So a label is no ground to run anything: a known
program's pod is one that its DaemonSet, Job or ReplicaSet has made, with that workload's containers and volumes and no others. An
owner reference alone says nothing: anybody who may create pods can write one. The verifier's pods and those of hooks name their
programs themselves; they run in one place only, by accounts of theirs.

Not here: whether the workload itself may be there. Whoever may write those of another namespace has the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.proof import verifier_pods
from gpu_pools.proof.verifier_rights import CHANGER, VERIFIER_NAMESPACE
from gpu_pools.rendering import node_cleanup, node_leaving
from sandbox.machines import objects

if TYPE_CHECKING:
    from sandbox.machines.objects import Json
    from sandbox.machines.world import World

_WORKLOADS: Final = {"DaemonSet": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1"}
#: What decides what a container does here.
_OF_CONTAINERS: Final = ("name", "command", "args", "env", "envFrom", "workingDir", "lifecycle")
#: Whom config-manager signals. A policy of the API server may change it in each pod; whoever it names, only processes of the
#: pod's own namespace can be meant. Any other variable decides what a program reads or writes, or where it runs.
_FREE: Final = "PROCESS_TO_SIGNAL"
#: The volume that the API server adds to pods for their service account.
_ACCOUNT: Final = "kube-api-access-"


@dataclass(frozen=True)
class _Only:
    """Where the pods of a program may be from.

    Attributes:
        kind: of their workload.
        name: how its name begins.
        accounts: what their service account may be.
        namespace: theirs; any where it is empty.
    """

    kind: str
    name: str
    accounts: tuple[str, ...]
    namespace: str = ""


#: By the label app.kubernetes.io/name.
_ONLY: Final = {
    verifier_pods.VERIFIER_APP: _Only(
        "DaemonSet", f"{verifier_pods.VERIFIER_APP}-", (verifier_pods.SERVICE_ACCOUNT, CHANGER), VERIFIER_NAMESPACE
    ),
    node_cleanup.NAME: _Only("Job", node_cleanup.NAME, (node_cleanup.NAME,)),
    node_leaving.NAME: _Only("Job", node_leaving.NAME, (node_leaving.NAME,)),
}


class Makers:
    """Looks at each pod once; what was found good stays so, since what counts of a pod's spec cannot be changed."""

    def __init__(self) -> None:
        """Nothing has been looked at."""
        self._good: set[str] = set()

    def objection(self, world: World, pod: Json) -> str:
        """Why the programs of a pod must not run; empty where they may.

        Raises:
            ApiError: when the API server does not say who made it.
        """
        if objects.uid(pod) in self._good:
            return ""
        found = _misplaced(pod) or _unmade(world, pod)
        if not found:
            self._good &= {objects.uid(one) for one in world.pods}
            self._good.add(objects.uid(pod))
        return found


def _misplaced(pod: Json) -> str:
    only = _ONLY.get(objects.labels(pod).get("app.kubernetes.io/name", ""))
    if only is None:
        return ""
    owner = _controller(pod)
    account = pod["spec"].get("serviceAccountName", "")
    if only.namespace and objects.namespace(pod) != only.namespace:
        return f"its namespace is {objects.namespace(pod)}, not {only.namespace}"
    if account not in only.accounts:
        return f"its service account is {account}, not {' or '.join(only.accounts)}"
    if owner.get("kind") != only.kind or not str(owner.get("name", "")).startswith(only.name):
        return f"it is of no {only.kind} {only.name}…"
    return ""


def _unmade(world: World, pod: Json) -> str:
    """What says that the workload that a pod names has not made it."""
    owner = _controller(pod)
    kind = owner.get("kind", "")
    if kind not in _WORKLOADS or owner.get("apiVersion") != _WORKLOADS[kind]:
        return f"no {', '.join(_WORKLOADS)} has made it"
    base = f"/apis/{_WORKLOADS[kind]}/namespaces/{objects.namespace(pod)}"
    made_by = world.api.get(f"{base}/{kind.lower()}s/{owner['name']}")
    if made_by is None or objects.uid(made_by) != owner.get("uid"):
        return f"{kind} {owner['name']}, which it names, is not there"
    if _content(made_by["spec"]["template"]["spec"]) == _content(pod["spec"]):
        return ""
    # Of a DaemonSet that has been changed since, the controller keeps what it was.
    revision = f"{owner['name']}-{objects.labels(pod).get('controller-revision-hash', '')}"
    before = world.api.get(f"{base}/controllerrevisions/{revision}") if kind == "DaemonSet" else None
    was = before is not None and any(one.get("uid") == owner["uid"] for one in objects.owners(before, kind))
    if was and before is not None and _content(before["data"]["spec"]["template"]["spec"]) == _content(pod["spec"]):
        return ""
    return f"{kind} {owner['name']} would make another one"


def _controller(pod: Json) -> Json:
    owners = pod["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), {})


def _content(spec: Json) -> Json:
    """What of a pod's spec decides what its programs do here."""
    return {
        "containers": [_container(one) for one in objects.containers(spec)],
        "initContainers": [_container(one) for one in objects.containers(spec, init=True)],
        "volumes": [volume for volume in spec.get("volumes") or [] if not volume["name"].startswith(_ACCOUNT)],
    }


def _container(container: Json) -> Json:
    mounts = [mount for mount in container.get("volumeMounts") or [] if not mount["name"].startswith(_ACCOUNT)]
    content = {key: container[key] for key in _OF_CONTAINERS if container.get(key)} | {"volumeMounts": mounts}
    if "env" in content:
        content["env"] = [{"name": _FREE} if one["name"] == _FREE and "value" in one else one for one in content["env"]]
    return content
