"""``gpu-pools models [PART]`` and ``python -m gpu_pools sizes [PART]``: which hardware a stack file can name.

Only arguments and printing: the facts and their sources are gpu_pools/hardware. Prices, quotas and regions are none of them.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware.azure_sizes import sizes
from gpu_pools.hardware.models import model, model_keys
from gpu_pools.text.table import table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from gpu_pools.hardware.azure_sizes import AzureSize
    from gpu_pools.hardware.models import GpuModel

_INVALID: Final = 2


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands; each sets ``run`` to what carries it out and returns the exit code."""
    for name, run, what in (("models", _models, "GPU models"), ("sizes", _sizes, "Azure VM sizes with GPUs")):
        command = commands.add_parser(name, help=f"list the {what} that a stack file can name")
        command.add_argument("part", nargs="?", default="", help="only those of which a cell has this in it, e.g. a100")
        command.add_argument("--json", action="store_true", help="print JSON for machines")
        command.set_defaults(run=run)


def _models(options: argparse.Namespace) -> int:
    found = [known for known in map(model, model_keys()) if _has(options.part, known.key, known.architecture, *known.products)]
    documents = [
        {
            "key": known.key,
            "architecture": known.architecture,
            "memoryMiB": known.memory_mib,
            "mig": known.mig_capable,
            "products": list(known.products),
        }
        for known in found
    ]
    header = ("MODEL", "ARCHITECTURE", "MEMORY", "MIG PROFILES", "PRODUCTS")
    return _print(options, "models", documents, header, [_model_row(known) for known in found])


def _model_row(known: GpuModel) -> tuple[str, ...]:
    memory = "unknown" if known.memory_mib is None else f"{known.memory_mib} MiB"
    profiles = "-" if not known.mig_capable else ", ".join(known.profiles) if known.profiles else "not known"
    return known.key, known.architecture, memory, profiles, ", ".join(known.products) or "-"


def _sizes(options: argparse.Namespace) -> int:
    found = [known for known in sizes() if _has(options.part, known.name, known.gpu_model)]
    documents = [
        {
            "name": known.name,
            "gpus": str(known.gpus),
            "gpuModel": known.gpu_model,
            "mig": known.mig,
            "vcpus": known.vcpus,
            "memoryGiB": known.memory_gib,
        }
        for known in found
    ]
    header = ("SIZE", "GPUS", "MODEL", "MIG", "VCPUS", "MEMORY")
    return _print(options, "sizes", documents, header, [_size_row(known) for known in found])


def _size_row(known: AzureSize) -> tuple[str, ...]:
    gpus = str(known.gpus) if known.gpus.denominator == 1 else f"{known.gpus} (cannot be used)"
    mig = {True: "yes", False: "no", None: "AKS does not say"}[known.mig]
    return known.name, gpus, known.gpu_model, mig, str(known.vcpus), f"{known.memory_gib} GiB"


def _has(part: str, *cells: str) -> bool:
    return any(part.lower() in cell.lower() for cell in cells)


def _print(
    options: argparse.Namespace,
    what: str,
    documents: list[dict[str, Any]],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> int:
    if options.json:
        print(json.dumps({what: documents}, indent=2))
    elif rows:
        print(table(header, rows))
    if not rows:
        print(f'error: none of the {what} has "{options.part}" in it; without it all are listed.', file=sys.stderr)
    return 0 if rows else _INVALID
