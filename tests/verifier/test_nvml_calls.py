"""Each function of NVML that a reading calls gives what pynvml's own gives, on the same library."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from gpu_pools.verifier.nvml_calls import FUNCTIONS, NvmlError
from sandbox.nvml import simulated
from tests.verifier import nodes
from tests.verifier.library import Library

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = (simulated.Process(7, 100, "/usr/bin/a", "compute", 1, 0), simulated.Process(8, 100, "/usr/bin/b", "graphics"))
#: Those that write into an array.
ARRAYS: dict[str, tuple[Any, int]] = {
    "nvmlDeviceGetGpuInstancePossiblePlacements": (pynvml.c_nvmlGpuInstancePlacement_t, 8),
    "nvmlDeviceGetGpuInstances": (pynvml.c_nvmlGpuInstance_t, 7),
    "nvmlGpuInstanceGetComputeInstances": (pynvml.c_nvmlComputeInstance_t, 7),
}
#: Those that ask nothing of a GPU.
OF_THE_NODE = ("nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount")


def machine() -> simulated.Machine:
    made = nodes.healthy(*nodes.plan_and_pool({"mig": {"layout": {"1g.10gb": 7}}})).machine
    return replace(made, gpus=(replace(made.gpus[0], processes=RUNS, remapped_rows=(1, 0, 0, 0)),))


def plain(value: Any) -> Any:
    """A value of ctypes as Python's own; of a process its number, which is all that a reading takes."""
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "pid"):
        return value.pid
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [plain(one) for one in value]
    if isinstance(value, ctypes._Pointer):
        return ctypes.cast(value, ctypes.c_void_p).value
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    return value


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        # pynvml's functions that write into an array return a code, which is 0.
        return plain(call(*arguments)) or None
    except (NvmlError, pynvml.NVMLError) as error:
        return ("error", error.value)


def arguments_of(name: str) -> tuple[Any, ...]:
    if name in OF_THE_NODE or name.startswith("nvmlSystemGet"):
        return (7,) if name.endswith("ProcessName") else ()
    device = FUNCTIONS["nvmlDeviceGetHandleByIndex"](0)
    handles, made = (pynvml.c_nvmlGpuInstance_t * 7)(), (pynvml.c_nvmlComputeInstance_t * 7)()
    FUNCTIONS["nvmlDeviceGetGpuInstances"](device, 19, ctypes.byref(handles), ctypes.byref(ctypes.c_uint()))
    FUNCTIONS["nvmlGpuInstanceGetComputeInstances"](handles[0], 0, ctypes.byref(made), ctypes.byref(ctypes.c_uint()))
    return {
        "nvmlDeviceGetHandleByIndex": (0,),
        "nvmlDeviceGetTotalEccErrors": (device, 1, 0),
        "nvmlDeviceGetFieldValues": (device, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]),
        "nvmlDeviceGetGpuInstanceProfileInfo": (device, pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE),
        "nvmlDeviceGetGpuInstancePossiblePlacements": (device, 19),
        "nvmlDeviceGetGpuInstances": (device, 19),
        "nvmlGpuInstanceGetInfo": (handles[0],),
        "nvmlGpuInstanceGetComputeInstanceProfileInfo": (handles[0], 0, 0, 1),
        "nvmlGpuInstanceGetComputeInstances": (handles[0], 0),
        "nvmlComputeInstanceGetInfo_v2": (made[0],),
    }.get(name, (device,))


def both(name: str, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """What ours and pynvml's say, and have written."""
    said: list[Any] = []
    for call in (FUNCTIONS[name], getattr(pynvml, name)):
        kind, most = ARRAYS.get(name, (ctypes.c_uint, 0))
        array, count = (kind * most)(), ctypes.c_uint()
        more = (ctypes.byref(array), ctypes.byref(count)) if most else ()
        said.append((outcome(call, *arguments, *more), plain(array), count.value))
    return said[0], said[1]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_answers_what_pynvml_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(machine(), recovery=(0, 2), retired=1).load(monkeypatch)
    arguments = arguments_of(name)
    library.called.clear()
    ours, theirs = both(name, arguments)
    assert ours == theirs
    assert not isinstance(ours[0], tuple), "the library answers all of them"
    called = library.called
    assert called[: len(called) // 2] == called[len(called) // 2 :]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("code", [3, 15, 999])
def test_it_gives_the_error_that_pynvml_gives(name: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(machine()).load(monkeypatch)
    arguments = arguments_of(name)
    library.machine = replace(machine(), faults=(simulated.Fault("*", error=code),))
    ours, theirs = both(name, arguments)
    assert ours == theirs
    assert ours[0] == ("error", code)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_the_driver_lacks_is_told_as_pynvml_tells_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(machine()).load(monkeypatch)
    arguments = arguments_of(name)
    library.missing = ("*",)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    ours, theirs = both(name, arguments)
    assert ours == theirs
    assert ours[0] == ("error", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
