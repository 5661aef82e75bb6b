"""Which of the driver's pods the operator still has to replace, where nothing else tells it. Pure: the cluster's objects come in.

A variable, a module or a toleration makes other pods of a driver whose version stays, and the operator replaces them node by node
as it does for another version. What tells the old ones is the revision of their DaemonSet. It is that of the old template until
the operator has followed its policy, so that is asked first: the API server writes down when somebody has changed an object
(managedFields), and the operator changes the DaemonSet after the policy (NVIDIA/gpu-operator v25.3.4 to v26.7.0, DaemonSet in
controllers/object_controls.go: only where it is another one). A policy that was changed without an effect on the driver's pods
looks as one that was not followed yet, so whoever asks has to have an end of their own.

Not told apart are changes within a second. Not looked at: NVIDIADriver objects, and the pods of an operator of another owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Object = Mapping[str, Any]

#: Of all the driver's DaemonSets, of which there is one per kernel with precompiled drivers, and of their pods
#: (assets/state-driver/0500_daemonset.yaml).
DRIVER_PODS: Final = ("app.kubernetes.io/component", "nvidia-driver")
SELECTOR: Final = "=".join(DRIVER_PODS)
_REVISION: Final = "controller-revision-hash"


def followed(policies: Sequence[Object], daemon_sets: Sequence[Object]) -> bool:
    """Whether the driver's DaemonSets are those of the policy, and their controller has seen them.

    Args:
        policies: the ClusterPolicies.
        daemon_sets: the driver's.
    """
    seen = all((at(one, "status", "observedGeneration") or 0) >= one["metadata"]["generation"] for one in daemon_sets)
    changed = max(map(_changed, policies), default="")
    return bool(daemon_sets) and seen and all(_changed(one) >= changed for one in daemon_sets)


def older(daemon_sets: Iterable[Object], revisions: Iterable[Object]) -> str | None:
    """The label selector of the driver's pods that are of no newest revision; None where there is no revision.

    Args:
        daemon_sets: the driver's.
        revisions: the ControllerRevisions of their namespace.
    """
    newest: dict[str, Object] = {}
    for one in revisions:
        for owner in one["metadata"].get("ownerReferences") or ():
            uid = str(owner["uid"])
            newest[uid] = max(newest.get(uid, one), one, key=lambda each: int(each["revision"]))
    found = [newest[uid] for one in daemon_sets if (uid := str(one["metadata"]["uid"])) in newest]
    hashes = sorted(str(at(one, "metadata", "labels", _REVISION)) for one in found)
    return f"{SELECTOR},{_REVISION} notin ({', '.join(hashes)})" if hashes else None


def is_of_the_driver(pod: Object) -> bool:
    """Whether a pod is the driver's."""
    return bool(at(pod, "metadata", "labels", DRIVER_PODS[0]) == DRIVER_PODS[1])


def _changed(one: Object) -> str:
    """When somebody has last changed what an object shall be, to the second; a status is not it."""
    written = [entry for entry in one["metadata"].get("managedFields") or () if not entry.get("subresource")]
    return max((str(entry.get("time") or "") for entry in written), default="")
