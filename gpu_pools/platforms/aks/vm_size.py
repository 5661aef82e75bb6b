"""The GPUs of a VM size: as the table of Azure's sizes has them, or as the stack declares them of a size that it lacks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpu_pools.hardware import azure_sizes
from gpu_pools.hardware.models import find_model, model
from gpu_pools.hardware.node import Hardware
from gpu_pools.stack.node_hardware import of_model

if TYPE_CHECKING:
    from gpu_pools.reading.section import Section
    from gpu_pools.stack.node_hardware import Own

#: How Azure names sizes.
_ANY_SIZE: Final = r"(?i:standard)_[A-Za-z]\w{1,78}"
#: What a pool declares of a size that no table has.
_DECLARED: Final = ("gpuModel", "gpusPerNode")


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
        return of_model(section, gpu_model, gpus, f"vmSize {name}", own, known_size=False)
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
