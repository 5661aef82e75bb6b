"""What of a deploy is not, or no longer, as it should be besides what nodes advertise: each thing with its place and its cause.

Pure: objects of the API come in, sentences go out, causes before what follows from them. Looked at is what Pulumi, Helm and the
operator have put into a cluster; what a user tries out there himself is his own business. A node's counts, labels and verdict are
compared with the plan in observe.py.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Object = Mapping[str, Any]

_UPGRADE: Final = "nvidia.com/gpu-driver-upgrade-state"
_UPGRADED: Final = {"", "upgrade-done"}
_READY: Final = "ready"
_UNSEEN: Final = "its change has not been seen yet"
_LONGEST: Final = 200
_NODES_NAMED: Final = 3


@dataclass(frozen=True)
class Objects:
    """What is in the clusters of a stack.

    Attributes:
        nodes: of all clusters.
        policies: ClusterPolicies.
        deployments: of all namespaces.
        daemon_sets: of all namespaces.
        jobs: of all namespaces.
        pods: of all namespaces; needed only to say where something is waited for.
        unread: what could not be read, and why.
    """

    nodes: Sequence[Object] = ()
    policies: Sequence[Object] = ()
    deployments: Sequence[Object] = ()
    daemon_sets: Sequence[Object] = ()
    jobs: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    unread: Sequence[str] = field(default_factory=tuple)


def troubles(seen: Objects, *, pool_nodes: Iterable[str] = ()) -> tuple[str, ...]:
    """Everything that is not as it should be, in words.

    Args:
        seen: what there is.
        pool_nodes: nodes that have a line of their own elsewhere.
    """
    waiting = _waiting_pods(seen.pods)
    named = set(pool_nodes)
    found = list(seen.unread)
    for node in seen.nodes:
        if _name(node) not in named:
            found += [f"node {_name(node)}: {state}" for state in node_states(node)]
    found += [said for policy in seen.policies for said in _policy(policy)]
    for kind, objects, judged in (
        ("Deployment", seen.deployments, _deployment),
        ("DaemonSet", seen.daemon_sets, _daemon_set),
        ("Job", seen.jobs, _job),
    ):
        for one in objects:
            if deployed(one):
                place = f"{kind} {one['metadata'].get('namespace')}/{_name(one)}"
                found += [f"{place}: {said}{_where(waiting, one)}" for said in judged(one)]
    return tuple(found)


def deployed(one: Object) -> bool:
    """Whether Pulumi, Helm or the operator has made an object."""
    metadata = one["metadata"]
    owners = {owner["kind"] for owner in metadata.get("ownerReferences") or []}
    managers = [str(entry.get("manager")) for entry in metadata.get("managedFields") or []]
    labels = metadata.get("labels") or {}
    return (
        "ClusterPolicy" in owners
        or labels.get("app.kubernetes.io/managed-by") == "Helm"
        or any(manager.startswith("pulumi-kubernetes") for manager in managers)
    )


def node_states(node: Object) -> Iterator[str]:
    """What keeps a node from taking pods, as far as the kubelet or the operator is the cause."""
    ready = next((one for one in node.get("status", {}).get("conditions", []) if one["type"] == "Ready"), None)
    if ready is not None and ready["status"] != "True":
        yield f"not ready{_because(ready)}"
    upgrade = (node["metadata"].get("labels") or {}).get(_UPGRADE, "")
    if upgrade not in _UPGRADED:
        cordoned = "cordoned, " if node.get("spec", {}).get("unschedulable") else ""
        yield f"{cordoned}the operator changes its driver ({upgrade})"


def waiting_on(seen: Objects) -> dict[str, list[str]]:
    """Node -> what has been deployed to it and does not run there yet."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    owners = {one["metadata"]["uid"]: _name(one) for one in (*seen.daemon_sets, *seen.jobs) if deployed(one)}
    for pod in seen.pods:
        node, owner = pod["spec"].get("nodeName"), next((uid for uid in _owners(pod) if uid in owners), None)
        if node and owner and not _is_over(pod) and not _is_ready(pod):
            found[node].append(f"{owners[owner]}{_in_brackets(_pod_waits_for(pod))}")
    return found


# --- kinds --------------------------------------------------------------------------------------------------


def _policy(policy: Object) -> Iterator[str]:
    status = policy.get("status") or {}
    if status.get("state") == _READY:
        return
    reasons = [
        _because(one) for one in status.get("conditions") or [] if one.get("type") == "Error" and one.get("status") == "True"
    ]
    reasons += [
        _because(one) for one in status.get("conditions") or [] if one.get("type") == "Ready" and one.get("status") != "True"
    ]
    cause = next(filter(None, reasons), "")
    yield f"ClusterPolicy {_name(policy)}: {status.get('state') or 'the operator has not said anything of it yet'}{cause}"


def _deployment(one: Object) -> Iterator[str]:
    status, wanted = one.get("status") or {}, one["spec"].get("replicas", 1)
    there, updated, ready = (status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas"))
    if status.get("observedGeneration", 0) < one["metadata"]["generation"]:
        yield _UNSEEN
    elif updated < wanted or ready < wanted or there > updated:
        # A new pod that does not start leaves the old one at work: all are ready, and nothing is rolled out.
        old = f", {there - updated} of them old" if there > updated else ""
        yield f"{ready} of {wanted} pods ready{_updated(updated, wanted)}{old}"


def _daemon_set(one: Object) -> Iterator[str]:
    status = one.get("status") or {}
    wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    updated = status.get("updatedNumberScheduled", 0)
    if status.get("observedGeneration", 0) < one["metadata"]["generation"]:
        yield _UNSEEN
    elif ready != wanted or updated != wanted:
        yield f"{ready} of {wanted} pods ready{_updated(updated, wanted)}"


def _job(one: Object) -> Iterator[str]:
    status = one.get("status") or {}
    met = {str(said["type"]): said for said in status.get("conditions") or [] if said["status"] == "True"}
    if "Failed" in met:
        yield f"failed{_because(met['Failed'])}"
    elif not met.keys() & {"Complete", "SuccessCriteriaMet"} and not one["spec"].get("suspend"):
        yield f"{status.get('succeeded', 0)} of {one['spec'].get('completions', 1)} pods have come to their end"


def _updated(updated: int, wanted: int) -> str:
    return "" if updated == wanted else f", {updated} of {wanted} up to date"


# --- pods ---------------------------------------------------------------------------------------------------


def _waiting_pods(pods: Iterable[Object]) -> Mapping[str, list[Object]]:
    """Owner -> its pods that are not ready."""
    found: defaultdict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        if not _is_over(pod) and not _is_ready(pod):
            for owner in _owners(pod):
                found[owner].append(pod)
    return found


def _where(waiting: Mapping[str, list[Object]], one: Object) -> str:
    """On which nodes its pods are not ready, and what each waits for."""
    metadata = one["metadata"]
    pods = waiting.get(metadata["uid"]) or waiting.get(f"{metadata.get('namespace')}/{metadata['name']}", [])
    places = [f"{pod['spec'].get('nodeName') or 'no node'}{_in_brackets(_pod_waits_for(pod))}" for pod in pods]
    if not places:
        return ""
    more = f" and {len(places) - _NODES_NAMED} more" if len(places) > _NODES_NAMED else ""
    return f"; not on {', '.join(sorted(places)[:_NODES_NAMED])}{more}"


def _pod_waits_for(pod: Object) -> str:
    """The first container that is not where it should be, and why; empty where the pod does not say."""
    status = pod.get("status") or {}
    for kind, containers in (("init container", "initContainerStatuses"), ("container", "containerStatuses")):
        for one in status.get(containers) or []:
            state = one.get("state") or {}
            if (state.get("terminated") or {}).get("exitCode") == 0 or (kind == "container" and one.get("ready")):
                continue
            return f"{kind} {one['name']}{_state(state, one.get('lastState') or {})}"
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            return f"not scheduled{_because(condition)}"
    return ""


def _state(state: Object, before: Object) -> str:
    ended = state.get("terminated") or before.get("terminated")
    if ended and (ended.get("message") or ended.get("exitCode")):
        said = _short(ended.get("message") or "")
        return f" ended with {ended.get('exitCode')}" + (f": {said}" if said else "")
    if state.get("waiting"):
        return _because(state["waiting"])
    return " runs" if "running" in state else ""


def _is_ready(pod: Object) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in (pod.get("status") or {}).get("conditions") or [])


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Succeeded" or bool(pod["metadata"].get("deletionTimestamp"))


def _owners(pod: Object) -> Iterator[str]:
    """Uids; of a Deployment, whose ReplicaSet stands between them, namespace and name."""
    for owner in pod["metadata"].get("ownerReferences") or []:
        yield str(owner["uid"])
        if owner.get("kind") == "ReplicaSet":
            yield f"{pod['metadata'].get('namespace')}/{owner['name'].rpartition('-')[0]}"


# --- words --------------------------------------------------------------------------------------------------


def _name(one: Object) -> str:
    return str(one["metadata"]["name"])


def _because(said: Object) -> str:
    """Reason and message of a condition or state."""
    words = ": ".join(filter(None, (str(said.get("reason") or ""), _short(str(said.get("message") or "")))))
    return f": {words}" if words else ""


def _in_brackets(words: str) -> str:
    return f" ({words})" if words else ""


def _short(text: str) -> str:
    """On one line; the end of a long one is left out."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else f"{flat[:_LONGEST]}…"
