"""The machine's own GPUs and driver, for a real node: where its libraries lie, its device files, and what NVML says of it.

Nothing of a GPU is ever set here. NVML is asked by the project's own verifier, in a process of its own. A machine whose NVML is
the simulated library (GPU_POOLS_NVML_STATE is set) is one, too: its device files are those of the state.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sandbox.nvml import state
from sandbox.real_node.gpus import Gpus, of_state
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox.nvml.simulated import Machine

#: In the node. It tells the driver container's stand-in that there is nothing to bring.
_MARK: Final = "/run/nvidia/own-driver"
_ROOT: Final = "/run/nvidia/driver"
#: Where a container without a variable of its own has the state of simulated GPUs, as the driver container's stand-in puts it.
_FIRMWARE: Final = f"{_ROOT}/lib/firmware/nvidia/{{version}}/gsp_simulated.bin"
_NVML: Final = "libnvidia-ml.so"
#: What a driver's folder must have: a name to load, and files whose names tell NVIDIA's toolkit the driver's version.
_LIBRARIES: Final = (f"{_NVML}.1", f"{_NVML}.*.*", "libcuda.so.1", "libcuda.so.*.*")
_USUAL: Final = (
    "/usr/local/nvidia/lib64",
    f"/usr/lib/{platform.machine()}-linux-gnu",
    "/usr/lib64",
    f"/usr/lib/{platform.machine()}-linux-gnu/nvidia/current",
    f"{_ROOT}/usr/lib/{platform.machine()}-linux-gnu",
)
_NEEDED: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_CACHED: Final = re.compile(rf"{re.escape(_NVML)}\.1 .*=> (\S+)")
_ASK_SECONDS: Final = 120
_REMEDY: Final = "This needs a Linux machine with an NVIDIA GPU whose driver is loaded: nvidia-smi shows it there."


def find() -> Gpus:
    """The machine's GPUs, for a node.

    Raises:
        SandboxError: there is no driver, or none that a node could use; and why.
    """
    folder = libraries()
    shown = {f"{_ROOT}/usr/lib/{platform.machine()}-linux-gnu": str(folder)}
    if program := _smi():
        # Programs that the toolkit shows to containers: nvidia-smi, and what talks to MPS.
        shown[f"{_ROOT}/usr/bin"] = str(program.parent)
    simulated = os.environ.get(state.VARIABLE)
    found = _simulated(state.read(Path(simulated))) if simulated else Gpus(_devices())
    return replace(found, files={**found.files, _MARK: "its own\n"}, shown=shown)


def _simulated(machine: Machine) -> Gpus:
    """Return simulated GPUs whose driver is there already: their state is the driver's firmware."""
    found = of_state(machine)
    return replace(found, files={**found.files, _FIRMWARE.format(version=machine.driver_version): state.text(machine)})


def libraries() -> Path:
    """The folder with the driver's libraries.

    Raises:
        SandboxError: there is none that has all.
    """
    looked: dict[Path, list[str]] = {}
    for folder in _folders():
        lacks = [pattern for pattern in _LIBRARIES if not any(folder.glob(pattern))]
        if not lacks:
            return folder
        if f"{_NVML}.1" not in lacks:
            looked[folder] = lacks
    found = "; ".join(f"{folder} lacks {', '.join(lacks)}" for folder, lacks in looked.items())
    message = f"no folder of this machine has an NVIDIA driver's libraries: {found or f'{_NVML}.1 is nowhere'}."
    raise SandboxError(message, _REMEDY)


def reading() -> dict[str, Any]:
    """What NVML says, as the verifier's `export --only nvml` writes it.

    Raises:
        SandboxError: NVML cannot be asked, or there is no GPU.
    """
    search = os.pathsep.join(filter(None, [str(libraries()), os.environ.get("LD_LIBRARY_PATH", "")]))
    command = [sys.executable, "-m", "gpu_pools.verifier", "export", "--only", "nvml"]
    project = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, "LD_LIBRARY_PATH": search},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_ASK_SECONDS,
    )
    try:
        said: dict[str, Any] = json.loads(done.stdout)["nvml"]
    except (ValueError, KeyError):
        message = f"NVML cannot be asked: {' '.join(command[1:])} ended with {done.returncode}: {done.stderr.strip()[-300:]}"
        raise SandboxError(message, _REMEDY) from None
    if said["failure"] is not None or not said["gpus"]:
        message = f"NVML of this machine shows no GPU: {json.dumps(said['failure'] or said['gpus'])}."
        raise SandboxError(message, _REMEDY)
    return said


def _folders() -> Iterable[Path]:
    """Where the loader would look, then where drivers usually lie."""
    yield from (Path(name) for name in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if name)
    cached = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout if _has_ldconfig() else ""
    yield from (Path(path).resolve().parent for path in _CACHED.findall(cached))
    yield from (Path(name) for name in _USUAL)


def _smi() -> Path | None:
    """The driver's nvidia-smi. A script of that name comes last: what it starts has no such path in a container."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = [Path(path).resolve() for folder in folders if folder and (path := shutil.which("nvidia-smi", path=folder))]
    return min(found, key=_is_script, default=None)


def _is_script(program: Path) -> bool:
    with program.open("rb") as content:
        return content.read(2) == b"#!"


def _has_ldconfig() -> bool:
    return shutil.which("ldconfig") is not None


def _devices() -> dict[str, tuple[int, int]]:
    paths = [*Path("/dev").glob("nvidia*"), *Path("/dev/nvidia-caps").glob("*")]
    found = {str(path): path.stat() for path in sorted(paths)}
    numbers = {path: (os.major(one.st_rdev), os.minor(one.st_rdev)) for path, one in found.items() if stat.S_ISCHR(one.st_mode)}
    if missing := [path for path in _NEEDED if path not in numbers]:
        message = f"{', '.join(missing)}: no such device on this machine."
        raise SandboxError(message, f"{_REMEDY} /dev/nvidia-uvm comes with: nvidia-modprobe -u -c 0.")
    return numbers
