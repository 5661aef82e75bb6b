"""The state file keeps what it is told, and what it derives is what the real programs compute with."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.hardware.models import model, model_keys
from sandbox.nvml import from_tables, simulated, state
from sandbox.nvml.facts import Answer, board, profiles, total_memory_mib
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

numbers = st.integers(0, 2**31)
maybe = st.none() | numbers
words = st.from_regex(r"[A-Za-z0-9/._-]{1,12}( [A-Za-z0-9/._-]{1,12}){0,2}", fullmatch=True)
patterns = st.sampled_from(["*", "nvmlInit*", "nvmlDeviceGetName"])
answers = st.builds(Answer, st.sampled_from(["nvmlDeviceGetVbiosVersion", "nvmlDeviceGetBrand"]), words)
faults = st.builds(simulated.Fault, patterns, error=st.integers(1, 999)) | st.builds(
    simulated.Fault, patterns, hang_seconds=st.floats(0.125, 1e4)
)
processes = st.builds(simulated.Process, numbers, maybe, words, st.sampled_from(["compute", "graphics", "mps"]), maybe, maybe)
events = st.builds(simulated.Event, numbers, numbers, numbers, maybe, maybe)
computes = st.builds(simulated.ComputeInstance, numbers, numbers, numbers)
instances = st.lists(
    st.builds(simulated.GpuInstance, numbers, numbers, numbers, st.lists(computes, max_size=2).map(tuple)),
    max_size=3,
    unique_by=lambda one: one.id,
)


def a100() -> simulated.Machine:
    return from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 2)


@settings(deadline=None)
@given(
    faults=st.lists(faults, max_size=3).map(tuple),
    processes=st.lists(processes, max_size=3).map(tuple),
    events=st.lists(events, max_size=3).map(tuple),
    answers=st.lists(answers, max_size=3).map(tuple),
    instances=instances.map(tuple),
    serial=st.none() | words,
    rows=st.none() | st.tuples(numbers, numbers, numbers, numbers),
    subsystem=st.none() | numbers,
    types=st.none() | numbers,
)
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, **drawn: object) -> None:
    machine = a100()
    gpu = machine.gpus[0]
    assert gpu.mig is not None
    gpu = replace(
        gpu,
        faults=drawn["faults"],  # type: ignore[arg-type]
        processes=drawn["processes"],  # type: ignore[arg-type]
        events=drawn["events"],  # type: ignore[arg-type]
        answers=drawn["answers"],  # type: ignore[arg-type]
        event_types=drawn["types"],  # type: ignore[arg-type]
        serial=drawn["serial"],  # type: ignore[arg-type]
        remapped_rows=drawn["rows"],  # type: ignore[arg-type]
        pci_subsystem=drawn["subsystem"],  # type: ignore[arg-type]
        mig=replace(gpu.mig, instances=drawn["instances"]),  # type: ignore[arg-type]
    )
    machine = replace(machine, gpus=(gpu, machine.gpus[1]), faults=drawn["faults"], answers=drawn["answers"])  # type: ignore[arg-type]
    path = tmp_path_factory.getbasetemp() / "state"
    state.write(path, machine)
    assert state.read(path) == machine


@pytest.mark.parametrize("key", model_keys())
def test_every_model_can_be_a_machine(key: str, tmp_path: Path) -> None:
    machine = from_tables.machine_state(key, f"Simulated {key}", 1)
    state.write(tmp_path / "state", machine)
    assert state.read(tmp_path / "state") == machine
    assert (machine.gpus[0].mig is not None) == model(key).mig_capable


@pytest.mark.parametrize("key", [key for key in model_keys() if model(key).profiles])
def test_memory_gives_each_profile_its_name(key: str) -> None:
    # The rule by which go-nvlib, and so gpu-feature-discovery and mig-parted, name a profile.
    total = total_memory_mib(model(key))
    assert total is not None
    for profile in profiles(key):
        assert profile.memory_mib is not None
        eighths = math.ceil(profile.memory_mib / total * 8) / 8
        gigabytes = math.floor(eighths * math.ceil(total / 1024) + 0.5)
        assert profile.name.split("+")[0].removesuffix("-me") == f"{profile.slices}g.{gigabytes}gb"


def test_known_memory_is_not_derived() -> None:
    assert total_memory_mib(model("h100-80gb")) == 81559
    assert {one.name: one.memory_mib for one in profiles("h100-80gb")}["3g.40gb"] == 40448


def test_a_board_of_which_nothing_was_read_has_no_facts_but_its_brand() -> None:
    # The same chip as the SXM board that was read, and another board: fewer cores, less power, other memory.
    [gpu] = from_tables.machine_state("h100-80gb", "NVIDIA H100 PCIe", 1).gpus
    assert {one.function for one in gpu.answers} == {"nvmlDeviceGetBrand", "nvmlDeviceGetVirtualizationMode"}
    assert (gpu.reserved_kib, gpu.pci_subsystem, gpu.row_histogram) == (0, None, None)
    [read] = from_tables.machine_state("h100-80gb", "NVIDIA H100 80GB HBM3", 1).gpus
    assert read.answers == board("NVIDIA H100 80GB HBM3").answers != ()


@pytest.mark.parametrize(
    ("product", "brand"),
    [
        ("Tesla V100S-PCIE-32GB", "2"),
        ("NVIDIA RTX A2000 8GB Laptop GPU", "13"),
        ("NVIDIA A100-SXM4-80GB", "14"),
        ("NVIDIA H100 80GB HBM3", "14"),
        ("NVIDIA L4", "14"),
    ],
)
def test_a_board_has_the_brand_that_was_read(product: str, brand: str) -> None:
    answers = {one.function: one.value for one in board(product).answers}
    assert (answers["nvmlDeviceGetBrand"], answers["nvmlDeviceGetVirtualizationMode"]) == (brand, "1")


@pytest.mark.parametrize("key", model_keys())
def test_every_model_answers_what_the_dra_driver_asks(key: str) -> None:
    [gpu] = from_tables.machine_state(key, next(iter(model(key).products), "NVIDIA Unknown"), 1).gpus
    assert {"nvmlDeviceGetBrand", "nvmlDeviceGetVirtualizationMode"} <= {one.function for one in gpu.answers}


def test_the_same_node_has_the_same_gpus() -> None:
    one, two = (from_tables.machine_state("t4-16gb", "Tesla T4", 2, node=node) for node in ("a", "b"))
    assert one == from_tables.machine_state("t4-16gb", "Tesla T4", 2, node="a")
    assert len({gpu.uuid for gpu in (*one.gpus, *two.gpus)}) == 4


def test_more_gpus_than_the_library_keeps_apart() -> None:
    with pytest.raises(ValueError, match="at most 16"):
        from_tables.machine_state("t4-16gb", "Tesla T4", 17)


@pytest.mark.parametrize("broken", ["", "gpu 0\n", "driver-version 1\nnvml-version 1\ncuda-version x\n"])
def test_another_file_is_refused_with_a_remedy(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "state"
    path.write_text(broken)
    with pytest.raises(SandboxError) as caught:
        state.read(path)
    assert str(path) in caught.value.message
    assert "sandbox.nvml.state" in caught.value.remedy


def test_a_change_is_read_and_written_under_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "state"
    state.write(path, a100())
    after = state.change(path, lambda machine: replace(machine, gpus=machine.gpus[:1]))
    assert state.read(path) == after
    assert len(after.gpus) == 1


def test_instances_can_be_put_without_any_program() -> None:
    (bare,) = from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 1).gpus
    made = simulated.partitioned(bare, [("3g.40gb", 0), ("1g.10gb", 4)]).mig
    assert made is not None
    assert (made.current, made.pending) == (True, True)
    assert [(one.id, one.start, [(part.slices, part.start) for part in one.computes]) for one in made.instances] == [
        (1, 0, [(3, 0)]),
        (2, 4, [(1, 0)]),
    ]
    emptied = simulated.partitioned(simulated.partitioned(bare, [("3g.40gb", 0)]), []).mig
    assert emptied == replace(made, instances=())


@pytest.mark.parametrize(
    ("key", "product", "words"),
    [("a100-80gb", "NVIDIA A100-SXM4-80GB", "no MIG profile 1g.5gb"), ("t4-16gb", "Tesla T4", "no MIG")],
)
def test_instances_that_a_gpu_cannot_have_are_refused(key: str, product: str, words: str) -> None:
    (gpu,) = from_tables.machine_state(key, product, 1).gpus
    with pytest.raises(ValueError, match=words):
        simulated.partitioned(gpu, [("1g.5gb", 0)])


def test_another_driver_changes_what_depends_on_it() -> None:
    machine = from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 2)
    older = from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 2, driver_version="535.183.01", cuda="12.2")
    assert older != machine
    assert from_tables.with_driver(machine, "535.183.01", "12.2") == older
