"""Which program the clients are: PyTorch where this Python has it, CUDA C++ compiled on the spot elsewhere, else words."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from gpu_pools.bench.machine import NoGpu

BACKENDS: Final = ("torch", "cuda")
_HERE: Final = Path(__file__).parent
_COMPILE_SECONDS: Final = 300
_OUTPUT_LINES: Final = 10


def command(backend: str | None, folder: Path) -> tuple[str, list[str]]:
    """A client's command, but for its kind.

    Args:
        backend: `torch`, `cuda`, or `sleeper`, which needs no GPU; None for the first of BACKENDS that is there.
        folder: where a program may be compiled to.

    Returns:
        The backend with its version, and the command.

    Raises:
        NoGpu: when it is not there, or does not compile.
    """
    if backend == "sleeper":
        return "sleeper", [sys.executable, "-P", "-u", str(_HERE / "client.py"), "sleeper"]
    torch = importlib.util.find_spec("torch") is not None
    if backend == "torch" or (backend is None and torch):
        if not torch:
            message = f"{sys.executable} has no PyTorch: install it there, or use --backend cuda."
            raise NoGpu(message)
        return f"torch {_torch_version()}", [sys.executable, "-P", "-u", str(_HERE / "client.py"), "torch"]
    compiler = shutil.which("nvcc")
    if compiler is None:
        message = (
            f"neither PyTorch for {sys.executable} nor nvcc on PATH: nothing can be run on the GPU. Install PyTorch into this "
            "Python, or NVIDIA's CUDA compiler (package cuda-nvcc), and add it to PATH."
        )
        raise NoGpu(message)
    return f"cuda {_version(compiler)}", [str(_compiled(compiler, folder))]


def _compiled(compiler: str, folder: Path) -> Path:
    target = folder / "client"
    build = [compiler, "-O2", "-std=c++17", "-arch=native", "-o", str(target), str(_HERE / "client.cu")]
    done = subprocess.run(build, capture_output=True, text=True, check=False, timeout=_COMPILE_SECONDS)
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_OUTPUT_LINES:])
        message = f"nvcc does not compile the client:\n{said}"
        raise NoGpu(message)
    return target


def _version(compiler: str) -> str:
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return said.partition("release ")[2].partition(",")[0] or "of unknown version"


def _torch_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - beside its one use

    try:
        return version("torch")
    except PackageNotFoundError:
        return "of unknown version"
