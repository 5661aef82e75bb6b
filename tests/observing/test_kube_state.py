"""What stands in for kube-state-metrics in the tests of rules tells what the real one tells of the same nodes and pods."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.observing.alerts import MIG_STATE_LABEL
from sandbox.cluster import control_plane
from sandbox.cluster.api import Api
from sandbox.system import processes
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.observing import fleets
from tests.observing.kube_state import KubeNode, KubePod, told
from tests.observing.kube_state_metrics import kube_state_metrics, metrics
from tests.observing.test_shares import DEVICE_PLUGIN, cluster
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.programs, pytest.mark.sweep, at_night("programs are built for it alone, which takes minutes")]
LABELS: Final = (MIG_STATE_LABEL, DEVICE_PLUGIN)
NODE_LABELS: Final = ({MIG_STATE_LABEL: "pending", DEVICE_PLUGIN: "paused-for-mig-change"}, {DEVICE_PLUGIN: "true"})
COMPARED: Final = (
    "kube_node_status_allocatable",
    "kube_node_labels",
    "kube_pod_container_resource_requests",
    "kube_pod_status_phase",
    "kube_pod_status_unschedulable",
    "kube_pod_status_reason",
)
Series = tuple[str, frozenset[tuple[str, str]]]
_LINE: Final = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


def series(text: str) -> Iterator[tuple[Series, float]]:
    """As Prometheus has them: an empty label is none."""
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found and found[1] in COMPARED:
            yield (found[1], frozenset(pair for pair in _LABEL.findall(found[2]) if pair[1])), float(found[3])


def stood_in(rows: Mapping[str, float], uids: Mapping[str, str]) -> dict[Series, float]:
    """The same of the stand-in, without the target and with the uids that the pods have."""
    found = {}
    for (name, labels), value in series("".join(f"{row} {value}\n" for row, value in rows.items())):
        own = ((key, uids[label] if key == "uid" else label) for key, label in labels if key not in {"job", "instance"})
        found[name, frozenset(own)] = value
    return found


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("state") / "cluster"
    made = control_plane.boot(folder, "state", find_tools(Progress()), machines=False)
    # They would place pods, and take those away whose nodes have no kubelet.
    processes.stop(made.folder, ["kube-controller-manager", "kube-scheduler"])
    yield Api.at(made.kubeconfig)
    control_plane.erase(folder)


def put_node(api: Api, node: KubeNode) -> None:
    api.create("/api/v1/nodes", {"metadata": {"name": node.name, "labels": dict(node.labels or {})}})
    allocatable = {"pods": "110", **{name: str(count) for name, count in node.allocatable.items()}}
    api.patch(f"/api/v1/nodes/{node.name}/status", {"status": {"capacity": allocatable, "allocatable": allocatable}})


def put_pod(api: Api, pod: KubePod) -> str:
    """Its uid."""
    containers = [
        {"name": f"c{number}", "image": "work", "resources": {kind: _texts(asked) for kind in ("requests", "limits")}}
        for number, asked in enumerate(pod.requests)
    ]
    spec: dict[str, Any] = {"containers": containers}
    if pod.node:
        spec["nodeName"] = pod.node
    if pod.gated:
        spec["schedulingGates"] = [{"name": "example.com/later"}]
    path = f"/api/v1/namespaces/{pod.namespace}/pods"
    uid: str = api.create(path, {"metadata": {"name": pod.name}, "spec": spec})["metadata"]["uid"]
    conditions = []
    if pod.unschedulable or pod.gated:
        # As the real scheduler has it, and the API server of a gated pod.
        reason = "SchedulingGated" if pod.gated else "Unschedulable"
        conditions = [{"type": "PodScheduled", "status": "False", "reason": reason}]
    api.patch(f"{path}/{pod.name}/status", {"status": {"phase": pod.phase, "conditions": conditions}})
    return uid


def _texts(asked: Mapping[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in asked.items()}


def test_the_stand_in_tells_what_the_real_one_tells(api: Api, tmp_path: Path) -> None:
    draw = Random(18)  # noqa: S311 the same every time
    plan = fleets.plan_of()
    seen = cluster(plan, draw)
    nodes = [KubeNode(node.name, node.allocatable, draw.choice(NODE_LABELS)) for node in seen.nodes]
    api.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    api.create("/api/v1/namespaces/team/serviceaccounts", {"metadata": {"name": "default"}})
    for node in nodes:
        put_node(api, node)
    uids = {f"uid-{pod.namespace}-{pod.name}": put_pod(api, pod) for pod in seen.pods}
    with kube_state_metrics(tmp_path / "real", api, LABELS) as address:
        real = dict(series(metrics(address)))
    assert real == stood_in(told(nodes, seen.pods), uids)
    # Each kind of row was there to be compared.
    assert {name for name, _ in real} == set(COMPARED)
