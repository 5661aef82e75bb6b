"""How NVIDIA's operator brings a changed driver DaemonSet to the nodes: one after the other, each cordoned meanwhile.

After the upgrade controller of gpu-operator v26.7.0 and NVIDIA/k8s-operator-libs pkg/upgrade: the states of the label
nvidia.com/gpu-driver-upgrade-state in their order, how many nodes at a time (maxParallelUpgrades, maxUnavailable), pods with GPUs
evicted first, the way of a change that leaves the driver as it is (a toleration: cordon and restart, since v26.7), nodes that
were cordoned before, `upgrade-failed`: by a pod that cannot be evicted (also one of a DaemonSet, or a static one), by one that
has not gone in time. A wait for something that no label tells takes two minutes there and a second here. Left out:
waitForCompletion, the drain itself (its state is passed through), the ten minutes of the validation, safe driver loading,
upgrades on request.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.releases import restarts_in_place
from sandbox.cluster.api_errors import ApiError
from sandbox.machines import objects
from sandbox.machines.operands import DIGEST, DRIVER
from sandbox.machines.store import KINDS
from sandbox.machines.world import LOG

if TYPE_CHECKING:
    from sandbox.machines.objects import Json
    from sandbox.machines.world import World

STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
SKIP: Final = "nvidia.com/gpu-driver-upgrade.skip"
_WAS_CORDONED: Final = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
_VALIDATOR: Final = "nvidia-operator-validator"
_RESTARTS: Final = 10
#: The CRD's default of podDeletion.timeoutSeconds; 0 is without an end.
_EVICTION_SECONDS: Final = 300
_MIRROR: Final = "kubernetes.io/config.mirror"
#: Two minutes in the real one (plannedRequeueInterval).
_REQUEUE_SECONDS: Final = 1.0
_DONE, _REQUIRED, _CORDON, _JOBS, _PODS, _DRAIN, _RESTART, _VALIDATION, _UNCORDON, _FAILED = (
    "upgrade-done", "upgrade-required", "cordon-required", "wait-for-jobs-required", "pod-deletion-required", "drain-required",
    "pod-restart-required", "validation-required", "uncordon-required", "upgrade-failed",
)  # fmt: skip

_FROM_PODS_ON: Final = (_PODS, _DRAIN, _RESTART, _VALIDATION, _UNCORDON, _FAILED)

#: State -> the one after it, and what becomes of the cordon (...: nothing), where nothing is waited for.
_PLAIN: Final[dict[str, tuple[str, Any]]] = {
    _CORDON: (_JOBS, True),
    _JOBS: (_PODS, ...),
    _DRAIN: (_RESTART, ...),
    _UNCORDON: (_DONE, None),
}


class DriverUpgrade:
    """The upgrade controller of one operator."""

    def __init__(self) -> None:
        """Look at once."""
        self._due = 0.0
        self._seen: object = None
        self._revisions: dict[tuple[str, int], str] = {}
        #: Node -> since when its pods are being evicted: in memory alone, as there.
        self._evicting: dict[str, float] = {}
        self._restarts_in_place = True

    def step(self, world: World, policy: Json, where: str, version: str) -> None:
        """Move every node one state on, when something has changed or the wait is over; `version` is the operator's."""
        self._restarts_in_place = restarts_in_place(version)
        driver = policy["spec"].get("driver") or {}
        rules = driver.get("upgradePolicy") or {}
        states = {node: objects.labels(found).get(STATE, "") for node, found in world.nodes.items()}
        if not rules.get("autoUpgrade"):
            for node in (node for node, state in states.items() if state):
                world.label_node(node, {STATE: None})
            return
        daemon_set = world.store.by_name("daemonsets").get(f"{where}/{DRIVER}")
        seen = (states, policy["metadata"].get("generation"), daemon_set and daemon_set["metadata"].get("generation"))
        if seen == self._seen and world.now < self._due:
            world.again_in(self._due - world.now)
            return
        self._seen, self._due = seen, world.now + _REQUEUE_SECONDS
        if daemon_set is None:
            return
        pods = _driver_pods(world, daemon_set)
        wanted = self.revision(world, daemon_set)
        complete = len(pods) == (daemon_set.get("status") or {}).get("desiredNumberScheduled", 0)
        if wanted is not None and complete:
            self._apply(world, rules, daemon_set, pods, wanted)
        if any(state not in ("", _DONE) for state in states.values()) or not complete or wanted is None:
            world.again_in(_REQUEUE_SECONDS)

    def revision(self, world: World, daemon_set: Json) -> str | None:
        """The revision that new pods of a DaemonSet get; None while its controller has not seen the last change."""
        generation = daemon_set["metadata"]["generation"]
        if (daemon_set.get("status") or {}).get("observedGeneration", 0) < generation:
            return None
        key = (objects.uid(daemon_set), generation)
        if key not in self._revisions:
            path = f"/apis/apps/v1/namespaces/{objects.namespace(daemon_set)}/controllerrevisions"
            mine = [
                item
                for item in world.api.list(path)["items"]
                if any(owner["uid"] == objects.uid(daemon_set) for owner in objects.owners(item, "DaemonSet"))
            ]
            if not mine:
                return None
            newest = max(mine, key=lambda item: int(item["revision"]))
            self._revisions = {key: objects.name(newest).removeprefix(f"{objects.name(daemon_set)}-")}
        return self._revisions[key]

    def _apply(self, world: World, rules: Json, daemon_set: Json, pods: dict[str, Json], wanted: str) -> None:
        """One look at the state of all nodes: what it says is done, whatever it changes meanwhile."""
        found = [(node, pod, objects.labels(world.nodes[node]).get(STATE, "")) for node, pod in sorted(pods.items())]
        free = _slots(world, rules, [(node, state) for node, _, state in found])
        # The chart always says how pods are deleted. With a policy that does not the real one never gets past this state, on any
        # node: "pod deletion spec should not be empty".
        stuck = rules.get("podDeletion") is None and any(state == _PODS for _, _, state in found)
        for node, pod, state in found:
            if stuck and state in _FROM_PODS_ON:
                continue
            synced = objects.labels(pod).get("controller-revision-hash") == wanted
            if state != _PODS:
                self._evicting.pop(node, None)
            try:
                if state == _REQUIRED:
                    restart_only = self._restarts_in_place and _same_driver(pod, daemon_set)
                    free -= self._start(world, node, restart_only, free)
                elif state == _PODS:
                    self._evict(world, rules, node)
                else:
                    _advance(world, node, pod, state, synced=synced)
            except ApiError as error:
                LOG.info("driver upgrade of %s: %s", node, error)

    @staticmethod
    def _start(world: World, node: str, restart_only: bool, free: int) -> int:  # noqa: FBT001
        """Begin with a node that needs it; 1 where that took a slot."""
        present = world.nodes[node]
        # A node that somebody has cordoned may go ahead of the others.
        if objects.labels(present).get(SKIP) == "true" or (free <= 0 and not present["spec"].get("unschedulable")):
            return 0
        if restart_only:
            _patch(world, node, _RESTART, spec={"unschedulable": True})
        else:
            _patch(world, node, _CORDON)
        return 1

    def _evict(self, world: World, rules: Json, node: str) -> None:
        """Pods with GPUs go; those that may not, or do not in time, leave the node as failed, or to the drain."""
        users = [pod for pod in world.pods_on(node) if _uses_gpu(pod)]
        deletion = rules.get("podDeletion") or {}
        since, limit = self._evicting.setdefault(node, world.now), deletion.get("timeoutSeconds", _EVICTION_SECONDS)
        late = limit and world.now - since > limit
        if late or not all(_may_go(pod, deletion) for pod in users):
            _patch(world, node, _DRAIN if (rules.get("drain") or {}).get("enable") else _FAILED)
            return
        if not users:
            _patch(world, node, _RESTART)
        for pod in users:
            path = f"/api/v1/namespaces/{objects.namespace(pod)}/pods/{objects.name(pod)}/eviction"
            # Where a disruption budget says no, the next look tries again.
            world.api.create(path, {"metadata": {"name": objects.name(pod), "namespace": objects.namespace(pod)}})


def _advance(world: World, node: str, pod: Json, state: str, *, synced: bool) -> None:
    present = world.nodes[node]
    if state in ("", _DONE):
        if not synced:
            note = {_WAS_CORDONED: "true"} if present["spec"].get("unschedulable") else {}
            _patch(world, node, _REQUIRED, notes=note)
        elif not state:
            _patch(world, node, _DONE)
    elif state in _PLAIN:
        following, cordoned = _PLAIN[state]
        _patch(world, node, following, spec=None if cordoned is ... else {"unschedulable": cordoned})
    elif state == _RESTART:
        _restart(world, node, pod, synced=synced)
    elif (state == _VALIDATION and _validated(world, node)) or (state == _FAILED and synced and _ready(pod)):
        _release(world, node)


def _restart(world: World, node: str, pod: Json, *, synced: bool) -> None:
    if not synced:
        world.delete_pod(pod)
    elif _ready(pod):
        _patch(world, node, _VALIDATION)
    elif any(item.get("restartCount", 0) > _RESTARTS and not item["ready"] for item in _statuses(pod)):
        _patch(world, node, _FAILED)


def _release(world: World, node: str) -> None:
    """A node that was cordoned before stays so."""
    if _WAS_CORDONED in objects.notes(world.nodes[node]):
        _patch(world, node, _DONE, notes={_WAS_CORDONED: None})
    else:
        _patch(world, node, _UNCORDON)


def _may_go(pod: Json, deletion: Json) -> bool:
    """Whether kubectl's drain would evict it: an error of its filters, and what they skip, both leave it there."""
    controllers = [one for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
    if any(one["kind"] == "DaemonSet" for one in controllers) or _MIRROR in objects.notes(pod):
        return False
    kept = any("emptyDir" in volume for volume in pod["spec"].get("volumes") or ())
    return bool(controllers or deletion.get("force")) and (not kept or bool(deletion.get("deleteEmptyDir")))


def _uses_gpu(pod: Json) -> bool:
    if objects.phase(pod) not in ("Running", "Pending"):
        return False
    asked = [item.get("resources") or {} for item in objects.containers(pod["spec"])]
    named = [key for one in asked for kind in ("limits", "requests") for key in one.get(kind) or {}]
    return any(key.startswith(("nvidia.com/gpu", "nvidia.com/mig-")) for key in named)


def _slots(world: World, rules: Json, states: list[tuple[str, str]]) -> int:
    """How many nodes may begin now."""
    total = len(states)
    running = sum(state not in ("", _DONE, _REQUIRED) for _, state in states)
    parallel = rules.get("maxParallelUpgrades", 1)
    free = total if parallel == 0 else parallel - running
    text = str(rules.get("maxUnavailable") or total)
    most = math.ceil(total * int(text[:-1]) / 100) if text.endswith("%") else int(text)
    down = sum(state == _CORDON or _unavailable(world.nodes[node]) for node, state in states)
    if down >= most:
        return 0
    free = min(free, most)
    return min(free, most - down) if most < total else free


def _unavailable(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable")) or objects.condition(node, "Ready").get("status") != "True"


def _same_driver(pod: Json, daemon_set: Json) -> bool:
    """Whether the change leaves the installed driver as it is."""
    running, wanted = (_digest(spec) for spec in (pod["spec"], daemon_set["spec"]["template"]["spec"]))
    return bool(running) and running == wanted


def _digest(spec: Json) -> str:
    containers = [*objects.containers(spec, init=True), *objects.containers(spec)]
    found = (entry.get("value", "") for item in containers for entry in item.get("env") or [] if entry["name"] == DIGEST)
    return next(found, "")


def _driver_pods(world: World, daemon_set: Json) -> dict[str, Json]:
    """Node -> its driver pod."""
    uid = objects.uid(daemon_set)
    mine = [pod for pod in world.pods if any(owner["uid"] == uid for owner in objects.owners(pod, "DaemonSet"))]
    return {objects.node_of(pod): pod for pod in mine if objects.node_of(pod) in world.nodes and not objects.deleted(pod)}


def _validated(world: World, node: str) -> bool:
    pods = [pod for pod in world.pods_on(node) if objects.labels(pod).get("app") == _VALIDATOR]
    return bool(pods) and all(_ready(pod) for pod in pods)


def _ready(pod: Json) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return objects.phase(pod) == "Running" and bool(statuses) and all(item["ready"] for item in statuses)


def _statuses(pod: Json) -> list[Json]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _patch(world: World, node: str, state: str, *, spec: Json | None = None, notes: Json | None = None) -> None:
    body: Json = {"metadata": {"labels": {STATE: state}, "annotations": notes or {}}}
    if spec is not None:
        body["spec"] = spec
    world.store.wrote("nodes", world.api.patch(f"{KINDS['nodes']}/{node}", body))
    world.moved = True
