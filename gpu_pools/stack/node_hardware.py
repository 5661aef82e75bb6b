"""The GPUs of one node: from the VM size (AKS), or declared, of a flavor (Magnum) or of nodes that are there already.

Only what one node has is told here. Whether a pool can be shared or partitioned so is in gpu_pools/plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware.models import find_model, is_vgpu, nearest_models
from gpu_pools.hardware.node import Hardware
from gpu_pools.reading.fields import BY_PLATFORM, number, read, row, text, whole_number
from gpu_pools.reading.section import Section

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.text.errors import Problems

    #: Models that the stack declares itself; None: what is written of it is wrong, and told.
    Own = Mapping[str, GpuModel | None]

#: Where the models of the tables are listed.
ALL_MODELS: Final = "a key or product name that `python -m gpu_pools models` lists"
_OWN: Final = "gpu-pools:gpuModels"
_MOST_NAMED: Final = 8


@dataclass(frozen=True)
class Flavor:
    """A Nova flavor, as far as this project must know it. Nova has no field that names the GPU model."""

    hardware: Hardware | None
    vcpus: int | None = row("vCPUs of one machine.", whole_number(1))
    memory_gib: float | None = row("GiB of memory of one machine.", number(1), key="memoryGiB")


@dataclass(frozen=True)
class DeclaredHardware:
    """GPUs that only the author of the stack file can tell: of a flavor, or of nodes that are there already."""

    gpu_model: str | None = row(
        "A GPU model, e.g. a100-80gb.",
        text(allowed=ALL_MODELS, remedy="Name the GPU model, e.g. a100-80gb."),
        needed=True,
        doc="A GPU model (`python -m gpu_pools models` lists them), a product name as NVML answers it, or [one of your "
        "own](#gpu-poolsgpumodels).",
    )
    gpus_per_node: int | None = row(BY_PLATFORM, whole_number(1, 16), needed=True)


def allowed_models(own: Collection[str]) -> str:
    """Return which models may be named: those of the stack, and where the others are listed."""
    return ", ".join([*list(own)[:_MOST_NAMED], ALL_MODELS])


def meant_models(name: str, own: Iterable[str] = ()) -> str:
    """Return the remedy for a name that is no model's: the models of that line, or how it is declared."""
    near = nearest_models(name, own)
    if near:
        others = f"A product name as NVML answers it works too; declare another GPU under {_OWN}."
        return f"Did you mean {' or '.join(near)}? {others}"
    return f"Declare {'the vGPU' if is_vgpu(name) else 'it'} under {_OWN}, with its memory and MIG profiles."


def parse_flavor(value: object, path: str, problems: Problems, *, own: Own) -> Flavor | None:
    """One entry of ``gpu-pools:flavors``."""
    section = Section(value, path, problems, what="a mapping with gpuModel and gpusPerNode")
    if not section.readable:
        return None
    hardware = declared_hardware(section, f"flavor {path.removeprefix('gpu-pools:flavors.')}", own)
    flavor = read(Flavor, section, hardware=hardware)
    section.finish()
    return flavor


def declared_hardware(section: Section, source: str, own: Own) -> Hardware | None:
    """What `gpuModel` and `gpusPerNode` say; None where they are wrong, which is then a problem.

    Args:
        section: that has them.
        source: of the hardware.
        own: models that the stack declares.
    """
    declared = read(DeclaredHardware, section)
    if declared.gpu_model is None:
        return None
    if declared.gpus_per_node is None:
        # Only the model can still be told wrong.
        of_model(section, declared.gpu_model, 0, source, own)
        return None
    return of_model(section, declared.gpu_model, declared.gpus_per_node, source, own)


def of_model(section: Section, name: str, gpus: int, source: str, own: Own, *, known_size: bool = True) -> Hardware | None:
    """Return so many GPUs of a model, by its name; None where nobody knows it, which is then a problem."""
    if name in own and own[name] is None:
        # What is wrong with it is told where it is declared.
        return None
    found = find_model(name, [one for one in own.values() if one])
    if found is None:
        section.problems.add(
            section.at("gpuModel"),
            f'"{name}" is not a known GPU model',
            allowed=allowed_models(own),
            remedy=meant_models(name, own),
        )
        return None
    known, product = found
    if product is None and len(known.products) == 1:
        product = known.products[0]
    return Hardware(known, product, gpus, source, known_size=known_size)
