"""MIG profiles and layouts over all known GPU models: which model has a profile, on which models a layout fits.

A file does not say on which GPUs it is used, so its layouts are held against every model. Where no source gives the geometry
of a model, only the names that any source lists are known.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from gpu_pools.hardware.models import model, model_keys
from gpu_pools.hardware.resource_names import dotted
from gpu_pools.mig.geometry import place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpu_pools.hardware.models import GpuModel


def models_with(profile: str) -> tuple[str, ...]:
    """Keys of the models that have a profile, under any of its names.

    The name may also be written as in a resource (dots for plus signs).
    """
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


def has(gpu: GpuModel, profile: str) -> bool:
    """Whether the model has the profile, under this name or another."""
    return gpu.own_name(profile) in (gpu.profiles or {})


def fits(gpu: GpuModel, layout: Mapping[str, int]) -> bool:
    """Whether the model has every profile, and room for all of them; two names of one profile never go together."""
    own = {gpu.own_name(name): count for name, count in layout.items()}
    return len(own) == len(layout) and all(has(gpu, name) for name in own) and place(gpu, own) is not None


def doubtful_names(layout: Mapping[str, int]) -> dict[str, str]:
    """Profile -> its other name, for those of a layout that no model is sure to have under this name."""
    found = {}
    for name in layout:
        homes = [model(key) for key in models_with(name)]
        others = [_other_name(gpu, name) for gpu in homes]
        if others and all(others):
            found[name] = str(others[0])
    return found


def _other_name(gpu: GpuModel, name: str) -> str | None:
    back = {own: other for other, own in gpu.other_names.items()}
    return gpu.other_names.get(name) or back.get(name)


def unknown_geometry(layout: Mapping[str, int]) -> tuple[str, ...]:
    """Keys of the models for which sources list every profile of a layout, but no geometry."""
    models = [model(key) for key in model_keys()]
    return tuple(gpu.key for gpu in models if gpu.profiles is None and layout.keys() <= gpu.listed_names)


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
        known = model(key)
        for name in (*(known.profiles or ()), *known.other_names, *sorted(known.listed_names)):
            found[name] = (*found.get(name, ()), key)
    return found


@lru_cache(maxsize=1)
def _resources() -> dict[str, tuple[str, ...]]:
    return {dotted(name): keys for name, keys in _index().items()}
