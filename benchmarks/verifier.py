"""What the verifier costs: `python benchmarks/verifier.py`, on a machine with an NVIDIA GPU or without.

- size of the file that goes into a ConfigMap.
- `assert --only nvml`, the whole process with its two readings, against `nvidia-smi -q -x` (one reading) of the same machine,
  measured in turns; with the bytecode of the Python that runs this, and without any, as in an image of another Python. Without
  a GPU: on the simulated library, against an empty Python process; that ratio only shows changes.
- `watch`: processor time per assertion (its children included) and memory.

Run it where nothing else runs. Nothing of the GPU is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_pools.hardware.models import find_model  # noqa: E402
from gpu_pools.plan.planning import plan_config  # noqa: E402
from gpu_pools.proof.node_expectation import node_expectation  # noqa: E402
from gpu_pools.verifier import archive  # noqa: E402
from sandbox.nvml import from_tables, state  # noqa: E402
from sandbox.nvml.library import find_library, nvml_environment  # noqa: E402
from sandbox.system.progress import Progress  # noqa: E402

TIMES = 20
ASSERTIONS = 5
SIMULATED = "NVIDIA H100 80GB HBM3"


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pyz = folder / "verifier.pyz"
        pyz.write_bytes(archive.archive())
        print(f"size: {pyz.stat().st_size / 1024:.0f} KiB")
        smi = shutil.which("nvidia-smi")
        expect = folder / "expectation.json"
        if smi:
            query = [smi, "--query-gpu=name", "--format=csv,noheader"]
            products = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
            floor, what = [smi, "-q", "-x"], "nvidia-smi -q -x"
        else:
            products = [SIMULATED]
            machine = folder / "machine"
            known = find_model(SIMULATED)
            assert known
            state.write(machine, from_tables.machine_state(known[0].key, SIMULATED, 1))
            os.environ.update(nvml_environment(find_library(Progress()), machine))
            floor, what = [sys.executable, "-I", "-S", "-c", "pass"], "an empty Python process (simulated NVML)"
        expect.write_text(json.dumps(_exclusive(products)))
        print(f"measured against {what}")
        _compare("assert", pyz, expect, floor)
        _compare("assert without bytecode", _without_bytecode(pyz), expect, floor)
        _watch(pyz, expect)


def _exclusive(products: list[str]) -> dict[str, object]:
    """The expectation that a node with these GPUs, whole and shared by nobody, meets."""
    pool = {"name": "gpu", "gpuModel": products[0], "gpusPerNode": len(products), "nodeSelector": {"a": "b"}, "sharing": "whole"}
    config = {"cluster": {"platform": "existing"}, "sharing": {"whole": {"exclusive": {}}}, "pools": [pool]}
    plan = plan_config({f"gpu-pools:{key}": value for key, value in config.items()})
    return node_expectation(plan, plan.pools[0])


def _without_bytecode(pyz: Path) -> Path:
    path = pyz.with_name("sources.pyz")
    with zipfile.ZipFile(pyz) as packed, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as sources:
        for name in packed.namelist():
            if name.endswith(".py"):
                sources.writestr(name, packed.read(name))
    return path


def _compare(name: str, pyz: Path, expect: Path, floor: list[str]) -> None:
    command = [sys.executable, "-I", "-S", str(pyz), "assert", "--only", "nvml", "--expect", str(expect), "--pause", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pairs = [(_seconds(command), _seconds(floor)) for _ in range(TIMES)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(first / second for first, second in pairs)
    print(f"{name}: {ours * 1000:.0f} ms against {theirs * 1000:.0f} ms, ratio {ratio:.2f} (medians of {TIMES})")


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _watch(pyz: Path, expect: Path) -> None:
    command = [sys.executable, "-I", "-S", str(pyz), "watch", "--only", "nvml", "--expect", str(expect)]
    command += ["--interval", "0.5", "--pause", "0", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as watch:
        assert watch.stderr
        port = int(watch.stderr.readline().removeprefix("listening on port "))
        while (runs := _runs(port)) < ASSERTIONS:
            time.sleep(0.2)
        # Fields 14 to 17 of proc(5): its own time and that of children that have ended, user and system.
        ticks = sum(map(int, Path(f"/proc/{watch.pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
        status = Path(f"/proc/{watch.pid}/status").read_text()
        memory = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
        watch.terminate()
    per_run = ticks / os.sysconf("SC_CLK_TCK") / runs
    print(f"watch: {per_run * 1000:.0f} ms of processor time per assertion, {int(memory) / 1024:.0f} MiB at most")


def _runs(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        # 503 before the first.
        return 0
    return int(next(line for line in lines if line.startswith("gpu_pools_assertions_total{")).split()[-1])


if __name__ == "__main__":
    main()
