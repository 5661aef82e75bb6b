"""What a deploy says of a failed verification, read from a real API server."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.components.proof import why as component
from gpu_pools.components.proof.why import Failed, in_vain, why
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.verifier_pods import Program, expectation_file
from gpu_pools.proof.verifier_reports import reports
from gpu_pools.proof.verifier_rights import ANNOTATION, CONDITION, VERIFIER_NAMESPACE
from gpu_pools.verifier.causes import CAUSES
from sandbox.cluster import control_plane as cluster
from sandbox.cluster.api import Api
from sandbox.providers.kube_objects import Objects
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from sandbox.toolchain.tools import PLATFORM_TOOLS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.programs

DIGEST = "d" * 64
PROGRAM = Program("verifier-1", DIGEST, "5" * 64)
PLAN = plan_config(
    {
        "gpu-pools:cluster": {"platform": "existing", "context": "why"},
        "gpu-pools:sharing": {"sliced": {"timeSlicing": {"replicas": 4}}},
        "gpu-pools:verification": {},
        "gpu-pools:pools": [
            {"name": name, "nodeSelector": {"pool": name}, "gpuModel": "NVIDIA A10", "gpusPerNode": 1, "sharing": "sliced"}
            for name in ("ts", "other")
        ],
    }
)
EXPECTATION = expectation_file(PLAN, PLAN.pools[0])


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("clusters") / "why"
    tools = find_tools(Progress(), only=PLATFORM_TOOLS)
    try:
        made = cluster.boot(folder, "why", tools, machines=False)
        _fill(Objects(Api.at(made.kubeconfig)))
        yield made.kubeconfig.read_text()
    finally:
        cluster.erase(folder)


def _fill(objects: Objects) -> None:
    """A node that differs, one whose verifier does not start, and one of another pool."""
    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VERIFIER_NAMESPACE}}, manager="t")
    place = {"name": EXPECTATION.name, "namespace": VERIFIER_NAMESPACE}
    data = {"expectation.json": EXPECTATION.text}
    objects.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": data}, manager="t")
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    finding = {
        "subject": "GPU 0", "gpu": 0, "uuid": "GPU-1", "field": "compute mode", "expected": "DEFAULT", "observed": "PROHIBITED",
        "detail": "", "cause": "mode-by-hand", "likelyCause": "somebody set it", "remedy": "nvidia-smi -c 0", "incidents": [],
    }  # fmt: skip
    report: dict[str, Any] = {
        "apiVersion": "gpu-pools/v1", "kind": "NodeEvidence", "node": "ts-0", "pool": "ts", "time": now, "verdict": "differs",
        "intervalSeconds": None, "expectation": EXPECTATION.sha256, "program": DIGEST, "python": "3.11.0", "cannotTell": [],
        "differences": [finding], "observed": {"gpus": [], "mps": None}, "notes": [],
    }  # fmt: skip
    condition = {"type": CONDITION, "status": "False", "reason": "Differs", "message": "m", "lastHeartbeatTime": now}
    for name, pool, marks in (("ts-0", "ts", {ANNOTATION: json.dumps(report)}), ("ts-1", "ts", {}), ("o-0", "other", {})):
        metadata: dict[str, Any] = {"name": name, "labels": {"pool": pool}, "annotations": marks}
        node = objects.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata}, manager="t")
        _status(objects, {**node, "apiVersion": "v1", "kind": "Node"}, {"conditions": [condition] if marks else []})
    labels = {"app.kubernetes.io/name": "gpu-pools-verifier", "gpu-pools/pool": "ts"}
    spec = {"nodeName": "ts-1", "automountServiceAccountToken": False, "containers": [{"name": "watch", "image": "i"}]}
    marked = {"name": "verifier-1", "namespace": VERIFIER_NAMESPACE, "labels": labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": marked, "spec": spec}
    objects.create(pod, manager="t")
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    container: dict[str, Any] = {
        "name": "watch",
        "ready": False,
        "restartCount": 0,
        "image": "i",
        "imageID": "",
        "state": waiting,
    }
    _status(objects, pod, {"phase": "Pending", "containerStatuses": [container]})


def _status(objects: Objects, obj: dict[str, Any], status: dict[str, Any]) -> None:
    metadata = obj["metadata"]
    path = objects.api.path(obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"])
    objects.api.patch(f"{path}/status", {"status": status})


def test_it_names_node_cause_remedy_and_where_to_look(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulumi.get_stack", lambda: "byo")
    text = why(Failed("ts", reports(PLAN, PROGRAM, "ts"), kubeconfig))
    assert "pool ts is not verified." in text
    assert "2 nodes: " in text
    assert "differs: somebody set it" in text
    assert "remedy: nvidia-smi -c 0" in text
    assert "ts/ts-0: GPU 0 (GPU-1): compute mode is PROHIBITED, expected DEFAULT" in text
    assert "not verified: ts/ts-1: no verifier has reported" in text
    assert "verifier on ts-1, pod verifier-1: watch waits: ImagePullBackOff: no such image" in text
    assert "o-0" not in text
    assert "python -m gpu_pools evidence byo" in text


def test_only_a_cause_that_no_time_removes_is_hopeless(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Failed("ts", reports(PLAN, PROGRAM, "ts"), kubeconfig)
    assert in_vain(failed) == ""
    monkeypatch.setattr(component, "_HOPELESS", ("mode-by-hand",))
    assert in_vain(failed) == "ts-0: somebody set it. nvidia-smi -c 0"
    for unreachable in (None, "clusters: []"):
        assert in_vain(replace(failed, kubeconfig=unreachable)) == ""
    assert set(component._HOPELESS) <= CAUSES.keys()


@pytest.mark.parametrize("kubeconfig", ["", "clusters: []", "apiVersion: v1", "[", "not-a-mapping"])
def test_what_cannot_be_read_hides_nothing(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulumi.get_stack", lambda: "byo")
    text = why(Failed("ts", reports(PLAN, PROGRAM, "ts"), kubeconfig))
    assert "pool ts is not verified." in text
    assert ("The cluster cannot be asked why: " in text) == bool(kubeconfig)
    assert "Where to look:" in text
