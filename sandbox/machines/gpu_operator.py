"""Stand-in for the NVIDIA GPU operator: it makes of a ClusterPolicy what its nodes need, and says how that stands.

Works only while a pod of the operator runs, and follows gpu-operator v26.7.0 (controllers/clusterpolicy_controller.go and
state_manager.go): the order of its states, what ends a reconciliation and with which words, when it calls a policy ready. As the
real one it says ``ready`` although a node may share nothing (a plugin that registers nothing is a healthy pod), or although no
GPU node was found at all. Its parts: DaemonSets (operands), other objects (operator_objects), labels (operator_labels), the way
of a changed driver to the nodes (driver_upgrade). What its operands' pods do is in driver, gpu_programs and mig_manager.

An operator of an older chart does everything as v26.7.0 does it, but for that way: before v26.7 it evicts for each change.

Differences: a new DaemonSet counts as not ready until its controller has seen it (the real one may say ready for a moment),
and an error is tried again after a second (really 0.1 s to 3 s). Left out: OpenShift, NVIDIADriver and GPUCluster, PodSecurity
labels, metrics, ServiceMonitors, events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.releases import release_of
from gpu_pools.stack.charts import VERSIONS
from sandbox.cluster.api_errors import ApiError
from sandbox.machines import objects
from sandbox.machines.driver_upgrade import DriverUpgrade
from sandbox.machines.objects import name, timestamp
from sandbox.machines.operands import HASH, OPERANDS, OperandError, OperatorEnvironment, daemon_set, enabled
from sandbox.machines.operator_labels import PRESENT, OperatorLabels
from sandbox.machines.operator_objects import OperatorObjects
from sandbox.machines.store import KINDS
from sandbox.machines.world import LOG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.objects import Json
    from sandbox.machines.operands import Operand
    from sandbox.machines.world import World

_NFD_PREFIX: Final = "feature.node.kubernetes.io/"
_OS_LABELS: Final = (("name", f"{_NFD_PREFIX}system-os_release.ID"), ("version", f"{_NFD_PREFIX}system-os_release.VERSION_ID"))
_RETRY_SECONDS: Final = 1.0
_NEWEST: Final = VERSIONS["gpu-operator"][0]
#: Of these only the major version stands in an image's tag.
_MAJOR_ONLY: Final = ("ol", "rocky", "rhel")


class _ReconcileError(Exception):
    """What ends a reconciliation, in the operator's words."""


class Operator:
    """The operator of one cluster."""

    def __init__(self) -> None:
        """Not started."""
        self._labels, self._upgrade, self._objects = OperatorLabels(), DriverUpgrade(), OperatorObjects()
        #: The pod of the operator whose first reconciliation went well: only the first looks at the whole spec.
        self._begun = ""

    def step(self, world: World) -> None:
        """Reconcile once, if the operator runs."""
        pod = next((pod for pod in world.pods if objects.labels(pod).get("app") == "gpu-operator" and objects.running(pod)), None)
        policies = sorted(
            world.store.all("clusterpolicies"), key=lambda item: (item["metadata"]["creationTimestamp"], name(item))
        )
        if pod is None or not policies or objects.deleted(policies[0]):
            return
        # Of several policies the oldest counts; the others are not even told so.
        policy, where = policies[0], objects.namespace(pod)
        try:
            self._labels.step(world, policy)
            state, condition = self._reconcile(world, policy, pod)
            _set_status(world, policy, state, where, condition)
            self._upgrade.step(world, policy, where, _version(pod))
        except ApiError as error:
            if not error.outdated:
                LOG.warning("operator: %s", error)
            world.again_in(_RETRY_SECONDS)

    def _reconcile(self, world: World, policy: Json, pod: Json) -> tuple[str, tuple[str, str, bool]]:
        """(state, (reason, message, good)) of the policy."""
        try:
            unready = self._states(world, policy, pod)
        except _ReconcileError as error:
            world.again_in(_RETRY_SECONDS)
            return "notReady", ("ReconcileFailed", str(error), False)
        nodes = world.nodes.values()
        if unready:
            message = f"ClusterPolicy is not ready; states not ready: [{' '.join(unready)}]"
            return "notReady", ("OperandNotReady", message, False)
        if not any(key.startswith(_NFD_PREFIX) for node in nodes for key in objects.labels(node)):
            return "ready", ("NFDLabelsMissing", "No NFD labels found", True)
        if not _gpu_nodes(world):
            return "ready", ("NoGPUNodes", "No GPU node found, watching for new nodes to join the cluster.", True)
        return "ready", ("Reconciled", "ClusterPolicy is ready as all resources have been successfully reconciled", True)

    def _states(self, world: World, policy: Json, pod: Json) -> list[str]:
        """Go through the states in their order; the names of those that are not ready.

        Raises:
            _ReconcileError: at the first that cannot be followed; those after it are not looked at.
        """
        if self._begun != objects.uid(pod):
            _validate(policy["spec"])
            self._begun = objects.uid(pod)
        gpu_nodes = _gpu_nodes(world)
        environment = OperatorEnvironment(objects.namespace(pod), _os_tag(gpu_nodes), objects.env(pod, "gpu-operator"))
        unready = []
        state = "pre-requisites"
        try:
            self._objects.runtime_classes(world, policy)
            for operand in OPERANDS:
                state = operand.state
                self._objects.of_operand(world, policy, operand, environment.namespace)
                if not self._operand(world, policy, operand, environment, has_gpus=bool(gpu_nodes)):
                    unready.append(state)
        except (OperandError, ApiError) as error:
            if isinstance(error, ApiError) and error.outdated:
                raise
            message = f"Failed to reconcile {state}: {error}"
            raise _ReconcileError(message) from None
        return unready

    def _operand(self, world: World, policy: Json, operand: Operand, environment: OperatorEnvironment, *, has_gpus: bool) -> bool:
        """Create, update or remove one DaemonSet; whether its state counts as ready."""
        path = f"/apis/apps/v1/namespaces/{environment.namespace}/daemonsets"
        known = world.store.by_name("daemonsets").get(f"{environment.namespace}/{operand.name}")
        if not enabled(policy["spec"], operand):
            if known is not None:
                world.api.delete(f"{path}/{operand.name}")
                world.store.removed("daemonsets", known)
            return True
        if not has_gpus:
            # Without a GPU node nothing is known of the operating system, so what is there stays as it is.
            return True
        wanted = daemon_set(policy, operand, environment)
        if known is None:
            world.store.wrote("daemonsets", world.api.create(path, wanted))
            return False
        if known["spec"]["selector"] != wanted["spec"]["selector"]:
            # An earlier version of this stand-in made it. The real operator's selectors stay: nobody can change one.
            world.api.delete(f"{path}/{operand.name}")
            world.store.removed("daemonsets", known)
            return False
        if objects.notes(known).get(HASH) != objects.notes(wanted)[HASH]:
            wanted["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            world.store.wrote("daemonsets", world.api.replace(f"{path}/{operand.name}", wanted))
            return False
        return self._is_ready(world, known)

    def _is_ready(self, world: World, daemon_set: Json) -> bool:
        status = daemon_set.get("status") or {}
        desired = status.get("desiredNumberScheduled", 0)
        if desired == 0:
            return True
        if status.get("numberUnavailable", 0):
            return False
        if daemon_set["spec"]["updateStrategy"]["type"] == "OnDelete":
            return self._is_current(world, daemon_set)
        observed: int = status.get("observedGeneration", 0)
        updated = observed >= daemon_set["metadata"]["generation"] and status.get("updatedNumberScheduled", 0) == desired
        return bool(updated and status.get("numberAvailable", 0) == desired)

    def _is_current(self, world: World, daemon_set: Json) -> bool:
        """Whether every pod of a DaemonSet that replaces none by itself is of its newest revision, and ready."""
        wanted = self._upgrade.revision(world, daemon_set)
        uid = objects.uid(daemon_set)
        pods = [pod for pod in world.pods if any(owner["uid"] == uid for owner in objects.owners(pod, "DaemonSet"))]
        return bool(pods) and all(
            objects.labels(pod).get("controller-revision-hash") == wanted
            and objects.phase(pod) == "Running"
            and all(item["ready"] for item in (pod.get("status") or {}).get("containerStatuses") or [])
            for pod in pods
        )


def _version(pod: Json) -> str:
    """Of the operator: its image's tag. Of another image than NVIDIA's it is taken for the newest."""
    tag = objects.containers(pod["spec"])[0].get("image", "").rpartition(":")[2]
    return tag if release_of(tag) else _NEWEST


def _gpu_nodes(world: World) -> list[Json]:
    return [node for _, node in sorted(world.nodes.items()) if objects.labels(node).get(PRESENT) == "true"]


def _validate(spec: Json) -> None:
    cdi = spec.get("cdi") or {}
    if not cdi.get("nriPluginEnabled"):
        return
    for switch, what in (
        (cdi.get("enabled", True), "CDI"),
        ((spec.get("toolkit") or {}).get("enabled", True), "the Container Toolkit"),
    ):
        if not switch:
            message = f"error validating clusterpolicy: the NRI Plugin cannot be enabled when {what} is disabled"
            raise _ReconcileError(message)


def _os_tag(gpu_nodes: list[Json]) -> str:
    """Of the first GPU node: without it no image of a driver can be named."""
    if not gpu_nodes:
        return ""
    labels = objects.labels(gpu_nodes[0])
    for what, label in _OS_LABELS:
        if label not in labels:
            message = f"failed to retrieve GPU node OS info: unable to retrieve OS {what} from label {label}"
            raise _ReconcileError(message)
    system, version = (labels[label] for _, label in _OS_LABELS)
    return f"{system}{version.partition('.')[0] if system in _MAJOR_ONLY else version}"


def _set_status(world: World, policy: Json, state: str, where: str, condition: tuple[str, str, bool]) -> None:
    old = policy.get("status") or {}
    reason, message, good = condition
    before = {item["type"]: item for item in old.get("conditions") or []}
    conditions = [
        _condition(before, "Ready", good, reason if good else "Error", message if good else ""),
        _condition(before, "Error", not good, "Ready" if good else reason, "" if good else message),
    ]
    status = {"state": state, "namespace": where, "conditions": conditions}
    if {key: old.get(key) for key in status} != status:
        path = f"{KINDS['clusterpolicies']}/{name(policy)}/status"
        world.store.wrote("clusterpolicies", world.api.patch(path, {"status": status}))


def _condition(before: Mapping[str, Json], kind: str, holds: bool, reason: str, message: str) -> Json:  # noqa: FBT001
    wanted = {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
    old = before.get(kind)
    if old is not None and all(old.get(key) == value for key, value in wanted.items()):
        return old
    moved = old is None or old["status"] != wanted["status"]
    return {**wanted, "lastTransitionTime": timestamp() if moved or old is None else old["lastTransitionTime"]}
