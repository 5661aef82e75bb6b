"""The releases of the GPU operator: their order, and what a step between two of them brings and takes (releases.yaml).

What a step means for a stack is decided by gpu_pools/plan/operator_upgrade.py. Of versions that are later than the last release
that is known here nobody can say whether something lies between.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def release_of(version: str) -> str | None:
    """The release of a chart's version: ``v26.3`` of ``v26.3.3``, with or without v; None where it has none."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return f"v{int(match[1])}.{int(match[2])}" if match else None


def number(version: str) -> tuple[int, ...]:
    """A version to compare."""
    return tuple(map(int, re.findall(r"\d+", version.partition("-")[0])))


def between(older: str, newer: str) -> Sequence[str]:
    """The releases after one and before another, oldest first; those that are known."""
    order: list[str] = _raw()["order"]
    return [one for one in order if number(older) < number(one) < number(newer)]


def known(release: str) -> bool:
    """Whether it is one of those whose order is known."""
    return release in _raw()["order"]


def said_of(release: str, what: Literal["brings", "lost"]) -> Sequence[str]:
    """What the step to a release brings, or the step back from it takes."""
    steps: Mapping[str, Mapping[str, Sequence[str]]] = _raw()["steps"]
    return steps.get(release, {}).get(what, ())


def restarts_in_place(version: str) -> bool:
    """Whether that operator restarts a driver without an eviction where its digest stays the same."""
    return number(version)[:2] >= number(_raw()["restartOnly"])


@lru_cache(maxsize=1)
def _raw() -> dict[str, Any]:
    raw: dict[str, Any] = load_yaml((resources.files("gpu_pools.hardware") / "releases.yaml").read_text(encoding="utf-8"))
    return raw
