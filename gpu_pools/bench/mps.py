"""A daemon of MPS for the time of a measurement: with folders of its own, in whatever compute mode the GPU has.

The device plugin's daemon sets EXCLUSIVE_PROCESS first, and limits each client to its share: of threads
`set_default_active_thread_percentage 100/replicas`, of memory `set_default_device_pinned_mem_limit` (k8s-device-plugin v0.19.0,
cmd/mps-control-daemon/mps/daemon.go). The limits are the same here; the mode stays. In DEFAULT mode a process without the
daemon's folders in its environment could use the GPU beside it; the clients have them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpu_pools.bench.machine import NoGpu

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTROL: Final = "nvidia-cuda-mps-control"
_SECONDS: Final = 20


@contextlib.contextmanager
def daemon(folder: Path, gpu_uuid: str, memory_mib: int, replicas: int | None) -> Iterator[dict[str, str]]:
    """Run a daemon; it ends with the block, and its server with it.

    Args:
        folder: an empty one, for its pipes and logs.
        gpu_uuid: the one GPU that it serves.
        memory_mib: of that GPU.
        replicas: limit clients as the plugin does with so many; None sets no limits.

    Yields:
        The environment by which clients find it.

    Raises:
        NoGpu: when there is no such program, or it does not start.
    """
    if shutil.which(_CONTROL) is None:
        message = f"{_CONTROL} is not on PATH: it comes with the driver (package nvidia-compute-utils or cuda-drivers)."
        raise NoGpu(message)
    where = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
    for path in where.values():
        Path(path).mkdir(parents=True)
    environment = {**os.environ, **where, "CUDA_VISIBLE_DEVICES": gpu_uuid}
    started = subprocess.run([_CONTROL, "-d"], env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if started.returncode != 0:
        message = f"{_CONTROL} -d ended with {started.returncode}: {(started.stdout + started.stderr).strip()[:300]}"
        raise NoGpu(message)
    try:
        if replicas is not None:
            _tell(environment, f"set_default_active_thread_percentage {100 // replicas}")
            _tell(environment, f"set_default_device_pinned_mem_limit 0 {memory_mib // replicas}M")
        yield where
    finally:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            _tell(environment, "quit")
        _end(folder / "pipe")


def in_force() -> Path | None:
    """The pipes of a daemon that every client on this machine uses; None where there is none.

    Its place is CUDA_MPS_PIPE_DIRECTORY, or /tmp/nvidia-mps (nvidia-cuda-mps-control(1)).
    """
    pipes = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps")  # noqa: S108 - NVIDIA's own default
    return pipes if (pipes / "control").exists() else None


def log(folder: Path) -> str:
    """What the daemon's server wrote, its last lines."""
    path = folder / "log" / "server.log"
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]) if path.is_file() else ""


def _tell(environment: dict[str, str], command: str) -> str:
    done = subprocess.run(
        [_CONTROL], input=f"{command}\n", env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    return done.stdout.strip()


def _end(pipes: Path) -> None:
    """Wait until it has ended; one that does not is killed, and its server ends by itself then (seen on an H200)."""
    if _ended(pipes):
        return
    for pid in _processes(pipes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    said = "did not end when it was told to, and was killed" if _ended(pipes) else f"does not end: kill {_CONTROL}"
    sys.stderr.write(f"warning: the daemon of MPS with its pipes in {pipes} {said}\n")


def _ended(pipes: Path) -> bool:
    end = time.monotonic() + _SECONDS
    while (there := _processes(pipes)) and time.monotonic() < end:
        time.sleep(0.1)
    return not there


def _processes(pipes: Path) -> list[int]:
    """The daemons with these pipes. It leaves its control pipe at times, so that does not tell whether it has ended."""
    return [int(process.name) for process in Path("/proc").glob("[0-9]*") if _is_daemon(process, pipes)]


def _is_daemon(process: Path, pipes: Path) -> bool:
    try:
        command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
    except OSError:
        return False
    named = Path(os.fsdecode(command.split(b"\0")[0])).name == _CONTROL
    return named and os.fsencode(f"CUDA_MPS_PIPE_DIRECTORY={pipes}") in environment.split(b"\0")
