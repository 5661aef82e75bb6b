# ruff: noqa: N802 - its functions are named as NVML names them
"""NVML as pynvml calls it, in Python: each function takes C's arguments and answers from a simulated machine.

For tests of what a reading asks, and of what it makes of the answers, without gcc. That real programs read the same from a
real library is held by test_nvml.py, on the one that sandbox/nvml builds. Only what a reading calls is here: whatever else is
asked is a function that this library does not have.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import pynvml

from gpu_pools.verifier import nvml_calls

if TYPE_CHECKING:
    import pytest

    from sandbox.nvml.simulated import Fault, Gpu, GpuInstance, Machine, Mig

_NOT_SUPPORTED, _NOT_FOUND, _TOO_SMALL = 3, 6, 7
_INVALID = 2
_HANDLES = (pynvml.c_nvmlDevice_t, pynvml.c_nvmlGpuInstance_t, pynvml.c_nvmlComputeInstance_t)
#: NVML_COMPUTE_INSTANCE_PROFILE_* -> slices.
_SLICES = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 5: 8, 6: 6}
_MIB = 1024 * 1024
#: What a GPU instance's and a compute instance's handle have over the number of their GPU.
_INSTANCE, _COMPUTE = 1000, 1000_000


@dataclass
class Library:
    """The library on a machine.

    Attributes:
        missing: functions that it does not have, as patterns.
        recovery: of each GPU: the error in place of the recovery action, and that.
        retired: whether pages wait to be retired; None where the GPU does not say.
        called: what was called.
    """

    machine: Machine
    missing: tuple[str, ...] = ()
    recovery: tuple[int, int] = (_NOT_SUPPORTED, 0)
    retired: int | None = None
    called: list[str] = field(default_factory=list)

    def load(self, monkeypatch: pytest.MonkeyPatch) -> Library:
        """Be what the verifier and pynvml have loaded."""
        monkeypatch.setattr(nvml_calls._Loaded, "library", self)
        monkeypatch.setattr(pynvml, "nvmlLib", self)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return self

    def __getattr__(self, name: str) -> Any:
        answers = getattr(type(self), f"_{name}", None)
        if answers is None or any(fnmatch(name, pattern) for pattern in self.missing):
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            self.called.append(name)
            return self._fault(name, arguments) or answers(self, *arguments) or 0

        return function

    def _fault(self, name: str, arguments: tuple[Any, ...]) -> int:
        faults: tuple[Fault, ...] = self.machine.faults
        if arguments and isinstance(arguments[0], _HANDLES):
            faults += self._gpu(arguments[0]).faults
        return next((fault.error or 0 for fault in faults if fnmatch(name, fault.function)), 0)

    def _gpu(self, handle: Any) -> Gpu:
        return self.machine.gpus[_number(handle) % _INSTANCE - 1]

    def _instance(self, handle: Any) -> GpuInstance:
        wanted = _number(handle) % _COMPUTE // _INSTANCE - 1
        return next(one for one in _mig(self._gpu(handle)).instances if one.id == wanted)

    # --- the machine

    def _nvmlInitWithFlags(self, flags: int) -> None:
        assert flags == 0

    def _nvmlShutdown(self) -> None:
        """There is nothing to end."""

    def _nvmlSystemGetDriverVersion(self, text: Any, _: Any) -> None:
        text.value = self.machine.driver_version.encode()

    def _nvmlSystemGetNVMLVersion(self, text: Any, _: Any) -> None:
        text.value = self.machine.nvml_version.encode()

    def _nvmlSystemGetCudaDriverVersion(self, number: Any) -> None:
        number._obj.value = self.machine.cuda_version

    def _nvmlSystemGetProcessName(self, pid: Any, text: Any, _: Any) -> int:
        names = [run.name for gpu in self.machine.gpus for run in gpu.processes if run.pid == pid.value]
        text.value = "".join(names[:1]).encode()
        return 0 if text.value else _NOT_FOUND

    def _nvmlDeviceGetCount_v2(self, number: Any) -> None:
        number._obj.value = len(self.machine.gpus)

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        if any(fault.function == "*" for fault in self.machine.gpus[index.value].faults):
            return next(fault.error or 0 for fault in self.machine.gpus[index.value].faults)
        _point(handle, index.value + 1)
        return 0

    # --- a GPU

    def _nvmlDeviceGetUUID(self, device: Any, text: Any, _: Any) -> None:
        text.value = self._gpu(device).uuid.encode()

    def _nvmlDeviceGetName(self, device: Any, text: Any, _: Any) -> None:
        text.value = self._gpu(device).name.encode()

    def _nvmlDeviceGetPciInfo_v3(self, device: Any, info: Any) -> None:
        domain, bus, number = self._gpu(device).pci
        info._obj.busId = f"{domain:08X}:{bus:02X}:{number:02X}.0".encode()

    def _nvmlDeviceGetMemoryInfo(self, device: Any, info: Any) -> int:
        memory = self._gpu(device).memory_mib
        info._obj.total = (memory or 0) * _MIB + 4711  # a real one is not a whole number of MiB
        return 0 if memory else _NOT_SUPPORTED

    def _nvmlDeviceGetMigMode(self, device: Any, current: Any, pending: Any) -> int:
        mig = self._gpu(device).mig
        return _give((current, pending), mig and (mig.current, mig.pending))

    def _nvmlDeviceGetComputeMode(self, device: Any, mode: Any) -> None:
        gpu = self._gpu(device)
        mode._obj.value = 0 if gpu.mig and gpu.mig.current else gpu.compute_mode

    def _nvmlDeviceGetEccMode(self, device: Any, current: Any, pending: Any) -> int:
        return _give((current, pending), self._gpu(device).ecc)

    def _nvmlDeviceGetTotalEccErrors(self, device: Any, kind: Any, counter: Any, count: Any) -> int:
        return _give((count,), (self._gpu(device).ecc_errors[2 * counter.value + kind.value],))

    def _nvmlDeviceGetRemappedRows(self, device: Any, *numbers: Any) -> int:
        return _give(numbers, self._gpu(device).remapped_rows)

    def _nvmlDeviceGetRetiredPagesPendingStatus(self, device: Any, pending: Any) -> int:
        del device
        return _give((pending,), None if self.retired is None else (self.retired,))

    def _nvmlDeviceGetFieldValues(self, device: Any, count: Any, values: Any) -> None:
        del device
        assert [(count.value, value.fieldId) for value in values._obj] == [(1, pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)]
        (value,) = values._obj
        value.nvmlReturn, value.value.uiVal = self.recovery

    def _nvmlDeviceGetComputeRunningProcesses_v3(self, device: Any, count: Any, array: Any) -> int:
        return self._processes("compute", device, count, array)

    def _nvmlDeviceGetGraphicsRunningProcesses_v3(self, device: Any, count: Any, array: Any) -> int:
        return self._processes("graphics", device, count, array)

    def _nvmlDeviceGetMPSComputeRunningProcesses_v3(self, device: Any, count: Any, array: Any) -> int:
        return self._processes("mps", device, count, array)

    def _processes(self, kind: str, device: Any, count: Any, array: Any) -> int:
        pids = [run.pid for run in self._gpu(device).processes if run.kind == kind]
        count._obj.value = len(pids)
        for place, pid in zip(array or (), pids, strict=False):
            place.pid = pid
        return _TOO_SMALL if pids and array is None else 0

    # --- MIG

    def _nvmlDeviceGetGpuInstanceProfileInfoV(self, device: Any, number: int, info: Any) -> int:
        code = self._nvmlDeviceGetGpuInstanceProfileInfo(device, number, info)
        if not code:
            names = {profile.number: profile.name for profile in _mig(self._gpu(device)).profiles}
            info._obj.name = f"MIG {names[number]}".encode()
        return code

    def _nvmlDeviceGetGpuInstanceProfileInfo(self, device: Any, number: int, info: Any) -> int:
        mig = self._gpu(device).mig
        listed = {one.number: one for one in mig.profiles} if mig and (mig.current or mig.listed_when_off) else {}
        if number not in listed:
            return _NOT_SUPPORTED
        one = listed[number]
        info._obj.id, info._obj.sliceCount, info._obj.instanceCount = one.id, one.slices, one.max_instances
        info._obj.memorySizeMB = one.memory_mib or 0
        return 0

    def _nvmlDeviceGetGpuInstancePossiblePlacements_v2(self, device: Any, wanted: int, array: Any, count: Any) -> None:
        (profile,) = (one for one in _mig(self._gpu(device)).profiles if one.id == wanted)
        count._obj.value = len(profile.starts)
        for place, start in zip(array._obj if array else (), profile.starts, strict=False):
            place.start, place.size = start, profile.size

    def _nvmlDeviceGetGpuInstances(self, device: Any, wanted: int, array: Any, count: Any) -> None:
        made = [one for one in _mig(self._gpu(device)).instances if one.profile_id == wanted]
        _fill(array, count, [_number(device) + _INSTANCE * (one.id + 1) for one in made])

    def _nvmlGpuInstanceGetInfo(self, handle: Any, info: Any) -> None:
        one = self._instance(handle)
        sizes = {profile.id: profile.size for profile in _mig(self._gpu(handle)).profiles}
        info._obj.id, info._obj.profileId = one.id, one.profile_id
        info._obj.placement.start, info._obj.placement.size = one.start, sizes[one.profile_id]

    def _nvmlGpuInstanceGetComputeInstanceProfileInfo(self, handle: Any, number: int, engines: int, info: Any) -> int:
        assert engines == 0
        one, slices = self._instance(handle), _SLICES.get(number)
        whole = next(profile.slices for profile in _mig(self._gpu(handle)).profiles if profile.id == one.profile_id)
        if slices is None or slices > whole:
            return _NOT_SUPPORTED
        info._obj.id, info._obj.sliceCount, info._obj.instanceCount = number, slices, whole // slices
        return 0

    def _nvmlGpuInstanceGetComputeInstances(self, handle: Any, number: int, array: Any, count: Any) -> None:
        made = [one for one in self._instance(handle).computes if one.slices == _SLICES[number]]
        _fill(array, count, [_number(handle) + _COMPUTE * (one.id + 1) for one in made])

    def _nvmlComputeInstanceGetInfo_v2(self, handle: Any, info: Any) -> None:
        wanted = _number(handle) // _COMPUTE - 1
        (one,) = (one for one in self._instance(handle).computes if one.id == wanted)
        info._obj.id, info._obj.placement.start = one.id, one.start


def _mig(gpu: Gpu) -> Mig:
    assert gpu.mig
    return gpu.mig


def _give(numbers: tuple[Any, ...], values: Any) -> int:
    """Write values where they are wanted; NOT_SUPPORTED where there are none."""
    for number, value in zip(numbers, values or (), strict=False):
        number._obj.value = value
    return 0 if values else _NOT_SUPPORTED


def _number(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _point(handle: Any, number: int) -> None:
    ctypes.memmove(handle, ctypes.byref(ctypes.c_void_p(number)), ctypes.sizeof(ctypes.c_void_p))


def _fill(array: Any, count: Any, numbers: list[int]) -> None:
    """Write handles into an array, which must be large enough: C would write beyond its end."""
    assert len(numbers) <= len(array._obj)
    for place, number in enumerate(numbers):
        array._obj[place] = ctypes.cast(number, array._obj._type_)
    count._obj.value = len(numbers)
