"""Who has put the pool's labels and taints on a node: the verifier says it, and changes no verdict by it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpu_pools.verifier.evidence import Origin, evidence
from gpu_pools.verifier.findings import Findings
from gpu_pools.verifier.marks import set_by
from gpu_pools.verifier.observation import Assertion, Observation
from tests.verifier import nodes

TAINT = "nvidia.com/gpu=true:NoSchedule"
KEY = "nvidia.com/device-plugin.config"
NODE = nodes.healthy(*nodes.plan_and_pool({"timeSlicing": {"replicas": 4}}))


def wrote(manager: str, *labels: str) -> dict[str, Any]:
    """A field manager's entry."""
    fields = {"f:metadata": {"f:labels": {".": {}, **{f"f:{label}": {} for label in labels}}}}
    return {"manager": manager, "operation": "Update", "fieldsV1": fields}


def seen(*written: dict[str, Any], annotations: dict[str, str] | None = None, **labels: str) -> dict[str, str]:
    expected = NODE.expected.node
    assert expected is not None
    labels = {**expected.labels, **labels}
    metadata = {"name": "gpu-1", "labels": labels, "annotations": annotations or {}, "managedFields": list(written)}
    return set_by({"metadata": metadata}, expected, ())


def test_what_nfd_lists_is_its_own_whoever_wrote_it_last() -> None:
    for prefix in ("", "second."):
        annotation = {f"{prefix}nfd.node.kubernetes.io/feature-labels": f"cpu-model.id,{KEY},nvidia.com/gpu.present"}
        assert seen(wrote("kubectl-label", KEY), annotations=annotation)[f"label {KEY}"] == "nfd"


@pytest.mark.parametrize(
    ("written", "who"),
    [
        ((wrote("kubelet", KEY),), "kubelet"),
        ((wrote("kubelet", "other"), wrote("capi-machine", KEY)), "capi-machine"),
        ((wrote("kubelet", KEY), wrote("kubectl-label", KEY)), "kubelet"),
        ((wrote("b", KEY), wrote("a", KEY)), "a, b"),
        ((), "unknown"),
        (({"manager": "kubelet"},), "unknown"),
    ],
)
def test_of_other_labels_the_field_manager_is_told(written: tuple[dict[str, Any], ...], who: str) -> None:
    told = seen(*written)
    assert told[f"label {KEY}"] == who
    assert set(told) == {f"label {key}" for key in NODE.expected.node.labels}  # type: ignore[union-attr]


def test_what_is_not_there_is_missing_and_a_taint_is_nfds_or_not() -> None:
    expected = NODE.expected.node
    assert expected is not None
    tainted = replace(expected, labels={"a": "b"}, taints=(TAINT, "x:NoExecute"))
    object_ = {"metadata": {"annotations": {"nfd.node.kubernetes.io/taints": TAINT}}}
    assert set_by(object_, tainted, (TAINT, "x:NoExecute")) == {
        "label a": "missing",
        f"taint {TAINT}": "nfd",
        "taint x:NoExecute": "others than nfd",
    }
    assert set_by(object_, tainted, ())[f"taint {TAINT}"] == "missing"


def test_the_report_on_the_node_says_it() -> None:
    told = {f"label {KEY}": "nfd", f"taint {TAINT}": "others than nfd"}
    assertion = Assertion(Findings(), Observation(NODE.nvml, None, replace(NODE.kubernetes, set_by=told)), 2, 0.5)
    document = json.loads(evidence(NODE.expected, assertion, Origin("e", None, None), node="n", at="2026-03-04T05:06:07Z"))
    assert document["observed"]["setBy"] == told
