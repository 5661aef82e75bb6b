"""What NVML said of a node, as plain values, and which MIG instances these are in the declaration's names.

Where NVML answered an error, the error stands in the field's place: it is a fact of its own and is never replaced by a default.
Reading is the business of gpu_pools/verifier/nvml.py, which writes it as JSON, judging that of compare_gpus.py.

The plan has checked layouts against tables already (gpu_pools/mig/geometry.py). Whether a declared one fits by what its GPU's
driver says is answered here, since the node's hardware has the last word. Pure.
"""

from __future__ import annotations

from .documents import Record
from .names import error_name

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeVar

    from .expectation import Profile as Described

    _Some = TypeVar("_Some", bound=Record)

# --- what NVML said -----------------------------------------------------------------------------------------------


class Failed(Record):
    """NVML answered an error: its name, its code, and the function that was called.

    Where no library could be loaded the function is LOADER, and the name is what the loader said.
    """

    error: str
    code: int
    function: str

    def __str__(self) -> str:
        """As messages show it."""
        return f"{self.error} ({self.code}) from {self.function}"


def failed(code: int, function: str) -> Failed:
    """The error with its name."""
    return Failed(error_name(code), code, function)


class Profile(Record):
    """A kind of GPU instance that the GPU offers.

    Attributes:
        number: NVML_GPU_INSTANCE_PROFILE_*.
        id: by which instances are made.
        name: such as ``1g.10gb+me``; None where the driver is too old to say.
        slices: compute slices.
        max_instances: how many of it fit on the empty GPU.
        memory_mib: MiB of an instance.
        placements: (start, size) in placement units.
    """

    number: int
    id: int
    name: str | None
    slices: int
    max_instances: int
    memory_mib: int
    placements: tuple[tuple[int, int], ...] | Failed


class ComputeInstance(Record):
    """A compute instance: its number, its compute slices, the slice at which it starts."""

    id: int
    slices: int
    start: int


class GpuInstance(Record):
    """A GPU instance: its number, its profile's id, its placement, its compute instances."""

    id: int
    profile_id: int
    start: int
    size: int
    computes: tuple[ComputeInstance, ...]


class Process(Record):
    """A process on a GPU: ``compute``, ``graphics`` or ``mps`` (a client); its name where the driver tells it."""

    pid: int
    kind: str
    name: str | None


class Mode(Record):
    """A mode that changes with a reset: as it is, and as it will be."""

    current: int
    pending: int


class RemappedRows(Record):
    """Rows of memory that were replaced: after corrected and uncorrected errors; waiting for a reset; failed."""

    corrected: int
    uncorrected: int
    pending: int
    failed: int


class Gpu(Record):
    """One GPU.

    Attributes:
        index: NVML's.
        uuid: as nvidia-smi -L prints it.
        name: the product.
        pci_bus: the bus id.
        memory_mib: MiB in all.
        mig: MIG mode, 1 for on.
        profiles: kinds of GPU instance that NVML lists; none where the GPU or the driver lists none now.
        instances: GPU instances, none with MIG off.
        compute_mode: one of names.COMPUTE_MODES.
        ecc: ECC mode, 1 for on.
        uncorrected_errors: uncorrected ECC errors since the driver was loaded.
        remapped_rows: from Ampere on.
        retired_pages_pending: whether pages wait for a reset to be retired; before Ampere.
        recovery_action: what the driver asks for, NVML's number: 0 nothing, 1 GPU reset, 2 reboot, 3 drain, 4 drain and reset.
        processes: what runs on it, as far as the driver tells.
    """

    index: int
    uuid: str | Failed
    name: str | Failed
    pci_bus: str | Failed
    memory_mib: int | Failed
    mig: Mode | Failed
    profiles: tuple[Profile, ...] | Failed
    instances: tuple[GpuInstance, ...] | Failed
    compute_mode: str | Failed
    ecc: Mode | Failed
    uncorrected_errors: int | Failed
    remapped_rows: RemappedRows | Failed
    retired_pages_pending: bool | Failed
    recovery_action: int | Failed
    processes: tuple[Process, ...] | Failed


class Reading(Record):
    """The whole node.

    Attributes:
        failure: why NVML could not be started; everything else is then empty.
        driver: the driver's version.
        nvml: the library's version.
        cuda: the newest CUDA version of the driver, such as ``13.0``.
    """

    failure: Failed | None
    driver: str | Failed
    nvml: str | Failed
    cuda: str | Failed
    gpus: tuple[Gpu, ...] | Failed


class Hung(Record):
    """NVML did not answer in time.

    Attributes:
        function: the call that did not come back; None where the process did not get as far as a call.
        seconds: how long it was waited for.
        killable: False where the process could not even be killed, since it waits inside the kernel.
    """

    function: str | None
    seconds: float
    killable: bool


class Unreadable(Record):
    """The reading itself went wrong, in words: nothing is known of the GPUs."""

    reason: str


def steady(reading: Reading) -> Reading:
    """The reading without what changes on a healthy node while jobs come and go."""
    if isinstance(reading.gpus, Failed):
        return reading
    return _replaced(reading, gpus=tuple(_replaced(gpu, processes=()) for gpu in reading.gpus))


def _replaced(record: _Some, **values: object) -> _Some:
    """As dataclasses.replace, which takes long to load."""
    return type(record)(**{**vars(record), **values})


# --- MIG instances ------------------------------------------------------------------------------------------------


def canonical(profile: Profile, described: Mapping[str, Described]) -> str:
    """The declared name of a profile that the GPU lists, or its own where it is not declared."""
    for name, known in described.items():
        if profile.name is None:
            if known.id == profile.id:
                return name
        elif profile.name == name or profile.name in known.other_names:
            return name
    return profile.name or f"profile {profile.id}"


def instances_by_profile(gpu: Gpu, described: Mapping[str, Described]) -> dict[str, int]:
    """How many GPU instances of each profile there are; none where they could not be read."""
    if isinstance(gpu.instances, Failed):
        return {}
    profiles = profiles_by_id(gpu)
    names = [instance_name(instance, profiles, described) for instance in gpu.instances]
    return {name: names.count(name) for name in names}


def profiles_by_id(gpu: Gpu) -> dict[int, Profile]:
    """The profiles that NVML lists."""
    return {} if isinstance(gpu.profiles, Failed) else {profile.id: profile for profile in gpu.profiles}


def instance_name(instance: GpuInstance, profiles: Mapping[int, Profile], described: Mapping[str, Described]) -> str:
    """The declared name of the instance's profile, its own, or its number."""
    if instance.profile_id in profiles:
        return canonical(profiles[instance.profile_id], described)
    return f"profile {instance.profile_id}"


def why_illegal(layout: Mapping[str, int], listed: Sequence[Profile], described: Mapping[str, Described]) -> str | None:
    """Why this GPU cannot have the layout; None where it can, as far as can be told.

    Args:
        layout: declared profile -> count.
        listed: the profiles that NVML lists; at least one.
        described: what the expectation says of the declared profiles.
    """
    by_name = {canonical(profile, described): profile for profile in listed}
    for name, count in layout.items():
        if name not in by_name:
            return f"the GPU has no profile {name}; it has {', '.join(sorted(by_name))}"
        if count > by_name[name].max_instances:
            return f"{count} of {name} were declared, at most {by_name[name].max_instances} fit"
    slices = sum(count * by_name[name].slices for name, count in layout.items())
    most = max(profile.slices for profile in listed)
    if slices > most:
        return f"the instances take {slices} compute slices, the GPU has {most}"
    places = [_places(by_name[name], described[name]) for name, count in layout.items() for _ in range(count)]
    if all(places) and not _fit(sorted(places, key=len), frozenset()):
        return "the instances do not fit beside each other on the GPU's placement units"
    return None


def _places(profile: Profile, described: Described) -> tuple[frozenset[int], ...]:
    """The sets of units that an instance may cover; none where nobody knows."""
    if isinstance(profile.placements, Failed):
        placements = [(start, described.size) for start in described.starts]
    else:
        placements = list(profile.placements)
    return tuple(frozenset(range(start, start + size)) for start, size in placements)


def _fit(places: list[tuple[frozenset[int], ...]], taken: frozenset[int]) -> bool:
    if not places:
        return True
    first, *rest = places
    return any(_fit(rest, taken | units) for units in first if not units & taken)
