"""Records what NVML answers on the first GPU of this machine: ``python record.py > model.json``. It only reads.

The answers are what the simulated GPU is compared with. What names one single GPU or machine (UUIDs, serial numbers, bus
addresses, processes) is replaced or left out; what moves (clocks, temperatures, memory in use) is recorded as it was.
Needs pynvml (nvidia-ml-py) alone.
"""

from __future__ import annotations

import ctypes
import json
import re
from typing import Any, Final

import pynvml as nvml

SYSTEM: Final = (
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetConfComputeCapabilities",
    "nvmlDeviceGetCount",
)
#: Asked with the device's handle alone.
DEVICE: Final = (
    "nvmlDeviceGetName",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetBoardPartNumber",
    "nvmlDeviceGetBoardId",
    "nvmlDeviceGetMultiGpuBoard",
    "nvmlDeviceGetInforomImageVersion",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetMemoryBusWidth",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetDisplayMode",
    "nvmlDeviceGetDisplayActive",
    "nvmlDeviceGetDriverModel",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetDefaultEccMode",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRowRemapperHistogram",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
    "nvmlDeviceGetAttributes",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceGetHostVgpuMode",
    "nvmlDeviceGetGpuOperationMode",
    "nvmlDeviceGetAccountingMode",
    "nvmlDeviceGetPowerManagementMode",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetPowerState",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetGspFirmwareVersion",
    "nvmlDeviceGetGspFirmwareMode",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetFanSpeed",
    "nvmlDeviceGetNumFans",
    "nvmlDeviceGetNumaNodeId",
    "nvmlDeviceGetConfComputeMemSizeInfo",
    "nvmlDeviceGetInforomConfigurationChecksum",
)
#: Asked once for each number from 0 up to the given one, it left out.
COUNTED: Final = {
    "nvmlDeviceGetGpuInstanceProfileInfo": 18,
    "nvmlDeviceGetGpuInstanceRemainingCapacity": 24,
    "nvmlDeviceGetMigDeviceHandleByIndex": 8,
    "nvmlDeviceGetNvLinkState": 18,
    "nvmlDeviceGetNvLinkVersion": 18,
    "nvmlDeviceGetMaxClockInfo": 4,
    "nvmlDeviceGetTemperatureThreshold": 8,
    "nvmlDeviceGetRetiredPages": 2,
}
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ADDRESS: Final = re.compile(r"\b([0-9A-Fa-f]{4,8}):[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.([0-9A-Fa-f])\b")
_OF_ONE_GPU: Final = {"nvmlDeviceGetSerial", "nvmlDeviceGetBoardId", "nvmlDeviceGetMinorNumber"}


def plain(value: Any) -> Any:
    """A ctypes value as JSON, without what names one GPU."""
    if isinstance(value, ctypes.Structure):
        fields = {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
        return {name: 0 if name in {"bus", "domain", "device"} and "busId" in fields else one for name, one in fields.items()}
    if isinstance(value, ctypes.Array | list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, ctypes._SimpleCData):
        value = value.value
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return _ADDRESS.sub(r"\1:00:00.\2", _UUID.sub("00000000-0000-0000-0000-000000000000", value))
    return value if isinstance(value, int | float | bool | None) else f"<{type(value).__name__}>"


def ask(function: str, *arguments: Any) -> Any:
    """What a function answers, or its error."""
    if not hasattr(nvml, function):
        return {"error": "not in pynvml"}
    try:
        answer = getattr(nvml, function)(*arguments)
    except nvml.NVMLError as error:
        return {"error": f"{type(error).__name__}", "code": error.value}
    except TypeError as error:
        return {"error": f"asked wrongly: {error}"}
    return "<of one GPU>" if function in _OF_ONE_GPU else plain(answer)


def read() -> dict[str, Any]:
    """Everything, of the first GPU."""
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    device = {name: ask(name, handle) for name in DEVICE}
    device |= {name: [ask(name, handle, number) for number in range(end)] for name, end in COUNTED.items()}
    device["nvmlDeviceGetMemoryInfo v2"] = ask("nvmlDeviceGetMemoryInfo", handle, nvml.nvmlMemory_v2)
    kinds = ((kind, counter) for kind in range(2) for counter in range(2))
    device["nvmlDeviceGetTotalEccErrors"] = {
        f"{kind}/{counter}": ask("nvmlDeviceGetTotalEccErrors", handle, kind, counter) for kind, counter in kinds
    }
    return {"system": {name: ask(name) for name in SYSTEM}, "device": device}


if __name__ == "__main__":
    print(json.dumps(read(), indent=1))  # noqa: T201 the recording is the output
