"""MIG on the simulated GPU: the mode, and instances that obey the model's placement rules, asked through unchanged pynvml."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from gpu_pools.hardware.models import model, model_keys
from gpu_pools.mig.geometry import most_of, place
from sandbox.nvml import simulated, state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_pools.hardware.models import GpuModel

pytestmark = pytest.mark.programs

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
INVALID = pynvml.NVML_ERROR_INVALID_ARGUMENT
IN_USE = pynvml.NVML_ERROR_IN_USE
FULL = pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
KNOWN = [key for key in model_keys() if model(key).profiles]
LAYOUTS_PER_MODEL = 30
# Driver 580 refuses 17, which newer headers know (tests/sandbox/readings).
PROFILE_COUNT = 17


def ids(key: str) -> dict[str, int]:
    """Profile name -> the id that creating takes."""
    return {name: profile.profile_id for name, profile in (model(key).profiles or {}).items() if profile.profile_id is not None}


def create(nvml: Any, *profile_ids: int) -> list[int]:
    """Make GPU instances one after the other; their numbers."""
    made = [nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(), profile) for profile in profile_ids]
    return [nvml.nvmlGpuInstanceGetInfo(instance)["id"] for instance in made]


def create_all(nvml: Any, profiles: Iterable[int]) -> bool:
    """Make GPU instances one after the other, and say whether all of them fitted."""
    return not any(nvml.refuses(FULL, "nvmlDeviceCreateGpuInstance", nvml.gpu(), profile) for profile in profiles)


def clear(nvml: Any) -> None:
    """Take all instances off the first GPU, at once."""

    def without(machine: simulated.Machine) -> simulated.Machine:
        [gpu] = machine.gpus
        assert gpu.mig is not None
        return replace(machine, gpus=(replace(gpu, mig=replace(gpu.mig, instances=())),))

    nvml.change(without)


def placements(nvml: Any) -> set[tuple[int, int, int]]:
    """What sits where: profile id, start, size."""
    [gpu] = state.read(nvml.path).gpus
    assert gpu.mig is not None
    sizes = {profile.id: profile.size for profile in gpu.mig.profiles}
    return {(one.profile_id, one.start, sizes[one.profile_id]) for one in gpu.mig.instances}


def random_layouts(known: GpuModel, count: int) -> list[dict[str, int]]:
    """Layouts of two to four instances, the same in every run; about half of them fit."""
    chance = random.Random(known.key)  # noqa: S311 no secret
    names = sorted(known.profiles or {})
    return [dict(Counter(chance.choices(names, k=chance.randint(2, 4)))) for _ in range(count)]


# --- mode -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["a100-80gb", "a30-24gb"])
def test_on_ampere_a_mode_change_waits_for_a_reset(bench: Any, key: str) -> None:
    nvml = bench.machine(key)
    assert nvml.nvmlDeviceGetMigMode(nvml.gpu()) == [0, 0]
    assert nvml.nvmlDeviceSetMigMode(nvml.gpu(), 1) == pynvml.NVML_ERROR_RESET_REQUIRED
    assert nvml.nvmlDeviceGetMigMode(nvml.gpu()) == [0, 1]
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceCreateGpuInstance", nvml.gpu(), 0)
    nvml.change(lambda machine: replace(machine, gpus=tuple(map(simulated.after_reset, machine.gpus))))
    assert nvml.nvmlDeviceGetMigMode(nvml.gpu()) == [1, 1]


@pytest.mark.parametrize("key", ["h100-80gb", "b200-180gb", "rtx-pro-6000-blackwell"])
def test_later_a_mode_change_holds_at_once(bench: Any, key: str) -> None:
    nvml = bench.machine(key)
    assert nvml.nvmlDeviceSetMigMode(nvml.gpu(), 1) == pynvml.NVML_SUCCESS
    assert nvml.nvmlDeviceGetMigMode(nvml.gpu()) == [1, 1]
    assert nvml.nvmlDeviceSetMigMode(nvml.gpu(), 0) == pynvml.NVML_SUCCESS
    assert nvml.nvmlDeviceGetMigMode(nvml.gpu()) == [0, 0]


def test_a_pending_change_can_be_taken_back(bench: Any) -> None:
    nvml = bench.machine("a100-80gb")
    nvml.nvmlDeviceSetMigMode(nvml.gpu(), 1)
    assert nvml.nvmlDeviceSetMigMode(nvml.gpu(), 0) == pynvml.NVML_SUCCESS
    assert nvml.nvmlDeviceGetMigMode(nvml.gpu()) == [0, 0]


def test_a_gpu_in_use_keeps_its_mode(bench: Any) -> None:
    nvml = bench.with_mig("h100-80gb")
    create(nvml, 19)
    assert nvml.nvmlDeviceSetMigMode(nvml.gpu(), 0) == IN_USE
    assert nvml.nvmlDeviceGetMigMode(nvml.gpu()) == [1, 0]
    busy = bench.machine("h100-80gb")
    busy.change(lambda machine: replace(machine, gpus=(replace(machine.gpus[0], processes=(simulated.Process(5, 1, "dcgm"),)),)))
    assert busy.nvmlDeviceSetMigMode(busy.gpu(), 1) == IN_USE
    assert busy.nvmlDeviceGetMigMode(busy.gpu()) == [0, 1]


def test_a_reset_takes_the_instances(bench: Any) -> None:
    nvml = bench.with_mig()
    create(nvml, 19)
    nvml.change(lambda machine: replace(machine, gpus=tuple(map(simulated.after_reset, machine.gpus))))
    assert placements(nvml) == set()


@pytest.mark.parametrize(("key", "refusal"), [("a100-80gb", pynvml.NVML_ERROR_NOT_FOUND), ("t4-16gb", NOT_SUPPORTED)])
def test_without_mig_there_are_no_mig_devices(bench: Any, key: str, refusal: int) -> None:
    nvml = bench.machine(key)
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(nvml.gpu()) == 0
    assert nvml.refuses(refusal, "nvmlDeviceGetMigDeviceHandleByIndex", nvml.gpu(), 0)
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetGpuInstances", nvml.gpu(), 19)


def test_in_mig_mode_the_compute_mode_is_the_default(bench: Any) -> None:
    nvml = bench.with_mig()
    assert nvml.nvmlDeviceGetComputeMode(nvml.gpu()) == pynvml.NVML_COMPUTEMODE_DEFAULT
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceSetComputeMode", nvml.gpu(), 3)


# --- profiles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KNOWN)
def test_profiles_are_those_of_the_model(bench: Any, key: str) -> None:
    nvml = bench.machine(key)
    infos = {}
    for number in range(PROFILE_COUNT):
        if not nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetGpuInstanceProfileInfo", nvml.gpu(), number):
            info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(nvml.gpu(), number)
            infos[info["name"].removeprefix("MIG ")] = info
            older = nvml.nvmlDeviceGetGpuInstanceProfileInfo(nvml.gpu(), number, 1)
            assert older == {field: info[field] for field in older}
            by_id = nvml.nvmlDeviceGetGpuInstanceProfileInfoById(nvml.gpu(), info["id"])
            assert by_id == info
    profiles = model(key).profiles or {}
    assert {name: (i["id"], i["sliceCount"], i["instanceCount"], i["multiprocessorCount"]) for name, i in infos.items()} == {
        name: (one.profile_id, one.compute_slices, one.max_instances, one.sm or 0) for name, one in profiles.items()
    }
    read = {name: one.memory_mib for name, one in profiles.items() if one.memory_mib is not None}
    assert {name: infos[name]["memorySizeMB"] for name in read} == read
    assert nvml.refuses(INVALID, "nvmlDeviceGetGpuInstanceProfileInfo", nvml.gpu(), PROFILE_COUNT)


def test_the_535_branch_lists_no_profiles_while_mig_is_off(bench: Any) -> None:
    nvml = bench.machine("h100-80gb", driver_version="535.183.01", cuda="12.2")
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetGpuInstanceProfileInfo", nvml.gpu(), 0)
    nvml.nvmlDeviceSetMigMode(nvml.gpu(), 1)
    assert nvml.nvmlDeviceGetGpuInstanceProfileInfo(nvml.gpu(), 0)["id"] == 19


def test_engines_of_an_a100(bench: Any) -> None:
    nvml = bench.machine("a100-80gb")
    info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(nvml.gpu(), pynvml.NVML_GPU_INSTANCE_PROFILE_7_SLICE)
    assert [info[f"{engine}Count"] for engine in ("copyEngine", "decoder", "encoder", "jpeg", "ofa")] == [7, 5, 0, 1, 1]


# --- GPU instances ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KNOWN)
def test_each_profile_fits_as_often_as_the_plan_says(bench: Any, key: str) -> None:
    nvml = bench.with_mig(key)
    known = model(key)
    for name, profile in ids(key).items():
        most = most_of(known, name)
        assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(nvml.gpu(), profile) == most
        create(nvml, *[profile] * most)
        assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(nvml.gpu(), profile) == 0
        assert nvml.refuses(FULL, "nvmlDeviceCreateGpuInstance", nvml.gpu(), profile)
        assert len(nvml.nvmlDeviceGetGpuInstances(nvml.gpu(), profile)) == most
        for instance in nvml.nvmlDeviceGetGpuInstances(nvml.gpu(), profile):
            nvml.nvmlGpuInstanceDestroy(instance)
        assert placements(nvml) == set()


def test_placements_are_told_while_mig_is_off(bench: Any) -> None:
    """As a real H100 does."""
    nvml = bench.machine("h100-80gb")
    assert nvml.nvmlDeviceGetMigMode(nvml.gpu()) == [0, 0]
    offered = nvml.nvmlDeviceGetGpuInstancePossiblePlacements(nvml.gpu(), 14)
    assert [(one["start"], one["size"]) for one in offered] == [(0, 2), (2, 2), (4, 2)]


@pytest.mark.parametrize("key", KNOWN)
def test_placements_are_those_of_the_model(bench: Any, key: str) -> None:
    nvml = bench.with_mig(key)
    for name, profile in ids(key).items():
        known = (model(key).profiles or {})[name]
        offered = nvml.nvmlDeviceGetGpuInstancePossiblePlacements(nvml.gpu(), profile)
        assert [(one["start"], one["size"]) for one in offered] == [(start, known.size) for start in known.starts]
        beyond = (known.starts[-1] + 1, known.size), (known.starts[0], known.size + 1)
        for start, size in beyond:
            assert nvml.refuses(INVALID, "nvmlDeviceCreateGpuInstanceWithPlacement", nvml.gpu(), profile, start, size)


@pytest.mark.parametrize("key", KNOWN)
def test_a_layout_can_be_made_where_the_plan_says_so_and_only_there(bench: Any, key: str) -> None:
    nvml = bench.with_mig(key)
    known, profiles = model(key), ids(key)
    refused = 0
    for layout in random_layouts(known, LAYOUTS_PER_MODEL):
        clear(nvml)
        wanted = [profiles[name] for name, count in layout.items() for _ in range(count)]
        planned = place(known, layout)
        if planned is None:
            refused += 1
            for order in set(itertools.permutations(wanted)):
                assert not create_all(nvml, order), (layout, order)
                clear(nvml)
            continue
        for one in planned:
            nvml.nvmlDeviceCreateGpuInstanceWithPlacement(nvml.gpu(), profiles[one.profile], one.start, one.size)
        assert placements(nvml) == {(profiles[one.profile], one.start, one.size) for one in planned}
    assert 0 < refused < LAYOUTS_PER_MODEL


@pytest.mark.parametrize("key", KNOWN)
def test_beside_any_layout_fits_what_overlaps_nothing(bench: Any, key: str) -> None:
    nvml = bench.with_mig(key)
    known, profiles = model(key), ids(key)
    for layout in random_layouts(known, 6):
        if place(known, layout) is None:
            continue
        clear(nvml)
        create_all(nvml, [profiles[name] for name, count in layout.items() for _ in range(count)])
        before = placements(nvml)
        units = {unit for _, start, size in before for unit in range(start, start + size)}
        slices = {profiles[name]: one.compute_slices for name, one in (known.profiles or {}).items()}
        for name, one in (known.profiles or {}).items():
            room = (
                sum(profile == one.profile_id for profile, *_ in before) < one.max_instances
                and sum(slices[profile] for profile, *_ in before) + one.compute_slices <= known.compute_slices
            )
            free = [start for start in one.starts if room and units.isdisjoint(range(start, start + one.size))]
            for start in one.starts:
                arguments = (nvml.gpu(), profiles[name], start, one.size)
                fits = not nvml.refuses(FULL, "nvmlDeviceCreateGpuInstanceWithPlacement", *arguments)
                assert fits == (start in free), (layout, name, start)
                if fits:
                    [made] = placements(nvml) - before
                    instances = nvml.nvmlDeviceGetGpuInstances(nvml.gpu(), made[0])
                    infos = [nvml.nvmlGpuInstanceGetInfo(instance)["placement"]["start"] for instance in instances]
                    nvml.nvmlGpuInstanceDestroy(instances[infos.index(start)])
            assert placements(nvml) == before


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        ((19,) * 7, [13, 11, 12, 7, 8, 9, 10]),
        ((14, 14, 14, 20), [5, 3, 4, 13]),
        ((19, 14, 5), [13, 5, 1]),
        ((9, 19, 14, 19), [2, 7, 4, 8]),
        ((14, 19, 19, 19, 19, 19), [5, 13, 7, 8, 9, 10]),
        ((9, 9), [2, 1]),
    ],
)
def test_the_driver_places_as_nvidia_smi_printed_on_real_gpus(bench: Any, wanted: tuple[int, ...], made: list[int]) -> None:
    assert create(bench.with_mig("a100-40gb"), *wanted) == made


def test_the_order_of_creation_matters_as_on_real_gpus(bench: Any) -> None:
    nvml = bench.with_mig("a100-40gb")
    assert create(nvml, 19, 19, 14) == [13, 11, 3]
    assert nvml.refuses(FULL, "nvmlDeviceCreateGpuInstance", nvml.gpu(), 9)


def test_an_instance_is_found_and_described(bench: Any) -> None:
    nvml = bench.with_mig()
    [number] = create(nvml, 9)
    instance = nvml.nvmlDeviceGetGpuInstanceById(nvml.gpu(), number)
    info = nvml.nvmlGpuInstanceGetInfo(instance)
    assert (info["id"], info["profileId"], info["placement"]) == (2, 9, {"start": 4, "size": 4})
    assert nvml.nvmlDeviceGetIndex(info["device"]) == 0
    assert nvml.refuses(pynvml.NVML_ERROR_NOT_FOUND, "nvmlDeviceGetGpuInstanceById", nvml.gpu(), 1)
    assert nvml.refuses(INVALID, "nvmlDeviceCreateGpuInstance", nvml.gpu(), 999)
    nvml.nvmlGpuInstanceDestroy(instance)
    assert nvml.refuses(INVALID, "nvmlGpuInstanceGetInfo", instance)


# --- compute instances and MIG devices --------------------------------------------------------------------


def test_compute_instances_share_out_the_slices(bench: Any) -> None:
    nvml = bench.with_mig("a100-40gb")
    instance = nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(), 9)
    offered = {
        number: nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, number, 0)
        for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
        if not nvml.refuses(NOT_SUPPORTED, "nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, 0)
    }
    assert [(one["name"], one["instanceCount"], one["multiprocessorCount"]) for one in offered.values()] == [
        ("MIG 1c.3g.20gb", 3, 14),
        ("MIG 2c.3g.20gb", 1, 28),
        ("MIG 3g.20gb", 1, 42),
    ]
    two = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 1)
    one = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    assert nvml.refuses(FULL, "nvmlGpuInstanceCreateComputeInstance", instance, 0)
    assert nvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, 0) == 0
    assert nvml.nvmlComputeInstanceGetInfo(one)["placement"] == {"start": 2, "size": 1}
    assert [len(nvml.nvmlGpuInstanceGetComputeInstances(instance, number)) for number in (0, 1, 2)] == [1, 1, 0]
    nvml.nvmlComputeInstanceDestroy(two)
    assert nvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, 0) == 2
    assert nvml.refuses(INVALID, "nvmlComputeInstanceDestroy", two)


def test_a_compute_instance_goes_where_it_is_put(bench: Any) -> None:
    nvml = bench.with_mig("a100-40gb")
    instance = nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(), 0)
    offered = nvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements(instance, 2)
    assert [one["start"] for one in offered] == [0, 4]
    nvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(instance, 2, 4, 3)
    assert nvml.refuses(FULL, "nvmlGpuInstanceCreateComputeInstanceWithPlacement", instance, 0, 5, 1)
    assert nvml.refuses(INVALID, "nvmlGpuInstanceCreateComputeInstanceWithPlacement", instance, 1, 1, 2)
    nvml.nvmlGpuInstanceCreateComputeInstance(instance, 3)
    assert nvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, 0) == 0


def test_what_is_used_cannot_be_destroyed(bench: Any) -> None:
    nvml = bench.with_mig()
    instance = nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(), 9)
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 2)
    assert nvml.refuses(IN_USE, "nvmlGpuInstanceDestroy", instance)

    def with_processes(*processes: simulated.Process) -> None:
        nvml.change(lambda machine: replace(machine, gpus=(replace(machine.gpus[0], processes=processes),)))

    with_processes(simulated.Process(5, 10, "python3", instance=2, compute=0))
    assert nvml.refuses(IN_USE, "nvmlComputeInstanceDestroy", compute)
    with_processes()
    nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlGpuInstanceDestroy(instance)


def test_each_compute_instance_is_a_mig_device(bench: Any) -> None:
    nvml = bench.with_mig("a100-80gb")
    for profile, computes in ((9, (1, 0)), (19, (0,)), (14, (1,))):
        instance = nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(), profile)
        for compute in computes:
            nvml.nvmlGpuInstanceCreateComputeInstance(instance, compute)
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(nvml.gpu()) == 7
    devices = [nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(), index) for index in range(4)]
    assert nvml.refuses(pynvml.NVML_ERROR_NOT_FOUND, "nvmlDeviceGetMigDeviceHandleByIndex", nvml.gpu(), 4)
    assert nvml.refuses(INVALID, "nvmlDeviceGetMigDeviceHandleByIndex", nvml.gpu(), 7)
    assert [nvml.nvmlDeviceGetName(device) for device in devices] == [
        "NVIDIA A100-SXM4-80GB MIG 2c.3g.40gb",
        "NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb",
        "NVIDIA A100-SXM4-80GB MIG 2g.20gb",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
    ]
    numbers = [(nvml.nvmlDeviceGetGpuInstanceId(device), nvml.nvmlDeviceGetComputeInstanceId(device)) for device in devices]
    assert numbers == [(2, 0), (2, 1), (4, 0), (7, 0)]
    assert [nvml.nvmlDeviceGetIndex(device) for device in devices] == [0, 1, 2, 3]
    for device in devices:
        assert nvml.nvmlDeviceIsMigDeviceHandle(device) == 1
        assert nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)) == 0
        uuid = nvml.nvmlDeviceGetUUID(device)
        found = nvml.nvmlDeviceGetHandleByUUID(uuid)
        assert uuid.startswith("MIG-")
        assert nvml.nvmlDeviceGetUUID(found) == uuid
    assert len({nvml.nvmlDeviceGetUUID(device) for device in devices}) == 4
    assert nvml.nvmlDeviceIsMigDeviceHandle(nvml.gpu()) == 0


def test_attributes_of_a_mig_device(bench: Any) -> None:
    nvml = bench.with_mig("h100-80gb")
    instance = nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(), 9)
    nvml.nvmlGpuInstanceCreateComputeInstance(instance, 1)
    device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(), 0)
    assert nvml.nvmlDeviceGetAttributes(device) == {
        "multiprocessorCount": 32,
        "sharedCopyEngineCount": 3,
        "sharedDecoderCount": 3,
        "sharedEncoderCount": 0,
        "sharedJpegCount": 3,
        "sharedOfaCount": 0,
        "gpuInstanceSliceCount": 3,
        "computeInstanceSliceCount": 2,
        "memorySizeMB": 40448,
    }
    assert nvml.refuses(NOT_SUPPORTED, "nvmlDeviceGetAttributes", nvml.gpu())
    for function in ("GpuInstanceId", "ComputeInstanceId"):
        assert nvml.refuses(INVALID, f"nvmlDeviceGet{function}", nvml.gpu())
    assert nvml.refuses(INVALID, "nvmlDeviceGetMigMode", device)


def test_memory_and_processes_of_a_mig_device(bench: Any) -> None:
    nvml = bench.with_mig("a100-80gb")
    instance = nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(), 14)
    for _ in range(2):
        nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    processes = (
        simulated.Process(5, 100, "python3", instance=5, compute=0),
        simulated.Process(6, 20, "python3", instance=5, compute=1),
        simulated.Process(7, 3, "python3", instance=1, compute=0),
    )
    nvml.change(lambda machine: replace(machine, gpus=(replace(machine.gpus[0], processes=processes),)))
    devices = [nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(), index) for index in (0, 1)]
    # The memory belongs to the GPU instance, so its compute instances see the same.
    for device in devices:
        memory = nvml.nvmlDeviceGetMemoryInfo(device)
        assert (memory["total"] >> 20, memory["used"] >> 20) == (19968, 120)
    assert [[one["pid"] for one in nvml.nvmlDeviceGetComputeRunningProcesses(device)] for device in devices] == [[5], [6]]
    assert [one["gpuInstanceId"] for one in nvml.nvmlDeviceGetComputeRunningProcesses(nvml.gpu())] == [5, 5, 1]


def test_a_mig_device_that_is_gone_is_no_device(bench: Any) -> None:
    nvml = bench.with_mig()
    instance = nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(), 19)
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(), 0)
    uuid = nvml.nvmlDeviceGetUUID(device)
    nvml.nvmlComputeInstanceDestroy(compute)
    assert nvml.refuses(INVALID, "nvmlDeviceGetUUID", device)
    assert nvml.refuses(pynvml.NVML_ERROR_NOT_FOUND, "nvmlDeviceGetHandleByUUID", uuid)
    nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    assert nvml.nvmlDeviceGetUUID(device) == uuid
