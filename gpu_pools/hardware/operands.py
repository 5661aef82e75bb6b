"""Versions of the operator's operands: what each chart brings, and since when an operand can do what.

The facts are gpu_pools/hardware/operands.yaml with their sources. What an overridden version means for a stack is decided by
gpu_pools/plan/operand_checks.py, what it means for a file that exists already by gpu_pools/existing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.models import Version

Operand = Literal["driver", "devicePlugin", "gfd", "migManager"]
OPERANDS: Final[tuple[Operand, ...]] = get_args(Operand)
Feature = Literal[
    "migManager.variants",
    "migManager.subsystems",
    "devicePlugin.mps",
    "devicePlugin.defaultFirst",
    "devicePlugin.mpsMany",
    "devicePlugin.mpsSignal",
    "devicePlugin.anchored",
]


def parse_version(text: str) -> Version | None:
    """The numbers of an image tag such as ``v0.17.4`` or ``580.95.05-ubuntu24.04``; None for a digest, `latest` and the like."""
    match = re.fullmatch(r"v?(\d{1,6}(?:\.\d{1,6}){0,3})(?:[-+].*)?", text)
    numbers = [int(part) for part in match[1].split(".")] if match else []
    # 0.20 is 0.20.0, not something before it.
    return (*numbers, *[0] * (3 - len(numbers))) if numbers else None


def since(feature: Feature) -> Version:
    """The first version that has a feature."""
    return tuple(int(part) for part in str(_raw()["since"][feature]).split("."))


def version_text(version: Version) -> str:
    """As it is written, e.g. ``0.12.3``."""
    return ".".join(map(str, version))


def overridden(values: Mapping[str, Any], operand: Operand) -> str | None:
    """The version that chart values, or a ClusterPolicy's spec, give an operand; None where they leave the chart's own."""
    section = values.get(operand)
    version = section.get("version") if isinstance(section, dict) else None
    return str(version) if isinstance(version, str | int | float) and version != "" else None


def brought_by(chart: str, operand: Operand) -> str | None:
    """The version that a gpu-operator chart brings of an operand; None where the chart is not known."""
    charts: Mapping[str, Mapping[str, str]] = _raw()["charts"]
    return charts.get(chart, {}).get(operand)


def charts_with(operand: Operand) -> str:
    """Which chart brings which version of an operand, in words, the newest first."""
    charts: Mapping[str, Mapping[str, str]] = _raw()["charts"]
    return ", ".join(f"gpu-operator {chart} brings {versions[operand]}" for chart, versions in charts.items())


def documented_kubernetes(chart: str) -> tuple[Version, Version] | None:
    """The oldest and newest Kubernetes that a chart of the GPU operator is documented for; None of one that is not known here."""
    found: Mapping[str, list[str]] = _raw()["kubernetes"]
    if chart not in found:
        return None
    oldest, newest = (tuple(int(part) for part in str(one).split(".")) for one in found[chart])
    return oldest, newest


def brought(chart: str) -> Mapping[str, str]:
    """Operand -> version that a chart of the GPU operator brings; empty for a chart that is not known here."""
    charts: Mapping[str, Mapping[str, str]] = _raw()["charts"]
    return charts.get(chart if chart.startswith("v") else f"v{chart}", {})


@lru_cache(maxsize=1)
def _raw() -> dict[str, Any]:
    raw: dict[str, Any] = load_yaml((resources.files("gpu_pools.hardware") / "operands.yaml").read_text(encoding="utf-8"))
    return raw
