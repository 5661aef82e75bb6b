"""What the simulated GPU library shows, as values: a machine, its GPUs, their MIG instances, processes, events and faults.

Here is what they are and what a reset or a partitioning makes of one; where their facts come from (from_tables) and how they
are written down (state) is elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.nvml.facts import Answer, Profile


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a function.

    Attributes:
        function: its name, or a pattern with ``*``.
        error: the NVML error that it answers; None to answer as usual.
        hang_seconds: how long it takes first; None for no time.
    """

    function: str
    error: int | None = None
    hang_seconds: float | None = None


@dataclass(frozen=True)
class ComputeInstance:
    """A compute instance: its number, its compute slices, and the slice of its GPU instance at which it starts."""

    id: int
    slices: int
    start: int


@dataclass(frozen=True)
class GpuInstance:
    """A GPU instance: its number, the id of its profile, the placement unit at which it starts, its compute instances."""

    id: int
    profile_id: int
    start: int
    computes: tuple[ComputeInstance, ...] = ()


@dataclass(frozen=True)
class Process:
    """A process on a GPU: MiB it uses (None: not told), the instances it runs on (None: the whole GPU), its kind and name.

    Attributes:
        kind: ``compute``, ``graphics`` or ``mps``.
    """

    pid: int
    memory_mib: int | None
    name: str
    kind: str = "compute"
    instance: int | None = None
    compute: int | None = None


@dataclass(frozen=True)
class Event:
    """Something that happened: a number that rises with every event, nvmlEventType* and its datum (the Xid), and where."""

    sequence: int
    type: int
    data: int
    instance: int | None = None
    compute: int | None = None


@dataclass(frozen=True)
class Mig:
    """MIG of a GPU that has it.

    Attributes:
        current: whether the mode is on.
        pending: what it will be after a reset.
        at_once: whether a change needs no reset.
        listed_when_off: whether profiles can be listed while the mode is off.
        slices: compute slices; None if unknown.
        units: placement units; None if unknown.
    """

    current: bool
    pending: bool
    at_once: bool
    listed_when_off: bool
    slices: int | None
    units: int | None
    profiles: tuple[Profile, ...]
    instances: tuple[GpuInstance, ...] = ()


@dataclass(frozen=True)
class Gpu:
    """One GPU; None is unknown, and then answered NOT_SUPPORTED (in a struct: 0).

    Attributes:
        slot: its number in the machine, which it keeps when another GPU disappears.
        architecture: NVML_DEVICE_ARCH_*.
        capability: compute capability.
        pci: domain, bus, device.
        pci_device: device id in the upper half, vendor id in the lower.
        pci_subsystem: the same of the board.
        reserved_kib: memory that nobody can use.
        compute_mode: NVML_COMPUTEMODE_*.
        ecc: current and pending.
        ecc_errors: volatile corrected and uncorrected, aggregate corrected and uncorrected.
        remapped_rows: corrected, uncorrected, pending, failed.
        row_histogram: banks with max, high, partial, low, none left.
        event_types: nvmlEventType* that can be told; None for ECC errors and Xids.
        answers: of functions that only state a fact.
    """

    slot: int
    uuid: str
    name: str
    minor: int
    pci: tuple[int, int, int]
    pci_device: int | None = None
    pci_subsystem: int | None = None
    serial: str | None = None
    architecture: int | None = None
    capability: tuple[int, int] | None = None
    memory_mib: int | None = None
    reserved_kib: int = 0
    compute_mode: int = 0
    ecc: tuple[int, ...] | None = None
    ecc_errors: tuple[int, ...] = (0, 0, 0, 0)
    remapped_rows: tuple[int, ...] | None = None
    row_histogram: tuple[int, ...] | None = None
    event_types: int | None = None
    mig: Mig | None = None
    processes: tuple[Process, ...] = ()
    events: tuple[Event, ...] = ()
    answers: tuple[Answer, ...] = ()
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class Machine:
    """What NVML sees.

    Attributes:
        cuda_version: 1000 times the major number plus 10 times the minor.
        answers: of functions that only state a fact of the machine.
    """

    driver_version: str
    nvml_version: str
    cuda_version: int
    gpus: tuple[Gpu, ...] = field(default=())
    answers: tuple[Answer, ...] = ()
    faults: tuple[Fault, ...] = ()


def after_reset(gpu: Gpu) -> Gpu:
    """The GPU after a reset or a reboot: pending modes hold, instances and processes are gone."""
    mig = gpu.mig and replace(gpu.mig, current=gpu.mig.pending, instances=())
    ecc = gpu.ecc and (gpu.ecc[1], gpu.ecc[1])
    return replace(gpu, mig=mig, ecc=ecc, compute_mode=0, processes=())


def partitioned(gpu: Gpu, instances: Sequence[tuple[str, int]]) -> Gpu:
    """The GPU in MIG mode with these instances, as if somebody had made them in that order; all others are gone.

    Each instance has one compute instance, which fills it. Nothing is checked: whoever calls knows that they fit.

    Args:
        gpu: a GPU with MIG.
        instances: profile and placement unit at which it starts; none leaves MIG mode on and empty.

    Raises:
        ValueError: if the GPU has no MIG, or no such profile.
    """
    kinds = {profile.name: profile for profile in gpu.mig.profiles} if gpu.mig else {}
    unknown = [name for name, _ in instances if name not in kinds]
    if gpu.mig is None or unknown:
        message = f"{gpu.name}: {f'no MIG profile {unknown[0]}' if unknown else 'no MIG'}"
        raise ValueError(message)
    made = tuple(
        GpuInstance(number, kinds[name].id, start, (ComputeInstance(0, kinds[name].slices, 0),))
        for number, (name, start) in enumerate(instances, start=1)
    )
    return replace(gpu, mig=replace(gpu.mig, current=True, pending=True, instances=made))
