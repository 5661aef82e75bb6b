"""A reading, call by call, on an NVML in Python: what is asked, and where each answer and each error of it stands."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from gpu_pools.verifier import nvml
from gpu_pools.verifier.documents import read
from gpu_pools.verifier.names import COMPUTE_MODES, compute_mode, error_name
from gpu_pools.verifier.nvml import read_nvml
from gpu_pools.verifier.reading import Reading
from sandbox.nvml import simulated
from tests.verifier import nodes
from tests.verifier.library import Library

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpu_pools.verifier.nvml import Profiles

SEVEN = {"mig": {"layout": {"1g.10gb": 7}}}
MIXED = {"mig": {"gpus": [{"index": 0, "layout": {"3g.40gb": 1, "2g.20gb": 2}}, {"index": 1, "layout": {"1g.10gb": 7}}]}}


def machine(sharing: dict[str, Any], key: str = "a100-80gb", count: int = 1, **first: Any) -> simulated.Machine:
    """A healthy machine; with changes of its first GPU."""
    made = nodes.healthy(*nodes.plan_and_pool(sharing, key=key, count=count)).machine
    return replace(made, gpus=(replace(made.gpus[0], **first), *made.gpus[1:]))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Library]:
    return lambda *arguments, **options: Library(*arguments, **options).load(monkeypatch)


def said(told: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """A reading as its parent gets it."""
    document: dict[str, Any] = json.loads(json.dumps(read_nvml(told)))
    return document


def failure(code: int, name: str, function: str) -> dict[str, Any]:
    return {"error": name, "code": code, "function": function}


@pytest.mark.parametrize(
    ("sharing", "key", "count"),
    [
        ({"exclusive": {}}, "h100-80gb", 8),
        ({"timeSlicing": {"replicas": 4}}, "t4-16gb", 2),
        ({"mps": {"replicas": 7}}, "a30-24gb", 1),
        (MIXED, "a100-80gb", 2),
        ({"mig": {"layout": {"1g.10gb+me": 1, "2g.20gb": 2}}}, "h100-80gb", 1),
        ({"mig": {"layout": {"2g.48gb": 2}}}, "rtx-pro-6000-blackwell", 1),
    ],
)
def test_a_healthy_node_is_read_right(load: Callable[..., Library], sharing: dict[str, Any], key: str, count: int) -> None:
    healthy = nodes.healthy(*nodes.plan_and_pool(sharing, key=key, count=count))
    load(healthy.machine)
    assert read(Reading, said()) == healthy.nvml


RUNNING = (
    simulated.Process(700, 1, "/usr/bin/python3", "mps"),
    simulated.Process(700, 1, "/usr/bin/python3"),
    simulated.Process(600, 1, "/usr/lib/Xorg", "graphics"),
    simulated.Process(500, 1, "server"),
    simulated.Process(400, 1, ""),
)


def test_each_answer_stands_in_its_field(load: Callable[..., Library]) -> None:
    one = machine(
        {"exclusive": {}},
        mig=None,
        uuid="GPU-1",
        name="NVIDIA X",
        pci=(1, 0xAF, 2),
        memory_mib=81559,
        compute_mode=2,
        ecc=(1, 0),
        ecc_errors=(10, 11, 12, 13),
        remapped_rows=(1, 2, 3, 4),
        processes=RUNNING,
    )
    load(replace(one, driver_version="580.1", nvml_version="13.580.1", cuda_version=12080), recovery=(0, 3), retired=1)
    assert said() == {
        "failure": None,
        "driver": "580.1",
        "nvml": "13.580.1",
        "cuda": "12.8",
        "gpus": [
            {
                "index": 0,
                "uuid": "GPU-1",
                "name": "NVIDIA X",
                "pciBus": "00000001:AF:02.0",
                "memoryMiB": 81559,
                "mig": failure(3, "NOT_SUPPORTED", "nvmlDeviceGetMigMode"),
                "profiles": [],
                "instances": [],
                "computeMode": "PROHIBITED",
                "ecc": {"current": 1, "pending": 0},
                "uncorrectedErrors": 11,
                "remappedRows": {"corrected": 1, "uncorrected": 2, "pending": 3, "failed": 4},
                "retiredPagesPending": True,
                "recoveryAction": 3,
                "processes": [
                    {"pid": 400, "kind": "compute", "name": None},
                    {"pid": 500, "kind": "compute", "name": "server"},
                    {"pid": 600, "kind": "graphics", "name": "Xorg"},
                    {"pid": 700, "kind": "compute", "name": "python3"},
                    {"pid": 700, "kind": "mps", "name": "python3"},
                ],
            }
        ],
    }


@pytest.mark.parametrize(("number", "version"), [(13000, "13.0"), (12080, "12.8"), (11040, "11.4")])
def test_cuda_s_version_is_read_as_it_is_written(load: Callable[..., Library], number: int, version: str) -> None:
    load(replace(machine({"exclusive": {}}), cuda_version=number))
    assert said()["cuda"] == version


#: Function -> the fields of the only GPU in which its error stands.
ANSWERED = {
    "nvmlDeviceGetUUID": ("uuid",),
    "nvmlDeviceGetName": ("name",),
    "nvmlDeviceGetPciInfo_v3": ("pciBus",),
    "nvmlDeviceGetMemoryInfo": ("memoryMiB",),
    "nvmlDeviceGetMigMode": ("mig", "instances"),
    "nvmlDeviceGetGpuInstanceProfileInfo": ("profiles", "instances"),
    "nvmlDeviceGetGpuInstances": ("instances",),
    "nvmlGpuInstanceGetInfo": ("instances",),
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": ("instances",),
    "nvmlGpuInstanceGetComputeInstances": ("instances",),
    "nvmlComputeInstanceGetInfo_v2": ("instances",),
    "nvmlDeviceGetComputeMode": ("computeMode",),
    "nvmlDeviceGetEccMode": ("ecc",),
    "nvmlDeviceGetTotalEccErrors": ("uncorrectedErrors",),
    "nvmlDeviceGetRemappedRows": ("remappedRows",),
    "nvmlDeviceGetRetiredPagesPendingStatus": ("retiredPagesPending",),
    "nvmlDeviceGetFieldValues": ("recoveryAction",),
    "nvmlDeviceGetComputeRunningProcesses_v3": ("processes",),
    "nvmlDeviceGetGraphicsRunningProcesses_v3": ("processes",),
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": ("processes",),
}


@pytest.mark.parametrize("function", ANSWERED)
def test_an_error_stands_where_its_answer_would_and_nowhere_else(load: Callable[..., Library], function: str) -> None:
    whole = machine(SEVEN)
    load(whole, recovery=(0, 0), retired=0)
    (before,) = said()["gpus"]
    assert (before["recoveryAction"], before["retiredPagesPending"]) == (0, False)
    load(replace(whole, faults=(simulated.Fault(f"{function}*", error=999),)), recovery=(0, 0), retired=0)
    (after,) = said()["gpus"]
    wanted = failure(999, "UNKNOWN", function)
    assert {field: after[field] for field in after if after[field] != before[field]} == dict.fromkeys(ANSWERED[function], wanted)


def test_placements_that_are_not_told_are_missing_in_their_profile_alone(load: Callable[..., Library]) -> None:
    load(replace(machine(SEVEN), faults=(simulated.Fault("nvmlDeviceGetGpuInstancePossiblePlacements*", error=4),)))
    (gpu,) = said()["gpus"]
    wanted = failure(4, "NO_PERMISSION", "nvmlDeviceGetGpuInstancePossiblePlacements")
    assert [profile["placements"] for profile in gpu["profiles"]] == [wanted] * len(gpu["profiles"])
    assert len(gpu["instances"]) == 7


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlSystemGetDriverVersion", "driver"),
        ("nvmlSystemGetNVMLVersion", "nvml"),
        ("nvmlSystemGetCudaDriverVersion", "cuda"),
        ("nvmlDeviceGetCount", "gpus"),
    ],
)
def test_an_error_of_the_whole_stands_in_its_field_too(load: Callable[..., Library], function: str, field: str) -> None:
    load(machine({"exclusive": {}}))
    before = said()
    load(replace(machine({"exclusive": {}}), faults=(simulated.Fault(f"{function}*", error=15),)))
    assert said() == {**before, field: failure(15, "GPU_IS_LOST", function)}


def test_where_nvml_does_not_start_nothing_more_is_asked(load: Callable[..., Library]) -> None:
    library = load(replace(machine({"exclusive": {}}), faults=(simulated.Fault("nvmlInit*", error=9),)))
    wanted = failure(9, "DRIVER_NOT_LOADED", "nvmlInit")
    assert said() == dict.fromkeys(("failure", "driver", "nvml", "cuda", "gpus"), wanted)
    assert library.called == ["nvmlInitWithFlags"]


def test_an_end_that_fails_takes_nothing_from_the_reading(load: Callable[..., Library]) -> None:
    library = load(replace(machine({"exclusive": {}}), faults=(simulated.Fault("nvmlShutdown", error=999),)))
    assert said()["failure"] is None
    assert library.called[-1] == "nvmlShutdown"


def test_a_gpu_that_has_no_handle_fails_in_each_field_and_the_other_is_read(load: Callable[..., Library]) -> None:
    lost = (simulated.Fault("*", error=15),)
    load(machine({"exclusive": {}}, count=2, faults=lost))
    first, second = said()["gpus"]
    assert first == {"index": 0} | dict.fromkeys(list(second)[1:], failure(15, "GPU_IS_LOST", "nvmlDeviceGetHandleByIndex"))
    assert second["index"] == 1
    assert second["uuid"].startswith("GPU-")


def test_before_each_call_it_is_told_which_and_on_which_gpu(load: Callable[..., Library]) -> None:
    load(machine({"exclusive": {}}, key="t4-16gb", count=2))
    told: list[str] = []
    said(told.append)
    assert told[:5] == [
        "nvmlInit",
        "nvmlSystemGetDriverVersion",
        "nvmlSystemGetNVMLVersion",
        "nvmlSystemGetCudaDriverVersion",
        "nvmlDeviceGetCount",
    ]
    assert told[-1] == "nvmlShutdown"
    of_gpus = told[5:-1]
    half = len(of_gpus) // 2
    assert [one.removesuffix(" on GPU 0") for one in of_gpus[:half]] == [one.removesuffix(" on GPU 1") for one in of_gpus[half:]]
    assert {one.partition(" ")[2] for one in of_gpus} == {"on GPU 0", "on GPU 1"}
    assert of_gpus[0] == "nvmlDeviceGetHandleByIndex on GPU 0"


# --- the library itself -----------------------------------------------------------------------------------


def test_a_library_that_is_not_there_is_absent(load: Callable[..., Library]) -> None:
    load(replace(machine({"exclusive": {}}), faults=(simulated.Fault("nvmlInit*", error=12),)))
    assert said()["failure"] == failure(12, "LIBRARY_NOT_FOUND", "nvmlInit")


def test_one_that_is_there_and_cannot_be_loaded_says_why(
    load: Callable[..., Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "libnvidia-ml.so.1"
    path.touch()
    monkeypatch.setattr(nvml, "LIBRARY", str(path))
    load(replace(machine({"exclusive": {}}), faults=(simulated.Fault("nvmlInit*", error=12),)))
    assert said()["failure"] == failure(12, f"{path}: file too short", "dlopen")
    load(replace(machine({"exclusive": {}}), faults=(simulated.Fault("nvmlInit*", error=9),)))
    assert said()["failure"] == failure(9, "DRIVER_NOT_LOADED", "nvmlInit")


def test_one_that_can_be_loaded_by_now_is_told_as_nvml_told_it(
    load: Callable[..., Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", "libc.so.6")
    load(replace(machine({"exclusive": {}}), faults=(simulated.Fault("nvmlInit*", error=12),)))
    assert said()["failure"] == failure(12, "LIBRARY_NOT_FOUND", "nvmlInit")


def test_names_of_errors_and_of_compute_modes_are_nvml_s_own() -> None:
    known = {getattr(pynvml, name): name.removeprefix("NVML_ERROR_") for name in dir(pynvml) if name.startswith("NVML_ERROR_")}
    named = {code: error_name(code) for code in known if error_name(code) != "NVML error"}
    assert named == {code: known[code] for code in named}
    assert set(named) == {2, 3, 4, 6, *range(9, 21), 23, 25, 27, 28, 999}
    assert [getattr(pynvml, f"NVML_COMPUTEMODE_{name}") for name in COMPUTE_MODES] == [0, 1, 2, 3]
    assert [compute_mode(number) for number in (0, 1, 2, 3, 4, 7)] == [*COMPUTE_MODES, "4", "7"]


# --- processes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Graphics", "MPSCompute"])
@pytest.mark.parametrize(("missing", "error"), [(True, 13), (False, 3)])
def test_a_list_that_a_driver_or_a_gpu_does_not_have_is_none(
    load: Callable[..., Library],
    kind: str,
    missing: bool,  # noqa: FBT001
    error: int,
) -> None:
    function = f"nvmlDeviceGet{kind}RunningProcesses*"
    one = machine({"exclusive": {}}, processes=RUNNING)
    if missing:
        load(one, missing=(function,))
    else:
        load(replace(one, faults=(simulated.Fault(function, error=error),)))
    left = {"Graphics": ["compute", "compute", "compute", "mps"], "MPSCompute": ["compute", "compute", "graphics", "compute"]}
    assert [run["kind"] for run in said()["gpus"][0]["processes"]] == left[kind]


def test_without_the_list_of_compute_processes_none_is_known(load: Callable[..., Library]) -> None:
    load(machine({"exclusive": {}}), missing=("nvmlDeviceGetComputeRunningProcesses*",))
    wanted = failure(13, "FUNCTION_NOT_FOUND", "nvmlDeviceGetComputeRunningProcesses_v3")
    assert said()["gpus"][0]["processes"] == wanted


def test_a_recovery_action_that_the_gpu_does_not_tell_is_an_error(load: Callable[..., Library]) -> None:
    load(machine({"exclusive": {}}), recovery=(2, 0))
    assert said()["gpus"][0]["recoveryAction"] == failure(2, "INVALID_ARGUMENT", "nvmlDeviceGetFieldValues")


# --- MIG --------------------------------------------------------------------------------------------------


def test_each_profile_is_read_with_its_number_and_where_it_may_lie(load: Callable[..., Library]) -> None:
    load(machine({"mig": {"layout": {"1g.10gb": 1}}}))
    profiles = {one["name"]: one for one in said()["gpus"][0]["profiles"]}
    assert profiles["3g.40gb"] == {
        "number": pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE,
        "id": 9,
        "name": "3g.40gb",
        "slices": 3,
        "maxInstances": 2,
        "memoryMiB": profiles["3g.40gb"]["memoryMiB"],
        "placements": [[0, 4], [4, 4]],
    }
    assert 35_000 < profiles["3g.40gb"]["memoryMiB"] < 41_000
    assert [one["number"] for one in profiles.values()] == sorted(one["number"] for one in profiles.values())


def test_a_driver_that_names_no_profiles_is_asked_in_the_old_way(load: Callable[..., Library]) -> None:
    whole = machine(SEVEN)
    load(whole)
    (named,) = said()["gpus"]
    load(whole, missing=("nvmlDeviceGetGpuInstanceProfileInfoV",))
    (old,) = said()["gpus"]
    assert old["profiles"] == [{**profile, "name": None} for profile in named["profiles"]]
    assert old["instances"] == named["instances"]


@pytest.mark.parametrize("code", [2, 3, 6])
def test_what_says_that_there_is_no_such_profile_is_no_error(load: Callable[..., Library], code: int) -> None:
    faults = (simulated.Fault("nvmlDeviceGetGpuInstanceProfileInfo*", error=code),)
    load(machine({"exclusive": {}}, faults=faults))
    assert [said()["gpus"][0][field] for field in ("profiles", "instances")] == [[], []]
    load(machine(SEVEN, faults=(simulated.Fault("nvmlGpuInstanceGetComputeInstanceProfileInfo*", error=code),)))
    assert [one["computes"] for one in said()["gpus"][0]["instances"]] == [[]] * 7


def test_mig_that_is_on_and_lists_no_profile_says_nothing_of_its_instances(load: Callable[..., Library]) -> None:
    load(machine(SEVEN, faults=(simulated.Fault("nvmlDeviceGetGpuInstanceProfileInfo*", error=3),)))
    (gpu,) = said()["gpus"]
    assert (gpu["profiles"], gpu["instances"]) == ([], failure(3, "NOT_SUPPORTED", "nvmlDeviceGetGpuInstanceProfileInfo"))


def test_while_mig_is_off_there_are_no_instances_whatever_fails(load: Callable[..., Library]) -> None:
    load(machine({"exclusive": {}}, faults=(simulated.Fault("nvmlDeviceGetGpuInstanceProfileInfo*", error=999),)))
    (gpu,) = said()["gpus"]
    assert (gpu["profiles"]["code"], gpu["instances"]) == (999, [])
    load(machine({"exclusive": {}}, faults=(simulated.Fault("nvmlDeviceGetGpuInstances", error=999),)))
    assert said()["gpus"][0]["instances"] == []


def test_instances_are_sorted_by_number_with_what_is_made_in_them(load: Callable[..., Library]) -> None:
    one = machine({"mig": {"layout": {"1g.10gb": 1}}})
    mig = one.gpus[0].mig
    assert mig
    parts = (simulated.ComputeInstance(1, 1, 2), simulated.ComputeInstance(0, 2, 0))
    instances = (simulated.GpuInstance(5, 9, 4, parts), simulated.GpuInstance(1, 14, 2), simulated.GpuInstance(3, 9, 0))
    load(replace(one, gpus=(replace(one.gpus[0], mig=replace(mig, instances=instances)),)))
    assert said()["gpus"][0]["instances"] == [
        {"id": 1, "profileId": 14, "start": 2, "size": 2, "computes": []},
        {"id": 3, "profileId": 9, "start": 0, "size": 4, "computes": []},
        {
            "id": 5,
            "profileId": 9,
            "start": 4,
            "size": 4,
            "computes": [{"id": 0, "slices": 2, "start": 0}, {"id": 1, "slices": 1, "start": 2}],
        },
    ]


def test_profiles_are_asked_for_once_in_an_assertion_and_anew_in_another_mode(load: Callable[..., Library]) -> None:
    known: Profiles = {}
    asked = []
    for sharing in (SEVEN, SEVEN, {"exclusive": {}}):
        library = load(machine(sharing))
        once, again = (read_nvml(lambda _: None, profiles) for profiles in ({}, known))
        assert again == once
        asked.append(sum(function.startswith("nvmlDeviceGetGpuInstanceProfileInfo") for function in library.called))
    each = asked[1]
    assert asked == [2 * each, each, 2 * each]


def test_profiles_whose_placements_failed_are_asked_for_again(load: Callable[..., Library]) -> None:
    known: Profiles = {}
    load(replace(machine(SEVEN), faults=(simulated.Fault("nvmlDeviceGetGpuInstancePossiblePlacements*", error=4),)))
    read_nvml(lambda _: None, known)
    load(machine(SEVEN))
    assert read_nvml(lambda _: None, known) == read_nvml(lambda _: None)
