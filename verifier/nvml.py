"""Reads everything that the verifier wants to know from NVML, through pynvml.

Only reads. Each call's error is kept where its answer would stand. NVML is opened for one reading and closed after it: a
process that keeps it open would itself stand in the way of a reset. `verifier.child` runs this in a process of its own,
since a call may never come back; before each call the name is told to whoever listens.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pynvml

from verifier.reading import (
    ComputeInstance,
    Failed,
    Gpu,
    GpuInstance,
    Mode,
    Process,
    Profile,
    Reading,
    RemappedRows,
    compute_mode,
    failed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_Value = TypeVar("_Value")
_MIB: Final = 1024 * 1024
_MIG_NAME: Final = "MIG "
_UNCORRECTED: Final = 1
_VOLATILE: Final = 0
_PROCESS_LISTS: Final = {
    "compute": "nvmlDeviceGetComputeRunningProcesses_v3",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses_v3",
}
_NOT_SUPPORTED: Final = 3
_FUNCTION_NOT_FOUND: Final = 13
_OLD_PROFILES: Final = 1
#: Errors that say of a profile or a placement only that there is none of it now.
_ABSENT: Final = frozenset({2, 3, 6})


class _CallError(Exception):
    """An NVML error on its way to the field that it belongs to."""

    def __init__(self, failure: Failed) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Nvml:
    """NVML's functions by name; an error is a _CallError.

    Args:
        announce: told before each call which one, and on which GPU.
    """

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self.place = ""

    def __call__(self, function: str, *arguments: Any) -> Any:  # noqa: ANN401
        """Call a function of pynvml."""
        self._announce(f"{function}{self.place}")
        try:
            return getattr(pynvml, function)(*arguments)
        except pynvml.NVMLError as error:
            raise _CallError(failed(error.value, function)) from None


def read_nvml(announce: Callable[[str], None]) -> Reading:
    """Read the node once."""
    nvml = Nvml(announce)
    try:
        nvml("nvmlInit")
    except _CallError as error:
        failure = error.failure
        return Reading(failure, failure, failure, failure, failure)
    try:
        return _read(nvml)
    finally:
        _or_error(lambda: nvml("nvmlShutdown"))


def _or_error(read: Callable[[], _Value]) -> _Value | Failed:
    try:
        return read()
    except _CallError as error:
        return error.failure


def _read(nvml: Nvml) -> Reading:
    return Reading(
        failure=None,
        driver=_or_error(lambda: _text(nvml("nvmlSystemGetDriverVersion"))),
        nvml=_or_error(lambda: _text(nvml("nvmlSystemGetNVMLVersion"))),
        cuda=_or_error(lambda: _cuda(nvml("nvmlSystemGetCudaDriverVersion"))),
        gpus=_or_error(lambda: tuple(_read_gpu(nvml, index) for index in range(nvml("nvmlDeviceGetCount")))),
    )


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _read_gpu(nvml: Nvml, index: int) -> Gpu:
    nvml.place = f" on GPU {index}"
    device = _or_error(lambda: nvml("nvmlDeviceGetHandleByIndex", index))

    def ask(read: Callable[[Nvml, Any], _Value]) -> _Value | Failed:
        return device if isinstance(device, Failed) else _or_error(lambda: read(nvml, device))

    profiles = ask(_profiles)
    gpu = Gpu(
        index=index,
        uuid=ask(lambda nvml, device: _text(nvml("nvmlDeviceGetUUID", device))),
        name=ask(lambda nvml, device: _text(nvml("nvmlDeviceGetName", device))),
        pci_bus=ask(lambda nvml, device: _text(nvml("nvmlDeviceGetPciInfo_v3", device).busId)),
        memory_mib=ask(lambda nvml, device: int(nvml("nvmlDeviceGetMemoryInfo", device).total) // _MIB),
        mig=ask(lambda nvml, device: Mode(*nvml("nvmlDeviceGetMigMode", device))),
        profiles=profiles,
        instances=ask(lambda nvml, device: _instances(nvml, device, profiles)),
        compute_mode=ask(lambda nvml, device: compute_mode(nvml("nvmlDeviceGetComputeMode", device))),
        ecc=ask(lambda nvml, device: Mode(*nvml("nvmlDeviceGetEccMode", device))),
        uncorrected_errors=ask(lambda nvml, device: int(nvml("nvmlDeviceGetTotalEccErrors", device, _UNCORRECTED, _VOLATILE))),
        remapped_rows=ask(lambda nvml, device: RemappedRows(*nvml("nvmlDeviceGetRemappedRows", device))),
        retired_pages_pending=ask(lambda nvml, device: bool(nvml("nvmlDeviceGetRetiredPagesPendingStatus", device))),
        recovery_action=ask(_recovery_action),
        processes=ask(_processes),
    )
    nvml.place = ""
    return gpu


def _recovery_action(nvml: Nvml, device: object) -> int:
    function = "nvmlDeviceGetFieldValues"
    (value,) = nvml(function, device, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if value.nvmlReturn:
        raise _CallError(failed(value.nvmlReturn, function))
    return int(value.value.uiVal)


def _processes(nvml: Nvml, device: object) -> tuple[Process, ...]:
    """Those of all lists; a list that the driver or the GPU does not have is no error as long as another is there."""
    found: list[Process] = []
    lists = {kind: _or_error(functools.partial(nvml, function, device)) for kind, function in _PROCESS_LISTS.items()}
    for kind, answer in lists.items():
        if not isinstance(answer, Failed):
            found += [Process(int(one.pid), kind, _process_name(nvml, one.pid)) for one in answer]
        elif kind == "compute" or answer.code not in {_NOT_SUPPORTED, _FUNCTION_NOT_FOUND}:
            raise _CallError(answer)
    return tuple(sorted(found, key=lambda process: (process.pid, process.kind)))


def _process_name(nvml: Nvml, pid: int) -> str | None:
    """Not told where the process is of another PID namespace, or has just ended."""
    name = _or_error(lambda: _text(nvml("nvmlSystemGetProcessName", pid)))
    return None if isinstance(name, Failed) else name.rpartition("/")[2]


# --- MIG --------------------------------------------------------------------------------------------------


def _profiles(nvml: Nvml, device: object) -> tuple[Profile, ...]:
    """The profiles that NVML lists now: none while MIG is off on drivers up to 535, and on GPUs without MIG."""
    found = []
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        info = _or_error(lambda number=number: _profile_info(nvml, device, number))  # type: ignore[misc]
        if isinstance(info, Failed):
            if info.code in _ABSENT:
                continue
            raise _CallError(info)
        found.append(
            Profile(
                number=number,
                id=int(info.id),
                name=_profile_name(info),
                slices=int(info.sliceCount),
                max_instances=int(info.instanceCount),
                memory_mib=int(info.memorySizeMB),
                placements=_or_error(lambda info=info: _placements(nvml, device, info.id)),  # type: ignore[misc]
            )
        )
    return tuple(found)


def _profile_info(nvml: Nvml, device: object, number: int) -> Any:  # noqa: ANN401
    info = _or_error(lambda: nvml("nvmlDeviceGetGpuInstanceProfileInfo", device, number))
    if isinstance(info, Failed):
        if info.code == _FUNCTION_NOT_FOUND:
            return nvml("nvmlDeviceGetGpuInstanceProfileInfo", device, number, _OLD_PROFILES)
        raise _CallError(info)
    return info


def _profile_name(info: Any) -> str | None:  # noqa: ANN401
    name = _text(getattr(info, "name", "")).removeprefix(_MIG_NAME)
    return name or None


def _placements(nvml: Nvml, device: object, profile_id: int) -> tuple[tuple[int, int], ...]:
    count = ctypes.c_uint(0)
    function = "nvmlDeviceGetGpuInstancePossiblePlacements"
    nvml(function, device, profile_id, None, ctypes.byref(count))
    array = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    nvml(function, device, profile_id, ctypes.byref(array), ctypes.byref(count))
    return tuple((int(array[nth].start), int(array[nth].size)) for nth in range(count.value))


def _instances(nvml: Nvml, device: object, profiles: tuple[Profile, ...] | Failed) -> tuple[GpuInstance, ...]:
    """Instances are listed by profile: where the profiles cannot be had, nothing is known of the instances either."""
    found: dict[int, GpuInstance] = {}
    mode = _or_error(lambda: Mode(*nvml("nvmlDeviceGetMigMode", device)))
    if isinstance(mode, Failed):
        if mode.code == _NOT_SUPPORTED:
            return ()
        raise _CallError(mode)
    if not mode.current:
        return ()
    if isinstance(profiles, Failed):
        raise _CallError(profiles)
    if not profiles:
        raise _CallError(failed(_NOT_SUPPORTED, "nvmlDeviceGetGpuInstanceProfileInfo"))
    for profile in profiles:
        handles = _handles(
            lambda array, count, profile=profile: nvml("nvmlDeviceGetGpuInstances", device, profile.id, array, count),  # type: ignore[misc]
            pynvml.c_nvmlGpuInstance_t,
            profile.max_instances,
        )
        for handle in handles:
            info = nvml("nvmlGpuInstanceGetInfo", handle)
            computes = _computes(nvml, handle)
            found[int(info.id)] = GpuInstance(
                int(info.id), int(info.profileId), int(info.placement.start), int(info.placement.size), computes
            )
    return tuple(found[number] for number in sorted(found))


def _computes(nvml: Nvml, instance: object) -> tuple[ComputeInstance, ...]:
    found: dict[int, ComputeInstance] = {}
    for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        info = _or_error(lambda number=number: _compute_info(nvml, instance, number))  # type: ignore[misc]
        if isinstance(info, Failed):
            if info.code in _ABSENT:
                continue
            raise _CallError(info)
        handles = _handles(
            lambda array, count, info=info: nvml("nvmlGpuInstanceGetComputeInstances", instance, info.id, array, count),  # type: ignore[misc]
            pynvml.c_nvmlComputeInstance_t,
            int(info.instanceCount),
        )
        for handle in handles:
            made = nvml("nvmlComputeInstanceGetInfo_v2", handle)
            found[int(made.id)] = ComputeInstance(int(made.id), int(info.sliceCount), int(made.placement.start))
    return tuple(found[number] for number in sorted(found))


def _compute_info(nvml: Nvml, instance: object, number: int) -> Any:  # noqa: ANN401
    # The older struct has all that is needed, and every driver with MIG knows it.
    return nvml("nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, 0, 1)


def _handles(fill: Callable[[Any, Any], object], kind: type[Any], most: int) -> tuple[Any, ...]:
    """The handles that a function of NVML writes into an array."""
    count = ctypes.c_uint(0)
    array = (kind * most)()
    fill(ctypes.byref(array), ctypes.byref(count))
    # An array of a pointer type gives handles; they outlive it as plain addresses.
    return tuple(array[nth] for nth in range(count.value))
