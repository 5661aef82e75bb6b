"""GPUs that no table has, from the stack file to the verified node: one stack, brought up once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep, at_night("seven models of one stack")]

STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: own}
  gpu-pools:gpuModels:
    rtx-a6000: {product: NVIDIA RTX A6000, memoryMiB: 49140, computeCapability: "8.6", multiprocessors: 84, mig: false}
    next-144gb:
      memoryMiB: 147456
      mig:
        source: nvidia-smi mig -lgip and -lgipp, driver 610.42
        computeSlices: 7
        profiles:
          1g.18gb: {id: 19, starts: [0, 1, 2, 3, 4, 5, 6], size: 1}
          3g.72gb: {id: 9, starts: [0, 4], size: 4}
          7g.144gb: {id: 0, starts: [0], size: 8}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
    halves: {mig: {layout: {3g.72gb: 2}}}
  gpu-pools:verification: {deadlineSeconds: 150, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: desks, nodeSelector: {desk: "1"}, gpuModel: rtx-a6000, gpusPerNode: 2, sharing: shared}
    - {name: next, nodeSelector: {next: "1"}, gpuModel: next-144gb, gpusPerNode: 1, sharing: halves}
"""


def node(trial: Trial, label: str) -> dict[str, Any]:
    """The only node with a label."""
    (found,) = trial.api().list(f"/api/v1/nodes?labelSelector={label}")["items"]
    return dict(found)


def test_they_are_shared_partitioned_and_verified(shared_sandbox: Callable[..., Trial]) -> None:
    trial = shared_sandbox(STACK)
    told = trial.preview().ok().text
    assert "no table has the GPU model rtx-a6000" in told
    assert "nobody says its product name, its compute capability, its multiprocessors" in told
    # Ends once each node's verifier has agreed.
    trial.up().ok()
    desk, following = node(trial, "desk%3D1"), node(trial, "next%3D1")
    assert desk["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert desk["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-RTX-A6000-SHARED"
    assert desk["metadata"]["labels"]["nvidia.com/gpu.family"] == "ampere"
    assert following["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert following["metadata"]["labels"]["nvidia.com/mig.config.state"] == "success"
