"""Where the charts take their images from, and which of their values name secrets to pull them with (chart_images.yaml)."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def default_repositories(chart: str, version: str) -> Mapping[str, str]:
    """Value -> the repository that it has by default; empty for a version that is not known."""
    found: Mapping[str, str] = _raw()["repositories"].get(_key(chart, version), {})
    return found


def pull_secret_values(chart: str, version: str) -> Sequence[str]:
    """The values that are lists of secrets to pull with; empty for a version that is not known."""
    found: Sequence[str] = _raw()["pullSecrets"].get(_key(chart, version), ())
    return found


def _key(chart: str, version: str) -> str:
    return version if chart == "gpu-operator" else f"{chart}-{version}"


@lru_cache(maxsize=1)
def _raw() -> dict[str, Any]:
    text = (resources.files("gpu_pools.hardware") / "chart_images.yaml").read_text(encoding="utf-8")
    raw: dict[str, Any] = load_yaml(text)
    return raw
