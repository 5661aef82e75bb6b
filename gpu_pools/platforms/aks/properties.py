"""What a change of a property does to an agent pool or a managed cluster that lives: Azure's own rules, as data with sources.

azure-native calls nearly everything an update and Azure then refuses it in the deploy. `replacing` is what the engine is told
besides (`replace_on_changes`), so that preview, protection and acknowledgements know of it. The rows of the stack's options say
the same word (a test), and docs/reference/aks-properties.md is written from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Property:
    """What is known of one.

    Attributes:
        change: ``updates``, ``rolling``, ``replaces`` or ``refused``.
        plugin: whether the plugin replaces by itself.
        keeps: whether Azure never switches it off again.
        note: what to know besides.
        sources: keys of `sources`.
        page: of Azure's documentation.
    """

    change: str
    plugin: bool = False
    keeps: bool = False
    note: str = ""
    sources: tuple[str, ...] = field(default=())
    page: str = ""


@lru_cache(maxsize=1)
def _data() -> Any:  # noqa: ANN401 - the file's shape
    return load_yaml((resources.files("gpu_pools.platforms.aks") / "properties.yaml").read_text(encoding="utf-8"))


def sources() -> Mapping[str, str]:
    """Key -> where it was read."""
    found: Mapping[str, str] = _data()["sources"]
    return found


@lru_cache(maxsize=4)
def properties(type_: str) -> Mapping[str, Property]:
    """Path -> what is known of it.

    Args:
        type_: ``AgentPool`` or ``ManagedCluster``.
    """
    return {
        path: Property(
            change=known["change"],
            plugin=known.get("plugin", False),
            keeps=known.get("keeps", False),
            note=known.get("note", ""),
            sources=tuple(known["from"]),
            page=known.get("page", ""),
        )
        for path, known in _data()[type_].items()
    }


def replacing(type_: str) -> list[str]:
    """The paths that the engine is to replace a resource for, besides those of which the plugin says so itself."""
    return [path for path, known in properties(type_).items() if known.change == "replaces" and not known.plugin]


def known_of(type_: str, path: str) -> Property | None:
    """What is known of a path: its own, or that of the nearest property which it lies in."""
    while path not in properties(type_):
        path, point, _ = path.rpartition(".")
        if not point:
            return None
    return properties(type_)[path]


def inputs_that(change: str, type_: str, inputs: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Those of some inputs of which a change does this; what nobody knows is taken to replace."""
    found: dict[str, Any] = {}
    for key, value in inputs.items():
        path = f"{above}{key}"
        if isinstance(value, dict) and any(one.startswith(f"{path}.") for one in properties(type_)):
            if inner := inputs_that(change, type_, value, f"{path}."):
                found[key] = inner
        elif value is not None and (known.change if (known := known_of(type_, path)) else "replaces") == change:
            found[key] = value
    return found
