"""`make gpu-node`, played whole on a machine whose NVML is the simulated one and whose libcuda computes on the processor.

All but the GPU is what runs on a machine that has one: driver in the node, CDI, pods that compute, verifier, faults, documents.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.text.files import read_text
from sandbox.gpu_node.claims import EVIDENCE, SHARES
from sandbox.gpu_node.play import REPLICAS
from sandbox.real_node import allowed
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.obtain import obtain
from sandbox.toolchain.programs import REAL_NODE
from tests.engine.marks import ON_NODES
from tests.engine.trial import PROJECT
from tests.patience import scaled
from tests.sandbox.gpu_node import driver
from tests.tiers import at_night

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [*ON_NODES, at_night("a quarter of an hour, and a real node of its own")]
LONGEST_SECONDS = 1200
WRITTEN = {"evidence.html", "evidence.json", "nvml.json", "result.json", "stacks", "terminal.cast"}


def run(folder: Path, gpus: int, *options: str) -> dict[str, Any]:
    """Run the command on a machine with so many GPUs, which must end well and change none; returns its result."""
    if refused := allowed.obstacle():
        pytest.skip(f"no real node was tried: {refused}")
    try:
        obtain(REAL_NODE, Progress())
    except SandboxError as error:
        pytest.skip(f"no real node was tried: {error.message}")
    own = driver.environment(folder, driver.h200(gpus))
    state = (folder / "state").read_text()
    own["PATH"] = f"{driver.programs(folder)}:{os.environ['PATH']}"
    command = [sys.executable, "-m", "sandbox", "gpu-node", "--out", str(folder / "out"), *options]
    environment = {**os.environ, **own, "GPU_POOLS_SANDBOX_DIR": str(folder / "sandbox")}
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False, timeout=scaled(LONGEST_SECONDS)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "state").read_text() == state, "a GPU was changed"
    assert not (folder / "sandbox" / "gpu-node").exists()
    result: dict[str, Any] = json.loads(read_text(folder / "out" / "result.json"))
    return result


def test_a_play_on_a_machine_of_two_gpus_holds_and_leaves_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, 2)
    steps = {step["name"]: step["observed"] for step in result["steps"]}
    assert result["holds"]
    for replicas in REPLICAS:
        assert steps[f"time-slicing {replicas}"] == f"gpu {2 * replicas}, proven"
        waits = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu"
        assert steps[f"{2 * replicas + 1} pods"] == f"{2 * replicas} compute, 1 waits: Unschedulable: {waits}"
    assert steps["exclusive again: pods that computed"] == "16 of 16 go on"
    assert steps["MPS by a daemon of its own, limits of 8"].startswith(
        "14 of 132 multiprocessors; of 143155 MiB 8985 MiB given, "
    )
    assert steps["plugin's pod deleted: pods that computed"] == "16 of 16 go on"
    for name in ("verifier hangs", "driver's libraries gone"):
        assert steps[name].startswith(("stale", "not verified", "cannot tell"))
    assert steps["a pod of 2 GPUs"] == "computes on 2 GPUs that NVML knows"
    assert steps["time-slicing 4 with its smoke test"] == "gpu 8, proven"
    assert steps["2 pods of a share each"] == "on 2 GPUs"
    assert steps["a pod of 2 shares"].startswith("Failed: UnexpectedAdmissionError: Pod was rejected: Allocate failed due to ")
    assert "was edited" in steps["config edited by hand"]
    assert steps["the GPUs' settings"] == "the same"
    assert [gpu["name"] for gpu in result["machine"]["gpus"]] == ["NVIDIA H200"] * 2
    assert result["node"]["containerRuntimeVersion"].startswith("containerd://2.")

    assert {path.name for path in (tmp_path / "out").iterdir()} == WRITTEN
    assert json.loads(read_text(tmp_path / "out" / "evidence.json"))["verdict"] == "proven"


def test_a_pool_changes_node_by_node_and_work_is_lost_only_where_that_was_declared(tmp_path: Path) -> None:
    result = run(tmp_path, 1, "--rollout")
    assert result["holds"]
    steps = {step["name"]: step["observed"] for step in result["steps"]}
    assert steps["time-slicing 8: nobody has to go: pods that computed"] == "4 of 4 go on"
    refused = steps["exclusive, with a pod that may not go"]
    assert refused.startswith("up failed: ")
    assert refused.endswith("gpu 8"), "not cordoned"
    lost = {name: observed for name, observed in steps.items() if name.endswith(": their work")}
    last = "exclusive, pods that stay are deleted: their work"
    assert lost.pop(last) == "2 worked, 0 are there; lost: minds-nothing; left on the node: nothing"
    assert [observed.partition("; ")[2] for observed in lost.values()] == ["lost: nothing; left on the node: nothing"] * 3


@pytest.mark.parametrize("gpus", [1, 2])
def test_pods_get_gpus_by_claims_and_then_by_the_device_plugin(tmp_path: Path, gpus: int) -> None:
    result = run(tmp_path, gpus, "--claims")
    assert result["holds"]
    steps = {step["name"]: step["observed"] for step in result["steps"]}
    full = "0/3 nodes are available: 1 cannot allocate all claims"
    for name, shares in (("exclusive", 1), (f"time-slicing {SHARES}", SHARES)):
        total = gpus * shares
        assert steps[f"{name} by claims"] == f"gpu {total}, proven"
        assert steps[f"{total + 1} pods by claims"] == f"{total} compute, 1 waits: Unschedulable: {full}"
        assert steps[f"GPUs of these {total} pods by claims"] == ", ".join(f"{shares} on GPU {index}" for index in range(gpus))
    last = f"time-slicing {SHARES} by the device plugin"
    assert steps[last] == f"gpu {gpus * SHARES}, proven"
    assert steps["devices of the DRA driver"] == "none"
    waits = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu"
    pods = f"{gpus * SHARES + 1} pods by the device plugin"
    assert steps[pods] == f"{gpus * SHARES} compute, 1 waits: Unschedulable: {waits}"
    if gpus > 1:
        assert steps[f"{SHARES} pods of a share each by claims"] == f"{SHARES} on 1 GPU"
        assert steps["a pod of 2 shares by claims"] == "computes on 2 GPUs that NVML knows"
    assert {path.name for path in (tmp_path / "out").iterdir()} == WRITTEN | {EVIDENCE}
    assert json.loads(read_text(tmp_path / "out" / EVIDENCE))["verdict"] == "proven"


def test_what_sharing_costs_is_measured_by_pods_and_by_processes(tmp_path: Path) -> None:
    result = run(tmp_path, 1, "--costs")
    steps = {step["name"]: step["observed"] for step in result["steps"]}
    assert result["holds"]
    assert steps["8 pods of a bench"] == "8 run"
    # Clients that sleep disturb nobody: eight do eight times the work of one.
    for who in ("pods", "processes"):
        kinds = [part.split()[0] for part in steps[f"8 {who} together, of what one does alone"].split(", ")]
        assert kinds == ["compute", "memory", "inference"]
        document = json.loads(read_text(tmp_path / "out" / f"costs-{who}.json"))
        assert (document["strategy"], document["limits"], len(document["neighbours"])) == ("timeSlicing", None, 3)
        assert [row["clients"] for row in document["rows"]] == [1, 2, 4, 8] * 3
        assert not any(row["errors"] for row in document["rows"])
    assert {path.name for path in (tmp_path / "out").iterdir()} == WRITTEN | {"costs-pods.json", "costs-processes.json"}
