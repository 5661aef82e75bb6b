"""A simulated machine of a GPU model, as it is after its first boot, from the tables of hardware (facts).

The same node name gives the same GPUs. Nothing is read or written here: the tables are in facts, the library's file in state.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox.nvml.facts import architecture_number, board, pci_device, profiles, total_memory_mib
from sandbox.nvml.known_models import model
from sandbox.nvml.simulated import Gpu, Machine, Mig

if TYPE_CHECKING:
    from gpu_pools.hardware.models import GpuModel

MAX_GPUS = 16
"""GPUs of one machine that the library keeps apart."""


def machine_state(
    model_key: str,
    product: str,
    gpus: int,
    *,
    driver_version: str = "580.95.05",
    cuda: str = "13.0",
    node: str = "simulated",
) -> Machine:
    """A machine as it is after its first boot: MIG off, nothing running, nothing broken.

    What is known of the product's board (boards.yaml) is told too. ECC is taken to be on, as data-centre GPUs come. A MIG
    mode change waits for a reset on Ampere and happens at once on later GPUs (MIG User Guide); the driver's 535 branch lists
    no profiles while MIG is off.

    Args:
        model_key: of gpu_pools.hardware.models.
        product: what nvmlDeviceGetName answers.
        gpus: how many; at most MAX_GPUS.
        driver_version: such as ``580.95.05``.
        cuda: the newest CUDA version of that driver, such as ``13.0``.
        node: what the UUIDs follow from: the same name gives the same GPUs.

    Raises:
        KeyError: if the model is unknown.
        ValueError: if there are more GPUs than the library keeps apart.
    """
    if gpus > MAX_GPUS:
        message = f"{gpus} GPUs: at most {MAX_GPUS}"
        raise ValueError(message)
    known = model(model_key)
    bare = Machine("", "", 0, tuple(_gpu(known, product, node, slot, driver_version) for slot in range(gpus)))
    return with_driver(bare, driver_version, cuda)


def with_driver(machine: Machine, driver_version: str, cuda: str) -> Machine:
    """The machine under another driver; its GPUs stay as they are.

    Args:
        machine: as it was.
        driver_version: such as ``580.95.05``.
        cuda: the newest CUDA version of that driver, such as ``13.0``.
    """
    major, minor = (int(part) for part in cuda.split("."))
    listed = _listed_when_off(driver_version)
    gpus = (replace(gpu, mig=gpu.mig and replace(gpu.mig, listed_when_off=listed)) for gpu in machine.gpus)
    return replace(
        machine,
        driver_version=driver_version,
        nvml_version=f"{major}.{driver_version}",
        cuda_version=major * 1000 + minor * 10,
        gpus=tuple(gpus),
    )


def gpu_uuid(node: str, slot: int) -> str:
    """What NVML answers: the same GPU of the same node always has the same."""
    digest = hashlib.sha256(f"{node}/{slot}".encode()).digest()
    return f"GPU-{uuid.UUID(bytes=digest[:16])}"


def _gpu(known: GpuModel, product: str, node: str, slot: int, driver_version: str) -> Gpu:
    # NVIDIA's GPUs can replace broken memory rows from Ampere on.
    remaps = known.architecture not in {"maxwell", "pascal", "volta", "turing"}
    facts = board(product)
    return Gpu(
        slot=slot,
        uuid=gpu_uuid(node, slot),
        name=product,
        minor=slot,
        # Where a GPU sits is the machine's affair: one bus each, in order.
        pci=(0, slot + 1, 0),
        pci_device=pci_device(known, product),
        pci_subsystem=facts.pci_subsystem,
        architecture=architecture_number(known),
        capability=known.compute_capability,
        memory_mib=total_memory_mib(known),
        reserved_kib=facts.reserved_kib,
        ecc=(1, 1),
        remapped_rows=(0, 0, 0, 0) if remaps else None,
        row_histogram=facts.row_histogram,
        event_types=facts.event_types,
        mig=_mig(known, driver_version) if known.mig_capable else None,
        answers=facts.answers,
    )


def _listed_when_off(driver_version: str) -> bool:
    return not driver_version.startswith("535.")


def _mig(known: GpuModel, driver_version: str) -> Mig:
    return Mig(
        current=False,
        pending=False,
        at_once=known.architecture != "ampere",
        listed_when_off=_listed_when_off(driver_version),
        slices=known.compute_slices or None,
        units=known.placement_units,
        profiles=profiles(known.key),
    )
