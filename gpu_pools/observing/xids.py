"""Xids by what they mean: gpu_pools/observing/xids.yaml, with NVIDIA's catalogue as its source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from gpu_pools.text.yaml_text import load_yaml


@dataclass(frozen=True)
class Meaning:
    """Xids that mean the same.

    Attributes:
        name: of the meaning.
        alert: what they raise; None: nothing.
        says: in words.
        numbers: the Xids.
    """

    name: str
    alert: str | None
    says: str
    numbers: tuple[int, ...]

    @property
    def pattern(self) -> str:
        """As a label matcher of Prometheus has it."""
        return "|".join(str(number) for number in self.numbers)


def meanings() -> tuple[Meaning, ...]:
    """All of them, in the file's order."""
    return tuple(
        Meaning(name, None if one["alert"] == "none" else one["alert"], one["says"], tuple(one["numbers"]))
        for name, one in _raw()["meanings"].items()
    )


def raising(alert: str) -> str:
    """The Xids that raise an alert, as a label matcher has them."""
    return "|".join(one.pattern for one in meanings() if one.alert == alert)


def source() -> str:
    """Where what they mean was read."""
    return str(_raw()["source"])


@lru_cache(maxsize=1)
def _raw() -> dict[str, Any]:
    raw: dict[str, Any] = load_yaml((resources.files("gpu_pools.observing") / "xids.yaml").read_text(encoding="utf-8"))
    return raw
