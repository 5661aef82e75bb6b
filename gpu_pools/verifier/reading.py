"""What NVML said of a node, as plain values.

Where NVML answered an error, the error stands in the field's place: it is a fact of its own and is never replaced by a
default. Reading is the business of gpu_pools/verifier/nvml.py, which writes it as JSON, judging that of compare_gpus.py.
"""

from __future__ import annotations

from .names import error_name
from .records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _Some = TypeVar("_Some", bound=Record)


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
