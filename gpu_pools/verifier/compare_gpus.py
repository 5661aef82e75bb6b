"""Compares what NVML said with the expectation. Pure: no reading, no words for people beyond the findings.

Where NVML gave an error instead of an answer, the error is judged for what it says of the node: a lost GPU is a difference,
a missing permission is not, and "not supported" is neither unless the declaration needs the answer.
"""

from __future__ import annotations

from .findings import Where
from .names import LOADER
from .reading import (
    Failed,
    Gpu,
    Hung,
    Mode,
    Reading,
    RemappedRows,
    Unreadable,
    instance_name,
    instances_by_profile,
    profiles_by_id,
    why_illegal,
)

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

    from .expectation import Expectation, GpuExpectation
    from .findings import Findings

_DRIVER: Final = Where("driver")
_NVML: Final = Where("NVML")
_NODE: Final = Where("node")
#: NVML error -> cause, where the error proves that the node is not as it should be.
_PROVEN: Final = {
    9: "driver-missing", 14: "inforom", 15: "gpu-lost", 16: "gpu-reset", 18: "driver-mismatch", 28: "gpu-lost",
}  # fmt: skip
_NO_LIBRARY: Final = 12
#: The loader's words, by what they say of the file; seen with glibc.
_LOADER_WORDS: Final = (
    ("wrong ELF class", "the file is of another word size: a 32-bit library, or a 32-bit image"),
    ("file too short", "the file is empty or cut off: a driver that was not installed to its end, or a placeholder of an image"),
    ("invalid ELF header", "the file is not a library: a driver that was not installed to its end, or a placeholder of an image"),
    ("ermission denied", "the container may not read the file: its mode, or the node's SELinux or AppArmor"),
    ("not found (required by", "the image's C library is older than the driver's: take a newer image"),
    ("No such file", "another library that it needs is not in the container"),
    ("failed to map", "the file lies on a file system that nothing may be run from (noexec)"),
)
_UNKNOWN: Final = 999
#: NO_PERMISSION, and OPERATING_SYSTEM: "the GPU control device has been blocked by the operating system/cgroups".
_FORBIDDEN: Final = frozenset({4, 17})
#: NOT_SUPPORTED, FUNCTION_NOT_FOUND, NO_DATA, VGPU_ECC_NOT_SUPPORTED, ARGUMENT_VERSION_MISMATCH, DEPRECATED: the driver or the
#: GPU does not know the question.
_UNANSWERED: Final = frozenset({3, 13, 21, 22, 25, 26})
_INVALID_ARGUMENT: Final = 2
_NEWER: Final = frozenset({"recovery_action", "placements"})
#: Fields that help to explain; that they are forbidden keeps nothing from being told.
_HELPFUL: Final = frozenset({"pci_bus", "memory_mib", "profiles", "placements", "processes"})
#: NVML_GPU_RECOVERY_ACTION_*
_RECOVERY: Final = (
    "none", "reset the GPU", "reboot the node", "drain peer-to-peer work", "drain and reset the GPU", "recover the IMEX domain",
    "reset the bus", "reboot the system",
)  # fmt: skip
_SWITCH: Final = {0: "off", 1: "on"}


def compare_gpus(expected: Expectation, reading: Reading | Hung | Unreadable, findings: Findings) -> None:
    """Add everything in which the reading differs from the expectation."""
    if isinstance(reading, Hung):
        _hung(reading, findings)
    elif isinstance(reading, Unreadable):
        findings.cannot_tell(_NVML, "reading", "an answer", reading.reason, "reader-crashed")
    elif reading.failure is not None:
        _not_started(reading.failure, findings)
    else:
        _compare(expected, reading, findings)


def _hung(reading: Hung, findings: Findings) -> None:
    at = f"no answer from {reading.function or 'the library'} within {reading.seconds:g} s"
    detail = "" if reading.killable else "the process that called it cannot be killed: it waits inside the kernel"
    findings.differs(_NVML, "answer", f"within {reading.seconds:g} s", at, "nvml-hang", detail)


def _not_started(failure: Failed, findings: Findings) -> None:
    if failure.function == LOADER:
        detail = next((told for words, told in _LOADER_WORDS if words in failure.error), "")
        findings.cannot_tell(_NVML, "start", "answers", failure.error, "library-broken", detail)
    elif failure.code == _NO_LIBRARY:
        findings.cannot_tell(_NVML, "start", "answers", str(failure), "library-missing")
    elif failure.code in _FORBIDDEN:
        findings.cannot_tell(_NVML, "start", "answers", str(failure), "nvml-permission")
    elif failure.code == _UNKNOWN:
        findings.differs(_NVML, "start", "answers", str(failure), "container-lost-gpu")
    else:
        findings.differs(_NVML, "start", "answers", str(failure), _PROVEN.get(failure.code, "nvml-error"))


def _compare(expected: Expectation, reading: Reading, findings: Findings) -> None:
    _compare_driver(expected.driver, reading.driver, findings)
    _at_least(expected.minimum.driver, reading.driver, "version", findings)
    _at_least(expected.minimum.cuda, reading.cuda, "CUDA version", findings)
    if isinstance(reading.gpus, Failed):
        _judge_error(_NODE, "GPUs", reading.gpus, findings, needed=True)
        return
    if len(reading.gpus) != expected.count:
        why = "gpu-missing" if len(reading.gpus) < expected.count else "gpu-surplus"
        findings.differs(_NODE, "GPU count", expected.count, len(reading.gpus), why)
    if not expected.products:
        findings.note(f"no source gives the product names of {expected.gpu_model}: the model was not compared")
    alike = len({(gpu.mig_mode, *sorted(gpu.instances.items())) for gpu in expected.gpus}) == 1
    comparable = alike or len(reading.gpus) == expected.count
    if not comparable:
        findings.note("MIG was not compared: with another number of GPUs their indexes mean other GPUs")
    # Surplus GPUs are compared with what is declared of the last.
    declared = {gpu.index: expected.gpus[min(gpu.index, expected.count - 1)] for gpu in reading.gpus}
    right = {
        gpu.index: instances_by_profile(gpu, expected.profiles) == _present(declared[gpu.index].instances)
        for gpu in reading.gpus
        if declared[gpu.index].instances
    }
    for gpu in reading.gpus:
        _compare_gpu(expected, declared[gpu.index] if comparable else None, gpu, right, findings)


def _present(counts: Mapping[str, int]) -> dict[str, int]:
    """Without what there is none of."""
    return {name: count for name, count in counts.items() if count}


def _compare_driver(wanted: str | None, found: str | Failed, findings: Findings) -> None:
    """A branch such as 580 is any version of it. That the driver tells no version is judged with the minimum."""
    if wanted is None or isinstance(found, Failed):
        return
    numbers = _version(wanted)
    if _version(found)[: len(numbers)] != numbers:
        findings.differs(_DRIVER, "version", wanted, found, "driver-other")


def _at_least(minimum: str | None, found: str | Failed, what: str, findings: Findings) -> None:
    if isinstance(found, Failed):
        _judge_error(_DRIVER, what, found, findings, needed=minimum is not None)
    elif minimum is not None and _version(found) < _version(minimum):
        findings.differs(_DRIVER, what, f"at least {minimum}", found, "driver-old")


def _version(text: str) -> tuple[int, ...]:
    """Its numbers, whatever is between them."""
    parts = "".join(character if character.isdecimal() else " " for character in text).split()
    return tuple(map(int, parts))


# --- one GPU ----------------------------------------------------------------------------------------------


def _compare_gpu(
    expected: Expectation, wanted: GpuExpectation | None, gpu: Gpu, right: Mapping[int, bool], findings: Findings
) -> None:
    where = Where(f"GPU {gpu.index}", gpu.index, None if isinstance(gpu.uuid, Failed) else gpu.uuid)
    if not _judge_errors(where, gpu, findings):
        return
    if isinstance(gpu.name, str) and expected.products and _plain(gpu.name) not in {_plain(name) for name in expected.products}:
        findings.differs(where, "model", " or ".join(expected.products), gpu.name, "wrong-model")
    if wanted is not None:
        _compare_mig(expected, wanted, gpu, where, right, findings)
    if isinstance(gpu.compute_mode, str) and gpu.compute_mode != expected.compute_mode:
        why = _why_mode(expected.compute_mode, gpu.compute_mode)
        findings.differs(where, "compute mode", expected.compute_mode, gpu.compute_mode, why, _holders(gpu))
    _compare_health(gpu, where, findings)


def _plain(name: str) -> str:
    return "-".join(name.split()).removeprefix("NVIDIA-").lower()


def _why_mode(expected: str, observed: str) -> str:
    if (expected, observed) == ("EXCLUSIVE_PROCESS", "DEFAULT"):
        return "mps-mode-default"
    return "mode-left-over" if (expected, observed) == ("DEFAULT", "EXCLUSIVE_PROCESS") else "mode-by-hand"


def _judge_errors(where: Where, gpu: Gpu, findings: Findings) -> bool:
    """Judge the fields that hold an error, each kind of error once; whether comparing the rest makes sense."""
    errors: dict[int, tuple[str, Failed]] = {}
    for name, value in _errors_of(gpu):
        if _is_unanswered(name, value) and name not in _needed(gpu):
            continue
        if value.code in _FORBIDDEN and name in _HELPFUL:
            findings.note(f"{where}: {name.replace('_', ' ')} may not be read ({value})")
            continue
        errors.setdefault(value.code, (name, value))
    for name, failure in errors.values():
        _judge_error(where, name.replace("_", " "), failure, findings, needed=True)
    return not any(_PROVEN.get(code) == "gpu-lost" for code in errors)


def _errors_of(gpu: Gpu) -> Iterator[tuple[str, Failed]]:
    """(field, error), wherever there is one."""
    for field in Gpu.record_fields:
        value = getattr(gpu, field)
        if isinstance(value, Failed):
            yield field, value
    for profile in () if isinstance(gpu.profiles, Failed) else gpu.profiles:
        if isinstance(profile.placements, Failed):
            yield "placements", profile.placements


def _needed(gpu: Gpu) -> frozenset[str]:
    """The fields that a pass needs an answer to. What MIG needs is decided where MIG is compared."""
    # In MIG mode there is only one compute mode, and no source says whether every driver tells it.
    mig_on = isinstance(gpu.mig, Mode) and gpu.mig.current
    return frozenset({"uuid", "name"} if mig_on else {"uuid", "name", "compute_mode"})


def _is_unanswered(field: str, failure: Failed) -> bool:
    """Older drivers call what they do not know, or do not tell while MIG is off, an invalid argument."""
    return failure.code in _UNANSWERED or (field in _NEWER and failure.code == _INVALID_ARGUMENT)


def _judge_error(where: Where, field: str, failure: Failed, findings: Findings, *, needed: bool) -> None:
    if failure.code in _FORBIDDEN:
        findings.cannot_tell(where, field, "an answer", str(failure), "nvml-permission")
    elif failure.code in _UNANSWERED:
        if needed:
            findings.cannot_tell(where, field, "an answer", str(failure), "not-answered")
    else:
        findings.differs(where, field, "an answer", str(failure), _PROVEN.get(failure.code, "nvml-error"))


def _compare_health(gpu: Gpu, where: Where, findings: Findings) -> None:
    rows = gpu.remapped_rows
    if isinstance(rows, RemappedRows) and rows.failed:
        findings.differs(where, "remapped rows", "none failed", f"{rows.failed} failed", "memory-broken")
    if (isinstance(rows, RemappedRows) and rows.pending) or gpu.retired_pages_pending is True:
        findings.differs(where, "memory repair", "none pending", "pending", "memory-repair-pending")
    if isinstance(gpu.uncorrected_errors, int) and gpu.uncorrected_errors:
        findings.differs(where, "uncorrected ECC errors", 0, gpu.uncorrected_errors, "memory-errors")
    if isinstance(gpu.ecc, Mode) and gpu.ecc.current != gpu.ecc.pending:
        findings.differs(
            where,
            "ECC mode",
            f"{_switch(gpu.ecc.current)}, nothing pending",
            f"{_switch(gpu.ecc.pending)} pending",
            "ecc-pending",
        )
    if isinstance(gpu.recovery_action, int) and gpu.recovery_action:
        known = gpu.recovery_action < len(_RECOVERY)
        action = _RECOVERY[gpu.recovery_action] if known else f"action {gpu.recovery_action}"
        findings.differs(where, "recovery action", "none", action, "gpu-reset")


def _switch(mode: int) -> str:
    """Drivers of the future may have more than two."""
    return _SWITCH.get(mode, f"mode {mode}")


# --- MIG --------------------------------------------------------------------------------------------------


def _compare_mig(
    expected: Expectation, wanted: GpuExpectation, gpu: Gpu, where: Where, right: Mapping[int, bool], findings: Findings
) -> None:
    declared = wanted.mig_mode == "enabled"
    if isinstance(gpu.mig, Failed):
        # Other errors have been judged already; without MIG nothing can be left over of it.
        if gpu.mig.code in _UNANSWERED and declared:
            findings.differs(where, "MIG mode", "on", str(gpu.mig), "mig-unsupported")
        return
    _compare_mode(gpu.mig, gpu, where, findings, declared=declared)
    if not declared:
        return
    if right.get(gpu.index):
        _compare_computes(expected, gpu, where, findings)
        return
    if gpu.mig.current and not isinstance(gpu.instances, Failed):
        found = instances_by_profile(gpu, expected.profiles)
        why = "mig-layout" if found else "mig-empty"
        if found and any(right.values()):
            why = "mig-one-differs"
        findings.differs(where, "MIG instances", dict(wanted.instances), dict(found), why, _holders(gpu))
        _compare_computes(expected, gpu, where, findings)
    elif isinstance(gpu.instances, Failed) and gpu.instances.code in _UNANSWERED:
        findings.cannot_tell(where, "MIG instances", dict(wanted.instances), str(gpu.instances), "not-answered")
    _compare_legality(expected, wanted, gpu, where, findings)


def _compare_mode(mode: Mode, gpu: Gpu, where: Where, findings: Findings, *, declared: bool) -> None:
    want = int(declared)
    if (mode.current, mode.pending) == (want, want):
        return
    if mode.current == want:
        findings.differs(where, "pending MIG mode", _switch(want), _switch(mode.pending), "mig-pending")
    elif mode.pending == want:
        held = _holders(gpu)
        observed = f"{_switch(mode.current)}, {_switch(mode.pending)} pending"
        findings.differs(where, "MIG mode", _switch(want), observed, "mig-blocked" if held else "mig-pending", held)
    else:
        findings.differs(where, "MIG mode", _switch(want), _switch(mode.current), "mig-not-on" if declared else "mig-not-off")


def _holders(gpu: Gpu) -> str:
    """The processes on the GPU, in words."""
    if isinstance(gpu.processes, Failed) or not gpu.processes:
        return ""
    shown = ", ".join(f"{one.pid} {one.name or '(other namespace)'} [{one.kind}]" for one in gpu.processes)
    return f"processes on the GPU: {shown}"


def _compare_computes(expected: Expectation, gpu: Gpu, where: Where, findings: Findings) -> None:
    """Each GPU instance needs one compute instance of its whole size, and a place that its profile may have."""
    if isinstance(gpu.instances, Failed):
        return
    profiles = profiles_by_id(gpu)
    for instance in gpu.instances:
        profile = profiles.get(instance.profile_id)
        if profile is None:
            continue
        what = f"{instance_name(instance, profiles, expected.profiles)} instance {instance.id}"
        found = [compute.slices for compute in instance.computes]
        if found != [profile.slices]:
            observed = [f"{slices} of {profile.slices} slices" for slices in found]
            findings.differs(where, f"compute instances of {what}", "one of the whole size", observed or "none", "mig-half-made")
        place = (instance.start, instance.size)
        if not isinstance(profile.placements, Failed) and place not in profile.placements:
            findings.differs(where, f"placement of {what}", [list(one) for one in profile.placements], list(place), "mig-layout")


def _compare_legality(expected: Expectation, wanted: GpuExpectation, gpu: Gpu, where: Where, findings: Findings) -> None:
    if isinstance(gpu.profiles, Failed) or not gpu.profiles:
        findings.note(f"{where}: NVML lists no MIG profiles now, so that the layout fits this GPU was not checked")
        return
    reason = why_illegal(wanted.instances, gpu.profiles, expected.profiles)
    if reason:
        findings.differs(where, "declared MIG layout", dict(wanted.instances), reason, "layout-illegal")
