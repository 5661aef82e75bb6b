"""What the verifier costs, on a machine with an NVIDIA GPU or without.

`python benchmarks/verifier.py [--python PYTHON]... [--pairs 20] [--verifier FILE]` measures for each Python:

- `assert --only nvml --pause 0`, the whole process with its two readings, against `nvidia-smi -q -x` (one reading) of the same
  machine. The two run in turns, as pairs: the median and the range of the ratio are printed, and the medians of both times.
  Three ways: with bytecode of that Python; with that of another version, as in most images of nodes; and that as a pod runs it,
  which hashes the file first. Without a GPU it is measured on the simulated library, against an empty Python process; that
  ratio only shows changes.
- the functions of NVML that take longest in a reading.
- `watch`: processor time per assertion (its children included) and memory.

Run it where nothing else runs. Nothing of the GPU is changed. With a GPU it needs Python 3.11 or newer, the repository and,
unless `--verifier` names a file that was made elsewhere, the pinned nvidia-ml-py (`pip install nvidia-ml-py==13.615.71`).
Without a GPU it needs the project's environment and gcc.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

FEWEST_PAIRS = 10
ASSERTIONS = 5
SLOWEST = 6
SIMULATED = "NVIDIA H100 80GB HBM3"
#: Run by the Python that is measured: the file with bytecode of that Python, or of one that there is not.
REPACK = """\
import marshal, sys, zipfile
from importlib.util import MAGIC_NUMBER, source_hash
given, made, own = sys.argv[1:]
with zipfile.ZipFile(given) as packed, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
    for name in packed.namelist():
        content = packed.read(name)
        if name.endswith(".pyc"):
            source = packed.read(name[:-1])
            code = compile(source, name[:-1], "exec", dont_inherit=True)
            magic = MAGIC_NUMBER if own == "own" else b"\\0\\0\\r\\n"
            content = magic + (3).to_bytes(4, "little") + source_hash(source) + marshal.dumps(code, 2)
        target.writestr(name, content)
"""
#: Run by the Python that is measured: milliseconds of each call in two readings.
CALLS = """\
import json, sys, time
sys.path.insert(0, sys.argv[1])
from verifier.nvml import read_nvml
for reading in range(2):
    called = [("", time.perf_counter())]
    read_nvml(lambda name: called.append((name, time.perf_counter())))
    called.append(("", time.perf_counter()))
    print(json.dumps([(one[0].partition(" ")[0], 1000 * (after[1] - one[1])) for one, after in zip(called[1:], called[2:])]))
"""


def main() -> None:
    """Measure and print."""
    options = _options()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pyz, expect = folder / "verifier.pyz", folder / "expectation.json"
        pyz.write_bytes(options.verifier.read_bytes() if options.verifier else _archive())
        print(f"size: {pyz.stat().st_size / 1024:.0f} KiB")
        floor, expectation = _on_a_gpu() or _on_a_simulated_one(folder)
        expect.write_text(json.dumps(expectation))
        for python in options.python or [sys.executable]:
            version = subprocess.run([python, "-c", "import sys; print(sys.version.split()[0])"], capture_output=True, check=True)
            against = " ".join(floor) if floor else "an empty Python process"
            print(f"Python {version.stdout.decode().strip()}, {options.pairs} pairs, against {against}")
            _measure(python, folder, expect, floor or [python, "-I", "-S", "-c", "pass"], options.pairs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the verifier.")
    parser.add_argument("--python", action="append", help="a Python to measure; by default the one that runs this")
    parser.add_argument("--pairs", type=int, default=20, help="how many pairs, at least 10 (20)")
    parser.add_argument("--verifier", type=Path, metavar="FILE", help="a verifier.pyz that was made elsewhere")
    options = parser.parse_args()
    if options.pairs < FEWEST_PAIRS:
        parser.error(f"--pairs: {options.pairs} are too few for a median and a range; at least {FEWEST_PAIRS}")
    return options


def _archive() -> bytes:
    from gpu_pools.verifier.archive import archive  # noqa: PLC0415 - it needs pynvml, which a bare machine lacks

    return archive()


def _on_a_gpu() -> tuple[list[str], dict[str, object]] | None:
    """(what it is measured against, what the node is as it is now); None without a GPU."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return None
    query = [smi, "--query-gpu=name,mig.mode.current,compute_mode", "--format=csv,noheader"]
    lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [[word.strip() for word in line.split(",")] for line in lines]
    if any(mig == "Enabled" for _, mig, _ in rows):
        sys.exit("MIG is on: switch it off for this measurement, or measure on another machine.")
    modes = {"Disabled": "disabled"}
    mig_modes = [modes.get(mig, "unsupported") for _, mig, _ in rows]
    return [smi, "-q", "-x"], _expectation(rows[0][0], mig_modes, rows[0][2].upper())


def _expectation(product: str, mig_modes: list[str], compute_mode: str) -> dict[str, object]:
    """GPUs that are whole and shared by nobody, with whatever driver they have."""
    return {
        "apiVersion": "gpu-pools/v1",
        "kind": "NodeExpectation",
        "pool": "gpu",
        "gpuModel": product,
        "products": [product],
        "count": len(mig_modes),
        "minimum": {"driver": "450", "cuda": "11.0"},
        "driver": None,
        "computeMode": compute_mode,
        "gpus": [{"index": index, "migMode": mode, "instances": {}} for index, mode in enumerate(mig_modes)],
        "profiles": {},
        "mps": None,
        "node": None,
    }


def _on_a_simulated_one(folder: Path) -> tuple[None, dict[str, object]]:
    from gpu_pools.hardware.models import find_model  # noqa: PLC0415 - needs packages that a bare machine lacks
    from sandbox.nvml import from_tables, state  # noqa: PLC0415
    from sandbox.nvml.library import find_library, nvml_environment  # noqa: PLC0415
    from sandbox.system.progress import Progress  # noqa: PLC0415

    machine, known = folder / "machine", find_model(SIMULATED)
    assert known
    state.write(machine, from_tables.machine_state(known[0].key, SIMULATED, 1))
    os.environ.update(nvml_environment(find_library(Progress()), machine))
    return None, _expectation(SIMULATED, ["disabled"], "DEFAULT")


def _measure(python: str, folder: Path, expect: Path, floor: list[str], pairs: int) -> None:
    own, other = (_repacked(python, folder, kind) for kind in ("own", "other"))
    plain = [python, "-I", "-S"]
    line = ["assert", "--only", "nvml", "--expect", str(expect), "--pause", "0"]
    _compare("assert", [*plain, str(own), *line], floor, pairs)
    _compare("assert, bytecode of another version", [*plain, str(other), *line], floor, pairs)
    _compare("the same as a pod runs it", [python, *_in_a_pod(other), *line], floor, pairs)
    _calls(python, own)
    _watch([*plain, str(own)], expect)


def _repacked(python: str, folder: Path, kind: str) -> Path:
    made = folder / f"{kind}.pyz"
    subprocess.run([python, "-c", REPACK, str(folder / "verifier.pyz"), str(made), kind], check=True)
    return made


def _in_a_pod(pyz: Path) -> list[str]:
    """The arguments of Python there."""
    from gpu_pools.proof.verifier_start import start_command  # noqa: PLC0415 - as above

    return start_command(str(pyz), hashlib.sha256(pyz.read_bytes()).hexdigest(), os.devnull)[1:]


def _compare(name: str, command: list[str], floor: list[str], pairs: int) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    _seconds(floor)
    measured = [(_seconds(command), _seconds(floor)) for _ in range(pairs)]
    ours, theirs = ([one[column] for one in measured] for column in (0, 1))
    ratios = [one[0] / other[0] for one, other in measured]
    wall, processor, against = (
        1000 * statistics.median(column)
        for column in ([one[0] for one in ours], [one[1] for one in ours], [one[0] for one in theirs])
    )
    spread = f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    print(f"  {name}: {spread}, {wall:.0f} ms ({processor:.0f} ms of processor time) against {against:.0f} ms")


def _seconds(command: list[str]) -> tuple[float, float]:
    """(by the clock, of processor time, of the process and of those that it has waited for)."""
    began = time.perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=silent)
    _, status, used = os.wait4(pid, 0)
    took = time.perf_counter() - began
    assert status == 0, command
    return took, used.ru_utime + used.ru_stime


def _calls(python: str, pyz: Path) -> None:
    done = subprocess.run([python, "-I", "-S", "-c", CALLS, str(pyz)], capture_output=True, text=True, check=True)
    for which, line in zip(("first", "second"), done.stdout.splitlines(), strict=True):
        took: dict[str, float] = {}
        for name, milliseconds in json.loads(line):
            took[name] = took.get(name, 0.0) + milliseconds
        longest = sorted(took.items(), key=lambda one: -one[1])[:SLOWEST]
        shown = ", ".join(f"{name} {milliseconds:.1f}" for name, milliseconds in longest)
        print(f"  {which} reading: {sum(took.values()):.1f} ms, of which {shown}")


def _watch(program: list[str], expect: Path) -> None:
    command = [*program, "watch", "--only", "nvml", "--expect", str(expect)]
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
    print(f"  watch: {per_run * 1000:.0f} ms of processor time per assertion, {int(memory) / 1024:.0f} MiB at most")


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
