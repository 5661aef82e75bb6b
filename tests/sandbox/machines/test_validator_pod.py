"""What the last container of the operator's validator checks on a simulated node, and what it needs for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from sandbox.cluster.machine_groups import Hardware, MachineGroup
from sandbox.machines.driver import ValidatorPod
from sandbox.machines.gfd import Driver
from sandbox.machines.machine import Machine
from sandbox.machines.outcomes import InitWaiting, Outcome, Up
from sandbox.machines.programs import Context
from tests.unit.stacks import existing, plan_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.machines.world import World

LAST = "plugin-validation"


def evaluated(variables: Mapping[str, str], capacity: Mapping[str, str]) -> Outcome:
    """What becomes of the pod on a node with a driver and a toolkit, whose last container has these variables."""
    group = MachineGroup("gpu", "gpu", 1, Hardware(4, 16, "t4-16gb", "Tesla T4", 1))
    machine = Machine("node", group, driver=Driver("580.95.05", "13.0"), toolkit=True)
    env = [{"name": name, "value": value} for name, value in variables.items()]
    pod: dict[str, Any] = {
        "metadata": {"name": "pod", "labels": {"app": "nvidia-operator-validator"}},
        "spec": {"initContainers": [{"name": LAST, "env": env}], "containers": []},
        "status": {},
    }
    return ValidatorPod().evaluate(Context(cast("World", None), machine, {"status": {"capacity": capacity}}, pod, {}, {}))


@pytest.mark.parametrize("capacity", [{}, {"nvidia.com/gpu": "0"}], ids=["none", "zero"])
@pytest.mark.parametrize("variables", [{}, {"COMPONENT": "plugin"}], ids=["as it is", "named"])
def test_it_waits_for_a_device_plugin(variables: dict[str, str], capacity: dict[str, str]) -> None:
    assert evaluated(variables, capacity) == InitWaiting(LAST)


def test_it_runs_once_a_device_plugin_offers_gpus() -> None:
    assert evaluated({"COMPONENT": "plugin"}, {"nvidia.com/gpu": "4"}) == Up()


@pytest.mark.parametrize("devices", [{}, {"NVIDIA_VISIBLE_DEVICES": "void"}], ids=["the image's", "void"])
def test_the_toolkits_check_finds_no_driver_in_a_container_without_gpus(devices: dict[str, str]) -> None:
    assert evaluated({"COMPONENT": "toolkit", **devices}, {}) == InitWaiting(LAST)


def test_what_is_declared_for_claims_lets_it_run_without_a_device_plugin() -> None:
    plan = plan_of(existing(cluster={"allocation": "dra"}))
    declared = {one["name"]: one["value"] for one in plan.operator_values["validator"]["plugin"]["env"]}
    assert evaluated(declared, {}) == Up()
