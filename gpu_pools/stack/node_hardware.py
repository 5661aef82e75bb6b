"""The GPUs of one node: from the VM size (AKS), or declared, of a flavor (Magnum) or of nodes that are there already.

Only what one node has is told here. Whether a pool can be shared or partitioned so is in gpu_pools/plan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware import azure_sizes
from gpu_pools.hardware.models import find_model, is_vgpu, model, nearest_models
from gpu_pools.hardware.node import Hardware
from gpu_pools.reading.fields import number, read, row, text, whole_number
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
#: How Azure names sizes.
_ANY_SIZE: Final = r"(?i:standard)_[A-Za-z]\w{1,78}"
#: What a pool declares of a size that no table has.
_DECLARED: Final = ("gpuModel", "gpusPerNode")


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
    gpus_per_node: int | None = row(
        {"magnum": "GPUs of one machine.", "existing": "GPUs of one node."}, whole_number(1, 16), needed=True
    )


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


def azure_hardware(section: Section, gpu_model: str | None, gpus: int | None, own: Own) -> Hardware | None:
    """What a pool's `vmSize` has; None where that is wrong, which is then a problem.

    Args:
        section: of the pool.
        gpu_model: what the pool declares beside it, for a size that the table lacks.
        gpus: per node, in the same way.
        own: models that the stack declares.
    """
    name = section.text("vmSize", required=True, remedy="Name the VM size, e.g. Standard_NC24ads_A100_v4.")
    if name is None:
        return None
    size, date = azure_sizes.size(name), azure_sizes.retired(name)
    if size is None and date is None and re.fullmatch(_ANY_SIZE, name) and gpu_model is not None and gpus is not None:
        return _of_model(section, gpu_model, gpus, f"vmSize {name}", own, known_size=False)
    written = [key for key in _DECLARED if section.given(key)]
    declarable = size is None and date is None and re.fullmatch(_ANY_SIZE, name) is not None
    if declarable and len(written) == len(_DECLARED):
        # What is wrong with one of them is told there.
        return None
    half_declared = declarable and bool(written)
    if size is None:
        meant = None if date else azure_sizes.meant_size(name)
        section.problems.add(
            section.at("vmSize"),
            f'"{name}" was retired by Azure on {date}' if date else f'"{name}" is not a known Azure GPU size',
            allowed="a GPU size that `python -m gpu_pools sizes` lists"
            + ("" if date else ", or another Standard_… with gpuModel and gpusPerNode beside it"),
            remedy=_other_size(section, name, meant, half_declared=half_declared),
        )
        return None
    if size.gpus.denominator != 1:
        section.problems.add(
            section.at("vmSize"),
            f'"{name}" has {size.gpus} of a GPU',
            allowed="a size with whole GPUs",
            remedy=f"Choose {azure_sizes.smallest_whole(size.gpu_model)} or larger; a vGPU fraction can be neither partitioned "
            "nor shared further.",
        )
        return None
    _check_declared(section, size, gpu_model, gpus)
    return Hardware(model(size.gpu_model), size.product, int(size.gpus), f"vmSize {size.name}", mig_offered=size.mig is not False)


def _other_size(section: Section, name: str, meant: str | None, *, half_declared: bool) -> str:
    """What to write instead of a size that no table has; what is declared beside it may not be true of another one."""
    written = [key for key in _DECLARED if section.given(key)]
    if half_declared:
        (absent,) = set(_DECLARED) - set(written)
        return f"Add `{absent}: …` beside it."
    rest = f" leave {' and '.join(f'`{key}`' for key in written)} out" if written else ""
    if meant:
        return f"Did you mean {meant}?" + (f" Then{rest}." if rest else "")
    return f"Use another size, e.g. {azure_sizes.smallest_size(name)}" + (f", and{rest}." if rest else ".")


def _check_declared(section: Section, size: azure_sizes.AzureSize, gpu_model: str | None, gpus: int | None) -> None:
    """Hold what is declared beside a known size against the table."""
    found = find_model(gpu_model) if gpu_model is not None else None
    for key, given, known in (
        ("gpuModel", found[0].key if found else gpu_model, size.gpu_model),
        ("gpusPerNode", gpus, int(size.gpus)),
    ):
        if given is not None and given != known:
            section.problems.add(
                section.at(key),
                f"{size.name} has {known}, not {given}",
                allowed=str(known),
                remedy="Leave it out; it is for sizes that `python -m gpu_pools sizes` lacks.",
            )


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
        _of_model(section, declared.gpu_model, 0, source, own)
        return None
    return _of_model(section, declared.gpu_model, declared.gpus_per_node, source, own)


def _of_model(section: Section, name: str, gpus: int, source: str, own: Own, *, known_size: bool = True) -> Hardware | None:
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
