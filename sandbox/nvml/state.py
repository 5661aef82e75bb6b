"""The state file of the simulated GPU: a machine as text, and back.

README.md describes the file. Programs change it through the library; this module is for those who set a machine up, switch
a fault on, or play the reset that a pending mode waits for. Reading and writing keep every fact, but not comments.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sandbox.nvml.facts import Answer, Profile
from sandbox.nvml.simulated import ComputeInstance, Event, Fault, Gpu, GpuInstance, Machine, Mig, Process
from sandbox.system.errors import SandboxError
from sandbox.system.files import explained, locked, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

VARIABLE = "GPU_POOLS_NVML_STATE"
"""The environment variable that names the file."""


_COLUMNS = 12  # numbers in a line "mig-profile"


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
