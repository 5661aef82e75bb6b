"""Which nodes of a pool still get other pods of the operator. Pure: nodes, pods and other objects come in.

The operator replaces its programs node by node, and drivers minutes apart, long after its release is ready, while a proof has
one deadline for all nodes. So a proof begins when nothing of this is left (components/proof/operands_first.py).

Three things tell it:

- a driver of another version is in the node's labels;
- another operator with the same driver leaves these labels as they are, but each chart writes its own name on the pods of all
  its operands (NVIDIA/gpu-operator v25.3.4 to v26.7.0: ``operand-labels`` in deployments/gpu-operator/templates/_helpers.tpl,
  applyCommonDaemonsetMetadata in controllers/object_controls.go);
- a variable, a module or a toleration makes other pods of a driver whose version stays. The revision of their DaemonSet tells
  the old ones. It is that of the old template until the operator has followed its policy, so that is asked first: the API
  server writes down when somebody has changed an object (managedFields), and the operator changes the DaemonSet after the
  policy (DaemonSet in controllers/object_controls.go: only where it is another one). A policy that was changed without an
  effect on the driver's pods looks as one that was not followed yet, so whoever asks has to have an end of their own.

Not looked at: nodes that tell no driver yet, which get the new one at once; nodes whose driver is their image's own; pods that
are replaced by hand; NVIDIADriver objects; pods of an operator of another owner; changes within a second; and why something
does not come, which the proof says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.releases import number
from gpu_pools.plan.drivers import DRIVER_DAEMON_SET, demanded, driver_pods_digest, replaced_by_itself
from gpu_pools.plan.operator_upgrade import FAILED, HAS, OVER, STATE
from gpu_pools.stack.kubernetes_names import POOL_LABEL
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_pools.plan.planned import Plan, PoolPlan

    Object = Mapping[str, Any]

#: What the driver's pod writes on a node with a driver of its own (k8s-driver-manager 0c04c810, cmd/driver-manager/main.go).
_DEPLOY: Final = ("nvidia.com/gpu.deploy.driver", "pre-installed")
_CHART: Final = "helm.sh/chart"
#: The longest value that a label may have.
_LONGEST: Final = 63


@dataclass(frozen=True)
class Wanted:
    """What a pool's nodes shall have.

    Attributes:
        driver: the version, or the beginning of one; None: any.
        chart: what the operands' pods say of their chart; None where nothing can be told by it.
        by_hand: values of ``app`` of pods that somebody has to delete.
        pods: what the driver's pods are made of (`driver_pods_digest`); None where the operator replaces none.
    """

    driver: str | None = None
    chart: str | None = None
    by_hand: frozenset[str] = frozenset()
    pods: str | None = None


@dataclass(frozen=True)
class Due:
    """What is left.

    Attributes:
        pool: names of the pool's nodes that wait for a pod, or get it now.
        cluster: how many nodes of the cluster do: one policy holds for all of them.
        failed: names of nodes of the cluster whose driver upgrade has failed: others may wait for them without an end.
    """

    pool: tuple[str, ...]
    cluster: int
    failed: tuple[str, ...]


def operand_chart(plan: Plan) -> str | None:
    """What the chart writes on its operands' pods; None for an operator of another owner, and where the pods do not tell."""
    operator = plan.settings.operator
    own = at(plan.operator_values, "daemonsets", "labels", _CHART)
    if operator.adopted or own is not None or at(plan.operator_values, "daemonsets", "updateStrategy") == "OnDelete":
        return None
    return f"gpu-operator-{operator.chart.version}".replace("+", "_")[:_LONGEST].rstrip("-")


def wanted(plan: Plan, pool_plan: PoolPlan) -> Wanted:
    """What the nodes of a pool of the plan shall have."""
    by_hand = frozenset() if replaced_by_itself(plan) else frozenset({DRIVER_DAEMON_SET})
    own = pool_plan.driver == "operator"
    return Wanted(demanded(plan) if own else None, operand_chart(plan), by_hand, driver_pods_digest(plan) if own else None)


def others(shall: Wanted) -> str | None:
    """The label selector of pods of another operator, so that a large cluster tells no others; None where nothing can be told."""
    if shall.chart is None:
        return None
    by_hand = [f"app notin ({', '.join(sorted(shall.by_hand))})"] if shall.by_hand else []
    # A pod without a label is of another value, too.
    return ",".join(["app.kubernetes.io/managed-by=gpu-operator", _CHART, f"{_CHART}!={shall.chart}", *by_hand])


def operands_due(nodes: Iterable[Mapping[str, Any]], behind: Iterable[Mapping[str, Any]], pool: str, shall: Wanted) -> Due:
    """Those of a pool.

    Args:
        nodes: all of the cluster.
        behind: of the operator's namespace, the pods that `others` selects, and those that `older` selects of the driver's.
        pool: its name.
        shall: what its nodes shall have.
    """
    labels = {str(node["metadata"]["name"]): node["metadata"].get("labels") or {} for node in nodes}
    on = [(str(at(pod, "spec", "nodeName")), is_of_the_driver(pod)) for pod in behind]
    failed = {name for name, own in labels.items() if own.get(STATE) == FAILED}
    # Nobody replaces its driver's pod, whatever version that is of.
    stuck = failed & {name for name, of_driver in on if of_driver}
    waiting = {name for name, _ in on} | {name for name, own in labels.items() if _waits(own, shall)}
    due = (waiting & labels.keys()) - stuck
    failed -= due
    of_pool = sorted(name for name in due if labels[name].get(POOL_LABEL) == pool)
    return Due(tuple(of_pool), len(due), tuple(sorted(failed)))


def _waits(labels: Mapping[str, str], shall: Wanted) -> bool:
    if (shall.driver is None and shall.pods is None) or labels.get(_DEPLOY[0]) == _DEPLOY[1]:
        return False
    state, has, declared = labels.get(STATE, ""), labels.get(HAS), number(shall.driver or "")
    other = has is not None and number(has)[: len(declared)] != declared
    # A failed one that has what is declared gets out by itself: that is the way back.
    return not other if state == FAILED else other or state not in OVER


# --- drivers whose version stays ----------------------------------------------------------------------------------

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
