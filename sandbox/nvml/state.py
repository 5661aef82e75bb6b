"""The state file of the simulated GPU: which machine the library is, as values, and back.

README.md describes the file. Programs change it through the library; this module is for those who set a machine up, switch
a fault on, or play the reset that a pending mode waits for. Reading and writing keep every fact, but not comments.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpu_pools.hardware.models import model
from sandbox.nvml.facts import Answer, Profile, architecture_number, board, pci_device, profiles, total_memory_mib
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained, locked, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpu_pools.hardware.models import GpuModel

VARIABLE = "GPU_POOLS_NVML_STATE"
"""The environment variable that names the file."""

MAX_GPUS = 16
"""GPUs of one machine that the library keeps apart."""

_COLUMNS = 12  # numbers in a line "mig-profile"


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


def read(path: Path) -> Machine:
    """Read a state file.

    Raises:
        SandboxError: when it cannot be read, or says something that this module does not know.
    """
    with explained(path, "read"):
        lines = path.read_text(encoding="utf-8").splitlines()
    try:
        return _machine([line.split() for line in lines if line.strip() and not line.lstrip().startswith("#")])
    except (IndexError, KeyError, StopIteration, ValueError) as error:
        message = f"{path}: no state file of the simulated GPU: {error!r}."
        raise SandboxError(message, "Write it with sandbox.nvml.state; sandbox/nvml/README.md describes it.") from error


def write(path: Path, machine: Machine) -> None:
    """Write a state file, whole or not at all. To change one that is in use, take `change`.

    Raises:
        SandboxError: when it cannot be written.
    """
    write_atomic(path, text(machine))


def change(path: Path, how: Callable[[Machine], Machine]) -> Machine:
    """Change a state file while no program changes it; returns the new machine.

    Raises:
        SandboxError: when it cannot be read or written.
    """
    with locked(path):
        machine = how(read(path))
        write(path, machine)
    return machine


def gpu_uuid(node: str, slot: int) -> str:
    """What NVML answers: the same GPU of the same node always has the same."""
    digest = hashlib.sha256(f"{node}/{slot}".encode()).digest()
    return f"GPU-{uuid.UUID(bytes=digest[:16])}"


def text(machine: Machine) -> str:
    """The state file of a machine."""
    lines = [
        "# The machine that sandbox/nvml's libnvidia-ml.so.1 simulates; sandbox/nvml/README.md describes this file.",
        f"driver-version {machine.driver_version}",
        f"nvml-version {machine.nvml_version}",
        f"cuda-version {machine.cuda_version}",
        *(_answer_line(answer) for answer in machine.answers),
        *(_fault_line(fault) for fault in machine.faults),
    ]
    for gpu in machine.gpus:
        lines += ["", f"gpu {gpu.slot}", *_gpu_lines(gpu), *_mig_lines(gpu.mig)]
    return "\n".join(lines) + "\n"


# --- a machine from tables --------------------------------------------------------------------------------


def _gpu(known: GpuModel, product: str, node: str, slot: int, driver_version: str) -> Gpu:
    # NVIDIA's GPUs can replace broken memory rows from Ampere on.
    remaps = known.architecture not in {"volta", "turing"}
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


# --- writing ----------------------------------------------------------------------------------------------


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _line(key: str, *values: int | None) -> str:
    return " ".join([key, *map(_number, values)])


def _given(key: str, values: Sequence[int] | None) -> list[str]:
    return [] if values is None else [_line(key, *values)]


def _gpu_lines(gpu: Gpu) -> list[str]:
    domain, bus, device = gpu.pci
    hexadecimal = (("-" if value is None else f"0x{value:08x}") for value in (gpu.pci_device, gpu.pci_subsystem))
    return [
        f"uuid {gpu.uuid}",
        f"name {gpu.name}",
        *([] if gpu.serial is None else [f"serial {gpu.serial}"]),
        f"minor {gpu.minor}",
        f"pci {domain:04x}:{bus:02x}:{device:02x} {' '.join(hexadecimal)}",
        *_given("architecture", None if gpu.architecture is None else (gpu.architecture,)),
        *_given("compute-capability", gpu.capability),
        *_given("memory-mib", None if gpu.memory_mib is None else (gpu.memory_mib,)),
        f"reserved-kib {gpu.reserved_kib}",
        f"compute-mode {gpu.compute_mode}",
        *_given("ecc", gpu.ecc),
        _line("ecc-errors", *gpu.ecc_errors),
        *_given("remapped-rows", gpu.remapped_rows),
        *_given("row-histogram", gpu.row_histogram),
        *_given("event-types", None if gpu.event_types is None else (gpu.event_types,)),
        *(_answer_line(answer) for answer in gpu.answers),
        *(
            _line("process", one.pid, one.memory_mib, one.instance, one.compute) + f" {one.kind} {one.name}"
            for one in gpu.processes
        ),
        *(_line("event", one.sequence, one.type, one.data, one.instance, one.compute) for one in gpu.events),
        *(_fault_line(fault) for fault in gpu.faults),
    ]


def _answer_line(answer: Answer) -> str:
    return f"answer {answer.function} {answer.value}"


def _fault_line(fault: Fault) -> str:
    lines = [] if fault.hang_seconds is None else [f"fault {fault.function} hang {fault.hang_seconds}"]
    lines += [] if fault.error is None else [f"fault {fault.function} error {fault.error}"]
    return "\n".join(lines)


def _mig_lines(mig: Mig | None) -> list[str]:
    if mig is None:
        return []
    lines = [
        f"mig {mig.current:d} {mig.pending:d}",
        f"mig-change {'at-once' if mig.at_once else 'reset'}",
        f"mig-listed {'always' if mig.listed_when_off else 'when-on'}",
        *_given("mig-slices", None if mig.slices is None else (mig.slices,)),
        *_given("mig-units", None if mig.units is None else (mig.units,)),
    ]
    for one in mig.profiles:
        sizes = (one.number, one.id, one.slices, one.max_instances, one.size, one.multiprocessors, one.memory_mib)
        starts = ",".join(map(str, one.starts))
        lines.append(f"{_line('mig-profile', *sizes, *one.engines)} {starts} {one.name}")
    for instance in mig.instances:
        lines.append(_line("gpu-instance", instance.id, instance.profile_id, instance.start))
        lines += [_line("compute-instance", instance.id, one.id, one.slices, one.start) for one in instance.computes]
    return lines


# --- reading ----------------------------------------------------------------------------------------------


class _Section:
    """The lines of the machine, or of one GPU, by key."""

    def __init__(self, lines: list[list[str]]) -> None:
        self._lines = lines

    def all(self, key: str) -> list[list[str]]:
        return [line[1:] for line in self._lines if line[0] == key]

    def text(self, key: str) -> str:
        return " ".join(next(line[1:] for line in self._lines if line[0] == key))

    def numbers(self, key: str) -> tuple[int, ...] | None:
        found = self.all(key)
        return tuple(int(word) for word in found[-1]) if found else None

    def number(self, key: str) -> int | None:
        found = self.numbers(key)
        return found[0] if found else None


def _machine(lines: list[list[str]]) -> Machine:
    begins = [index for index, line in enumerate(lines) if line[0] == "gpu"] + [len(lines)]
    head = _Section(lines[: begins[0]])
    sections = [_Section(lines[begin:end]) for begin, end in itertools.pairwise(begins)]
    return Machine(
        driver_version=head.text("driver-version"),
        nvml_version=head.text("nvml-version"),
        cuda_version=head.number("cuda-version") or 0,
        answers=_read_answers(head),
        gpus=tuple(_read_gpu(section) for section in sections),
        faults=_read_faults(head),
    )


def _optional(word: str) -> int | None:
    return None if word == "-" else int(word, 0)


def _read_gpu(section: _Section) -> Gpu:
    address, device, subsystem = section.all("pci")[0]
    domain, bus, place = (int(part, 16) for part in address.split(":"))
    capability = section.numbers("compute-capability")
    return Gpu(
        slot=section.number("gpu") or 0,
        uuid=section.text("uuid"),
        name=section.text("name"),
        minor=section.number("minor") or 0,
        pci=(domain, bus, place),
        pci_device=_optional(device),
        pci_subsystem=_optional(subsystem),
        serial=section.text("serial") if section.all("serial") else None,
        architecture=section.number("architecture"),
        capability=(capability[0], capability[1]) if capability else None,
        memory_mib=section.number("memory-mib"),
        reserved_kib=section.number("reserved-kib") or 0,
        compute_mode=section.number("compute-mode") or 0,
        ecc=section.numbers("ecc"),
        ecc_errors=section.numbers("ecc-errors") or (0, 0, 0, 0),
        remapped_rows=section.numbers("remapped-rows"),
        row_histogram=section.numbers("row-histogram"),
        event_types=section.number("event-types"),
        mig=_read_mig(section) if section.all("mig") else None,
        processes=tuple(_read_process(words) for words in section.all("process")),
        events=tuple(_read_event(words) for words in section.all("event")),
        answers=_read_answers(section),
        faults=_read_faults(section),
    )


def _read_process(words: list[str]) -> Process:
    pid, memory, instance, compute = (_optional(word) for word in words[:4])
    return Process(pid or 0, memory, " ".join(words[5:]), words[4], instance, compute)


def _read_event(words: list[str]) -> Event:
    sequence, kind, data = (int(word, 0) for word in words[:3])
    return Event(sequence, kind, data, _optional(words[3]), _optional(words[4]))


def _read_answers(section: _Section) -> tuple[Answer, ...]:
    return tuple(Answer(function, " ".join(value)) for function, *value in section.all("answer"))


def _read_faults(section: _Section) -> tuple[Fault, ...]:
    return tuple(
        Fault(function, error=int(value)) if kind == "error" else Fault(function, hang_seconds=float(value))
        for function, kind, value in section.all("fault")
    )


def _read_mig(section: _Section) -> Mig:
    current, pending = section.numbers("mig") or (0, 0)
    return Mig(
        current=bool(current),
        pending=bool(pending),
        at_once=section.text("mig-change") == "at-once",
        listed_when_off=section.text("mig-listed") == "always",
        slices=section.number("mig-slices"),
        units=section.number("mig-units"),
        profiles=tuple(_read_profile(words) for words in section.all("mig-profile")),
        instances=tuple(_read_instance(section, words) for words in section.all("gpu-instance")),
    )


def _read_profile(words: list[str]) -> Profile:
    number, own_id, slices, most, size = (int(word) for word in words[:5])
    multiprocessors, memory, copy, decoder, encoder, jpeg, ofa = (_optional(word) for word in words[5:_COLUMNS])
    return Profile(
        number=number,
        id=own_id,
        slices=slices,
        max_instances=most,
        size=size,
        multiprocessors=multiprocessors,
        memory_mib=memory,
        engines=(copy, decoder, encoder, jpeg, ofa),
        starts=tuple(int(start) for start in words[_COLUMNS].split(",")),
        name=words[_COLUMNS + 1],
    )


def _read_instance(section: _Section, words: list[str]) -> GpuInstance:
    own_id, profile_id, start = (int(word) for word in words)
    computes = ([int(word) for word in line] for line in section.all("compute-instance"))
    return GpuInstance(
        own_id, profile_id, start, tuple(ComputeInstance(*rest) for instance, *rest in computes if instance == own_id)
    )
