"""The GPU models that simulated machines can have: those of the tables, and those that a stack declares itself.

No table can be asked for a declared one, so that the record of the machines that have it carries it
(sandbox/cluster/machine_groups.py); whoever reads such a record remembers it here.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpu_pools.hardware import models as tables
from gpu_pools.hardware.models import GpuModel, MigProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

_DECLARED: dict[str, GpuModel] = {}


def model(key: str) -> GpuModel:
    """The model of that key.

    Raises:
        KeyError: if no table has it, and no record that was read.
    """
    return _DECLARED[key] if key in _DECLARED else tables.model(key)


def record_of(known: GpuModel) -> dict[str, Any] | None:
    """What the record of machines carries of a model; None of one that the tables have."""
    return {**asdict(known), "listed_names": sorted(known.listed_names)} if known.declared else None


def remember(record: Mapping[str, Any]) -> None:
    """Know the model of a record from now on."""
    profiles = record["profiles"]
    capability = record["compute_capability"]
    _DECLARED[record["key"]] = GpuModel(
        **{
            **record,
            "compute_capability": None if capability is None else tuple(capability),
            "products": tuple(record["products"]),
            "profiles": None if profiles is None else {name: _profile(profile) for name, profile in profiles.items()},
            "listed_names": frozenset(record["listed_names"]),
            "min_driver": tuple(record["min_driver"]),
        }
    )


def _profile(record: Mapping[str, Any]) -> MigProfile:
    return MigProfile(**{**record, "starts": tuple(record["starts"]), "min_driver": tuple(record["min_driver"])})
