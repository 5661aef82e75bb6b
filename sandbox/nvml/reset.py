"""Stand-in for the two uses that NVIDIA's programs make of nvidia-smi: resetting GPUs, and setting a compute mode.

mig-parted calls ``nvidia-smi -r -i ADDRESS,...``. A reset makes a pending MIG mode hold and clears the GPU
(simulated.after_reset). Where a program still runs on a GPU it is refused, as the real one refuses it.

mps-control-daemon calls ``nvidia-smi -i UUID -c MODE``. A GPU in MIG mode has no compute mode of its own; that the real one
answers with 3 (not available on the target device) is assumed, and so is 6 (nothing found) for a GPU that is not there.

Every other use of nvidia-smi is refused.
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
_NOT_AVAILABLE, _NOT_FOUND = 3, 6
#: NVML_COMPUTEMODE_*
_MODES = {"DEFAULT": 0, "EXCLUSIVE_THREAD": 1, "PROHIBITED": 2, "EXCLUSIVE_PROCESS": 3}


def main(arguments: Sequence[str]) -> int:
    """Reset the GPUs that are named by PCI address, or set the compute mode of one; returns the exit status."""
    match list(arguments):
        case ["-r" | "--gpu-reset", "-i" | "--id", listed]:
            return _reset(Path(os.environ[state.VARIABLE]), [address.lower() for address in listed.split(",")])
        case ["-i" | "--id", uuid, "-c" | "--compute-mode", mode] if mode in _MODES:
            return _set_mode(Path(os.environ[state.VARIABLE]), uuid, mode)
        case _:
            known = "nvidia-smi -r -i ADDRESS[,ADDRESS...], nvidia-smi -i UUID -c MODE"
            sys.stderr.write(f"This nvidia-smi only knows: {known}\n")
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


def _set_mode(path: Path, uuid: str, mode: str) -> int:
    found: list[simulated.Gpu] = []

    def after(machine: simulated.Machine) -> simulated.Machine:
        found[:] = [gpu for gpu in machine.gpus if gpu.uuid == uuid]
        gpus = (replace(gpu, compute_mode=_MODES[mode]) if gpu in found and not _in_mig(gpu) else gpu for gpu in machine.gpus)
        return replace(machine, gpus=tuple(gpus))

    state.change(path, after)
    if not found:
        sys.stdout.write("No devices were found\n")
        return _NOT_FOUND
    if _in_mig(found[0]):
        sys.stdout.write(f"Setting compute mode to {mode} is not supported for GPU {_address(found[0])}.\n")
        return _NOT_AVAILABLE
    sys.stdout.write(f"Set compute mode to {mode} for GPU {_address(found[0])}.\nAll done.\n")
    return 0


def _in_mig(gpu: simulated.Gpu) -> bool:
    return gpu.mig is not None and gpu.mig.current


def _address(gpu: simulated.Gpu) -> str:
    domain, bus, device = gpu.pci
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
