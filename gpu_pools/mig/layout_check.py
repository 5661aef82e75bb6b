"""Whether a MIG layout exists on a GPU model: problems where it does not, warnings where no source settles it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpu_pools.mig.advice import layout_text, nearest, nearest_profile, why_not
from gpu_pools.mig.geometry import most_of, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.hardware.models import GpuModel
    from gpu_pools.text.errors import Problems

    #: (profile, instances), sorted.
    Layout = tuple[tuple[str, int], ...]


def check_layout(model: GpuModel, layout: Layout, pool: str, path: str, problems: Problems) -> list[str]:
    """Add a problem where a layout does not exist on a model of known geometry; return warnings.

    Args:
        model: the GPU model.
        layout: as it is declared.
        pool: the pool's name, for messages.
        path: of the layout in the stack file.
        problems: are added to.
    """
    if not _check_profiles(pool, model, layout, path, problems):
        return []
    named = own_names(model, layout)
    _check_fits(pool, model, named, path, problems)
    return list(_geometry_warnings(model, layout, named))


def _check_profiles(pool: str, model: GpuModel, declared: Layout, path: str, problems: Problems) -> bool:
    profiles = [*(model.profiles or {}), *model.other_names]
    unknown = [profile for profile, _ in declared if profile not in profiles]
    for profile in unknown:
        near = nearest_profile(model, profile)
        problems.add(
            f"{path}.{profile}",
            f'{model.key} (pool "{pool}") has no MIG profile "{profile}"',
            allowed=", ".join(profiles),
            remedy=f"Did you mean {near}? Profile names carry the memory of the GPU." if near else "Choose one of those.",
        )
    for other, name in model.other_names.items():
        if {other, name} <= dict(declared).keys():
            problems.add(
                f"{path}.{other}",
                f'"{other}" and "{name}" are names of one profile; no GPU of {model.key} has both (pool "{pool}")',
                allowed="one of the two names",
                remedy="Use the name that `nvidia-smi mig -lgip` prints on the node.",
            )
    return not unknown


def _check_fits(pool: str, model: GpuModel, layout: Mapping[str, int], path: str, problems: Problems) -> None:
    if place(model, layout) is not None:
        return
    most = ", ".join(f"{most_of(model, profile)}x {profile}" for profile in layout)
    problems.add(
        path,
        f'{layout_text(layout)} does not fit on one {model.key} (pool "{pool}"): {why_not(model, layout)}',
        allowed=f"a layout for which placements exist; alone fit {most}",
        remedy=f"Use e.g. {', or '.join(layout_text(legal) for legal in nearest(model, layout))}.",
    )


def _geometry_warnings(model: GpuModel, declared: Layout, layout: Mapping[str, int]) -> Iterator[str]:
    """What the sources do not settle about a layout that fits; `layout` has this project's names of the profiles."""
    profiles = model.profiles or {}
    if any(not profiles[profile].placements_measured for profile in layout):
        yield (
            f"the MIG placements of {model.key} are inferred from GPUs of the same geometry: "
            "the layout cannot be checked before the deploy; the node has the last word"
        )
    named = {*model.other_names, *model.other_names.values()}
    varying = [profile for profile, _ in declared if profile in named]
    if varying:
        yield (
            f"the names of MIG profiles of {model.key} differ by driver and GPU: {', '.join(varying)} cannot be checked "
            "before the deploy; ask `nvidia-smi mig -lgip` on a node"
        )
    if _too_many_engines(model, layout):
        yield (
            f"{layout_text(layout)} asks for more media engines than {model.key} is known to have: "
            "whether the driver makes it cannot be checked before the deploy; -me profiles take none"
        )


def _too_many_engines(model: GpuModel, layout: Mapping[str, int]) -> bool:
    profiles = model.profiles or {}
    known = [profile.engines for profile in profiles.values() if profile.engines]
    total = [max(column) for column in zip(*known, strict=True)]
    taken = [0] * len(total)
    unknown = False
    for name, count in layout.items():
        engines = profiles[name].engines
        unknown |= engines is None
        taken = [sum_ + count * each for sum_, each in zip(taken, engines or [0] * len(total), strict=True)]
    # An instance whose engines no source gives may well take one, and then nothing may be left for it.
    return any(sum_ > most or (unknown and 0 < most == sum_) for sum_, most in zip(taken, total, strict=True))


def own_names(model: GpuModel, declared: Layout) -> dict[str, int]:
    """The layout under the names that this project's data has for the profiles."""
    layout: Counter[str] = Counter()
    for profile, count in declared:
        layout[model.own_name(profile)] += count
    return dict(sorted(layout.items()))
