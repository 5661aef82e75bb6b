"""What kube-state-metrics answers of nodes and pods whose truth is known, as Prometheus then has it.

Restated from kubernetes/kube-state-metrics c92fe0c5 (internal/store/node.go, pod.go, utils.go): allocatable and labels of nodes;
requests, phase, unschedulable and reason of pods. Like the real one:

- a pod that has ended keeps its requests;
- a pod of which no node is decided has rows with an empty `node`, which to Prometheus is none;
- each phase has a row, 0 or 1; unschedulable and reasons have one only where they hold;
- labels of nodes are told only where somebody lists them.

It is held to the real v2.20.0 (test_kube_state.py). Before v2.19 that knows no reason SchedulingGated, and had a row for each
reason that it knew. Not played: HTTP, the scrape (with honorLabels, as its charts have it), memory and storage.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sandbox.observing.exporter import labels_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PHASES: Final = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
Row = tuple[str, tuple[tuple[str, str], ...], float]


@dataclass(frozen=True)
class KubeNode:
    """A Node object; `labels` are those that somebody has listed."""

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True)
class KubePod:
    """A Pod object: what each of its containers requests, and where it is."""

    name: str
    requests: tuple[Mapping[str, int], ...]
    node: str = ""
    phase: str = "Running"
    unschedulable: bool = False
    gated: bool = False
    namespace: str = "team"


def sanitized(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def told(nodes: Iterable[KubeNode], pods: Iterable[KubePod], replica: str = "ksm-0") -> dict[str, float]:
    """Series -> value, of one of kube-state-metrics."""
    rows = [*_of_nodes(nodes), *_of_pods(pods)]
    target = (("job", "kube-state-metrics"), ("instance", f"{replica}:8080"))
    found = {labels_text((("__name__", name), *target, *labels)): value for name, labels, value in rows}
    assert len(found) == len(rows)
    return found


def _of_nodes(nodes: Iterable[KubeNode]) -> Iterator[Row]:
    for node in nodes:
        yield "kube_node_status_allocatable", (("node", node.name), ("resource", "pods"), ("unit", "integer")), 110
        for resource, count in node.allocatable.items():
            labels = (("node", node.name), ("resource", sanitized(resource)), ("unit", "integer"))
            yield "kube_node_status_allocatable", labels, count
        if node.labels is not None:
            shown = ((f"label_{sanitized(key).lower()}", value) for key, value in node.labels.items())
            yield "kube_node_labels", (("node", node.name), *shown), 1


def _of_pods(pods: Iterable[KubePod]) -> Iterator[Row]:
    for pod in pods:
        key = (("namespace", pod.namespace), ("pod", pod.name), ("uid", f"uid-{pod.namespace}-{pod.name}"))
        where = (("node", pod.node),) if pod.node else ()
        for number, container in enumerate(pod.requests):
            for resource, count in container.items():
                unit = "core" if resource == "cpu" else "integer"
                named = (("container", f"c{number}"), ("resource", sanitized(resource)), ("unit", unit))
                yield "kube_pod_container_resource_requests", (*key, *where, *named), count
        for phase in PHASES:
            yield "kube_pod_status_phase", (*key, ("phase", phase)), float(phase == pod.phase)
        if pod.unschedulable or pod.gated:
            yield "kube_pod_status_unschedulable", key, 1
        if pod.gated:
            yield "kube_pod_status_reason", (*key, ("reason", "SchedulingGated")), 1
