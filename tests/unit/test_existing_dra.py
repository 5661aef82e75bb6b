"""`check` of claims and device classes for NVIDIA's DRA driver."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.existing.documents import read_existing_text
from gpu_pools.existing.dra_check import check_device_parameters
from gpu_pools.existing.findings import Findings
from tests.examples import examples
from tests.unit.existing_files import check_text, found

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_pools.existing.check import Checked

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["apiVersion", "kind", "sharing", "strategy", "mpsConfig", "timeSlicingConfig", "interval", "x"]),
            inner,
        )
    ),
    max_leaves=12,
)
GOOD = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}


def parameters(sharing: Any = None, kind: str = "GpuConfig", **more: Any) -> dict[str, Any]:
    given_ = {} if sharing is None else {"sharing": sharing}
    return {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, **given_, **more}


def slicing(**settings_: Any) -> dict[str, Any]:
    return parameters({"strategy": "TimeSlicing", "timeSlicingConfig": settings_})


def mps(**settings_: Any) -> dict[str, Any]:
    return parameters({"strategy": "MPS", "mpsConfig": settings_})


def manifest(given_: Any, kind: str = "ResourceClaimTemplate", driver: str = "gpu.nvidia.com", **more: Any) -> dict[str, Any]:
    config = [{"opaque": {"driver": "other.example", "parameters": {}}}, {"opaque": {"driver": driver, "parameters": given_}}]
    claim = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}], "config": config}}
    spec = {"ResourceClaimTemplate": {"spec": claim}, "ResourceClaim": claim, "DeviceClass": {"config": config, **more}}[kind]
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "shared"}, "spec": spec}


def device_class(name: str, resource: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"extendedResourceName": resource},
    }


def checked(tmp_path: Path, *objects: Any) -> Checked:
    return check_text(tmp_path, yaml.safe_dump_all(objects))


@pytest.mark.parametrize(
    ("kind", "above"),
    [("ResourceClaim", "spec.devices"), ("ResourceClaimTemplate", "spec.spec.devices"), ("DeviceClass", "spec")],
)
def test_parameters_are_found_where_each_kind_has_them(tmp_path: Path, kind: str, above: str) -> None:
    sharing = {"strategy": "TimeSlicing", "timeSlicingConfig": {"replicas": 4, "interval": "Long"}}
    where = f"{above}.config[1].opaque.parameters.sharing.timeSlicingConfig.replicas"
    finding = found(checked(tmp_path, manifest(parameters(sharing), kind)), "crash", where)
    assert "--consumable-shares" in finding.remedy
    assert ("does not look at DeviceClasses" in finding.really) == (kind == "DeviceClass")
    assert finding.line is not None


@pytest.mark.parametrize(
    "given_", [parameters(), parameters(GOOD), parameters({"strategy": "MPS"}), parameters(kind="MigDeviceConfig")]
)
def test_what_the_driver_takes_has_at_most_its_gate_as_a_finding(tmp_path: Path, given_: dict[str, Any]) -> None:
    findings = checked(tmp_path, manifest(given_)).findings
    assert {(one.severity, one.path.rpartition(".")[2]) for one in findings} <= {("unknown", "strategy")}
    assert len(findings) == ("sharing" in given_)


@pytest.mark.parametrize(
    ("given_", "severity", "place", "remedy"),
    [
        (parameters(kind="GpuConfg"), "crash", "", "kind: GpuConfig"),
        (parameters(apiVersion="gpu.nvidia.com/v1alpha1"), "crash", "", "resource.nvidia.com/v1beta1"),
        (parameters(kind="VfioDeviceConfig"), "crash", ".kind", "webhook.enabled=false"),
        (parameters(GOOD, sharin={}), "crash", ".sharin", "Write sharing."),
        (parameters("TimeSlicing"), "crash", ".sharing", "a mapping with strategy"),
        (parameters({"strategy": "Timeslicing"}), "crash", ".sharing.strategy", "strategy: TimeSlicing"),
        (parameters({"strategy": ["MPS"]}), "crash", ".sharing.strategy", "strategy: "),
        (parameters({}), "crash", ".sharing.strategy", "strategy: "),
        (parameters({**GOOD, "mpsConfig": {}}), "crash", ".sharing.mpsConfig", "Remove mpsConfig."),
        (
            parameters({"strategy": "MPS", "timeSlicingConfig": {"interval": "Long"}}),
            "crash",
            ".sharing.timeSlicingConfig",
            "Remove",
        ),
        (
            slicing(),
            "unknown",
            ".sharing.timeSlicingConfig",
            "interval: Default",
        ),
        (
            slicing(interval="long"),
            "crash",
            ".interval",
            "interval: Long",
        ),
        (parameters({"strategy": "TimeSlicing"}, "MigDeviceConfig"), "ignored", ".sharing.strategy", "Remove sharing."),
        (parameters({"strategy": "MPS", "timeSlicingConfig": {}}, "MigDeviceConfig"), "crash", ".timeSlicingConfig", "Remove"),
        (mps(defaultActiveThreadPercentage=101), "crash", "Percentage", "0 to 100"),
        (
            parameters({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": True}}),
            "crash",
            "Percentage",
            "0 to 100",
        ),
        (mps(multiUser="yes"), "crash", ".multiUser", "true or false"),
        (mps(defaultPinnedDeviceMemoryLimit="1023Ki"), "crash", "Limit", "10Gi"),
        (mps(defaultPinnedDeviceMemoryLimit="10 GB"), "crash", "Limit", "10Gi"),
        (
            parameters({"strategy": "MPS", "mpsConfig": {"defaultPerDevicePinnedMemoryLimit": {"gpu-0": "1Gi"}}}),
            "crash",
            "gpu-0",
            "UUID",
        ),
        (mps(defaultPerDevicePinnedMemoryLimit=[]), "crash", "Limit", "a mapping"),
    ],
)
def test_what_the_driver_refuses_is_found_with_its_place(
    tmp_path: Path, given_: dict[str, Any], severity: str, place: str, remedy: str
) -> None:
    findings = checked(tmp_path, manifest(given_)).findings
    (one,) = [
        one for one in findings if one.path.endswith(place or "parameters") and one.severity == severity and remedy in one.remedy
    ]
    assert one.path.startswith("spec.spec.devices.config[1].opaque.parameters")


def test_a_limit_of_one_mebibyte_is_enough(tmp_path: Path) -> None:
    limits = {"defaultPinnedDeviceMemoryLimit": "1Mi", "defaultPerDevicePinnedMemoryLimit": {"0": "2Gi", "GPU-1": 1 << 30}}
    findings = checked(tmp_path, manifest(parameters({"strategy": "MPS", "mpsConfig": limits}))).findings
    assert [one.severity for one in findings] == ["unknown"]


def test_parameters_of_other_drivers_and_of_compute_domains_are_left_alone(tmp_path: Path) -> None:
    assert checked(tmp_path, manifest({"any": "thing"}, driver="compute-domain.nvidia.com")).findings == ()
    assert checked(tmp_path, manifest(parameters(kind="ComputeDomainChannelConfig", domainID="x"))).findings == ()
    assert checked(tmp_path, device_class("mig-1g", "nvidia.com/mig-1g.10gb")).findings == ()


def test_a_name_of_an_extended_resource_belongs_to_one_class(tmp_path: Path) -> None:
    two = checked(tmp_path, device_class("a", "nvidia.com/gpu.shared"), device_class("b", "nvidia.com/gpu.shared"))
    finding = found(two, "overridden", "[1].spec.extendedResourceName")
    assert "the DeviceClass a, too" in finding.message
    assert "stay Pending" in finding.really
    assert len(two.findings) == 1


def test_the_chart_s_own_class_has_the_name_of_whole_gpus(tmp_path: Path) -> None:
    finding = found(checked(tmp_path, device_class("mine", "nvidia.com/gpu")), "overridden", "spec.extendedResourceName")
    assert "gpu.nvidia.com of the driver's chart" in finding.message
    assert checked(tmp_path, device_class("gpu.nvidia.com", "nvidia.com/gpu")).findings == ()


@settings(max_examples=examples(200), deadline=None)
@given(JSON, st.sampled_from(["ResourceClaim", "DeviceClass"]))
def test_parameters_of_any_shape_are_judged(given_: Any, kind: str) -> None:
    (document,) = read_existing_text("x.json", json.dumps(manifest(given_, kind))).documents
    findings = Findings({}, ())
    check_device_parameters(document, findings)
    assert all(one.remedy and one.allowed and one.really for one in findings.sorted())
