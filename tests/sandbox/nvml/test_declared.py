"""GPU models that a stack declares, as simulated machines have them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpu_pools.hardware.models import model as of_tables
from gpu_pools.hardware.models import model_keys
from sandbox.cluster import machine_groups
from sandbox.cluster.machine_groups import Hardware, MachineGroup
from sandbox.machines import gpu_state
from sandbox.machines.gpu import new_gpus, with_layout
from sandbox.nvml import facts
from sandbox.nvml.known_models import model, record_of, remember
from tests.unit.stacks import existing, pool_of
from tests.unit.test_gpu_models import CARDS, as_declared

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_pools.hardware.models import GpuModel


def _declared(key: str, says: dict[str, object]) -> GpuModel:
    return pool_of(existing({"gpuModel": key}, gpuModels={key: says})).hardware.model


def test_a_record_says_all_of_a_model(tmp_path: Path) -> None:
    known = _declared("other", as_declared("a100-80gb"))
    hardware = Hardware(8, 64, "other", known.products[0], 1, record_of(known))
    machine_groups.put(tmp_path, MachineGroup("gpu", "gpu-", 1, hardware))
    machine_groups.groups(tmp_path)
    assert model("other") == known


def test_of_a_model_of_the_tables_it_says_nothing() -> None:
    assert record_of(of_tables("a100-80gb")) is None


@pytest.mark.parametrize("key", CARDS)
def test_a_machine_has_what_is_declared(key: str) -> None:
    known = _declared(key, CARDS[key])
    remember(json.loads(json.dumps(record_of(known))))
    (gpu,) = gpu_state.state_of("n", new_gpus("n", Hardware(8, 64, key, known.products[0], 1), None), None).gpus
    assert (gpu.name, gpu.memory_mib, gpu.capability) == (known.products[0], known.memory_mib, known.compute_capability)
    assert gpu.mig is None
    assert gpu.architecture == {"p100-16gb": 4, "rtx-a6000": 7, "rtx-4090": 8}[key]
    assert (gpu.remapped_rows is None) == (gpu.architecture < 7)


def test_what_nobody_tells_a_machine_has_all_the_same() -> None:
    """gpu-feature-discovery ends without memory and compute capability."""
    remember(record_of(_declared("unknown", {"mig": False})) or {})
    (gpu,) = gpu_state.state_of("n", new_gpus("n", Hardware(8, 64, "unknown", None, 1), None), None).gpus
    assert gpu.memory_mib
    assert gpu.capability


@pytest.mark.parametrize(
    "key", [key for key in model_keys() if of_tables(key).profiles and len(of_tables(key).profiles or ()) <= 12]
)
def test_declared_profiles_are_told_apart_and_made(key: str) -> None:
    known = _declared("sliced", as_declared(key))
    remember(json.loads(json.dumps(record_of(known))))
    listed = facts.profiles("sliced")
    assert len({profile.number for profile in listed}) == len(listed)
    assert [profile.name for profile in listed] == [profile.name for profile in facts.profiles(key)]
    (gpu,) = new_gpus("n", Hardware(8, 64, "sliced", "NVIDIA Other", 1), None)
    largest = max((profile for profile in listed), key=lambda profile: profile.size)
    made = with_layout(gpu, {largest.name: 1})
    assert made
    state = gpu_state.state_of("n", (made,), None)
    assert gpu_state.gpus_of("sliced", state)[0].layout == {largest.name: 1}
