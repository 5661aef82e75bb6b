"""Azure VM sizes with NVIDIA GPUs: which GPU, how many, and whether MIG is offered.

The data is gpu_pools/hardware/azure_sizes.yaml with its sources. Prices, quotas and regions are not in it: they differ per
subscription and belong to the cloud's own answers.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


#: How much a name must look like a size to be taken for a typing error in it.
_A_TYPO: Final = 0.85


@dataclass(frozen=True)
class AzureSize:
    """One VM size.

    Attributes:
        name: as Azure writes it, e.g. ``Standard_NC24ads_A100_v4``.
        vcpus: virtual CPUs.
        memory_gib: RAM of the VM in GiB.
        gpu_model: key of the GPU model.
        product: what NVML answers on it; None where not known.
        gpus: GPUs per VM, a fraction on sizes that share one GPU by vGPU.
        mig: True where AKS documents MIG for it, False where not, None where the sources say nothing of AKS.
        driver: which driver AKS would install, ``CUDA`` or ``GRID``; None: it installs none.
        arch: ``amd64`` or ``arm64``.
        open: what the sources leave open; empty: nothing that matters here.
    """

    name: str
    vcpus: int
    memory_gib: int
    gpu_model: str
    product: str | None
    gpus: Fraction
    mig: bool | None
    driver: str | None
    arch: str
    open: str = ""


def size(name: str) -> AzureSize | None:
    """The size of that name, in whatever case, as Azure takes it; None if it is not a known GPU size."""
    return _lower_case().get(name.lower())


def retired(name: str) -> str | None:
    """The date on which Azure retired the size, None if it did not."""
    dates = {known.lower(): date for known, date in _data()["retired"].items()}
    return dates.get(name.lower())


def sizes() -> tuple[AzureSize, ...]:
    """All known sizes, in the order of the data."""
    return tuple(_sizes().values())


def meant_size(name: str) -> str | None:
    """The size that a mistyped name means; None where it looks like none."""
    by_short = {_short(known): known for known in _sizes()}
    near = difflib.get_close_matches(_short(name), by_short, n=1, cutoff=_A_TYPO)
    return by_short[near[0]] if near else None


def smallest_size(name: str) -> str:
    """The smallest size with whole GPUs of the family that a name speaks of (``NC``, ``ND``, ``NV``), else of all."""
    whole = [known for known in sizes() if known.gpus.denominator == 1]
    family = [known for known in whole if _short(known.name)[:2] == _short(name)[:2]]
    return min(family or whole, key=lambda known: (known.vcpus, known.memory_gib)).name


def smallest_whole(gpu_model: str) -> str:
    """The smallest size with whole GPUs of a model of which there are such sizes."""
    whole = (known for known in sizes() if known.gpu_model == gpu_model and known.gpus.denominator == 1)
    return min(whole, key=lambda known: (known.vcpus, known.memory_gib)).name


def _short(name: str) -> str:
    """A name without its tier: ``nc24ads_a100_v4``; two letters of it are its family."""
    return name.lower().removeprefix("standard_")


@lru_cache(maxsize=1)
def _data() -> dict[str, dict[str, Any]]:
    text = (resources.files("gpu_pools.hardware") / "azure_sizes.yaml").read_text(encoding="utf-8")
    data: dict[str, dict[str, Any]] = load_yaml(text)
    return data


@lru_cache(maxsize=1)
def _sizes() -> Mapping[str, AzureSize]:
    return {name: _size(name, entry) for name, entry in _data()["sizes"].items()}


@lru_cache(maxsize=1)
def _lower_case() -> Mapping[str, AzureSize]:
    return {name.lower(): known for name, known in _sizes().items()}


def _size(name: str, entry: Mapping[str, Any]) -> AzureSize:
    return AzureSize(
        name=name,
        vcpus=entry["vcpus"],
        memory_gib=entry["memoryGiB"],
        gpu_model=entry["gpuModel"],
        product=entry["product"],
        gpus=Fraction(entry["gpus"]),
        mig=entry["mig"] if isinstance(entry["mig"], bool) else None,
        driver=entry["driver"],
        arch=entry["arch"],
        open=entry.get("open", ""),
    )
