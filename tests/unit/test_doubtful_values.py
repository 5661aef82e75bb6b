"""Values of the operator's chart that leave pods or nodes without a driver: W93 and W94, in `plan` and in `check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from gpu_pools.hardware.operands import parse_version
from gpu_pools.policies.rules.releases import RULES
from gpu_pools.stack.charts import VERSIONS
from gpu_pools.stack.doubtful_values import driver_of_nobody, strategy_without_cdi
from tests.unit.existing_files import check_text, found
from tests.unit.stacks import aks, existing, magnum, pool_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STRATEGY: Final = {"devicePlugin": {"env": [{"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}]}}
NOBODY: Final = {"driver": {"nvidiaDriverCRD": {"enabled": True, "deployDefaultCR": False}}}
PLACE: Final = "devicePlugin.env[0]"
DEFAULT_OBJECT: Final = "driver.nvidiaDriverCRD.deployDefaultCR"


def strategy(value: object, **more: Any) -> dict[str, Any]:
    return {"devicePlugin": {"env": [{"name": "DEVICE_LIST_STRATEGY", "value": value}]}, **more}


@pytest.mark.parametrize("value", ["volume-mounts", "envvar", "envvar,volume-mounts", "", None])
def test_w93_a_strategy_without_cdi_is_found(value: object) -> None:
    doubtful = strategy_without_cdi(strategy(value), None)
    assert doubtful is not None
    assert doubtful.place == ("devicePlugin", "env", 0)


@pytest.mark.parametrize(
    "values",
    [
        {},
        strategy("cdi-cri"),
        strategy("envvar, cdi-annotations"),
        strategy("volume-mounts", cdi={"enabled": False}),
        strategy("volume-mounts", toolkit={"enabled": False}),
        strategy("volume-mounts", toolkit={"env": [{"name": "NVIDIA_RUNTIME_SET_AS_DEFAULT", "value": "true"}]}),
        {"devicePlugin": {"env": "none"}},
        # The last entry holds (setContainerEnv of the operator).
        {"devicePlugin": {"env": [{"name": "DEVICE_LIST_STRATEGY", "value": value} for value in ("envvar", "cdi-cri")]}},
    ],
)
def test_w93_what_works_is_not(values: dict[str, Any]) -> None:
    assert strategy_without_cdi(values, None) is None


@pytest.mark.parametrize("version", VERSIONS["gpu-operator"])
def test_w93_depends_on_the_chart(version: str, tmp_path: Path) -> None:
    old = version.startswith("v25.3")
    assert (strategy_without_cdi(STRATEGY, parse_version(version)) is None) is old
    release = {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "spec": {"chart": {"spec": {"chart": "gpu-operator", "version": version}}, "values": STRATEGY},
    }
    findings = check_text(tmp_path, yaml.safe_dump(release)).findings
    assert [(finding.severity, finding.path) for finding in findings] == ([] if old else [("overridden", f"spec.values.{PLACE}")])
    warned = [one for one in pool_of(existing(operator={"version": version, "values": STRATEGY})).warnings if "(W93)" in one]
    assert len(warned) == (0 if old else 1)


def test_w93_in_a_cluster_policy(tmp_path: Path) -> None:
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "spec": STRATEGY}
    assert found(check_text(tmp_path, yaml.safe_dump(policy)), "overridden", f"spec.{PLACE}")


@pytest.mark.parametrize("stack", [aks, magnum, existing])
@pytest.mark.parametrize(("values", "incident", "path"), [(STRATEGY, "W93", PLACE), (NOBODY, "W94", DEFAULT_OBJECT)])
def test_the_plan_warns_on_every_platform_and_names_the_value(
    stack: Callable[..., str], values: dict[str, Any], incident: str, path: str
) -> None:
    (warning,) = [one for one in pool_of(stack(operator={"values": values})).warnings if f"({incident})" in one]
    assert warning.startswith(f"gpu-pools:operator.values.{path}: ")


@pytest.mark.parametrize("values", [STRATEGY, NOBODY])
def test_a_driver_of_others_is_not_the_operators_business(values: dict[str, Any]) -> None:
    warnings = pool_of(existing(operator={"driver": "preinstalled", "values": values})).warnings
    assert not [one for one in warnings if "(W9" in one]


def test_w94_unless_somebody_makes_the_objects(tmp_path: Path) -> None:
    assert found(check_text(tmp_path, yaml.safe_dump(NOBODY)), "unknown", DEFAULT_OBJECT)
    driver = {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": {"name": "a"}}
    assert driver_of_nobody({**NOBODY, "extraObjects": [driver]}) is None
    both = f"{yaml.safe_dump(NOBODY)}---\n{yaml.safe_dump(driver)}"
    assert [finding.path for finding in check_text(tmp_path, both).findings] == ["[1]"]


@pytest.mark.parametrize(
    "driver",
    [
        {"nvidiaDriverCRD": {"enabled": True}},
        {"nvidiaDriverCRD": {"enabled": False, "deployDefaultCR": False}},
        {"enabled": False, **NOBODY["driver"]},
    ],
)
def test_w94_what_installs_a_driver_or_shall_not_is_not_found(driver: dict[str, Any]) -> None:
    assert driver_of_nobody({"driver": driver}) is None


@pytest.mark.parametrize(("cdi", "variables"), [(True, 1), (False, 3)])
def test_who_follows_the_repair_of_gpus_only_on_request_has_a_driver_in_pods(cdi: bool, variables: int) -> None:  # noqa: FBT001
    """The policy's own words: one variable where CDI is on, and three only where it is off."""
    (rule,) = [rule for rule in RULES if rule.name == "gpus-only-on-request"]
    always, without_cdi = rule.repair.split("Only where CDI is off")
    text = always if cdi else rule.repair
    values: dict[str, Any] = {"cdi": {"enabled": cdi}}
    for operand, name, value in (
        ("toolkit", "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "false"),
        ("toolkit", "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS", "true"),
        ("devicePlugin", "DEVICE_LIST_STRATEGY", "volume-mounts"),
    ):
        if f"{name}={value}" in text:
            values.setdefault(operand, {"env": []})["env"].append({"name": name, "value": value})
    assert sum(len(values.get(operand, {"env": []})["env"]) for operand in ("toolkit", "devicePlugin")) == variables
    assert strategy_without_cdi(values, None) is None
    assert "W93" in without_cdi
    assert "W93" in (rule.stack_repair or "")
