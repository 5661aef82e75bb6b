"""The node as a change sees it and writes to it: its labels, the mark, the cordon, and the pods that hold its GPUs.

Each write names the version of the node that it was decided on, so that nothing is done to a node that has changed meanwhile.
Of pods only those that hold GPUs are looked at. Those of the operator's namespace are left out: what checks the GPUs there ends
by itself, and mig-manager removes it.

Whoever may create a pod decides what is in it, so nothing of a pod is believed that its author could have made up. A pod whose
amount is not a count, or that cannot be read, counts as one that holds GPUs, and is named in what is said. It ends no look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..api import ApiError, shaped
from ..marks import listed_by_nfd
from ..quantities import LARGEST, read_count
from .nfd_rules import names_of_setters
from .owners import Owners, owner_of
from .rollout_steps import Holder, LivingNodeState, Mark, by_claims, is_paused, read_mark, uncordons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..api import Client

ANNOTATION: Final = "gpu-pools/change"
_NVIDIA: Final = "nvidia.com/"
#: Under which resource claims count among what a pod holds.
_CLAIMS: Final = "resource claims"
_RULES: Final = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
#: What the rules of a stack's own pools are called (gpu_pools/rendering): others keep labels of their own pools there.
_OUR_RULES: Final = "gpu-pools-"
_OVER: Final = ("Succeeded", "Failed")
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_TRIES: Final = 5


@dataclass(frozen=True)
class LivingNode:
    """A node.

    Attributes:
        api: where it is read and written.
        name: its name.
        operators: the namespace of the GPU operator.
        annotation: in which the mark is.
    """

    api: Client
    name: str
    operators: str
    annotation: str = ANNOTATION

    def read(self) -> dict[str, Any]:
        """The object."""
        return self.api.get(self._path)

    @shaped("a node")
    def seen(
        self,
        node: dict[str, Any],
        *,
        has_slot: bool,
        is_open: bool,
        as_declared: Callable[[Mapping[str, str], Mark | None, bool], bool],
    ) -> LivingNodeState:
        """What is there.

        Args:
            node: as `read` gave it.
            has_slot: whether the node has a rollout slot.
            is_open: whether a change may begin now.
            as_declared: of its labels, its mark, and whether pods hold its GPUs: whether NVML says what is declared.
        """
        metadata = node["metadata"]
        labels: dict[str, str] = metadata.get("labels") or {}
        mark = read_mark((metadata.get("annotations") or {}).get(self.annotation))
        holders = self.holders(claims=by_claims(labels))
        return LivingNodeState(
            labels=labels,
            by_nfd=listed_by_nfd(metadata),
            cordoned=bool((node.get("spec") or {}).get("unschedulable")),
            mark=mark,
            holders=holders,
            has_slot=has_slot,
            as_declared=not is_paused(labels) and as_declared(labels, mark, bool(holders)),
            open=is_open,
            offers=_offered(node),
        )

    def holders(self, *, claims: bool = False) -> tuple[Holder, ...]:
        """The pods that hold its GPUs.

        Args:
            claims: whether pods get GPUs through claims here: each pod that names a claim is one then, whatever the claim is for.
        """
        listed = self.api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={self.name}")
        return holders_among(_items(listed), self.operators, Owners(self.api), claims=claims)

    def rules_setting(self, key: str) -> tuple[str, ...]:
        """The NodeFeatureRules of others than gpu-pools that set a label; none where they may not be read."""
        try:
            listed = _items(self.api.get(_RULES))
        except ApiError:
            return ()
        return tuple(sorted(name for name in names_of_setters(listed, key) if not name.startswith(_OUR_RULES)))

    def set_labels(self, node: dict[str, Any], labels: Mapping[str, str]) -> None:
        """Set labels."""
        self._write(node, {"labels": dict(labels)})

    def mark(self, node: dict[str, Any], mark: Mark, *, cordoned: bool | None = None) -> None:
        """Write the mark, and in the same request cordon or uncordon; None leaves that as it is."""
        self._write(node, {"annotations": {self.annotation: mark.text()}}, cordoned)

    @shaped("a node")
    def give_back(self, node: dict[str, Any]) -> bool:
        """Take the mark away, and what was cordoned for it; whether there was anything."""
        annotations = node["metadata"].get("annotations") or {}
        if self.annotation not in annotations:
            return False
        ours = uncordons(read_mark(annotations[self.annotation]))
        self._write(node, {"annotations": {self.annotation: None}}, False if ours else None)
        return True

    def evict(self, pod: Holder, *, only_ask: bool = False) -> str:
        """Ask for its eviction; returns what stands against it, empty where nothing does.

        Args:
            pod: the pod.
            only_ask: that it stays all the same.
        """
        metadata = {"name": pod.name, "namespace": pod.namespace}
        # Not another pod that has come under its name.
        options = {"preconditions": {"uid": pod.uid}, **({"dryRun": ["All"]} if only_ask else {})}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        try:
            self.api.create(f"{_pod_path(pod)}/eviction", body)
        except ApiError as error:
            return "" if error.status == _NOT_FOUND else error.message
        return ""

    def delete(self, pod: Holder) -> str:
        """Delete it, with its own grace; returns what stands against it."""
        try:
            self.api.delete(_pod_path(pod), pod.uid)
        except ApiError as error:
            return "" if error.status == _NOT_FOUND else error.message
        return ""

    @shaped("pods of mig-manager")
    def restart_mig_manager(self) -> None:
        """Delete the pods of mig-manager on this node: a new one begins the change anew and brings its clients back."""
        self._delete_operand("nvidia-mig-manager")

    def restart_mps_daemon(self) -> None:
        """Delete the pods of the MPS daemon on this node: the configuration of a new one is that of the node's label."""
        self._delete_operand("nvidia-device-plugin-mps-control-daemon")

    def _delete_operand(self, app: str) -> None:
        place = f"/api/v1/namespaces/{self.operators}/pods"
        listed = self.api.get(place, fieldSelector=f"spec.nodeName={self.name}", labelSelector=f"app={app}")
        for pod in listed.get("items") or []:
            metadata = pod["metadata"]
            self.api.delete(f"{place}/{metadata['name']}", metadata["uid"])

    @property
    def _path(self) -> str:
        return f"/api/v1/nodes/{self.name}"

    @shaped("a node")
    def _write(self, node: dict[str, Any], metadata: dict[str, Any], cordoned: bool | None = None) -> None:  # noqa: FBT001
        body: dict[str, Any] = {"metadata": {**metadata, "resourceVersion": node["metadata"]["resourceVersion"]}}
        if cordoned is not None:
            body["spec"] = {"unschedulable": cordoned or None}
        self.api.patch(self._path, body)


def despite_others(change: Callable[[], object]) -> None:
    """Do what reads nodes and then writes to them; again where somebody else has written to one between the two.

    A kubelet and a verifier write to a node all the time.

    Args:
        change: reads anew each time.

    Raises:
        ApiError: where that is not possible, or others are in between each time.
    """
    for _ in range(_TRIES - 1):
        try:
            change()
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
        else:
            return
    change()


def _items(listed: Mapping[str, Any]) -> list[Any]:
    """The objects of a list. Anything else is one object that nobody can read, so that it does not pass for an empty list."""
    found = listed.get("items")
    return [] if found is None else found if isinstance(found, list) else [found]


def _offered(node: dict[str, Any]) -> dict[str, int]:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    read = {name: read_count(count) for name, count in allocatable.items() if name.startswith(_NVIDIA)}
    return {name: count for name, count in read.items() if count is not None}


def _pod_path(pod: Holder) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def holders_among(pods: Iterable[Any], operators: str, owners: Owners, *, claims: bool = False) -> tuple[Holder, ...]:
    """The pods that hold GPUs, wherever one of them cannot be read.

    Args:
        pods: the objects.
        operators: the namespace of the GPU operator, whose pods are left out.
        owners: tells which owners there are.
        claims: whether a pod that names a resource claim is one, too.

    Raises:
        ApiError: where the owners of a pod cannot be looked up.
    """

    def read(pod: Mapping[str, Any]) -> Holder | None:
        return None if pod["metadata"]["namespace"] == operators else holder_of(pod, claims=claims)

    return read_pods(pods, read, owners)


def read_pods(pods: Iterable[Any], read: Callable[[Mapping[str, Any]], Holder | None], owners: Owners) -> tuple[Holder, ...]:
    """The pods that are chosen, each with an owner that exists.

    Args:
        pods: the objects.
        read: gives a pod where it is chosen; one that it cannot read is chosen, too.
        owners: tells which owners there are.

    Raises:
        ApiError: where the owners of a pod cannot be looked up.
    """
    found: list[Holder] = []
    for pod in pods:
        try:
            holder = read(pod)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            holder = _unreadable(pod, error)
        if holder is not None:
            found.append(owners.checked(holder, pod))
    return tuple(found)


def holder_of(pod: Mapping[str, Any], *, claims: bool = False) -> Holder | None:
    """The pod where it holds GPUs: it is bound to the node, and not over. Its owner is what the pod says of itself.

    Args:
        pod: the object.
        claims: whether it is one, too, where it names a resource claim.
    """
    if is_over(pod):
        return None
    spec = pod["spec"]
    holds: dict[str, int] = {}
    for container in spec.get("containers") or []:
        for name, count in _gpus(container).items():
            holds[name] = min(LARGEST, holds.get(name, 0) + count)
    for container in spec.get("initContainers") or []:
        for name, count in _gpus(container).items():
            holds[name] = max(holds.get(name, 0), count)
    if claims and (named := spec.get("resourceClaims")):
        holds[_CLAIMS] = len(named)
    return as_holder(pod, holds) if holds else None


def as_holder(pod: Mapping[str, Any], holds: Mapping[str, int]) -> Holder:
    """A pod as whoever empties a node sees it, with what it holds; its owner is what the pod says of itself."""
    metadata = pod["metadata"]
    leaves = bool(metadata.get("deletionTimestamp"))
    note = "asks for GPUs by an amount that is not a count" if LARGEST in holds.values() else ""
    return Holder(metadata["namespace"], metadata["name"], metadata["uid"], owner_of(pod), holds, leaves, note)


def is_over(pod: Mapping[str, Any]) -> bool:
    """Whether it has ended, and is only still listed."""
    return (pod.get("status") or {}).get("phase") in _OVER


def _unreadable(pod: object, error: Exception) -> Holder:
    """A pod of which nobody can say what it holds."""
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    known = metadata if isinstance(metadata, dict) else {}
    namespace, name, uid = (str(known.get(key) or "unknown") for key in ("namespace", "name", "uid"))
    return Holder(namespace, name, uid, "", {}, note=f"cannot be read, so it may hold GPUs: {error!r:.80}")


def _gpus(container: Mapping[str, Any]) -> dict[str, int]:
    """Resource -> count that a container holds; LARGEST where what is written is not a count."""
    # Of such a resource request and limit are equal (kubernetes.io, manage-gpus), and one of them may be left out.
    resources = container.get("resources") or {}
    written = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    read = {name: read_count(count) for name, count in written.items() if name.startswith(_NVIDIA)}
    return {name: LARGEST if count is None else count for name, count in read.items() if count != 0}
