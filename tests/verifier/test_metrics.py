"""What a verifier tells Prometheus: counts that were read, in its text format; what was not read has no series."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.metrics import metrics
from gpu_pools.verifier.node import ApiFailure
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.reading import Failed, Hung, Reading, Unreadable
from tests.examples import examples
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME_SLICED = {"timeSlicing": {"replicas": 4}}
HALVED = {"mig": {"layout": {"3g.40gb": 2}}}
#: Value, and labels, of a line of the format.
_SAMPLE = re.compile(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (-?\d+(?:\.\d+)?)')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def told(node: nodes.Node, findings: Findings | None = None, /, **seen: Any) -> str:
    observation = replace(Observation(node.nvml, node.mps, node.kubernetes), **seen)
    assertion = Assertion(findings or Findings(), observation, looks=2, seconds=0.25)
    return metrics(node.expected, assertion, finished=1.5, runs=3)


def samples(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Metric -> its labels' values, but the pool -> value; fails for whatever is not in the format."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    typed: list[str] = []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.append(line.split()[2])
        if line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, line
        labels = dict(_LABEL.findall(match[2]))
        assert labels.pop("pool"), line
        # A metric's samples stand together, below its type.
        assert match[1] == typed[-1]
        series = found.setdefault(match[1], {})
        key = tuple(labels.values())
        assert key not in series, line
        series[key] = float(match[3])
    assert len(set(typed)) == len(typed)
    assert text.endswith("\n")
    return found


def test_the_verdict_its_causes_and_when_it_was_found() -> None:
    findings = Findings()
    findings.differs(Where("node"), "GPU count", 8, 7, "gpu-missing")
    node = nodes.healthy(*nodes.plan_and_pool(TIME_SLICED))
    found = samples(told(replace(node, expected=replace(node.expected, pool='a"b\\c')), findings))
    assert found["gpu_pools_verified"] == {(): 0}
    assert found["gpu_pools_verdict"] == {("holds",): 0, ("differs",): 1, ("cannot tell",): 0}
    assert found["gpu_pools_differences"] == {("gpu-missing",): 1}
    assert found["gpu_pools_last_assertion_timestamp_seconds"] == {(): 1.5}
    assert found["gpu_pools_assertion_seconds"] == {(): 0.25}
    assert found["gpu_pools_assertions_total"] == {(): 3}
    assert 'pool="a\\"b\\\\c"' in told(replace(node, expected=replace(node.expected, pool='a"b\\c')))


def test_declared_and_advertised_devices_of_a_shared_gpu() -> None:
    node = nodes.healthy(*nodes.plan_and_pool(TIME_SLICED, count=2))
    found = samples(told(node))
    assert found["gpu_pools_declared_devices"] == found["gpu_pools_allocatable_devices"] == {("nvidia.com/gpu",): 8}
    # Without MIG nothing is said of instances.
    assert "mig" not in told(node)


def test_the_layout_of_each_gpu() -> None:
    node = nodes.healthy(*nodes.plan_and_pool(HALVED, count=2))
    found = samples(told(node))
    assert found["gpu_pools_declared_mig_instances"] == {("0", "3g.40gb"): 2, ("1", "3g.40gb"): 2}
    assert found["gpu_pools_mig_instances"] == found["gpu_pools_declared_mig_instances"]


def test_what_is_declared_and_not_there_is_a_zero_and_what_is_there_undeclared_is_told() -> None:
    node = nodes.healthy(*nodes.plan_and_pool(HALVED, count=2))
    other = nodes.healthy(*nodes.plan_and_pool({"mig": {"layout": {"7g.80gb": 1}}}, count=2))
    resources = {"nvidia.com/mig-7g.80gb": 2}
    found = samples(told(node, nvml=other.nvml, node=replace(node.kubernetes, allocatable=resources)))
    assert found["gpu_pools_mig_instances"] == {(gpu, "3g.40gb"): 0 for gpu in "01"} | {(gpu, "7g.80gb"): 1 for gpu in "01"}
    (declared,) = found["gpu_pools_declared_devices"]
    assert found["gpu_pools_allocatable_devices"] == {declared: 0, ("nvidia.com/mig-7g.80gb",): 2}


def test_samples_stand_in_the_same_order_whatever_order_they_were_found_in() -> None:
    findings = Findings()
    for cause in ("taint-missing", "gpu-missing", "count-other"):
        findings.differs(Where("node"), "x", 1, 2, cause)
    node = nodes.healthy(*nodes.plan_and_pool({"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}}}, count=2))
    assert node.expected.node
    turned = replace(
        node.expected,
        gpus=tuple(replace(gpu, instances=dict(sorted(gpu.instances.items())[::-1])) for gpu in node.expected.gpus[::-1]),
        node=replace(node.expected.node, allocatable=dict(sorted(node.expected.node.allocatable.items())[::-1])),
    )
    found = samples(told(replace(node, expected=turned), findings))
    for name in ("gpu_pools_differences", "gpu_pools_declared_devices", "gpu_pools_declared_mig_instances"):
        assert len(found[name]) > 1
        assert list(found[name]) == sorted(found[name])


@pytest.mark.parametrize(
    "nvml",
    [
        Hung("nvmlInit_v2", 30, killable=False),
        Unreadable("killed"),
        Reading(Failed("DRIVER_NOT_LOADED", 9, "nvmlInit_v2"), *[Failed("UNINITIALIZED", 1, "x")] * 4),  # type: ignore[arg-type]
    ],
    ids=["hung", "unreadable", "no driver"],
)
def test_of_gpus_that_could_not_be_read_nothing_is_said(nvml: Hung | Unreadable | Reading) -> None:
    found = samples(told(nodes.healthy(*nodes.plan_and_pool(HALVED)), nvml=nvml))
    assert "gpu_pools_mig_instances" not in found
    assert found["gpu_pools_declared_mig_instances"] == {("0", "3g.40gb"): 2}


def test_of_one_gpu_whose_instances_could_not_be_read_nothing_is_said() -> None:
    node = nodes.healthy(*nodes.plan_and_pool(HALVED, count=2))
    assert not isinstance(node.nvml.gpus, Failed)
    first, second = node.nvml.gpus
    gpus = (replace(first, instances=Failed("GPU_IS_LOST", 15, "nvmlDeviceGetGpuInstances")), second)
    assert list(samples(told(node, nvml=replace(node.nvml, gpus=gpus)))["gpu_pools_mig_instances"]) == [("1", "3g.40gb")]


@pytest.mark.parametrize("failed", [True, False], ids=["refused", "not asked"])
def test_of_a_node_that_could_not_be_read_nothing_is_said(*, failed: bool) -> None:
    node = nodes.healthy(*nodes.plan_and_pool(TIME_SLICED))
    kubernetes = replace(node.kubernetes, failure=ApiFailure("GET", 403, "no"), allocatable={}) if failed else None
    found = samples(told(node, node=kubernetes))
    assert "gpu_pools_allocatable_devices" not in found
    assert found["gpu_pools_declared_devices"] == {("nvidia.com/gpu",): 4}


def test_what_leaves_kubernetes_out_declares_no_devices() -> None:
    node = nodes.healthy(*nodes.plan_and_pool(TIME_SLICED))
    assert "gpu_pools_declared_devices" not in samples(told(replace(node, expected=replace(node.expected, node=None)), node=None))


@given(nodes.fleets())
@settings(max_examples=examples(20))
def test_a_healthy_node_has_what_it_must_and_no_unbounded_series(
    declared: Sequence[nodes.Declaration],
) -> None:
    for node in nodes.healthy_fleet(declared):
        found = samples(told(node))
        assert found["gpu_pools_declared_devices"] == found["gpu_pools_allocatable_devices"]
        assert found.get("gpu_pools_declared_mig_instances") == found.get("gpu_pools_mig_instances")
        assert node.expected.node
        profiles = sum(len(gpu.instances) for gpu in node.expected.gpus)
        assert sum(map(len, found.values())) == 7 + 2 * len(node.expected.node.allocatable) + 2 * profiles
        assert not re.search(r"GPU-|gpu-1|\d+\.\d+\.\d+\.\d+", told(node))
