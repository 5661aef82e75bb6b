"""Devices that NVIDIA's DRA driver announces: how they are read, and what of them differs from a declaration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.claims import SLICES, Device, read_devices
from gpu_pools.verifier.compare_claims import compare_claims
from gpu_pools.verifier.compare_node import compare_node
from gpu_pools.verifier.expectation import ClaimsExpectation, Expectation, parse_expectation
from gpu_pools.verifier.findings import Findings
from gpu_pools.verifier.metrics import metrics
from gpu_pools.verifier.node import ApiFailure, ClaimsReading, Pod
from gpu_pools.verifier.observation import Assertion, Observation
from tests.unit.stacks import existing, plan_of

from .nodes import healthy, plan_and_pool

if TYPE_CHECKING:
    from gpu_pools.verifier.reading import Reading

H100 = {"gpuModel": "h100-80gb", "gpusPerNode": 2, "allocation": "dra"}
POD = Pod("dra-driver-nvidia-gpu", "p", "u", "kubelet-plugin-shares-4", device_plugin=False, ready=True, started=None,
          trouble=None, words="", config_failed=None)  # fmt: skip
#: Two GPUs, as NVML has them.
GPUS = ("GPU-a", "GPU-b")


def expected(sharing: dict[str, Any]) -> Expectation:
    plan = plan_of(existing(H100, sharing={"shared": sharing}))
    return parse_expectation(node_expectation(plan, plan.pools[0]))


def wanted(sharing: dict[str, Any]) -> ClaimsExpectation:
    found = expected(sharing).node
    assert found is not None
    assert found.claims is not None
    return found.claims


def nvml(uuids: tuple[str, ...] = GPUS) -> Reading:
    """A reading with GPUs of these UUIDs."""
    reading = healthy(*plan_and_pool({"exclusive": {}}, count=len(uuids))).nvml
    assert isinstance(reading.gpus, tuple)
    return replace(reading, gpus=tuple(replace(gpu, uuid=uuid) for gpu, uuid in zip(reading.gpus, uuids, strict=True)))


SHARES = tuple(Device(f"gpu-{index}", "gpu", None, uuid, uuid, 4) for index, uuid in enumerate(GPUS))
FOUR = {"timeSlicing": {"replicas": 4}}


def causes(sharing: dict[str, Any], reading: ClaimsReading, uuids: tuple[str, ...] = GPUS) -> list[str]:
    findings = Findings()
    failures = list(compare_claims(wanted(sharing), reading, nvml(uuids), findings))
    return [one.cause.key for one in findings.differences] + ["failure" for _ in failures]


def test_devices_as_declared_differ_in_nothing() -> None:
    assert causes(FOUR, ClaimsReading(SHARES, (POD,))) == []


@pytest.mark.parametrize(
    ("reading", "told"),
    [
        (ClaimsReading((), (POD,)), ["slice-missing"]),
        (ClaimsReading(SHARES[:1], (POD,)), ["slice-other"]),
        (ClaimsReading(tuple(replace(one, shares=8) for one in SHARES), (POD,)), ["slice-other", "slice-other"]),
        (ClaimsReading(tuple(replace(one, shares=None) for one in SHARES), (POD,)), ["slice-other", "slice-other"]),
        (ClaimsReading((*SHARES, Device("gpu-9", "vfio", None, "GPU-a", "GPU-a", None)), (POD,)), ["slice-other"]),
        (ClaimsReading(SHARES, ()), ["dra-driver-missing", "slice-without-driver"]),
        (ClaimsReading(SHARES, (replace(POD, ready=False, words="no"),)), ["dra-driver-not-ready", "slice-without-driver"]),
        (ClaimsReading((), ()), ["dra-driver-missing", "slice-missing"]),
        (ClaimsReading(SHARES, (replace(POD, app="controller"),)), ["dra-driver-missing", "slice-without-driver"]),
        # What could not be read is no difference, and no pass.
        (ClaimsReading(ApiFailure("GET", 403, "no"), (POD,)), ["failure"]),
        (ClaimsReading(SHARES, ApiFailure("GET", None, "away")), ["failure"]),
    ],
)
def test_what_differs_is_found_with_its_cause(reading: ClaimsReading, told: list[str]) -> None:
    assert causes(FOUR, reading) == told


def test_a_device_of_a_gpu_that_is_not_there_differs() -> None:
    assert causes(FOUR, ClaimsReading(SHARES, (POD,)), ("GPU-a", "GPU-c")) == ["slice-outdated"]


def test_mig_devices_count_by_profile_and_lie_on_gpus_of_the_node() -> None:
    layout = {"mig": {"layout": {"3g.40gb": 2}}}
    found = tuple(
        Device(f"gpu-{gpu}-mig-{index}", "mig", "3g.40gb", f"MIG-{gpu}{index}", uuid, None)
        for gpu, uuid in enumerate(GPUS)
        for index in range(2)
    )
    assert causes(layout, ClaimsReading(found, (POD,))) == []
    # The driver was started before mig-manager had made them.
    whole = tuple(replace(one, shares=None) for one in SHARES)
    assert causes(layout, ClaimsReading(whole, (POD,))) == ["slice-other", "slice-other"]
    other = (replace(found[0], profile="2g.20gb"), *found[1:])
    assert causes(layout, ClaimsReading(other, (POD,))) == ["slice-other", "slice-other"]


def test_what_the_device_plugin_still_offers_differs() -> None:
    whole = expected({"exclusive": {}})
    by_plugin = healthy(*plan_and_pool({"exclusive": {}}, count=2))
    findings = Findings()
    found = replace(by_plugin.kubernetes, claims=ClaimsReading(tuple(replace(one, shares=None) for one in SHARES), (POD,)))
    compare_node(whole, found, nvml(), findings)
    assert {"plugin-beside-claims"} == {
        one.cause.key for one in findings.differences if one.field in {"allocatable", "pod on the node"}
    }


def told(claims: ClaimsReading | None) -> set[str]:
    """Causes of what a node with these claims is told, and where it cannot be told."""
    whole = expected({"exclusive": {}})
    node = healthy(*plan_and_pool({"exclusive": {}}, count=2)).kubernetes
    findings = Findings()
    compare_node(whole, replace(node, claims=claims), nvml(), findings)
    return {one.cause.key for one in (*findings.differences, *findings.unknown)}


def test_a_node_with_claims_is_not_called_right_unless_its_devices_were_read() -> None:
    announced = tuple(replace(one, shares=None) for one in SHARES)
    right = told(ClaimsReading(announced, (POD,)))
    assert told(ClaimsReading((), (POD,))) - right == {"slice-missing"}
    assert told(None) - right == {"api-answer"}
    assert told(ClaimsReading(ApiFailure("ResourceSlices", 403, "forbidden"), (POD,))) - right == {"api-permission"}


# --- reading -----------------------------------------------------------------------------------------------------


class Answers:
    """An API that gives one list of ResourceSlices."""

    def __init__(self, *specs: dict[str, Any]) -> None:
        self.items = [{"spec": spec} for spec in specs]
        self.asked: list[tuple[str, dict[str, str]]] = []

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append((path, query))
        return {"items": self.items}


def spec(*devices: dict[str, Any], driver: str = "gpu.nvidia.com", generation: int = 1) -> dict[str, Any]:
    return {"driver": driver, "nodeName": "n", "pool": {"name": "n", "generation": generation}, "devices": list(devices)}


def device(name: str, shares: str | None = None, **texts: str) -> dict[str, Any]:
    """As the driver writes one."""
    found: dict[str, Any] = {"name": name, "attributes": {key: {"string": value} for key, value in texts.items()}}
    if shares:
        found |= {"allowMultipleAllocations": True, "capacity": {"shares": {"value": shares}, "memory": {"value": "80Gi"}}}
    return found


def test_devices_are_read_of_the_newest_generation_and_of_this_driver_only() -> None:
    api: Any = Answers(
        spec(device("gpu-0", type="gpu", uuid="GPU-a"), generation=1),
        spec(device("gpu-1", "4", type="gpu", uuid="GPU-b"), device("gpu-0", "4", type="gpu", uuid="GPU-a"), generation=2),
        spec(device("nic", type="nic"), driver="other.example.com", generation=7),
    )
    assert read_devices(api, "n", "gpu.nvidia.com") == SHARES
    assert api.asked == [(SLICES, {"fieldSelector": "spec.nodeName=n"})]


def test_a_mig_device_has_its_profile_and_the_gpu_that_it_is_on() -> None:
    api: Any = Answers(spec(device("gpu-0-mig-1g10gb-19-0", type="mig", profile="1g.10gb", uuid="MIG-x", parentUUID="GPU-a")))
    (found,) = read_devices(api, "n", "gpu.nvidia.com")
    assert (found.type, found.profile, found.uuid, found.gpu, found.shares) == ("mig", "1g.10gb", "MIG-x", "GPU-a", None)


@pytest.mark.parametrize(
    "broken",
    [
        {"driver": "gpu.nvidia.com"},
        {"driver": "gpu.nvidia.com", "pool": {"generation": "x"}},
        {"driver": "gpu.nvidia.com", "pool": {"generation": 1}, "devices": [{}]},
        {"driver": "gpu.nvidia.com", "pool": {"generation": 1}, "devices": [{"name": "g", "attributes": {"type": "gpu"}}]},
        {"pool": {"generation": 1}},
        "text",
    ],
)
def test_an_answer_that_is_no_list_of_slices_is_an_error_of_the_api(broken: Any) -> None:
    api: Any = Answers(broken)
    with pytest.raises(ApiError):
        read_devices(api, "n", "gpu.nvidia.com")


def test_a_node_that_lost_the_label_of_its_device_plugin_is_told_what_helps() -> None:
    by_plugin = healthy(*plan_and_pool({"exclusive": {}}, count=2))
    labels = {**by_plugin.kubernetes.labels, "nvidia.com/gpu.deploy.driver": "true"}
    labels.pop("nvidia.com/gpu.deploy.device-plugin", None)
    pods = by_plugin.kubernetes.pods
    assert isinstance(pods, tuple)
    found = replace(by_plugin.kubernetes, labels=labels, pods=tuple(pod for pod in pods if not pod.device_plugin))
    findings = Findings()
    compare_node(by_plugin.expected, found, by_plugin.nvml, findings)
    first = next(one for one in findings.differences if one.where.subject.startswith("operand"))
    assert first.cause.key == "plugin-switch-missing"
    assert "allocation: devicePlugin" in first.cause.remedy


def test_prometheus_is_told_of_the_shares_that_are_announced() -> None:
    node = healthy(*plan_and_pool({"exclusive": {}}, count=2))

    def counts(devices: tuple[Device, ...] | ApiFailure) -> list[str]:
        kubernetes = replace(node.kubernetes, claims=ClaimsReading(devices, (POD,)))
        seen = Assertion(Findings(), Observation(node.nvml, None, kubernetes), looks=2, seconds=0.25)
        text = metrics(expected(FOUR), seen, finished=1.5, runs=3)
        return [line.partition("{")[0] + line.partition("}")[2] for line in text.splitlines() if "_devices{" in line]

    assert counts(SHARES) == ["gpu_pools_declared_devices 8", "gpu_pools_allocatable_devices 8"]
    assert counts(SHARES[:1]) == ["gpu_pools_declared_devices 8", "gpu_pools_allocatable_devices 4"]
    assert counts(()) == ["gpu_pools_declared_devices 8", "gpu_pools_allocatable_devices 0"]
    # What was not read has no series.
    assert counts(ApiFailure("ResourceSlices", 403, "forbidden")) == ["gpu_pools_declared_devices 8"]
