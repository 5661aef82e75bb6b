"""MPS by a daemon of its own, in the compute mode that the GPU has: are the limits of the plugin's daemon seen by a client?

The daemon is the one of `gpu-pools bench`, told what the device plugin's tells its own. That one's first act is to set
EXCLUSIVE_PROCESS, which would change the GPU; so this proves what the limits do, and not the plugin's way to them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from gpu_pools.bench import mps
from gpu_pools.bench.machine import NoGpu
from sandbox.real_node import own_gpus

_PROJECT: Final = Path(__file__).resolve().parents[2]
_CLIENT: Final = "sandbox.gpu_node.mps_client"
_NO_ROOM: Final = 2
_SECONDS: Final = 60


def look(uuid: str, memory_mib: int, replicas: int) -> tuple[str, str, bool]:
    """Limit a client as of so many replicas, and ask it what it has.

    Args:
        uuid: of the GPU.
        memory_mib: of it.
        replicas: how many clients were to share it.

    Returns:
        What a client should see, what it sees, and whether that is the same.
    """
    percent, share = 100 // replicas, memory_mib // replicas
    # An eighth of a share is over it; the half of one leaves room for what a context takes.
    amounts = (share // 2, share + share // 8)
    declared = f"{percent} % of the multiprocessors, {share} MiB"
    try:
        alone = _ask(uuid, {}, amounts)
        with (
            tempfile.TemporaryDirectory(prefix="gpu-node-mps-") as folder,
            mps.daemon(Path(folder), uuid, memory_mib, replicas) as found,
        ):
            limited = _ask(uuid, found, amounts)
    except NoGpu as error:
        return declared, str(error), False
    # Rounded down to what the hardware gives out at once: 14 of 132 for 12 % on an H200.
    few = 0 < limited["multiprocessors"] <= alone["multiprocessors"] * percent / 100
    good = few and alone["answers"] == [0, 0] and limited["answers"] == [0, _NO_ROOM]
    answers = {0: "given", _NO_ROOM: "refused"}
    allocations = [f"{mib} MiB {answers.get(code, code)}" for mib, code in zip(amounts, limited["answers"], strict=True)]
    processors = f"{limited['multiprocessors']} of {alone['multiprocessors']} multiprocessors"
    # An H200's driver names all of its memory, and refuses what is over the limit.
    return declared, f"{processors}; of {limited['totalMiB']} MiB {', '.join(allocations)}", good


def _ask(uuid: str, more: dict[str, str], amounts: tuple[int, ...]) -> dict[str, Any]:
    search = os.pathsep.join(filter(None, [str(own_gpus.libraries()), os.environ.get("LD_LIBRARY_PATH", "")]))
    environment = {**os.environ, "LD_LIBRARY_PATH": search, "CUDA_VISIBLE_DEVICES": uuid, **more}
    command = [sys.executable, "-m", _CLIENT, *map(str, amounts)]
    done = subprocess.run(
        command, cwd=_PROJECT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=_SECONDS,
    )  # fmt: skip
    if done.returncode != 0:
        message = f"a client ended with {done.returncode}: {done.stderr.strip()[-200:]}"
        raise NoGpu(message)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
