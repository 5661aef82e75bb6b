from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from sandbox.cluster.machine_groups import Hardware, MachineGroup, put, record_path
from sandbox.machines.device_plugin import Advertised
from sandbox.machines.machine import Machine, MachineFiles
from sandbox.machines.nodes import Nodes, resources
from sandbox.machines.ruled import RuledPrograms

if TYPE_CHECKING:
    from pathlib import Path

GROUP = MachineGroup("g", "g", 1, Hardware(24, 220, "a100-80gb", None, 1))


def test_a_second_write_in_the_same_tick_of_the_clock_is_seen(tmp_path: Path) -> None:
    nodes = Nodes(cast("Any", None), cast("Any", None), tmp_path, RuledPrograms(tmp_path / "machines"))
    put(tmp_path, GROUP)
    assert nodes.groups_changed()
    assert not nodes.groups_changed()
    then = record_path(tmp_path).stat().st_mtime_ns
    put(tmp_path, MachineGroup("h", "h", 1, Hardware(1, 1)))
    os.utime(record_path(tmp_path), ns=(then, then))
    assert nodes.groups_changed()


def test_a_resource_whose_plugin_is_gone_stays_in_capacity_only() -> None:
    machine = Machine("g0", GROUP)
    machine.advertise(Advertised({"nvidia.com/gpu": 4}))
    machine.advertise(Advertised({"nvidia.com/gpu.shared": 8}))
    capacity, allocatable = resources(machine)
    assert (capacity["nvidia.com/gpu"], allocatable["nvidia.com/gpu"]) == ("4", "0")
    assert (capacity["nvidia.com/gpu.shared"], allocatable["nvidia.com/gpu.shared"]) == ("8", "8")
    assert capacity["memory"] == "220Gi"


def test_an_unhealthy_device_counts_as_capacity_only() -> None:
    machine = Machine("g0", GROUP)
    machine.advertise(Advertised({"nvidia.com/gpu": 3}, unhealthy={"nvidia.com/gpu": 1}))
    capacity, allocatable = resources(machine)
    assert (capacity["nvidia.com/gpu"], allocatable["nvidia.com/gpu"]) == ("4", "3")


def test_a_machine_is_kept_as_it_is_and_born_anew_after_it_left(tmp_path: Path) -> None:
    files = MachineFiles(tmp_path)
    machine = files.load("g0", GROUP)
    machine.advertise(Advertised({"nvidia.com/gpu": 4}, one_per_request=frozenset({"nvidia.com/gpu"})))
    machine.applied_labels, machine.applied_taints = {"a": "b"}, [{"key": "k", "effect": "NoSchedule"}]
    assert files.save(machine)
    assert not files.save(machine)
    assert MachineFiles(tmp_path).load("g0", GROUP) == machine
    assert files.known() == ["g0"]
    files.remove("g0")
    assert files.load("g0", GROUP).advertised == {}


def test_a_group_of_other_hardware_has_other_machines(tmp_path: Path) -> None:
    files = MachineFiles(tmp_path)
    assert not files.is_other("g0", GROUP)
    files.save(files.load("g0", GROUP))
    assert not files.is_other("g0", replace(GROUP, labels={"a": "b"}, count=3))
    for other in (replace(GROUP, hardware=Hardware(4, 16)), replace(GROUP, cloud_mig_profile="MIG1g"), replace(GROUP, id="h")):
        assert files.is_other("g0", other)


def test_the_runtime_knows_what_image_and_toolkit_brought() -> None:
    plain = MachineGroup("g", "g", 1, Hardware(1, 1))
    assert Machine("n", plain).runtime_handlers == {"runc"}
    assert Machine("n", plain, toolkit=True).runtime_handlers == {"runc", "nvidia"}
    image = MachineGroup("g", "g", 1, Hardware(1, 1), driver_preinstalled=True)
    assert Machine("n", image).runtime_handlers == {"runc", "nvidia"}
    aks = MachineGroup("g", "g", 1, Hardware(1, 1), labels={"kubernetes.azure.com/mode": "user"}, driver_preinstalled=True)
    assert Machine("n", aks).runtime_handlers == {"runc", "nvidia-container-runtime"}
