"""The GPU models against what NVML answered on real GPUs (tests/sandbox/readings)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_pools.hardware.models import GpuModel, find_model

READINGS = Path(__file__).parents[1] / "sandbox" / "readings"
_MIB = 2**20


@pytest.fixture(params=sorted(READINGS.glob("*.json")), ids=lambda path: path.stem)
def gpu(request: pytest.FixtureRequest) -> tuple[GpuModel, dict[str, Any]]:
    path: Path = request.param
    device: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["device"]
    found = find_model(device["nvmlDeviceGetName"])
    assert found is not None
    assert found[0].key == path.stem
    return found[0], device


def test_the_gpu_is_the_model(gpu: tuple[GpuModel, dict[str, Any]]) -> None:
    model, device = gpu
    assert model.compute_capability == tuple(device["nvmlDeviceGetCudaComputeCapability"])
    assert model.memory_mib == device["nvmlDeviceGetMemoryInfo"]["total"] // _MIB


def test_the_profiles_are_the_gpus(gpu: tuple[GpuModel, dict[str, Any]]) -> None:
    model, device = gpu
    answered = [info for info in device["nvmlDeviceGetGpuInstanceProfileInfo"] if "id" in info]
    measured = {info["id"]: info for info in answered}
    assert model.profiles is not None
    assert measured.keys() == {profile.profile_id for profile in model.profiles.values()}
    for profile in model.profiles.values():
        info = measured[profile.profile_id]
        assert profile.compute_slices == info["sliceCount"], profile.name
        assert profile.max_instances == info["instanceCount"], profile.name
        assert profile.sm == info["multiprocessorCount"], profile.name
        assert profile.memory_mib == info["memorySizeMB"], profile.name
