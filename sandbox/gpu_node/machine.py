"""Who the machine is, what its GPUs are set to, and the stack that is declared for them."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.bench.machine import NoGpu, Smi
from gpu_pools.hardware.models import find_model
from sandbox.real_node import own_gpus
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.stack.allocation import Allocation

POOL: Final = "machine"
#: What of NVML's reading is a setting: it must be the same afterwards.
_SETTINGS: Final = ("mig", "computeMode", "ecc")
_STACK: Final = """\
# Written by `make gpu-node`: this machine as a pool of one node.
config:
  gpu-pools:cluster: {{platform: existing, context: gpu-node{allocation}}}
  # The machine's own, which the driver container's stand-in leaves as it is.
  gpu-pools:operator: {{values: {{driver: {{version: "{driver}"}}}}}}
  gpu-pools:sharing:
    declared: {sharing}
  gpu-pools:verification: {{deadlineSeconds: 180, intervalSeconds: 10, smokeTest: {smoke_test}}}
  gpu-pools:pools:
    - name: {pool}
      nodeSelector: {{gpu-node: own}}
      gpuModel: {model}
      gpusPerNode: {gpus}
      sharing: declared
{rollout}"""
#: That nodes change in their turn, for a declaration whose pods may lose nothing.
NODE_BY_NODE: Final = "      rollout: {{maxUnavailable: 1, drainTimeoutSeconds: {seconds}, podsThatStay: {staying}}}\n"


@dataclass(frozen=True)
class Machine:
    """The machine as it was found.

    Attributes:
        reading: what NVML said, in the verifier's words.
        model: of its GPUs.
        product: what NVML names them.
    """

    reading: dict[str, Any]
    model: GpuModel
    product: str

    @property
    def gpus(self) -> int:
        """How many."""
        return len(self.reading["gpus"])

    def identity(self) -> dict[str, Any]:
        """What else makes a result differ elsewhere."""
        return {
            "gpus": [{key: gpu[key] for key in ("index", "name", "uuid", "memoryMiB")} for gpu in self.reading["gpus"]],
            "driver": self.reading["driver"],
            "cuda": self.reading["cuda"],
            "kernel": platform.release(),
            "processors": os.cpu_count(),
            "python": platform.python_version(),
        }


def find() -> Machine:
    """Look at the machine.

    Raises:
        SandboxError: it has no GPU, GPUs of several kinds, one that is not in the data, or settings that do not fit.
    """
    own_gpus.find()
    reading = own_gpus.reading()
    names = sorted({str(gpu["name"]) for gpu in reading["gpus"]})
    if len(names) != 1:
        message = f"this machine has GPUs of several kinds: {', '.join(names)}; a pool's nodes have one."
        raise SandboxError(message, "Take a machine whose GPUs are all alike.")
    known = find_model(names[0])
    if known is None:
        message = f"{names[0]!r} is not among the GPU models of gpu_pools/hardware/gpu_models.yaml."
        raise SandboxError(message, "Add the model there, with its sources.")
    for gpu in reading["gpus"]:
        if (gpu["computeMode"], _on(gpu["mig"])) != ("DEFAULT", False):
            message = f"GPU {gpu['index']}: compute mode {gpu['computeMode']}, MIG {gpu['mig']}; needed are DEFAULT and off."
            raise SandboxError(message, "It stays as it is: what a GPU is set to is its owner's to change, by nvidia-smi.")
    return Machine(reading, known[0], names[0])


def gpu_settings(reading: dict[str, Any]) -> dict[str, Any]:
    """What the GPUs are set to, by UUID: as NVML says, and where there is nvidia-smi, what that says besides."""
    return {gpu["uuid"]: {key: gpu[key] for key in _SETTINGS} | _besides(gpu["uuid"]) for gpu in reading["gpus"]}


def stack_text(
    sharing: str, machine: Machine, *, smoke_test: bool = False, rollout: str = "", allocation: Allocation | None = None
) -> str:
    """Return the stack file of a declaration.

    Args:
        sharing: of the pool, as the stack file has it.
        machine: whose GPUs the pool has.
        smoke_test: whether it is declared, too.
        rollout: a line of the pool, as NODE_BY_NODE has it; empty: it changes all at once.
        allocation: how pods get GPUs, as the stack file has it; None: the key is not written.
    """
    return _STACK.format(
        sharing=sharing,
        pool=POOL,
        model=machine.product,
        gpus=machine.gpus,
        driver=machine.reading["driver"],
        smoke_test=str(smoke_test).lower(),
        rollout=rollout,
        allocation=f", allocation: {allocation}" if allocation else "",
    )


def _on(mig: dict[str, Any]) -> bool:
    """Whether MIG is on, or will be; a GPU without it answers an error."""
    return bool(mig.get("current") or mig.get("pending"))


def _besides(uuid: str) -> dict[str, str]:
    if shutil.which("nvidia-smi") is None:
        return {}
    try:
        return Smi(uuid).settings()
    except NoGpu as error:
        return {"nvidia-smi": str(error)}
