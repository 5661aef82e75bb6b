"""What NVML needs to know of a GPU beyond what the plan needs: profile numbers, engines, PCI ids, memory, facts of boards.

Unknown facts stay None. The one exception is memory: gpu-feature-discovery refuses to run without it, and both it and
mig-parted compute a profile's name from it. Where no source gives MiB, they are derived here from what is known, and only
here: the plan never sees a derived number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_pools.text.provenance import without_provenance
from gpu_pools.text.yaml_text import load_yaml
from sandbox.nvml.known_models import model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.hardware.models import GpuModel, MigProfile

Engines = tuple[int | None, int | None, int | None, int | None, int | None]

_NO_ENGINES: Engines = (None, None, None, None, None)
_NVIDIA = 0x10DE
# nvidia-smi prints GiB with two decimals; every instance size seen so far is a multiple of this many MiB.
_MEMORY_STEP_MIB = 64
_SOME_MIB = 16384
# NVML_GPU_INSTANCE_PROFILE_n_SLICE of a number of slices; those of declared models that are a second of their size count on.
_NUMBERS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}
_FURTHER = 9
# NVML_BRAND_*: by what a product's name has. Read by nvidia-smi: Tesla V100S-PCIE-32GB, NVIDIA RTX A2000, NVIDIA A100-SXM4-80GB,
# NVIDIA H100 80GB HBM3, NVIDIA L4; other products follow from these.
_BRANDS = {"Tesla": 2, "RTX": 13}
_NVIDIA_BRAND = 14
# NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH: the machines are virtual ones of clouds, as those of the readings were.
_PASSED_THROUGH = 1
# NVML_DEVICE_ARCH_*
_GENERATIONS = ("maxwell", "pascal", "volta", "turing", "ampere", "ada-lovelace", "hopper", "blackwell")
_ARCHITECTURES = {name: number for number, name in enumerate(_GENERATIONS, 3)}


@dataclass(frozen=True)
class Profile:
    """One kind of GPU instance, as NVML describes it.

    Attributes:
        number: NVML_GPU_INSTANCE_PROFILE_*, by which profiles are listed.
        id: by which instances are made; nvidia-smi prints this one.
        slices: compute slices.
        max_instances: how many fit on one GPU.
        size: placement units.
        multiprocessors: None if unknown.
        memory_mib: known, or derived by memory_mib_of; None only where the GPU's own memory is unknown too.
        engines: copy, decoder, encoder, JPEG, OFA; each None if unknown.
        starts: placement units at which it may start.
        name: e.g. ``1g.10gb+me``.
    """

    number: int
    id: int
    slices: int
    max_instances: int
    size: int
    multiprocessors: int | None
    memory_mib: int | None
    engines: Engines
    starts: tuple[int, ...]
    name: str


@dataclass(frozen=True)
class Answer:
    """What a function says that has no behaviour of its own; src/answers.inc lists these functions.

    Attributes:
        value: its text, or its numbers with blanks between; ``-`` is unknown.
    """

    function: str
    value: str


@dataclass(frozen=True)
class Board:
    """What was read from a board of this product; None is unknown.

    Attributes:
        pci_subsystem: device id in the upper half, vendor id in the lower.
        reserved_kib: memory that nobody can use.
        row_histogram: banks with max, high, partial, low, none left to repair with.
        event_types: nvmlEventType* that it can tell.
        answers: of functions that only state a fact.
    """

    pci_subsystem: int | None = None
    reserved_kib: int = 0
    row_histogram: tuple[int, ...] | None = None
    event_types: int | None = None
    answers: tuple[Answer, ...] = ()


def architecture_number(known: GpuModel) -> int | None:
    """NVML_DEVICE_ARCH_*; None where this project has no name for it."""
    return _ARCHITECTURES.get(known.architecture)


def pci_device(known: GpuModel, product: str) -> int | None:
    """What nvmlPciInfo_t.pciDeviceId holds: device in the upper half, vendor in the lower; None if unknown."""
    device = None if known.declared else _raw()[known.key]["products"].get(product)
    return None if device is None else int(device, 16) << 16 | _NVIDIA


def total_memory_mib(known: GpuModel) -> int | None:
    """The GPU's memory in MiB; where no reading is known, the GB of its name taken as GiB (real readings are a little lower).

    A declared model of which nobody tells it has some, since a GPU has.
    """
    if known.memory_mib is not None:
        return known.memory_mib
    if known.declared:
        return _SOME_MIB
    nominal: int | None = _raw()[known.key]["memoryGB"]
    return None if nominal is None else nominal * 1024


def profiles(key: str) -> tuple[Profile, ...]:
    """The profiles of a model; empty where it has no MIG or no source gives its geometry.

    Raises:
        KeyError: if there is no such model.
    """
    known = model(key)
    if known.declared:
        return tuple(_declared_profiles(known))
    entry = _raw()[key]
    twin = entry.get("profilesOf")
    raw = _raw()[twin]["profiles"] if twin else entry.get("profiles") or {}
    engines = _engines().get(key, {})
    return tuple(
        Profile(
            number=raw[name]["enum"],
            id=item.profile_id,
            slices=item.compute_slices,
            max_instances=item.max_instances,
            size=item.size,
            multiprocessors=item.sm,
            memory_mib=memory_mib_of(known, item, None if twin else raw[name]["memoryGiB"]),
            engines=engines.get(raw[name]["enum"], _NO_ENGINES),
            starts=item.starts,
            name=name,
        )
        for name, item in (known.profiles or {}).items()
        # Without its id no instance can be made, and no program could tell it from another.
        if item.profile_id is not None
    )


def _declared_profiles(known: GpuModel) -> Iterator[Profile]:
    taken: set[int] = set()
    for name, item in (known.profiles or {}).items():
        number = _NUMBERS.get(item.compute_slices, _FURTHER)
        if number in taken:
            number = max(_FURTHER, *taken) + 1
        taken.add(number)
        if item.profile_id is not None:
            yield Profile(
                number=number,
                id=item.profile_id,
                slices=item.compute_slices,
                max_instances=item.max_instances,
                size=item.size,
                multiprocessors=item.sm,
                memory_mib=memory_mib_of(known, item, None),
                engines=_NO_ENGINES,
                starts=item.starts,
                name=name,
            )


def memory_mib_of(known: GpuModel, profile: MigProfile, printed_gib: float | None) -> int | None:
    """Memory of one instance: as read; else from the GiB that nvidia-smi prints; else the share of its placement units.

    Args:
        known: the model.
        profile: one of its profiles.
        printed_gib: the Memory column of `nvidia-smi mig -lgip`, None if unknown.
    """
    if profile.memory_mib is not None:
        return profile.memory_mib
    if printed_gib is not None:
        return round(printed_gib * 1024 / _MEMORY_STEP_MIB) * _MEMORY_STEP_MIB
    total = total_memory_mib(known)
    if total is None or known.placement_units is None:
        return None
    return total * profile.size // known.placement_units


def board(product: str) -> Board:
    """The facts of a board; where none of that product was read, its brand alone, and that it was passed through to its machine.

    Args:
        product: what nvmlDeviceGetName answers.
    """
    facts: dict[str, Any] = {}
    brand = next((number for word, number in _BRANDS.items() if word in product.split()), _NVIDIA_BRAND)
    answers: dict[str, Any] = {"nvmlDeviceGetBrand": brand, "nvmlDeviceGetVirtualizationMode": _PASSED_THROUGH}
    for table in _tables("boards.yaml"):
        if product in table["products"]:
            facts |= table
            answers |= table["answers"]
    subsystem, histogram = facts.get("pciSubsystem"), facts.get("rowHistogram")
    return Board(
        pci_subsystem=subsystem and int(subsystem, 16),
        reserved_kib=facts.get("reservedKiB", 0),
        row_histogram=histogram and tuple(histogram),
        event_types=facts.get("eventTypes"),
        answers=tuple(Answer(function, _answer_text(value)) for function, value in answers.items()),
    )


def _answer_text(value: int | list[int | None]) -> str:
    numbers = value if isinstance(value, list) else [value]
    return " ".join("-" if number is None else str(number) for number in numbers)


@lru_cache(maxsize=1)
def _raw() -> Mapping[str, Any]:
    text = (resources.files("gpu_pools.hardware") / "gpu_models.yaml").read_text(encoding="utf-8")
    return without_provenance(load_yaml(text))


@lru_cache(maxsize=1)
def _engines() -> Mapping[str, Mapping[int, Engines]]:
    return {
        key: {number: tuple(row) for number, row in table["profiles"].items()}
        for table in _tables("engines.yaml")
        for key in table["models"]
    }


@lru_cache
def _tables(name: str) -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = load_yaml(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return tables
