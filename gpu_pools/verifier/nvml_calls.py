"""Calls NVML's functions, by ctypes, under the names and with the results that pynvml gives them.

Of pynvml only the structs go to the nodes (archive.py): to load the functions that a reading needs would take as long as all the
rest of the process. A test compares what each of them answers with what pynvml's own does, on the same library.
"""

from __future__ import annotations

import ctypes

import pynvml

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

LIBRARY: Final = "libnvidia-ml.so.1"
NO_LIBRARY: Final = 12
FUNCTION_NOT_FOUND: Final = 13
_TOO_SMALL: Final = 7
#: Bytes of the texts that NVML writes (nvml.h: NVML_DEVICE_NAME_V2_BUFFER_SIZE and others; of a process name any number will do).
_TEXT_BYTES: Final = 96
_NAME_BYTES: Final = 1024
_VERSION_BYTES: Final = 80
#: More places than there were processes a moment ago.
_MORE: Final = 5
_SECOND: Final = 2


class NvmlError(Exception):
    """NVML answered an error.

    Attributes:
        value: its code.
    """

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class _Loaded:
    """The library, once it has been loaded."""

    library: Any = None


def nvml_init() -> None:
    """Load the library, and start NVML.

    Raises:
        NvmlError: where either is not possible.
    """
    if _Loaded.library is None:
        try:
            _Loaded.library = ctypes.CDLL(LIBRARY)
        except OSError:
            raise NvmlError(NO_LIBRARY) from None
    _call("nvmlInitWithFlags", 0)


def _call(name: str, *arguments: Any) -> None:  # noqa: ANN401 - what C takes
    try:
        function = getattr(_Loaded.library, name)
    except AttributeError:
        raise NvmlError(FUNCTION_NOT_FOUND) from None
    code = function(*arguments)
    if code:
        raise NvmlError(code)


def _text(name: str, *before: Any, size: int = _TEXT_BYTES) -> bytes:  # noqa: ANN401
    text = ctypes.create_string_buffer(size)
    _call(name, *before, text, ctypes.c_uint(size))
    return text.value


def _number(name: str, *before: Any) -> int:  # noqa: ANN401
    number = ctypes.c_uint()
    _call(name, *before, ctypes.byref(number))
    return number.value


def _numbers(name: str, count: int, *before: Any) -> list[int]:  # noqa: ANN401
    numbers = [ctypes.c_uint() for _ in range(count)]
    _call(name, *before, *map(ctypes.byref, numbers))
    return [number.value for number in numbers]


def _filled(struct: Any, name: str, *before: Any) -> Any:  # noqa: ANN401
    _call(name, *before, ctypes.byref(struct))
    return struct


def _ecc_errors(device: Any, kind: int, counter: int) -> int:  # noqa: ANN401
    name = "nvmlDeviceGetTotalEccErrors"
    return int(_filled(ctypes.c_ulonglong(), name, device, ctypes.c_uint(kind), ctypes.c_uint(counter)).value)


def _handle(index: int) -> Any:  # noqa: ANN401
    return _filled(pynvml.c_nvmlDevice_t(), "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index))


def _field_values(device: Any, fields: list[int]) -> Any:  # noqa: ANN401
    values = (pynvml.c_nvmlFieldValue_t * len(fields))()
    for value, field in zip(values, fields, strict=True):
        value.fieldId = field
    _call("nvmlDeviceGetFieldValues", device, ctypes.c_int32(len(fields)), ctypes.byref(values))
    return values


def _processes(name: str, device: Any) -> list[Any]:  # noqa: ANN401
    count = ctypes.c_uint(0)
    try:
        _call(name, device, ctypes.byref(count), None)
    except NvmlError as error:
        if error.value != _TOO_SMALL:
            raise
    else:
        return []
    count.value = 2 * count.value + _MORE
    found = (pynvml.c_nvmlProcessInfo_v2_t * count.value)()
    _call(name, device, ctypes.byref(count), found)
    return list(found[: count.value])


def _gpu_profile(device: Any, number: int, version: int = _SECOND) -> Any:  # noqa: ANN401
    name = "nvmlDeviceGetGpuInstanceProfileInfo"
    if version == _SECOND:
        return _filled(pynvml.c_nvmlGpuInstanceProfileInfo_v2_t(), f"{name}V", device, number)
    return _filled(pynvml.c_nvmlGpuInstanceProfileInfo_t(), name, device, number)


def _compute_profile(instance: Any, number: int, engines: int, version: int) -> Any:  # noqa: ANN401
    del version  # the first one alone is asked for
    info = pynvml.c_nvmlComputeInstanceProfileInfo_t()
    return _filled(info, "nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, engines)


def _process_list(name: str) -> tuple[str, Callable[..., Any]]:
    return name, lambda device: _processes(name, device)


#: What a reading calls, by pynvml's name.
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = dict(
    [
        ("nvmlInit", nvml_init),
        ("nvmlShutdown", lambda: _call("nvmlShutdown")),
        ("nvmlSystemGetDriverVersion", lambda: _text("nvmlSystemGetDriverVersion", size=_VERSION_BYTES)),
        ("nvmlSystemGetNVMLVersion", lambda: _text("nvmlSystemGetNVMLVersion", size=_VERSION_BYTES)),
        ("nvmlSystemGetCudaDriverVersion", lambda: _number("nvmlSystemGetCudaDriverVersion")),
        ("nvmlSystemGetProcessName", lambda pid: _text("nvmlSystemGetProcessName", ctypes.c_uint(pid), size=_NAME_BYTES)),
        ("nvmlDeviceGetCount", lambda: _number("nvmlDeviceGetCount_v2")),
        ("nvmlDeviceGetHandleByIndex", _handle),
        ("nvmlDeviceGetUUID", lambda device: _text("nvmlDeviceGetUUID", device)),
        ("nvmlDeviceGetName", lambda device: _text("nvmlDeviceGetName", device)),
        ("nvmlDeviceGetPciInfo_v3", lambda device: _filled(pynvml.nvmlPciInfo_t(), "nvmlDeviceGetPciInfo_v3", device)),
        ("nvmlDeviceGetMemoryInfo", lambda device: _filled(pynvml.c_nvmlMemory_t(), "nvmlDeviceGetMemoryInfo", device)),
        ("nvmlDeviceGetMigMode", lambda device: _numbers("nvmlDeviceGetMigMode", 2, device)),
        ("nvmlDeviceGetComputeMode", lambda device: _number("nvmlDeviceGetComputeMode", device)),
        ("nvmlDeviceGetEccMode", lambda device: _numbers("nvmlDeviceGetEccMode", 2, device)),
        ("nvmlDeviceGetTotalEccErrors", _ecc_errors),
        ("nvmlDeviceGetRemappedRows", lambda device: _numbers("nvmlDeviceGetRemappedRows", 4, device)),
        (
            "nvmlDeviceGetRetiredPagesPendingStatus",
            lambda device: _number("nvmlDeviceGetRetiredPagesPendingStatus", device),
        ),
        ("nvmlDeviceGetFieldValues", _field_values),
        *map(
            _process_list,
            (
                "nvmlDeviceGetComputeRunningProcesses_v3",
                "nvmlDeviceGetGraphicsRunningProcesses_v3",
                "nvmlDeviceGetMPSComputeRunningProcesses_v3",
            ),
        ),
        ("nvmlDeviceGetGpuInstanceProfileInfo", _gpu_profile),
        (
            "nvmlDeviceGetGpuInstancePossiblePlacements",
            lambda *arguments: _call("nvmlDeviceGetGpuInstancePossiblePlacements_v2", *arguments),
        ),
        ("nvmlDeviceGetGpuInstances", lambda *arguments: _call("nvmlDeviceGetGpuInstances", *arguments)),
        (
            "nvmlGpuInstanceGetInfo",
            lambda instance: _filled(pynvml.c_nvmlGpuInstanceInfo_t(), "nvmlGpuInstanceGetInfo", instance),
        ),
        ("nvmlGpuInstanceGetComputeInstanceProfileInfo", _compute_profile),
        (
            "nvmlGpuInstanceGetComputeInstances",
            lambda *arguments: _call("nvmlGpuInstanceGetComputeInstances", *arguments),
        ),
        (
            "nvmlComputeInstanceGetInfo_v2",
            lambda instance: _filled(pynvml.c_nvmlComputeInstanceInfo_t(), "nvmlComputeInstanceGetInfo_v2", instance),
        ),
    ]
)
