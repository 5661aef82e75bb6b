"""A process that runs pynvml, unchanged, for a test: one call a line of JSON in, its outcome a line out.

Handles stay here; the test holds numbers that stand for them, written {"handle": n}.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

import pynvml

HANDLES: list[Any] = []


def listed(function: str, owner: Any, profile: int, kind: Any) -> list[Any]:
    """What a function writes into a caller's array: instances or placements."""
    array = (kind * 32)()
    count = ctypes.c_uint(32)
    getattr(pynvml, function)(owner, profile, array, ctypes.byref(count))
    # Handles are copied: an element of the array would be the array's memory.
    return [ctypes.cast(item, kind) if issubclass(kind, ctypes._Pointer) else item for item in array[: count.value]]


def missing(names: list[str]) -> list[str]:
    """Which functions the library lacks."""
    library = ctypes.CDLL("libnvidia-ml.so.1")
    return [name for name in names if not hasattr(library, name)]


LISTS = {
    "nvmlDeviceGetGpuInstances": pynvml.c_nvmlGpuInstance_t,
    "nvmlGpuInstanceGetComputeInstances": pynvml.c_nvmlComputeInstance_t,
    "nvmlDeviceGetGpuInstancePossiblePlacements": pynvml.c_nvmlGpuInstancePlacement_t,
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements": pynvml.c_nvmlComputeInstancePlacement_t,
}


def call(function: str, arguments: list[Any]) -> Any:
    if function == "missing":
        return missing(*arguments)
    if function in LISTS:
        return listed(function, *arguments, LISTS[function])
    if function.endswith("WithPlacement"):
        owner, profile, start, size = arguments
        placement = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
        return getattr(pynvml, function)(owner, profile, ctypes.byref(placement))
    return getattr(pynvml, function)(*arguments)


def encoded(value: Any) -> Any:
    if isinstance(value, ctypes._Pointer):
        HANDLES.append(value)
        return {"handle": len(HANDLES) - 1}
    if isinstance(value, ctypes.Structure):
        return {name: encoded(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, pynvml.nvmlFriendlyObject):
        return vars(value)
    if isinstance(value, ctypes._SimpleCData):
        return value.value
    if isinstance(value, (list, tuple)):
        return [encoded(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def decoded(value: Any) -> Any:
    return HANDLES[value["handle"]] if isinstance(value, dict) else value


def main() -> None:
    for line in sys.stdin:
        function, arguments = json.loads(line)
        try:
            answer = {"value": encoded(call(function, [decoded(item) for item in arguments]))}
        except pynvml.NVMLError as error:
            answer = {"error": error.value, "text": str(error)}
        print(json.dumps(answer), flush=True)  # noqa: T201 this is the answer


if __name__ == "__main__":
    main()
