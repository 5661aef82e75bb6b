"""MIG profiles and layouts over all known GPU models: which model has a profile, on which models a layout fits.

A file does not say on which cards it is used, so its layouts are held against every model whose profiles are known.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from gpus.mig import place
from gpus.models import model, model_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpus.models import GpuModel


def models_with(profile: str) -> tuple[str, ...]:
    """Keys of the models that have a profile; its name may also be written as in a resource (dots for plus signs)."""
    return _index().get(profile) or _resources().get(profile, ())


def nearest_profiles(profile: str) -> tuple[str, ...]:
    """The three known names nearest to it: as many slices, about as much memory."""
    wanted = _sizes(profile)
    if wanted is None:
        return ()
    slices, memory, attributes = wanted
    known = [(name, sizes) for name in _index() if (sizes := _sizes(name)) is not None and sizes[0] == slices]
    known.sort(key=lambda entry: (entry[1][2] != attributes, abs(entry[1][1] - memory), entry[0]))
    return tuple(name for name, _ in known[:3])


def fits(gpu: GpuModel, layout: Mapping[str, int]) -> bool:
    """Whether the model has every profile, and room for all of them."""
    profiles = gpu.profiles or {}
    return all(name in profiles for name in layout) and place(gpu, layout) is not None


def fitting_models(layout: Mapping[str, int], among: Iterable[str] | None = None) -> tuple[str, ...]:
    """Keys of the models on which a layout fits, in the order of the known ones."""
    return tuple(key for key in (model_keys() if among is None else among) if fits(model(key), layout))


def _sizes(profile: str) -> tuple[int, int, str] | None:
    """(slices, GB, attributes) in the name of a profile."""
    match = re.fullmatch(r"(\d{1,3})g\.(\d{1,6})gb(.*)", profile)
    return (int(match[1]), int(match[2]), match[3]) if match else None


@lru_cache(maxsize=1)
def _index() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for key in model_keys():
        for name in model(key).profiles or {}:
            found[name] = (*found.get(name, ()), key)
    return found


@lru_cache(maxsize=1)
def _resources() -> dict[str, tuple[str, ...]]:
    return {name.replace("+", "."): keys for name, keys in _index().items()}
