"""A folder as a driver's: the simulated NVML, and a libcuda that computes on the processor; and a machine's state beside it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.nvml import from_tables, state
from sandbox.nvml.library import find_library
from sandbox.real_node import operand_images
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from sandbox.nvml.simulated import Machine

VERSION = "580.159.04"
#: -L names the GPUs whose device files are there, in a pod as on a machine; of what else is asked it says the same each time.
SMI = """#!/bin/sh
if [ "$1" = -L ]; then
  for device in /dev/nvidia[0-9]*; do [ -e "$device" ] && echo "GPU ${device#/dev/nvidia}: NVIDIA H200 (UUID: of ${device})"; done
  exit 0
fi
for word in "$@"; do case $word in --query-gpu=*) echo "${word#--query-gpu=}";; esac; done
"""
#: Told its limits by its standard input, as the real one; libcuda looks for them beside its pipe.
CONTROL = """#!/bin/sh
pipe=$CUDA_MPS_PIPE_DIRECTORY
if [ "$1" = -d ]; then : > "$pipe/control"; exit; fi
read -r command first second
case $command in
  set_default_active_thread_percentage) echo "$first" > "$pipe/percent" ;;
  set_default_device_pinned_mem_limit) echo "${second%M}" > "$pipe/mib" ;;
  quit) rm "$pipe/control" ;;
esac
"""
#: Compiles a client of the bench that sleeps, as a program of Python.
NVCC = """#!/bin/sh
[ "$1" = --version ] && { echo "Cuda compilation tools, release 13.0, V13.0.88"; exit; }
while [ "$1" != -o ]; do shift; done
sed -e '1i#!/usr/bin/env python3' -e 's/^if __name__ == .*/sys.argv.insert(1, "sleeper")\\n&/' "${3%.cu}.py" > "$2"
chmod +x "$2"
"""


def make(folder: Path, *flags: str) -> Path:
    """Make one; returns its folder of libraries."""
    libraries = folder / "driver"
    libraries.mkdir(parents=True)
    shutil.copyfile(find_library(Progress()), libraries / f"libnvidia-ml.so.{VERSION}")
    cuda = ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libcuda.so.1", "-DANYWHERE", *flags]
    source = Path(operand_images.__file__).parent / "driver" / "cuda.c"
    subprocess.run([*cuda, "-o", str(libraries / f"libcuda.so.{VERSION}"), str(source)], check=True)
    for name in ("libnvidia-ml", "libcuda"):
        (libraries / f"{name}.so.1").symlink_to(f"{name}.so.{VERSION}")
    return libraries


def programs(folder: Path) -> Path:
    """NVIDIA's programs beside it; returns their folder."""
    place = folder / "bin"
    place.mkdir()
    for name, text in (("nvidia-smi", SMI), ("nvidia-cuda-mps-control", CONTROL), ("nvcc", NVCC)):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return place


def h200(gpus: int = 1) -> Machine:
    """A machine with H200s under that driver."""
    return from_tables.machine_state("h200-141gb", "NVIDIA H200", gpus, driver_version=VERSION, cuda="13.0", node="own")


def environment(folder: Path, machine: Machine) -> dict[str, str]:
    """Make all of it; returns the variables by which the machine has it."""
    state.write(folder / "state", machine)
    uuids = ",".join(f'"{gpu.uuid.removeprefix("GPU-").replace("-", "")}"' for gpu in machine.gpus)
    return {"LD_LIBRARY_PATH": str(make(folder, f"-DUUIDS={uuids}")), state.VARIABLE: str(folder / "state")}
