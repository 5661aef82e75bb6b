"""What nvidia-smi says of the machine's GPUs: who they are, what they are set to, how they fare. It reads, and sets nothing.

nvidia-smi and not NVML's Python: it comes with the driver, so it is there wherever clients can run.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import Final

_IDENTITY: Final = ("index", "uuid", "name", "memory.total", "driver_version", "vbios_version", "pci.bus_id", "power.limit")
#: What must be the same before and after.
SETTINGS: Final = (
    "compute_mode",
    "mig.mode.current",
    "persistence_mode",
    "ecc.mode.current",
    "power.limit",
    "clocks.applications.graphics",
    "clocks.applications.memory",
    "clocks.max.sm",
)
#: What may explain a figure.
_STATE: Final = ("temperature.gpu", "power.draw", "clocks.sm", "clocks.mem", "clocks_throttle_reasons.active", "memory.used")
_SECONDS: Final = 30


class NoGpu(Exception):  # noqa: N818 - a state of the machine, told to people as it is
    """There is no GPU here that could be measured; the text says what is missing and what to do."""


@dataclass(frozen=True)
class Machine:
    """The machine and one GPU of it.

    Attributes:
        gpu: nvidia-smi's names -> values, as text.
        system: what else makes figures differ: kernel, processors, CUDA.
        mig: UUIDs of the GPU's MIG devices, in nvidia-smi's order.
    """

    gpu: dict[str, str]
    system: dict[str, str]
    mig: tuple[str, ...]


@dataclass(frozen=True)
class Smi:
    """nvidia-smi, of one GPU.

    Attributes:
        gpu: index or UUID.
        through: what the program is started through: nothing here, `kubectl exec …` where the GPU is a pod's.
    """

    gpu: str
    through: tuple[str, ...] = ()

    def machine(self) -> Machine:
        """What is measured.

        Raises:
            NoGpu: when there is none, or no nvidia-smi; as of the others.
        """
        system = {
            "kernel": self._run("uname", "-r").strip(),
            "processors": self._run("nproc").strip(),
            "cuda": self._cuda(),
        }
        found = self._query(_IDENTITY)
        return Machine(found, system, self._mig_devices(found["uuid"]))

    def settings(self) -> dict[str, str]:
        """What the GPU is set to."""
        return self._query(SETTINGS)

    def state(self) -> dict[str, str]:
        """How the GPU fares at this moment."""
        return self._query(_STATE)

    def used_mib(self) -> int | None:
        """MiB of the GPU's memory that are in use, by whomever; None where the driver does not say, as inside MIG."""
        said = self._query(("memory.used",))["memory.used"]
        return int(said) if said.isdecimal() else None

    def _query(self, fields: tuple[str, ...]) -> dict[str, str]:
        arguments = (f"--id={self.gpu}", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
        said = self._run("nvidia-smi", *arguments).strip()
        values = [value.strip() for value in said.split(",")]
        if len(values) != len(fields):
            message = f"nvidia-smi does not know GPU {self.gpu}, or one of {', '.join(fields)}; it said: {said[:200]}"
            raise NoGpu(message)
        return dict(zip(fields, values, strict=True))

    def _cuda(self) -> str:
        line = next((line for line in self._run("nvidia-smi").splitlines() if "CUDA Version" in line), "")
        return line.partition("CUDA Version:")[2].split()[0] if line else ""

    def _mig_devices(self, uuid: str) -> tuple[str, ...]:
        """`nvidia-smi -L` lists every GPU, and its MIG devices below it: ``(UUID: MIG-…)``. It takes no ``--id``."""
        found, here = [], False
        for line in self._run("nvidia-smi", "-L").splitlines():
            device = line.rpartition("UUID: ")[2].rstrip(") ")
            if line.startswith("GPU "):
                here = device == uuid
            elif here and device.startswith("MIG-"):
                found.append(device)
        return tuple(found)

    def _run(self, program: str, *arguments: str) -> str:
        if not self.through and shutil.which(program) is None:
            message = f"{program} is not on PATH: run this on a machine with an NVIDIA GPU and its driver."
            raise NoGpu(message)
        try:
            command = [*self.through, program, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            message = f"{program} cannot be run: {error}"
            raise NoGpu(message) from error
        if done.returncode != 0:
            message = f"{program} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[:300]}"
            raise NoGpu(message)
        return done.stdout
