"""pynvml, unchanged, gets from the library what the state file says, and no more."""

from __future__ import annotations

import ctypes
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from sandbox.nvml import from_tables, simulated, state
from sandbox.nvml import library as nvml_library
from sandbox.nvml.facts import Answer

pytestmark = pytest.mark.programs

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
SOURCES = Path(nvml_library.__file__).parent / "src"
# The library's name of each struct, and pynvml's.
STRUCTS = {
    "nvmlPciInfo_t": pynvml.nvmlPciInfo_t,
    "nvmlMemory_t": pynvml.c_nvmlMemory_t,
    "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t,
    "nvmlProcessInfo_t": pynvml.c_nvmlProcessInfo_t,
    "nvmlEventData_t": pynvml.c_nvmlEventData_t,
    "nvmlRowRemapperHistogramValues_t": pynvml.c_nvmlRowRemapperHistogramValues,
    "nvmlPlacement_t": pynvml.c_nvmlGpuInstancePlacement_t,
    "nvmlGpuInstanceProfileInfo_t": pynvml.c_nvmlGpuInstanceProfileInfo_t,
    "nvmlGpuInstanceProfileInfo_v2_t": pynvml.c_nvmlGpuInstanceProfileInfo_v2_t,
    "nvmlGpuInstanceInfo_t": pynvml.c_nvmlGpuInstanceInfo_t,
    "nvmlComputeInstanceProfileInfo_t": pynvml.c_nvmlComputeInstanceProfileInfo_t,
    "nvmlComputeInstanceProfileInfo_v2_t": pynvml.c_nvmlComputeInstanceProfileInfo_v2_t,
    "nvmlComputeInstanceInfo_t": pynvml.c_nvmlComputeInstanceInfo_t,
    "nvmlDeviceAttributes_t": pynvml.c_nvmlDeviceAttributes,
}

# Seen to be called by gpu-feature-discovery 0.19.0, nvidia-device-plugin 0.19.0 and nvidia-mig-parted 0.10.0, "nvml" left out.
# They bear NOT_SUPPORTED from DeviceGetGpuFabricInfo and DeviceGetNvLinkState.
CALLED = """
Init_v2 Shutdown SystemGetDriverVersion SystemGetCudaDriverVersion SystemGetNVMLVersion EventSetCreate EventSetFree
EventSetWait_v2 DeviceGetCount_v2 DeviceGetHandleByIndex_v2 DeviceGetHandleByUUID DeviceGetHandleByPciBusId_v2 DeviceGetName
DeviceGetUUID DeviceGetIndex DeviceGetMinorNumber DeviceGetPciInfo_v3 DeviceGetMemoryInfo DeviceGetCudaComputeCapability
DeviceGetSupportedEventTypes DeviceRegisterEvents DeviceGetTopologyCommonAncestor DeviceGetMigMode DeviceSetMigMode
DeviceGetMaxMigDeviceCount DeviceGetMigDeviceHandleByIndex DeviceIsMigDeviceHandle DeviceGetDeviceHandleFromMigDeviceHandle
DeviceGetGpuInstanceId DeviceGetComputeInstanceId DeviceGetAttributes_v2 DeviceGetGpuInstanceProfileInfo
DeviceGetGpuInstanceById DeviceGetGpuInstances DeviceCreateGpuInstance DeviceCreateGpuInstanceWithPlacement
GpuInstanceGetInfo GpuInstanceDestroy GpuInstanceGetComputeInstanceProfileInfo GpuInstanceCreateComputeInstance
GpuInstanceGetComputeInstances GpuInstanceGetComputeInstanceById ComputeInstanceGetInfo_v2 ComputeInstanceDestroy
"""


def changed(nvml: Any, **fields: Any) -> None:
    """Change the first GPU of a machine."""
    nvml.change(lambda machine: replace(machine, gpus=(replace(machine.gpus[0], **fields), *machine.gpus[1:])))


def faulty(nvml: Any, *faults: simulated.Fault) -> None:
    nvml.change(lambda machine: replace(machine, faults=faults))


def known_to_pynvml() -> list[str]:
    source = Path(pynvml.__file__).read_text(encoding="utf-8")
    return sorted(set(re.findall(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)', source)))


def test_structs_are_laid_out_as_pynvml_declares_them(tmp_path: Path) -> None:
    checks = ["#include <stddef.h>", '#include "nvml_types.h"']
    for name, struct in STRUCTS.items():
        checks.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "{name}");')
        checks += [
            f'_Static_assert(offsetof({name}, {field}) == {getattr(struct, field).offset}, "{name}.{field}");'
            for field, *_ in struct._fields_
        ]
    source = tmp_path / "layout.c"
    source.write_text("\n".join(checks) + "\n")
    done = subprocess.run(["gcc", "-fsyntax-only", f"-I{SOURCES}", str(source)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_struct_of_the_library_is_compared() -> None:
    declared = re.findall(r"^} (nvml\w+_t);", (SOURCES / "nvml_types.h").read_text(), re.MULTILINE)
    assert set(declared) - {"nvmlReturn_t"} == set(STRUCTS)


def test_error_codes_are_those_of_pynvml() -> None:
    codes = dict(re.findall(r"(NVML_(?:ERROR_\w+|SUCCESS)) = (\d+)", (SOURCES / "nvml_types.h").read_text()))
    assert codes
    assert {name: getattr(pynvml, name) for name in codes} == {name: int(code) for name, code in codes.items()}


def test_every_function_that_pynvml_looks_up_is_there(bench: Any) -> None:
    names = known_to_pynvml()
    assert len(names) > 400
    assert bench.machine().missing([*names, "nvmlInit", "nvmlInit_v2", "nvmlNoSuchFunction"]) == ["nvmlNoSuchFunction"]


def test_what_the_real_programs_call_is_answered(bench: Any) -> None:
    called = [f"nvml{name}" for name in CALLED.split()]
    assert bench.machine().missing(called) == []
    stubs = set(re.findall(r"NOT_SUPPORTED\((nvml\w+)\)", (SOURCES / "stubs.inc").read_text()))
    assert stubs
    assert not stubs & set(called)


def test_what_is_only_there_says_so(bench: Any) -> None:
    nvml = bench.machine()
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetFanSpeed", nvml.gpu())
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetNumaNodeId", nvml.gpu())


def test_a_machine_says_what_it_is(bench: Any) -> None:
    nvml = bench.machine("h100-80gb", 2, driver_version="570.124.06", cuda="12.8", node="node-a")
    assert nvml.nvmlSystemGetDriverVersion() == "570.124.06"
    assert nvml.nvmlSystemGetNVMLVersion() == "12.570.124.06"
    assert nvml.nvmlSystemGetCudaDriverVersion() == nvml.nvmlSystemGetCudaDriverVersion_v2() == 12080
    assert nvml.nvmlDeviceGetCount() == 2
    second = nvml.gpu(1)
    assert nvml.nvmlDeviceGetName(second) == "NVIDIA H100 80GB HBM3"
    assert nvml.nvmlDeviceGetIndex(second) == 1
    assert nvml.nvmlDeviceGetMinorNumber(second) == 1
    assert nvml.nvmlDeviceGetCudaComputeCapability(second) == [9, 0]
    assert nvml.nvmlDeviceGetArchitecture(second) == pynvml.NVML_DEVICE_ARCH_HOPPER
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(second, nvml.gpu(0)) == pynvml.NVML_TOPOLOGY_SYSTEM
    pci = nvml.nvmlDeviceGetPciInfo(second)
    assert (pci["busId"], pci["busIdLegacy"], pci["pciDeviceId"]) == ("00000000:02:00.0", "0000:02:00.0", 0x233010DE)


def test_a_gpu_is_found_by_index_uuid_and_address(bench: Any) -> None:
    nvml = bench.machine(gpus=2)
    uuid = nvml.nvmlDeviceGetUUID(nvml.gpu(1))
    assert nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByUUID(uuid)) == 1
    for address in ("0000:02:00.0", "00000000:02:00.0"):
        assert nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByPciBusId(address)) == 1
    assert nvml.refuses(pynvml.NVML_ERROR_NOT_FOUND, "nvmlDeviceGetHandleByUUID", "GPU-none")
    assert nvml.refuses(pynvml.NVML_ERROR_NOT_FOUND, "nvmlDeviceGetHandleByPciBusId", "0000:7f:00.0")
    assert nvml.refuses(pynvml.NVML_ERROR_INVALID_ARGUMENT, "nvmlDeviceGetHandleByIndex", 2)


def test_memory_is_what_processes_and_the_driver_leave(bench: Any) -> None:
    nvml = bench.machine("h100-80gb")
    changed(
        nvml, reserved_kib=500 * 1024, processes=(simulated.Process(7, 1000, "python3"), simulated.Process(8, None, "python3"))
    )
    mib = 1024 * 1024
    memory = nvml.nvmlDeviceGetMemoryInfo(nvml.gpu())
    assert memory == {"total": 81559 * mib, "free": 80059 * mib, "used": 1500 * mib}
    newer = nvml.nvmlDeviceGetMemoryInfo(nvml.gpu(), pynvml.nvmlMemory_v2)
    assert (newer["reserved"], newer["used"], newer["free"]) == (500 * mib, 1000 * mib, 80059 * mib)
    assert nvml.refuses(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "nvmlDeviceGetMemoryInfo", nvml.gpu(), 1)


def test_processes_are_listed_by_kind(bench: Any) -> None:
    nvml = bench.machine()
    assert nvml.nvmlDeviceGetComputeRunningProcesses(nvml.gpu()) == []
    changed(
        nvml,
        processes=(
            simulated.Process(11, 100, "/usr/bin/python3 train.py"),
            simulated.Process(12, None, "Xorg", kind="graphics"),
            simulated.Process(13, 5, "worker", kind="mps"),
        ),
    )
    [process] = nvml.nvmlDeviceGetComputeRunningProcesses(nvml.gpu())
    assert (process["pid"], process["usedGpuMemory"]) == (11, 100 * 1024 * 1024)
    assert process["gpuInstanceId"] == process["computeInstanceId"] == 0xFFFFFFFF
    assert [one["usedGpuMemory"] for one in nvml.nvmlDeviceGetGraphicsRunningProcesses(nvml.gpu())] == [None]
    assert [one["pid"] for one in nvml.nvmlDeviceGetMPSComputeRunningProcesses(nvml.gpu())] == [13]
    assert nvml.nvmlSystemGetProcessName(11) == "/usr/bin/python3 train.py"
    assert nvml.refuses(pynvml.NVML_ERROR_NOT_FOUND, "nvmlSystemGetProcessName", 99)


def test_health_is_what_the_file_says(bench: Any) -> None:
    nvml = bench.machine()
    assert nvml.nvmlDeviceGetEccMode(nvml.gpu()) == [1, 1]
    assert nvml.nvmlDeviceGetRemappedRows(nvml.gpu()) == [0, 0, 0, 0]
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetRowRemapperHistogram", nvml.gpu())
    changed(nvml, ecc_errors=(1, 2, 3, 4), remapped_rows=(5, 6, 1, 0), row_histogram=(640, 0, 0, 1, 0))
    errors = [nvml.nvmlDeviceGetTotalEccErrors(nvml.gpu(), kind, counter) for counter in (0, 1) for kind in (0, 1)]
    assert errors == [1, 2, 3, 4]
    assert nvml.nvmlDeviceGetRemappedRows(nvml.gpu()) == [5, 6, 1, 0]
    assert nvml.nvmlDeviceGetRowRemapperHistogram(nvml.gpu())["low"] == 1


def test_what_is_unknown_is_not_supported(bench: Any) -> None:
    nvml = bench.machine("t4-16gb")
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetRemappedRows", nvml.gpu())
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetMigMode", nvml.gpu())
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetSerial", nvml.gpu())
    changed(nvml, capability=None, memory_mib=None, ecc=None, architecture=None)
    for function in ("CudaComputeCapability", "MemoryInfo", "EccMode", "Architecture"):
        assert nvml.refuses(NOT_SUPPORTED, f"nvmlDeviceGet{function}", nvml.gpu())


def test_simple_facts_are_what_the_file_says(bench: Any) -> None:
    nvml = bench.machine()
    answers = {
        "nvmlDeviceGetVbiosVersion": "96.00.DA.00.0C",
        "nvmlDeviceGetBrand": "14",
        "nvmlDeviceGetCurrentClocksEventReasons": str(2**40),
        "nvmlDeviceGetUtilizationRates": "80 7",
        "nvmlDeviceGetPowerManagementLimitConstraints": "200000 -",
        "nvmlDeviceGetMaxClockInfo": "1980 - 2619 1545",
        "nvmlDeviceGetGspFirmwareMode": "1 1",
    }
    changed(nvml, answers=tuple(Answer(*answer) for answer in answers.items()))
    gpu = nvml.gpu()
    assert nvml.nvmlDeviceGetVbiosVersion(gpu) == "96.00.DA.00.0C"
    assert nvml.nvmlDeviceGetBrand(gpu) == pynvml.NVML_BRAND_NVIDIA
    assert nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu) == 2**40
    assert nvml.nvmlDeviceGetUtilizationRates(gpu) == {"gpu": 80, "memory": 7}
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetPowerManagementLimitConstraints", gpu)
    assert nvml.nvmlDeviceGetMaxClockInfo(gpu, 3) == 1545
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetMaxClockInfo", gpu, 1)
    assert nvml.refuses(pynvml.NVML_ERROR_INVALID_ARGUMENT, "nvmlDeviceGetMaxClockInfo", gpu, 4)
    assert nvml.nvmlDeviceGetGspFirmwareVersion(gpu) == nvml.nvmlSystemGetDriverVersion()
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetNumGpuCores", gpu)
    assert nvml.refuses(NOT_SUPPORTED, "nvmlSystemGetConfComputeCapabilities")


def test_ecc_mode_waits_for_a_reset(bench: Any) -> None:
    nvml = bench.machine()
    nvml.nvmlDeviceSetEccMode(nvml.gpu(), 0)
    assert nvml.nvmlDeviceGetEccMode(nvml.gpu()) == [1, 0]
    nvml.change(lambda machine: replace(machine, gpus=tuple(map(simulated.after_reset, machine.gpus))))
    assert nvml.nvmlDeviceGetEccMode(nvml.gpu()) == [0, 0]
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetTotalEccErrors", nvml.gpu(), 0, 0)


def test_compute_mode_is_kept_in_the_file(bench: Any) -> None:
    nvml = bench.machine()
    nvml.nvmlDeviceSetComputeMode(nvml.gpu(), pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
    other = bench.look(nvml.path).started()
    assert other.nvmlDeviceGetComputeMode(other.gpu()) == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceSetComputeMode", nvml.gpu(), pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD)


def test_a_change_keeps_every_other_line(bench: Any) -> None:
    nvml = bench.machine(gpus=2)
    with nvml.path.open("a") as stream:
        stream.write("# a remark\nserial 1650920000001\n")
    before = nvml.path.read_text().splitlines()
    nvml.nvmlDeviceSetComputeMode(nvml.gpu(0), 3)
    after = nvml.path.read_text().splitlines()
    assert sorted(set(before) ^ set(after)) == ["compute-mode 3"]
    assert sorted(line for line in before if line != "compute-mode 0") == sorted(
        line for line in after if not line.startswith("compute-mode")
    )


def test_before_init_nothing_is_answered(bench: Any) -> None:
    nvml = bench.machine()
    gpu = nvml.gpu()
    nvml.nvmlInit()
    nvml.nvmlShutdown()
    assert nvml.nvmlDeviceGetCount() == 1
    nvml.nvmlShutdown()
    for function, *arguments in (
        ("nvmlDeviceGetCount",),
        ("nvmlDeviceGetName", gpu),
        ("nvmlDeviceGetBrand", gpu),
        ("nvmlShutdown",),
    ):
        assert nvml.refuses(pynvml.NVML_ERROR_UNINITIALIZED, function, *arguments)


def test_handles_outlive_a_shutdown(bench: Any) -> None:
    nvml = bench.machine(gpus=2)
    second = nvml.gpu(1)
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetIndex(second) == 1


def test_no_state_file_is_no_driver(bench: Any, tmp_path: Path) -> None:
    nvml = bench.look(tmp_path / "none")
    assert nvml.refuses(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "nvmlInit")


@pytest.mark.parametrize(
    "line",
    [
        *("no-such-key 1", "memory-mib much", "memory-mib 1 2", "gpu 0", "gpu 16", "gpu-instance 7 99 0", "fault nvmlInit error"),
        *("answer nvmlDeviceGetNothing 1", "answer nvmlDeviceGetBrand", "answer nvmlDeviceGetBrand GeForce"),
        *("answer nvmlDeviceGetBrand 1 2", "answer nvmlDeviceGetMaxClockInfo 1980", "answer nvmlDeviceGetVbiosVersion"),
        "answer nvmlSystemGetConfComputeCapabilities 0 1",  # of the machine: it belongs above the first GPU
    ],
)
def test_a_broken_state_file_is_refused(bench: Any, line: str) -> None:
    path = bench.put(from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 1))
    with path.open("a") as stream:
        stream.write(line + "\n")
    assert bench.look(path).refuses(pynvml.NVML_ERROR_UNKNOWN, "nvmlInit")


# --- faults -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["NOT_SUPPORTED", "NO_PERMISSION", "UNKNOWN", "GPU_IS_LOST", "RESET_REQUIRED"])
def test_a_function_can_be_made_to_fail(bench: Any, name: str) -> None:
    nvml = bench.machine()
    code = getattr(pynvml, f"NVML_ERROR_{name}")
    faulty(nvml, simulated.Fault("nvmlDeviceGetName", error=code))
    assert nvml.refuses(code, "nvmlDeviceGetName", nvml.gpu())
    assert nvml.nvmlDeviceGetIndex(nvml.gpu()) == 0
    faulty(nvml)
    assert nvml.nvmlDeviceGetName(nvml.gpu())


def test_a_stub_can_be_made_to_fail(bench: Any) -> None:
    nvml = bench.machine()
    faulty(nvml, simulated.Fault("nvmlDeviceGetFan*", error=pynvml.NVML_ERROR_UNKNOWN))
    assert nvml.refuses(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetFanSpeed", nvml.gpu())


def test_a_library_that_does_not_match_the_driver(bench: Any) -> None:
    machine = from_tables.machine_state("a100-80gb", "NVIDIA A100-SXM4-80GB", 1)
    mismatch = simulated.Fault("nvmlInit*", error=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    nvml = bench.look(bench.put(replace(machine, faults=(mismatch,))))
    assert nvml.refuses(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "nvmlInit")


def test_a_call_that_hangs(bench: Any) -> None:
    nvml = bench.machine()
    faulty(nvml, simulated.Fault("nvmlDeviceGetName", hang_seconds=600))
    nvml.send("nvmlDeviceGetName", nvml.gpu())
    # Whoever else asks is answered, and may change the machine meanwhile.
    other = bench.look(nvml.path).started()
    other.nvmlDeviceSetComputeMode(other.gpu(), 3)
    assert other.nvmlDeviceGetComputeMode(other.gpu()) == 3
    assert not nvml.has_answered()


def test_a_call_that_hangs_for_a_while_answers_then(bench: Any) -> None:
    nvml = bench.machine()
    faulty(nvml, simulated.Fault("nvmlDeviceGetName", hang_seconds=0.01))
    assert nvml.nvmlDeviceGetName(nvml.gpu()) == "NVIDIA A100-SXM4-80GB"


def test_one_gpu_is_lost_and_the_others_are_not(bench: Any) -> None:
    nvml = bench.machine(gpus=2)
    handles = [nvml.gpu(0), nvml.gpu(1)]
    changed(nvml, faults=(simulated.Fault("*", error=pynvml.NVML_ERROR_GPU_IS_LOST),))
    assert nvml.nvmlDeviceGetCount() == 2
    assert nvml.refuses(pynvml.NVML_ERROR_GPU_IS_LOST, "nvmlDeviceGetHandleByIndex", 0)
    assert nvml.refuses(pynvml.NVML_ERROR_GPU_IS_LOST, "nvmlDeviceGetMemoryInfo", handles[0])
    assert nvml.nvmlDeviceGetIndex(handles[1]) == 1


def test_a_gpu_disappears(bench: Any) -> None:
    nvml = bench.machine(gpus=3)
    handles = [nvml.gpu(index) for index in range(3)]
    nvml.change(lambda machine: replace(machine, gpus=(machine.gpus[0], machine.gpus[2])))
    assert nvml.nvmlDeviceGetCount() == 2
    assert nvml.refuses(pynvml.NVML_ERROR_GPU_IS_LOST, "nvmlDeviceGetName", handles[1])
    assert nvml.nvmlDeviceGetIndex(handles[2]) == 1
    assert nvml.nvmlDeviceGetMinorNumber(handles[2]) == 2


# --- events -----------------------------------------------------------------------------------------------


def test_an_xid_is_told_once_to_who_registered(bench: Any) -> None:
    nvml = bench.machine(gpus=2)
    xid = pynvml.nvmlEventTypeXidCriticalError
    changed(nvml, events=(simulated.Event(1, xid, 31),))
    assert nvml.nvmlDeviceGetSupportedEventTypes(nvml.gpu()) & xid
    events = nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(nvml.gpu(0), xid, events)
    assert nvml.refuses(pynvml.NVML_ERROR_TIMEOUT, "nvmlEventSetWait", events, 0)
    changed(nvml, events=(simulated.Event(1, xid, 31), simulated.Event(2, xid, 79), simulated.Event(3, xid, 48, 7, 0)))
    first, second = nvml.nvmlEventSetWait(events, 0), nvml.nvmlEventSetWait(events, 0)
    assert (first["eventType"], first["eventData"], first["gpuInstanceId"]) == (xid, 79, 0xFFFFFFFF)
    assert (second["eventData"], second["gpuInstanceId"], second["computeInstanceId"]) == (48, 7, 0)
    assert nvml.nvmlDeviceGetIndex(first["device"]) == 0
    assert nvml.refuses(pynvml.NVML_ERROR_TIMEOUT, "nvmlEventSetWait", events, 0)
    nvml.nvmlEventSetFree(events)
    assert nvml.refuses(pynvml.NVML_ERROR_INVALID_ARGUMENT, "nvmlEventSetWait", events, 0)


def test_an_event_is_awaited(bench: Any) -> None:
    nvml = bench.machine()
    events = nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(nvml.gpu(), pynvml.nvmlEventTypeXidCriticalError, events)
    nvml.send("nvmlEventSetWait", events, 600_000)
    changed(nvml, events=(simulated.Event(1, pynvml.nvmlEventTypeXidCriticalError, 79),))
    assert nvml.receive()["eventData"] == 79


def test_who_waits_for_events_of_a_lost_gpu_is_not_answered_all_the_time(bench: Any) -> None:
    """NVIDIA's device plugin asks again at once after each error."""
    nvml = bench.machine()
    events = nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(nvml.gpu(), pynvml.nvmlEventTypeXidCriticalError, events)
    faulty(nvml, simulated.Fault("nvmlEventSetWait*", error=pynvml.NVML_ERROR_GPU_IS_LOST))
    begun = time.monotonic()
    for _ in range(3):
        assert nvml.refuses(pynvml.NVML_ERROR_GPU_IS_LOST, "nvmlEventSetWait", events, 5000)
    assert time.monotonic() - begun >= 3 * 0.2


# --- several processes ------------------------------------------------------------------------------------


def test_no_change_of_two_processes_is_lost(bench: Any) -> None:
    one = bench.machine(gpus=2)
    two = bench.look(one.path).started()
    handles = {one: one.gpu(0), two: two.gpu(1)}
    for turn in range(60):
        for nvml, gpu in handles.items():
            nvml.send("nvmlDeviceSetComputeMode", gpu, 3 if turn % 2 else 0)
            nvml.send("nvmlDeviceSetEccMode", gpu, turn % 2)
    for nvml in handles:
        for _ in range(120):
            nvml.receive()
    machine = state.read(one.path)
    assert [(gpu.compute_mode, gpu.ecc) for gpu in machine.gpus] == [(3, (1, 1)), (3, (1, 1))]


def test_two_processes_share_out_the_instances(bench: Any) -> None:
    one = bench.with_mig("a100-80gb")
    two = bench.look(one.path).started()
    handles = {one: one.gpu(), two: two.gpu()}
    for nvml, gpu in handles.items():
        for _ in range(5):
            nvml.send("nvmlDeviceCreateGpuInstance", gpu, 19)
    outcomes = [nvml.outcome() for nvml in handles for _ in range(5)]
    assert outcomes.count(None) == 7
    assert outcomes.count(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES) == 3
    mig = state.read(one.path).gpus[0].mig
    assert mig is not None
    assert sorted(instance.id for instance in mig.instances) == [7, 8, 9, 10, 11, 12, 13]
