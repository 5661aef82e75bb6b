"""The simulated libnvidia-ml.so.1: built with gcc from src/, once, and kept in the cache of built programs.

The cache folder is named by a hash of the sources, the flags and the compiler, so a changed source is built anew and an
old library is never used by mistake. It appears there whole or not at all. `python -m sandbox.nvml.library` prints where.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.cache import cache_folder, make_once

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "libnvidia-ml.so.1"
#: For a program that is to be told no more of processes than a container is.
CONTAINED = {"GPU_POOLS_NVML_CONTAINED": "1"}
_SOURCES = Path(__file__).parent / "src"
_OUTPUT_LINES = 15
_FLAGS = (
    *("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"),
    *("-fPIC", "-fvisibility=hidden", "-pthread", "-shared", f"-Wl,-soname,{NAME}", "-Wl,-z,defs"),
    # Go programs close and open the library again and again, and go on using handles that point into it.
    "-Wl,-z,nodelete",
)


def find_library(progress: Progress) -> Path:
    """Find the library in the cache, or build it.

    Args:
        progress: told about the build.

    Returns:
        The library; its folder holds nothing else, so it may stand in LD_LIBRARY_PATH.

    Raises:
        SandboxError: when gcc is missing or the build fails.
    """
    gcc = _gcc()
    target = cache_folder() / f"nvml-{_digest(gcc)}"
    make_once(target, f"Building {NAME} (first time only, a few seconds)", lambda folder: build(gcc, folder), progress, "built")
    return target / NAME


def nvml_environment(library: Path, state: Path) -> Mapping[str, str]:
    """The environment variables that make a program load the library and see the machine of a state file."""
    return {"LD_LIBRARY_PATH": str(library.parent), "GPU_POOLS_NVML_STATE": str(state)}


def build(gcc: str, folder: Path) -> None:
    """Build the library into an existing folder.

    Raises:
        SandboxError: when the compiler refuses.
    """
    command = [gcc, *_FLAGS, "-o", str(folder / NAME), *map(str, sorted(_SOURCES.glob("*.c")))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-_OUTPUT_LINES:])
        message = f"{_SOURCES}: {gcc} failed (exit status {done.returncode}):\n{tail}"
        raise SandboxError(
            message, "It needs gcc 9 or newer with glibc's headers (Debian and Ubuntu: apt install gcc libc6-dev)."
        )


def _gcc() -> str:
    gcc = shutil.which("gcc")
    if gcc is None:
        message = f"{NAME}: not built yet, and there is no gcc on PATH to build it with."
        raise SandboxError(message, "Install gcc and glibc's headers (Debian and Ubuntu: apt install gcc libc6-dev).")
    return gcc


def _digest(gcc: str) -> str:
    """Hash everything that decides what is built."""
    version = subprocess.run([gcc, "--version"], capture_output=True, text=True, check=False).stdout
    digest = hashlib.sha256("\n".join([version, *_FLAGS]).encode())
    for path in sorted(_SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def main() -> int:
    """Find or build the library and print where it is; returns the exit status."""
    try:
        library = find_library(Progress())
    except SandboxError as error:
        sys.stderr.write(f"error: {error.message}\n{error.remedy}\n")
        return 1
    sys.stdout.write(f"{library}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
