"""Asks the MPS control daemon which split it serves, through nvidia-cuda-mps-control.

Seen on an H100 (driver 580): without a daemon the program says so and exits with 1; it prints the percentage as ``25.0``, a
memory limit in whole GiB rounded down (``19G`` after 20389M was set), and nothing where no limit is set. A server process
is there only once a client came, so that there is none says nothing. Nothing here starts, stops or sets anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .findings import Where

if TYPE_CHECKING:
    from .expectation import MpsExpectation
    from .findings import Findings

PROGRAM: Final = "nvidia-cuda-mps-control"
_SECONDS: Final = 10.0
_FAULT: Final = "FAULT"
_UNITS: Final = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}


@dataclass(frozen=True)
class MpsReading:
    """What the daemon said.

    Attributes:
        failure: why it could not be asked, or why it did not answer; None where it answered.
        asked: False where this container has no program to ask with.
        percentage: get_default_active_thread_percentage.
        memory_limits: get_default_device_pinned_mem_limit, by GPU.
        faulty_servers: process ids of get_server_list whose get_server_status is FAULT.
    """

    failure: str | None
    asked: bool
    percentage: str
    memory_limits: tuple[str, ...]
    faulty_servers: tuple[str, ...]


def read_mps(gpus: int) -> MpsReading:
    """Ask the daemon whose pipes CUDA_MPS_PIPE_DIRECTORY names.

    Args:
        gpus: how many GPUs there are.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        return MpsReading(f"no {PROGRAM} in this container", asked=False, percentage="", memory_limits=(), faulty_servers=())
    try:
        return MpsReading(
            failure=None,
            asked=True,
            percentage=_ask(program, "get_default_active_thread_percentage"),
            memory_limits=tuple(_ask(program, f"get_default_device_pinned_mem_limit {index}") for index in range(gpus)),
            faulty_servers=_faulty(program),
        )
    except (OSError, subprocess.SubprocessError) as error:
        return MpsReading(_words(error), asked=True, percentage="", memory_limits=(), faulty_servers=())


def _faulty(program: str) -> tuple[str, ...]:
    servers = _ask(program, "get_server_list").split()
    return tuple(server for server in servers if _ask(program, f"get_server_status {server}") == _FAULT)


def _ask(program: str, command: str) -> str:
    done = subprocess.run([program], input=f"{command}\n", capture_output=True, text=True, timeout=_SECONDS, check=True)
    return done.stdout.strip()


def _words(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = (error.stdout or error.stderr or "").strip()
        return f"exit code {error.returncode}" + (f": {said}" if said else "")
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer within {error.timeout:g} s"
    return str(error)


def compare_mps(expected: MpsExpectation, reading: MpsReading, findings: Findings) -> None:
    """Compare the split with the declared one."""
    daemon = Where("MPS daemon")
    if reading.failure is not None:
        add = findings.differs if reading.asked else findings.cannot_tell
        add(daemon, "answer", "answers", reading.failure, "mps-dead" if reading.asked else "mps-unasked")
        return
    for server in reading.faulty_servers:
        findings.differs(Where(f"MPS server {server}"), "status", "no fault", _FAULT, "mps-fault")
    wanted = float(expected.active_thread_percentage)
    if _number(reading.percentage) != wanted:
        findings.differs(daemon, "active thread percentage", wanted, reading.percentage or "none", "mps-split")
    for index, limit in enumerate(reading.memory_limits):
        if not _limit_fits(expected.pinned_memory_mib, limit):
            wanted_limit = f"{expected.pinned_memory_mib} MiB"
            findings.differs(Where(f"GPU {index}", index), "MPS memory limit", wanted_limit, limit or "none", "mps-split")


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def _limit_fits(wanted: int | None, limit: str) -> bool:
    """Whether what was printed can be the wanted MiB: it is rounded down to its own unit."""
    if wanted is None:
        return True
    match = re.fullmatch(r"(\d+)([KMG])B?", limit)
    if match is None:
        return False
    unit = _UNITS[match[2]]
    return int(match[1]) == int(wanted / unit)
