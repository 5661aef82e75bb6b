"""The fields of DCGM that the exporter collects: what each is, and whose its value is on a partitioned or shared GPU.

The facts are gpu_pools/hardware/dcgm_fields.yaml with their sources. The list holds all that the operator's exporter collects by
default, so that nothing that somebody reads already goes away, and what alerts and shares need besides. What becomes of it is
decided by gpu_pools/rendering/dcgm_exporter.py and gpu_pools/observing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, cast

from gpu_pools.hardware.operands import parse_version
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.hardware.models import Version

Whose = Literal["instance", "gpu", "none", "unknown"]


@dataclass(frozen=True)
class DcgmField:
    """One field.

    Attributes:
        name: DCGM's, and the metric's.
        type: of the metric: counter, gauge, or label (of all others).
        says: the help text.
        mig: whose the value is where the GPU is partitioned.
        added: whether the operator's default list lacks it.
    """

    name: str
    type: str
    says: str
    mig: Whose
    added: bool


def dcgm_fields() -> tuple[DcgmField, ...]:
    """All that are collected, in the file's order."""
    written: Mapping[str, Mapping[str, str]] = _raw()["fields"]
    return tuple(
        DcgmField(name, one["type"], one["says"], cast("Whose", one["mig"]), one.get("asked") == "added")
        for name, one in written.items()
    )


def per_pod_fields() -> frozenset[str]:
    """Those with a value of each pod on a shared GPU."""
    return frozenset(_raw()["perPod"]["fields"])


def measures_pods(chart: str) -> bool:
    """Whether the exporter of a GPU operator of this version measures pods; a version without numbers does not."""
    version = parse_version(chart)
    return version is not None and version >= measures_pods_since()


def measures_pods_since() -> Version:
    """The first GPU operator whose exporter does."""
    return tuple(int(part) for part in str(_raw()["perPod"]["since"]).split("."))


@lru_cache(maxsize=1)
def _raw() -> dict[str, Any]:
    raw: dict[str, Any] = load_yaml((resources.files("gpu_pools.hardware") / "dcgm_fields.yaml").read_text(encoding="utf-8"))
    return raw
