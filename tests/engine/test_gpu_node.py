"""`make gpu-node`, played whole on a machine whose NVML is the simulated one and whose libcuda computes on the processor.

All but the GPU is what runs on a machine that has one: driver in the node, CDI, pods that compute, verifier, faults, documents.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_pools.text.files import read_text
from sandbox.cluster import node_tools
from sandbox.gpu_node.play import REPLICAS
from sandbox.real_node import allowed
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.obtain import obtain
from sandbox.toolchain.programs import REAL_NODE
from tests.engine.trial import PROJECT
from tests.sandbox.gpu_node import driver

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.engine,
    pytest.mark.programs,
    pytest.mark.sweep,
    pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}"),
]
LONGEST_SECONDS = 1200
WRITTEN = {"evidence.html", "evidence.json", "nvml.json", "result.json", "stacks", "terminal.cast"}


def test_a_play_on_a_machine_of_two_gpus_holds_and_leaves_nothing(tmp_path: Path) -> None:
    if refused := allowed.obstacle():
        pytest.skip(f"no real node was tried: {refused}")
    try:
        obtain(REAL_NODE, Progress())
    except SandboxError as error:
        pytest.skip(f"no real node was tried: {error.message}")
    own = driver.environment(tmp_path, driver.h200(2))
    state = (tmp_path / "state").read_text()
    own["PATH"] = f"{driver.programs(tmp_path)}:{os.environ['PATH']}"
    command = [sys.executable, "-m", "sandbox", "gpu-node", "--out", str(tmp_path / "out")]
    environment = {**os.environ, **own, "GPU_POOLS_SANDBOX_DIR": str(tmp_path / "sandbox")}
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr

    result = json.loads(read_text(tmp_path / "out" / "result.json"))
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
    assert steps["time-slicing 4 with its smoke test"] == "gpu 8, proven"
    assert "was edited" in steps["config edited by hand"]
    assert steps["the GPUs' settings"] == "the same"
    assert [gpu["name"] for gpu in result["machine"]["gpus"]] == ["NVIDIA H200"] * 2
    assert result["node"]["containerRuntimeVersion"].startswith("containerd://2.")

    assert {path.name for path in (tmp_path / "out").iterdir()} == WRITTEN
    assert json.loads(read_text(tmp_path / "out" / "evidence.json"))["verdict"] == "proven"
    assert (tmp_path / "state").read_text() == state, "a GPU was changed"
    assert not (tmp_path / "sandbox" / "gpu-node").exists()
