"""Writes the tables of docs/reference/stack.md; the text around their marks is by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.options import AksClusterOptions
from gpu_pools.platforms.aks.placement import AksPlacement
from gpu_pools.platforms.existing.placement import ExistingPlacement
from gpu_pools.platforms.known import PLATFORMS, rows_of
from gpu_pools.platforms.magnum.cluster import MagnumOptions, MagnumSettings
from gpu_pools.platforms.magnum.placement import MagnumPlacement
from gpu_pools.reading.fields import Row, on
from gpu_pools.sharing.mps import Mps
from gpu_pools.sharing.needs import Needs
from gpu_pools.sharing.time_slicing import TimeSlicing
from gpu_pools.stack.acknowledged import Acknowledgement
from gpu_pools.stack.charts import ChartSettings, NfdSettings, OperatorSettings
from gpu_pools.stack.gpu_models import DeclaredMig, DeclaredModel, DeclaredProfile
from gpu_pools.stack.node_hardware import DeclaredHardware, Flavor
from gpu_pools.stack.observability import ObservabilitySettings
from gpu_pools.stack.pools import Pool
from gpu_pools.stack.registry import RegistrySettings
from gpu_pools.stack.verification import VerificationSettings
from tools.generate.arguments import POOL_CLASSES
from tools.generate.files import STACK_REFERENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COLUMNS: Final = ("| key | platform | meaning | sets | a change |", "|---|---|---|---|---|")


def reference_text() -> str:
    """docs/reference/stack.md, with its tables as the rows are."""
    text = STACK_REFERENCE.read_text(encoding="utf-8")
    tables = {
        "cluster": _cluster(),
        "pools": _pools(),
        "sharing": _table((TimeSlicing, "timeSlicing."), (Mps, "mps."), (Needs, "needs.")),
        "gpuModels": _table((DeclaredModel, ""), (DeclaredMig, "mig."), (DeclaredProfile, "mig.profiles.<name>.")),
        "flavors": _table((DeclaredHardware, ""), (Flavor, ""), platform="magnum"),
        "acknowledged": _table((Acknowledgement, "")),
        "charts": _table((ChartSettings, "")),
        "operator": _table((OperatorSettings, "")),
        "nodeFeatureDiscovery": _table((NfdSettings, "")),
        "registry": _table((RegistrySettings, "")),
        "observability": _table((ObservabilitySettings, "")),
        "verification": _table((VerificationSettings, "")),
    }
    for mark, lines in tables.items():
        before, start, rest = text.partition(f"<!-- {mark}: written by python -m tools.generate -->\n")
        _, end, after = rest.partition("<!-- end -->\n")
        text = before + start + "".join(f"{line}\n" for line in lines) + end + after
    return text


def _cluster() -> Iterator[str]:
    yield from _COLUMNS
    yield "| `platform` | all | *required*: `aks`, `magnum` or `existing` | | |"
    for platform, settings in ((name, one.cluster) for name, one in PLATFORMS.items()):
        yield from key_lines(settings, (platform,))
        if settings is AksSettings:
            yield from key_lines(AksClusterOptions, (platform,))
        if settings is MagnumSettings:
            yield from key_lines(MagnumOptions, (platform,))


def _pools() -> Iterator[str]:
    yield from _COLUMNS
    yield from key_lines(Pool, tuple(PLATFORMS))
    for platform, placed in (
        ("aks", (AksPlacement, *POOL_CLASSES)),
        ("magnum", (MagnumPlacement,)),
        ("existing", (ExistingPlacement, DeclaredHardware)),
    ):
        for settings in placed:
            yield from key_lines(settings, (platform,))


def _table(*of: tuple[type, str], platform: str = "all") -> Iterator[str]:
    """The keys of a section that sets no property of a cloud: of each class, and what stands before them."""
    yield from ("| key | meaning |", "|---|---|")
    for settings, above in of:
        yield from _keys(settings, platform, above)


def _keys(settings: type, platform: str, above: str) -> Iterator[str]:
    for row in rows_of(settings):
        yield f"| `{above}{row.key}` | {_meaning(row, platform)} |"
        if not isinstance(row.kind.type, str):
            yield from _keys(row.kind.type, platform, f"{above}{row.key}.")


def key_lines(settings: type, platforms: tuple[str, ...], above: str = "") -> Iterator[str]:
    """A line for each key, and for those of the mappings in it."""
    for row in rows_of(settings):
        on_these = [platform for platform in platforms if on(row.says, platform)]
        if not on_these:
            continue
        cells = [
            f"`{above}{row.key}`",
            "all" if len(on_these) == len(PLATFORMS) else ", ".join(on_these),
            _meaning(row, on_these[0]),
            _by_platform(row.sets, on_these, "`"),
            _by_platform(row.change, on_these),
        ]
        yield "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
        if not isinstance(row.kind.type, str):
            yield from key_lines(row.kind.type, tuple(on_these), f"{above}{row.key}.")


def _meaning(row: Row, platform: str) -> str:
    needed = f"*required*, or `{row.either}`: " if row.either else "*required*: "
    said = row.doc or on(row.says, platform)
    default = json.dumps(row.default).strip('"') if isinstance(row.default, str | int | float) and row.default else ""
    return (needed if row.needed else "") + said + (f" Default: `{default}`." if default and "default" not in said else "")


def _by_platform(value: str | Mapping[str, str], platforms: list[str], quote: str = "") -> str:
    """One word where it is the same everywhere, else one for each platform."""
    words_of = {
        platform: ", ".join(f"{quote}{one}{quote}" for one in on(value, platform).split(", ") if one) for platform in platforms
    }
    if len(set(words_of.values())) == 1:
        return next(iter(words_of.values()))
    return ", ".join(f"{platform}: {words}" for platform, words in words_of.items() if words)
