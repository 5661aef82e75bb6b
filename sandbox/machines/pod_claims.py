"""The claims of pods, as a kubelet deals with them: which a pod has, whether it may use them, and when they are prepared.

After kubernetes v1.36.3 (pkg/kubelet/cm/dra/manager.go; k8s.io/dynamic-resource-allocation v0.36.3, resourceclaim): the claims
of the pod's spec, those that were made of a template, and the one that the scheduler has made for its extended resources. They
are read from the API server, checked, and prepared by the drivers of the machine (dra_manager) after the pod's volumes are
there and before its sandbox is made; a pod of which that fails stays ContainerCreating, with an event. They are unprepared
after its containers have ended and before anybody sees that: a pod whose claims a driver does not give back stays Terminating.

The ResourceSlices of a driver that cannot be asked are deleted after the kubelet's own delay, and those of all drivers of a
machine when this daemon first sees it, as a kubelet does when it starts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from sandbox.cluster.api_errors import ApiError
from sandbox.machines import objects
from sandbox.machines.dra_manager import WIPING_DELAY_SECONDS, ClaimRequest
from sandbox.machines.dra_messages import Claim
from sandbox.machines.outcomes import Creating
from sandbox.machines.world import LOG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.machines.node_programs import NodePrograms
    from sandbox.machines.objects import Json
    from sandbox.machines.programs import Context
    from sandbox.machines.world import World

_SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
_AGAIN_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 1.0


class _UnusableError(Exception):
    """A claim that the pod cannot use; why, in the kubelet's words."""


class PodClaims:
    """The claims of all pods of a cluster's machines."""

    def __init__(self, programs: NodePrograms) -> None:
        """Know who runs the drivers."""
        self._programs = programs
        #: Pod -> its claims, as they were read and found good.
        self._read: dict[str, tuple[ClaimRequest, ...]] = {}
        #: Machines of which the slices were deleted when they were first seen.
        self._begun: set[str] = set()

    def obstacle(self, context: Context) -> Creating | None:
        """What keeps the claims of a pod from being prepared; None where they are, or it has none."""
        pod = context.pod
        if not has_claims(pod):
            return None
        uid = objects.uid(pod)
        try:
            wanted = self._read.get(uid)
            if wanted is None:
                wanted = self._read[uid] = tuple(_requests(context.world, pod))
            error = self._programs.prepare_claims(context.machine, uid, wanted)
        except _UnusableError as refused:
            error = str(refused)
        if error is None:
            return Creating("ContainerCreating", "", "")
        if not error:
            return None
        # They may be others by now.
        self._read.pop(uid, None)
        message = f"Failed to prepare dynamic resources: prepare dynamic resources: {error}"
        return Creating("ContainerCreating", "FailedPrepareDynamicResources", message)

    def released(self, world: World, pod: Json) -> bool:
        """Have the claims of a pod unprepared whose containers have ended; whether they are."""
        machine = world.machines.get(objects.node_of(pod))
        if not has_claims(pod) or machine is None or self._programs.release_claims(machine, objects.uid(pod)):
            return True
        world.again_in(_AGAIN_SECONDS)
        return False

    def step(self, world: World, pods: frozenset[str]) -> None:
        """Take care of what no pod asks for any more.

        Args:
            world: the pass.
            pods: uids of the pods whose containers may still run.
        """
        self._read = {uid: wanted for uid, wanted in self._read.items() if uid in pods}
        for node, machine in world.machines.items():
            self._programs.keep_claims(machine, pods)
            for driver, since in self._programs.silent_drivers(machine).items():
                left = since + WIPING_DELAY_SECONDS - time.monotonic()
                if left > 0:
                    world.again_in(left)
                elif _delete_slices(world, node, driver):
                    self._programs.forget_driver(machine, driver)

    def begin(self, world: World) -> None:
        """Delete the slices of machines that are seen for the first time, before any driver has published its own."""
        for node, machine in world.machines.items():
            if machine.group.hardware.gpus and node not in self._begun and _delete_slices(world, node):
                self._begun.add(node)
        self._begun &= world.machines.keys()


def has_claims(pod: Json) -> bool:
    """Whether a pod has claims, of its own or for extended resources."""
    return bool(pod["spec"].get("resourceClaims") or (pod.get("status") or {}).get("extendedResourceClaimStatus"))


def is_dra_backed(pod: Json, container: str, resource: str) -> bool:
    """Whether a container's extended resource was allocated by DRA, so that no device plugin is asked for it."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    mappings = status.get("requestMappings") or []
    return any((one["containerName"], one["resourceName"]) == (container, resource) for one in mappings)


def _requests(world: World, pod: Json) -> Iterator[ClaimRequest]:
    """What a pod's claims need of drivers.

    Raises:
        _UnusableError: one cannot be used.
    """
    for name, of_template in _names(pod):
        claim = _claim(world, pod, name)
        if of_template and not _is_of(claim, pod):
            where, pod_name = objects.namespace(pod), objects.name(pod)
            message = f"ResourceClaim {where}/{name} was not created for Pod {where}/{pod_name} (Pod is not owner)"
            raise _UnusableError(message)
        status = claim.get("status") or {}
        if all(user["uid"] != objects.uid(pod) for user in status.get("reservedFor") or []):
            message = (
                f"pod {objects.name(pod)} ({objects.uid(pod)}) is not allowed to use ResourceClaim {name} ({objects.uid(claim)})"
            )
            raise _UnusableError(message)
        if status.get("allocation") is None:
            message = f"ResourceClaim {name}: not allocated"
            raise _UnusableError(message)
        results = (status["allocation"].get("devices") or {}).get("results") or []
        drivers = tuple(dict.fromkeys(result["driver"] for result in results))
        yield ClaimRequest(Claim(objects.namespace(pod), objects.uid(claim), name), drivers)


def _names(pod: Json) -> Iterator[tuple[str, bool]]:
    """The names of a pod's claims, and whether each was made of a template.

    Raises:
        _UnusableError: one is not made yet.
    """
    status = pod.get("status") or {}
    made = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or []}
    for entry in pod["spec"].get("resourceClaims") or []:
        if entry.get("resourceClaimName"):
            yield entry["resourceClaimName"], False
        elif entry["name"] not in made:
            message = f'pod "{objects.namespace(pod)}/{objects.name(pod)}": ResourceClaim not created yet'
            raise _UnusableError(message)
        elif made[entry["name"]]:
            yield str(made[entry["name"]]), True
    extended = status.get("extendedResourceClaimStatus")
    if extended:
        yield extended["resourceClaimName"], False


def _claim(world: World, pod: Json, name: str) -> Json:
    path = f"/apis/resource.k8s.io/v1/namespaces/{objects.namespace(pod)}/resourceclaims/{name}"
    found = world.api.get(path)
    if found is None:
        message = f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found'
        raise _UnusableError(message)
    return found


def _is_of(claim: Json, pod: Json) -> bool:
    owners = claim["metadata"].get("ownerReferences") or []
    return any(owner.get("controller") and owner["uid"] == objects.uid(pod) for owner in owners)


def _delete_slices(world: World, node: str, driver: str = "") -> bool:
    """Delete the ResourceSlices of a node, or of one driver there; whether they are deleted."""
    selector = f"spec.nodeName={node}" + (f",spec.driver={driver}" if driver else "")
    try:
        world.api.delete(f"{_SLICES}?fieldSelector={quote(selector)}")
    except ApiError as error:
        LOG.info("ResourceSlices of %s: %s", node, error)
        world.again_in(_RETRY_SECONDS)
        return False
    return True
