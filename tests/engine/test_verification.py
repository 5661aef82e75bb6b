"""The gate: `pulumi up` fails with the difference that a node shows, and the next one goes through once the node is repaired."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from sandbox import node_tools
from sandbox.nvml import state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.engine.trial import Trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.programs,
    pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}"),
]

#: The engine waits 60 s longer than the deadline; an init container has then ended at least once.
STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: byo}
  gpu-pools:sharing: {sliced: {timeSlicing: {replicas: 4}}}
  gpu-pools:verification: {deadlineSeconds: 20}
  gpu-pools:pools:
    - {name: ts, nodeSelector: {pool: ts}, gpuModel: NVIDIA A10, gpusPerNode: 1, sharing: sliced}
"""
PROHIBITED, DEFAULT = 2, 0
#: Until the verifier is there, its deadline, the engine's 60 seconds beyond.
LONGEST_SECONDS: Final = 60 + 20 + 60
VERIFIERS: Final = "/apis/apps/v1/namespaces/gpu-pools-verifier/daemonsets/gpu-pools-verifier-ts"


def _set_compute_mode(path: Path, mode: int) -> None:
    """As `nvidia-smi -c`: nothing in Kubernetes shows it, and no pod can use such a GPU."""
    state.change(path, lambda seen: replace(seen, gpus=tuple(replace(gpu, compute_mode=mode) for gpu in seen.gpus)))


def test_up_fails_with_the_difference_and_goes_through_after_the_repair(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    trial.preview().ok()
    (folder,) = trial.clusters

    def states() -> list[Path]:
        return list(folder.glob("machines/*/state"))

    trial.wait_until(states, "the GPUs of the node")
    (path,) = states()
    _set_compute_mode(path, PROHIBITED)

    failed = trial.up()
    assert failed.code == 1
    assert ": 1 difference" in failed.text, failed.text
    assert "compute mode" in failed.text
    assert "PROHIBITED" in failed.text
    # Every ten seconds it was said on which node something was waited for, and what for; and that it ends in its time.
    (node,) = trial.nodes("ts")
    waits = [part for part in failed.err.split("; waited for:")[1:] if "the engine: creating DaemonSet" in part]
    assert len(waits) >= 5, failed.err
    assert f"{node['metadata']['name']} (ts): GpuSharingVerified is False: Differs; not running there yet: " in waits[-1]
    assert "gpu-pools-verifier-ts (init container assert" in waits[-1]
    assert failed.seconds < LONGEST_SECONDS
    # What everybody else looks at is as declared; what the verifier found stands on the node.
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert "GpuSharingVerified is False: Differs" in trial.status().out
    verified = trial.run("verify", trial.stack)
    assert verified.code == 1, verified.text
    assert "compute mode is PROHIBITED, expected DEFAULT" in verified.out

    _set_compute_mode(path, DEFAULT)
    trial.up().ok()
    assert trial.run("verify", trial.stack).ok().out.splitlines()[-1] == "1 node: 1 proven"
    assert trial.get(VERIFIERS)["status"]["numberReady"] == 1
    trial.engine("preview", "--expect-no-changes").ok()
