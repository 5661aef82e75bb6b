"""Shares: what the plan declares, what nodes offer, what pods have been given, what waits; recorded from kube-state-metrics.

Read in kubernetes/kube-state-metrics c92fe0c5 (internal/store/pod.go, node.go, utils.go):

- a resource is written with `_` for all but letters and digits: `nvidia_com_mig_1g_10gb`. The plan's constants have both;
- requests of pods that have ended stay for as long as the pod object does, so the phase decides;
- a pod that no node takes has requests without `node`, and `kube_pod_status_unschedulable`. One with a scheduling gate has both,
  and its reason: it waits for somebody, not for shares.

Which pool a node is of comes from the targets that this stack has scraped, the exporters and the verifiers: it needs no labels of
nodes, which kube-state-metrics tells only where somebody lists them. A node with neither has no series here.

Not here: requests of init containers; which pool a waiting pod would go to, since its selector is not told by default. Without
kube-state-metrics there is nothing of what is allocated or waits, never 0; what is allocatable the verifiers tell as well. Of
pools with resource claims only the verifiers tell it, since it stands in ResourceSlices and not in the status of the node.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpu_pools.observing.series import DECLARED_SHARES, JOB, NODE_KEY, POOL, Declared
from gpu_pools.proof.verifier_pods import VERIFIER_APP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.plan.planned import Plan

NODE_POOL: Final = "gpu_pools:node_pool:info"
NODE_ALLOCATABLE: Final = "gpu_pools:node_allocatable:shares"
POD_ALLOCATED: Final = "gpu_pools:pod_allocated:shares"
NODE_ALLOCATED: Final = "gpu_pools:node_allocated:shares"
POOL_ALLOCATABLE: Final = "gpu_pools:pool_allocatable:shares"
POOL_ALLOCATED: Final = "gpu_pools:pool_allocated:shares"
WAITING: Final = "gpu_pools:pods_waiting:shares"
#: A resource as kube-state-metrics writes it.
KUBE_RESOURCE: Final = "kube_resource"
#: Nodes that kube-state-metrics tells of: each has room for pods.
KNOWN_NODES: Final = (
    'label_replace(group by (node) (kube_node_status_allocatable{resource="pods"}), "instance", "$1", "node", "(.+)")'
)
_NODE: Final = ", ".join(NODE_KEY)
_POD: Final = "namespace, pod, uid"


def kube_resource(resource: str) -> str:
    """As kube-state-metrics writes it (`SanitizeLabelName`)."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", resource)


def declared_shares(plan: Plan) -> Iterator[Declared]:
    """How many shares of each resource a node of a pool must offer."""
    for pool in plan.pools:
        for resource, count in sorted(pool.advertises.items()):
            labels = ((POOL, pool.name), ("resource", resource), (KUBE_RESOURCE, kube_resource(resource)))
            yield Declared(DECLARED_SHARES, labels, count)


def recorded_shares(plan: Plan) -> Iterator[tuple[str, str]]:
    """(series, expression), in the order in which they need each other."""
    names = "|".join(sorted({kube_resource(name) for pool in plan.pools for name in pool.advertises}))
    ours = f'resource=~"{names}"'
    yield NODE_POOL, f'topk by (instance) (1, group by ({_NODE}) (up{{job=~"{JOB}|{VERIFIER_APP}", {POOL}!=""}}))'
    offered = _of_pools(f"max by (node, resource) (kube_node_status_allocatable{{{ours}}})") + _without_claims(plan)
    proven = (
        f'max by ({_NODE}, resource) (gpu_pools_allocatable_devices{{job="{VERIFIER_APP}", {POOL}!=""}}) '
        f"and on ({POOL}, resource) {DECLARED_SHARES}"
    )
    yield NODE_ALLOCATABLE, f"{offered} or {proven}"
    requests = f"sum by ({_POD}, node, resource) ({_requests(ours, '!=')}) {_in_phase('Pending|Running')}"
    yield POD_ALLOCATED, _of_pools(requests, "namespace", "pod")
    answers = 'on () group (kube_pod_status_phase{phase="Running"})'
    none = f"0 * ({NODE_ALLOCATABLE} and on (instance) {KNOWN_NODES} and {answers})"
    yield NODE_ALLOCATED, f"sum by ({_NODE}, resource) ({POD_ALLOCATED}) or {none}"
    yield POOL_ALLOCATABLE, f"sum by ({POOL}, resource) ({NODE_ALLOCATABLE})"
    yield POOL_ALLOCATED, f"sum by ({POOL}, resource) ({NODE_ALLOCATED})"
    waits = (
        f"(sum by ({_POD}, resource) ({_requests(ours, '=')}) {_in_phase('Pending')} "
        f"and on ({_POD}) kube_pod_status_unschedulable == 1 "
        f'unless on ({_POD}) kube_pod_status_reason{{reason="SchedulingGated"}} == 1)'
    )
    known = f"group by ({KUBE_RESOURCE}, resource) ({DECLARED_SHARES})"
    asked = f"sum by ({KUBE_RESOURCE}) ({_moved(waits, KUBE_RESOURCE, 'resource')})"
    named = f"{asked} * on ({KUBE_RESOURCE}) group_left (resource) {known}"
    yield WAITING, f"sum by (resource) ({named}) or 0 * group by (resource) ({DECLARED_SHARES}) and {answers}"


def claimed_pools(plan: Plan) -> tuple[str, ...]:
    """Pools whose pods get GPUs by resource claims: the status of a node counts nothing of what the DRA driver announces."""
    return tuple(pool.name for pool in plan.pools if pool.devices)


def _without_claims(plan: Plan) -> str:
    claimed = "|".join(claimed_pools(plan))
    return f' unless on ({POOL}) group by ({POOL}) ({DECLARED_SHARES}{{{POOL}=~"{claimed}"}})' if claimed else ""


def _requests(ours: str, bound: str) -> str:
    """Of each container once, also where two of kube-state-metrics tell of it."""
    key = f"{_POD}, container, node, resource"
    return f'max by ({key}) (kube_pod_container_resource_requests{{{ours}, node{bound}""}})'


def _in_phase(phases: str) -> str:
    return f'* on ({_POD}) group_left () (max by ({_POD}) (kube_pod_status_phase{{phase=~"{phases}"}}) == 1)'


def _of_pools(rows: str, *keep: str) -> str:
    """Rows with `node` and `resource` by our keys, where the node's pool declares that resource."""
    moved = _moved(_moved(rows, "instance", "node"), KUBE_RESOURCE, "resource")
    of_node = f"sum by ({', '.join(('instance', KUBE_RESOURCE, *keep))}) ({moved})"
    placed = f"{of_node} * on (instance) group_left ({POOL}) {NODE_POOL}"
    named = f"{placed} * on ({POOL}, {KUBE_RESOURCE}) group_left (resource) {DECLARED_SHARES} ^ 0"
    return f"sum by ({', '.join((_NODE, 'resource', *keep))}) ({named})"


def _moved(rows: str, to: str, label: str) -> str:
    return f'label_replace({rows}, "{to}", "$1", "{label}", "(.+)")'
