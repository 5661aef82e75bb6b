"""All of a cluster, to compare what was there before a stack came with what is there once it has gone.

Every object of every kind that the API server serves, found by asking it, with all that it says: labels, annotations, spec,
status, and the uid, so that an object that was deleted and made anew is not equal. What Kubernetes moves by itself is left out,
and each such thing is a row here with its reason. Nothing is left out because a stack of ours changes it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from sandbox.stack.inventory import listed
from sandbox.system.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sandbox.cluster.api import Api

    Objects = Mapping[str, Any]

#: Whole kinds, as ``group/plural``.
MOVING_KINDS: Final = {
    "/events": "told of what happens, and dropped after an hour",
    "events.k8s.io/events": "the same objects",
    "/componentstatuses": "no objects: an answer that is made when it is asked",
    "/endpoints": "made of a Service and its pods, which are compared",
    "discovery.k8s.io/endpointslices": "the same",
}
#: Fields of every object, or of a kind; a step `*` is every item of a list.
MOVING_FIELDS: Final = {
    "": (
        (("metadata", "resourceVersion"), "counts writings"),
        (("metadata", "generation"), "counts changes of the spec, which is compared"),
        (("status", "observedGeneration"), "the same count"),
        (("metadata", "managedFields"), "who has written last, and when"),
    ),
    "coordination.k8s.io/leases": (
        (("spec", "renewTime"), "every few seconds"),
        (("spec", "holderIdentity"), "another process of the same program after a restart"),
        (("spec", "acquireTime"), "the same"),
        (("spec", "leaseTransitions"), "the same"),
    ),
    "/nodes": (
        (("status", "conditions", "*", "lastHeartbeatTime"), "every few minutes"),
        (("status", "images"), "the kubelet's own list of what lies on its disk"),
    ),
}
#: Definitions that stay: others may have objects of them (decision 270), and their groups are served as long.
KEPT: Final = ("apiextensions.k8s.io/customresourcedefinitions/node", "apiregistration.k8s.io/apiservices/v1alpha1.nfd.")
_PAUSE_SECONDS: Final = 1.0


def taken(api: Api) -> Objects:
    """The cluster as it is: ``group/plural/namespace/name`` -> the object, less what moves by itself."""
    return {_name(kind, item): _still(kind, item) for kind, item in listed(api) if kind not in MOVING_KINDS}


def settled(api: Api, seconds: float = 60.0) -> Objects:
    """The same once nothing has moved between two looks."""
    end, before = Patience(seconds), taken(api)
    while True:
        time.sleep(2 * _PAUSE_SECONDS)
        now = taken(api)
        if not (moved := differences(before, now)):
            return now
        assert not end.is_over(), "the cluster does not come to rest:\n" + "\n".join(moved)
        before = now


def check_as_before(api: Api, before: Objects, kept: tuple[str, ...] = KEPT, seconds: float = 60.0) -> None:
    """See that the cluster is as it was, once it has had this long for what ends by itself, such as pods and namespaces.

    Args:
        api: of the cluster.
        before: as it was.
        kept: beginnings of names that may be there besides.
        seconds: how long.
    """
    end = Patience(seconds)
    while left := [line for line in differences(before, taken(api)) if not line.startswith(tuple(f"+ {name}" for name in kept))]:
        assert not end.is_over(), "the cluster is not as it was:\n" + "\n".join(left)
        time.sleep(_PAUSE_SECONDS)


def differences(before: Objects, after: Objects) -> list[str]:
    """What is not equal, a line each: what has gone, what has come, and of what is there still each field."""
    lines = [f"- {name}" for name in sorted(before.keys() - after.keys())]
    lines += [f"+ {name}" for name in sorted(after.keys() - before.keys())]
    for name in sorted(before.keys() & after.keys()):
        lines += [f"~ {name} {line}" for line in _changes(before[name], after[name], "")]
    return lines


def _changes(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _changes(before.get(key), after.get(key), f"{path}.{key}")
    elif before != after:
        yield f"{path}: {before!r} -> {after!r}"


def _name(kind: str, item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return "/".join(part for part in (kind, metadata.get("namespace"), metadata["name"]) if part)


def _still(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    for path, _ in (*MOVING_FIELDS[""], *MOVING_FIELDS.get(kind, ())):
        _drop(item, path)
    status = item.get("status") or {}
    if kind == "/nodes":
        _drop_lost_resources(status)
    # Lists of which the order says nothing.
    if isinstance(conditions := status.get("conditions"), list):
        status["conditions"] = {one["type"]: one for one in conditions}
    return item


def _drop_lost_resources(status: dict[str, Any]) -> None:
    """Take away names of resources whose plugin has gone.

    A kubelet keeps them until it starts anew: as allocatable with 0, and for five minutes as capacity with what there was
    (kubernetes, pkg/kubelet/cm/devicemanager, GetCapacity; nodestatus, MachineInfo).
    """
    allocatable, capacity = status.get("allocatable") or {}, status.get("capacity") or {}
    for name in {name for name in (*allocatable, *capacity) if "/" in name and allocatable.get(name, "0") == "0"}:
        allocatable.pop(name, None)
        capacity.pop(name, None)


def _drop(item: Any, path: tuple[str, ...]) -> None:
    step, *rest = path
    if step == "*":
        for one in item or []:
            _drop(one, tuple(rest))
    elif isinstance(item, dict) and step in item:
        if rest:
            _drop(item[step], tuple(rest))
        else:
            del item[step]
