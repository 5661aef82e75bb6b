"""Reads everything that the verifier wants to know from NVML (gpu_pools/verifier/nvml_calls.py calls it).

Only reads. Profiles of a GPU are asked for once in several readings. Each call's error is kept where its answer would stand.
NVML is opened for one reading and closed after it: a process that keeps it open would itself stand in the way of a reset.
`verifier.serve` runs this in a process of its own, since a call may never come back; before each call it writes the name of
the function to its parent.

What comes out is JSON, in the form of reading.py, which says what each field means: to load dataclasses would take as long as
to read the GPU.
"""

from __future__ import annotations

import ctypes

import pynvml

from .names import LOADER, compute_mode, error_name
from .nvml_calls import FUNCTION_NOT_FOUND, FUNCTIONS, LIBRARY, NO_LIBRARY, NvmlError

TYPE_CHECKING = False  # typing takes time to load, too
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, TypeVar

    _Value = TypeVar("_Value")
    Profiles = dict[tuple[str, str], list[dict[str, Any]]]

_MIB: Final = 1024 * 1024
_MIG_NAME: Final = "MIG "
_UNCORRECTED: Final = 1
_VOLATILE: Final = 0
_PROCESS_LISTS: Final = {
    "compute": "nvmlDeviceGetComputeRunningProcesses_v3",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses_v3",
}
#: glibc's words for a file that it found nowhere; of another name they speak of a library that ours needs.
_NOWHERE: Final = f"{LIBRARY}: cannot open shared object file: No such file"
_NOT_SUPPORTED: Final = 3
_OLD_PROFILES: Final = 1
#: Errors that say of a profile or a placement only that there is none of it now.
_ABSENT: Final = frozenset({2, 3, 6})


class Failure(dict[str, object]):
    """NVML answered an error: what stands in the place of the answer."""

    def __init__(self, code: int, function: str, error: str = "") -> None:
        super().__init__(error=error or error_name(code), code=code, function=function)
        self.code = code


class _CallError(Exception):
    """An NVML error on its way to the field that it belongs to."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Nvml:
    """NVML's functions by name; an error is a _CallError.

    Args:
        announce: told before each call which one, and on which GPU.
        profiles: (UUID, MIG mode) -> profiles of that GPU that are known already; added to.
    """

    def __init__(self, announce: Callable[[str], None], profiles: Profiles) -> None:
        self._announce = announce
        self.profiles = profiles
        self.place = ""

    def __call__(self, function: str, *arguments: Any) -> Any:  # noqa: ANN401
        """Call a function."""
        self._announce(f"{function}{self.place}")
        try:
            return FUNCTIONS[function](*arguments)
        except NvmlError as error:
            said = _loader_said() if error.value == NO_LIBRARY else ""
            raise _CallError(Failure(error.value, LOADER if said else function, said)) from None


def _loader_said() -> str:
    """Why the loader does not take the library that is there, in the loader's words; empty where none is there."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        return "" if str(error).startswith(_NOWHERE) else str(error)
    return ""


def read_nvml(announce: Callable[[str], None], profiles: Profiles | None = None) -> dict[str, Any]:
    """Read the node once; returns a verifier.reading.Reading as JSON.

    Args:
        announce: told before each call which one, and on which GPU.
        profiles: what readings of the same assertion have in common (Nvml).
    """
    nvml = Nvml(announce, {} if profiles is None else profiles)
    try:
        nvml("nvmlInit")
    except _CallError as error:
        return dict.fromkeys(("failure", "driver", "nvml", "cuda", "gpus"), error.failure)
    try:
        return _read(nvml)
    finally:
        _or_failure(lambda: nvml("nvmlShutdown"))


def _or_failure(read: Callable[[], _Value]) -> _Value | Failure:
    try:
        return read()
    except _CallError as error:
        return error.failure


def _read(nvml: Nvml) -> dict[str, Any]:
    return {
        "failure": None,
        "driver": _or_failure(lambda: _text(nvml("nvmlSystemGetDriverVersion"))),
        "nvml": _or_failure(lambda: _text(nvml("nvmlSystemGetNVMLVersion"))),
        "cuda": _or_failure(lambda: _cuda(nvml("nvmlSystemGetCudaDriverVersion"))),
        "gpus": _or_failure(lambda: [_read_gpu(nvml, index) for index in range(nvml("nvmlDeviceGetCount"))]),
    }


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _read_gpu(nvml: Nvml, index: int) -> dict[str, Any]:
    nvml.place = f" on GPU {index}"
    device = _or_failure(lambda: nvml("nvmlDeviceGetHandleByIndex", index))

    def ask(read: Callable[[Nvml, Any], _Value]) -> _Value | Failure:
        return device if isinstance(device, Failure) else _or_failure(lambda: read(nvml, device))

    uuid = ask(lambda nvml, device: _text(nvml("nvmlDeviceGetUUID", device)))
    mig = ask(lambda nvml, device: _mode(nvml("nvmlDeviceGetMigMode", device)))
    profiles = ask(lambda nvml, device: _known_profiles(nvml, device, uuid, mig))
    gpu = {
        "index": index,
        "uuid": uuid,
        "name": ask(lambda nvml, device: _text(nvml("nvmlDeviceGetName", device))),
        "pciBus": ask(lambda nvml, device: _text(nvml("nvmlDeviceGetPciInfo_v3", device).busId)),
        "memoryMiB": ask(lambda nvml, device: int(nvml("nvmlDeviceGetMemoryInfo", device).total) // _MIB),
        "mig": mig,
        "profiles": profiles,
        "instances": ask(lambda nvml, device: _instances(nvml, device, profiles)),
        "computeMode": ask(lambda nvml, device: compute_mode(nvml("nvmlDeviceGetComputeMode", device))),
        "ecc": ask(lambda nvml, device: _mode(nvml("nvmlDeviceGetEccMode", device))),
        "uncorrectedErrors": ask(lambda nvml, device: int(nvml("nvmlDeviceGetTotalEccErrors", device, _UNCORRECTED, _VOLATILE))),
        "remappedRows": ask(lambda nvml, device: _rows(nvml("nvmlDeviceGetRemappedRows", device))),
        "retiredPagesPending": ask(lambda nvml, device: bool(nvml("nvmlDeviceGetRetiredPagesPendingStatus", device))),
        "recoveryAction": ask(_recovery_action),
        "processes": ask(_processes),
    }
    nvml.place = ""
    return gpu


def _mode(answer: tuple[int, int]) -> dict[str, int]:
    current, pending = answer
    return {"current": current, "pending": pending}


def _rows(answer: tuple[int, int, int, int]) -> dict[str, int]:
    corrected, uncorrected, pending, failed = answer
    return {"corrected": corrected, "uncorrected": uncorrected, "pending": pending, "failed": failed}


def _recovery_action(nvml: Nvml, device: object) -> int:
    function = "nvmlDeviceGetFieldValues"
    (value,) = nvml(function, device, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if value.nvmlReturn:
        raise _CallError(Failure(value.nvmlReturn, function))
    return int(value.value.uiVal)


def _processes(nvml: Nvml, device: object) -> list[dict[str, Any]]:
    """Those of all lists; a list that the driver or the GPU does not have is not a failure as long as another is there."""
    found: list[dict[str, Any]] = []
    lists: dict[str, Any] = {}
    for kind, function in _PROCESS_LISTS.items():
        lists[kind] = _or_failure(lambda function=function: nvml(function, device))  # type: ignore[misc]
    for kind, answer in lists.items():
        if not isinstance(answer, Failure):
            found += [{"pid": int(one.pid), "kind": kind, "name": _process_name(nvml, one.pid)} for one in answer]
        elif kind == "compute" or answer.code not in {_NOT_SUPPORTED, FUNCTION_NOT_FOUND}:
            raise _CallError(answer)
    return sorted(found, key=lambda process: (process["pid"], process["kind"]))


def _process_name(nvml: Nvml, pid: int) -> str | None:
    """Not told where the process is of another PID namespace, or has just ended."""
    name = _or_failure(lambda: _text(nvml("nvmlSystemGetProcessName", pid)))
    return None if isinstance(name, Failure) else name.rpartition("/")[2]


# --- MIG --------------------------------------------------------------------------------------------------


def _known_profiles(nvml: Nvml, device: object, uuid: str | Failure, mig: dict[str, int] | Failure) -> list[dict[str, Any]]:
    """The profiles of a GPU in a MIG mode: asked for once, since they are the hardware's, and take a third of a reading."""
    key = (str(uuid), str(mig))
    known = nvml.profiles.get(key)
    if known is None:
        known = _profiles(nvml, device)
        if not isinstance(uuid, Failure) and not any(isinstance(profile["placements"], Failure) for profile in known):
            nvml.profiles[key] = known
    return known


def _profiles(nvml: Nvml, device: object) -> list[dict[str, Any]]:
    """The profiles that NVML lists now: none while MIG is off on drivers up to 535, and on GPUs without MIG."""
    found: list[dict[str, Any]] = []
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        info = _or_failure(lambda number=number: _profile_info(nvml, device, number))  # type: ignore[misc]
        if isinstance(info, Failure):
            if info.code in _ABSENT:
                continue
            raise _CallError(info)
        found.append(
            {
                "number": number,
                "id": int(info.id),
                "name": _profile_name(info),
                "slices": int(info.sliceCount),
                "maxInstances": int(info.instanceCount),
                "memoryMiB": int(info.memorySizeMB),
                "placements": _or_failure(lambda info=info: _placements(nvml, device, info.id)),  # type: ignore[misc]
            }
        )
    return found


def _profile_info(nvml: Nvml, device: object, number: int) -> Any:  # noqa: ANN401
    info = _or_failure(lambda: nvml("nvmlDeviceGetGpuInstanceProfileInfo", device, number))
    if isinstance(info, Failure):
        if info.code == FUNCTION_NOT_FOUND:
            return nvml("nvmlDeviceGetGpuInstanceProfileInfo", device, number, _OLD_PROFILES)
        raise _CallError(info)
    return info


def _profile_name(info: Any) -> str | None:  # noqa: ANN401
    name = _text(getattr(info, "name", "")).removeprefix(_MIG_NAME)
    return name or None


def _placements(nvml: Nvml, device: object, profile_id: int) -> list[tuple[int, int]]:
    count = ctypes.c_uint(0)
    function = "nvmlDeviceGetGpuInstancePossiblePlacements"
    nvml(function, device, profile_id, None, ctypes.byref(count))
    array = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    nvml(function, device, profile_id, ctypes.byref(array), ctypes.byref(count))
    return [(int(array[nth].start), int(array[nth].size)) for nth in range(count.value)]


def _instances(nvml: Nvml, device: object, profiles: list[dict[str, Any]] | Failure) -> list[dict[str, Any]]:
    """Instances are listed by profile: where the profiles cannot be had, nothing is known of the instances either."""
    found: dict[int, dict[str, Any]] = {}
    mode = _or_failure(lambda: _mode(nvml("nvmlDeviceGetMigMode", device)))
    if isinstance(mode, Failure):
        if mode.code == _NOT_SUPPORTED:
            return []
        raise _CallError(mode)
    if not mode["current"]:
        return []
    if isinstance(profiles, Failure):
        raise _CallError(profiles)
    if not profiles:
        raise _CallError(Failure(_NOT_SUPPORTED, "nvmlDeviceGetGpuInstanceProfileInfo"))
    for profile in profiles:
        handles = _handles(
            lambda array, count, profile=profile: nvml("nvmlDeviceGetGpuInstances", device, profile["id"], array, count),  # type: ignore[misc]
            pynvml.c_nvmlGpuInstance_t,
            profile["maxInstances"],
        )
        for handle in handles:
            info = nvml("nvmlGpuInstanceGetInfo", handle)
            found[int(info.id)] = {
                "id": int(info.id),
                "profileId": int(info.profileId),
                "start": int(info.placement.start),
                "size": int(info.placement.size),
                "computes": _computes(nvml, handle),
            }
    return [found[number] for number in sorted(found)]


def _computes(nvml: Nvml, instance: object) -> list[dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        info = _or_failure(lambda number=number: _compute_info(nvml, instance, number))  # type: ignore[misc]
        if isinstance(info, Failure):
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
            start = int(made.placement.start)
            found[int(made.id)] = {"id": int(made.id), "slices": int(info.sliceCount), "start": start}
    return [found[number] for number in sorted(found)]


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
