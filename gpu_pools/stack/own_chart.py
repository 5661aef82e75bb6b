"""A chart's version that this project has no file of: what `helm show values` prints of it says which values it knows.

The same text says which versions of the operands the chart brings, so a file of one's own is as good as those in
gpu_pools/stack/charts and gpu_pools/hardware/operands.yaml. Whether the chart means the same by its values no file can tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from gpu_pools.hardware.operands import OPERANDS, overridden
from gpu_pools.text.nested import leaves
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.reading.section import Section

#: A chart's defaults are some 20 KB.
_LARGEST: Final = 1_000_000
_REMEDY: Final = "Write the file: `helm show values CHART --version VERSION > FILE`."


@dataclass(frozen=True)
class OwnChart:
    """What a file says of a chart.

    Attributes:
        keys: its values: a mapping for each mapping, None for everything else.
        operands: operand -> the version that it brings.
        repositories: value -> where it takes an image from.
        pulling: what stands before each value `imagePullSecrets`, e.g. ``toolkit.``.
    """

    keys: Mapping[str, Any]
    operands: Mapping[str, str] = field(default_factory=dict)
    repositories: Mapping[str, str] = field(default_factory=dict)
    pulling: tuple[str, ...] = ()


def read_own_chart(section: Section, key: str) -> OwnChart | None:
    """The file that a section names; None where it names none, or what it names is no such file, which is a problem."""
    path = section.text(key)
    if path is None:
        return None
    try:
        values = _defaults(Path(path))
    except (OSError, ValueError, TypeError, yaml.YAMLError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        section.problems.add(
            section.at(key), f'"{path}" cannot be read: {reason}', allowed="a file with a chart's default values", remedy=_REMEDY
        )
        return None
    brought: dict[str, str] = {operand: text for operand in OPERANDS if (text := overridden(values, operand))}
    found = dict(leaves(values))
    repositories = {path: str(value) for path, value in found.items() if path.endswith(".repository") and value}
    pulling = tuple(path.removesuffix("imagePullSecrets") for path in found if path.endswith(".imagePullSecrets"))
    pulling += ("",) if "imagePullSecrets" in found else ()
    return OwnChart(_keys(values), brought, repositories, pulling)


def _defaults(file: Path) -> dict[Any, Any]:
    if file.stat().st_size > _LARGEST:
        raise ValueError("it is larger than any chart's values")
    values = load_yaml(file.read_text(encoding="utf-8"))
    if not isinstance(values, dict):
        raise TypeError("it is not a mapping")
    return values


def _keys(values: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): _keys(value) if isinstance(value, dict) else None for key, value in values.items()}
