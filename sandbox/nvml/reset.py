"""Stand-in for the one use that mig-parted makes of nvidia-smi: ``nvidia-smi -r -i ADDRESS,...`` resets GPUs.

A reset makes a pending MIG mode hold and clears the GPU (simulated.after_reset). Where a program still runs on a GPU it is
refused, as the real one refuses it. Every other use of nvidia-smi is refused, too.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.nvml import simulated, state

if TYPE_CHECKING:
    from collections.abc import Sequence

_USAGE = 2
_IN_USE = 1


def main(arguments: Sequence[str]) -> int:
    """Reset the GPUs that are named by PCI address; returns the exit status."""
    match list(arguments):
        case ["-r" | "--gpu-reset", "-i" | "--id", listed]:
            return _reset(Path(os.environ[state.VARIABLE]), [address.lower() for address in listed.split(",")])
        case _:
            sys.stderr.write("This nvidia-smi only knows: nvidia-smi -r -i ADDRESS[,ADDRESS...]\n")
            return _USAGE


def _reset(path: Path, addresses: list[str]) -> int:
    busy: list[str] = []

    def after(machine: simulated.Machine) -> simulated.Machine:
        busy[:] = [_address(gpu) for gpu in machine.gpus if _address(gpu) in addresses and gpu.processes]
        if busy:
            return machine
        return replace(
            machine, gpus=tuple(simulated.after_reset(gpu) if _address(gpu) in addresses else gpu for gpu in machine.gpus)
        )

    state.change(path, after)
    for address in busy:
        sys.stdout.write(f"GPU {address} is currently in use by another process.\n")
    if not busy:
        sys.stdout.write("".join(f"GPU {address} was successfully reset.\n" for address in addresses) + "All done.\n")
    return _IN_USE if busy else 0


def _address(gpu: simulated.Gpu) -> str:
    domain, bus, device = gpu.pci
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
