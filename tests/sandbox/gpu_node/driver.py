"""A folder as a driver's: the simulated NVML, and a libcuda that computes on the processor; and a machine's state beside it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.nvml import from_tables, state
from sandbox.nvml.library import find_library
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from sandbox.nvml.simulated import Machine

VERSION = "580.159.04"


def make(folder: Path, *flags: str) -> Path:
    """Make one; returns its folder of libraries."""
    libraries = folder / "driver"
    libraries.mkdir(parents=True)
    shutil.copyfile(find_library(Progress()), libraries / f"libnvidia-ml.so.{VERSION}")
    cuda = ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libcuda.so.1", *flags]
    source = Path(__file__).parent / "cuda.c"
    subprocess.run([*cuda, "-o", str(libraries / f"libcuda.so.{VERSION}"), str(source)], check=True)
    for name in ("libnvidia-ml", "libcuda"):
        (libraries / f"{name}.so.1").symlink_to(f"{name}.so.{VERSION}")
    return libraries


def h200(gpus: int = 1) -> Machine:
    """A machine with H200s under that driver."""
    return from_tables.machine_state("h200-141gb", "NVIDIA H200", gpus, driver_version=VERSION, cuda="13.0", node="own")


def environment(folder: Path, machine: Machine) -> dict[str, str]:
    """Make all of it; returns the variables by which the machine has it."""
    state.write(folder / "state", machine)
    return {"LD_LIBRARY_PATH": str(make(folder)), state.VARIABLE: str(folder / "state")}
