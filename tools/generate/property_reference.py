"""Writes docs/reference/aks-properties.md: what a change of each property of AKS does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.aks import properties as aks_properties
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.options import AksClusterOptions
from gpu_pools.platforms.aks.placement import AksPlacement
from gpu_pools.platforms.known import rows_of
from gpu_pools.reading.fields import on
from gpu_pools.stack.pools import Pool
from tools.generate.arguments import POOL_CLASSES

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Type of the plugin -> what it is, and the classes whose rows set its properties.
RESOURCES: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "AgentPool": ("Pools", (Pool, AksPlacement, *POOL_CLASSES)),
    "ManagedCluster": ("Clusters", (AksSettings, AksClusterOptions)),
}
_PROPERTIES_HEAD: Final = """# Properties of AKS: what a change does

Written by `python -m tools.generate` from [the data](../../gpu_pools/platforms/aks/properties.yaml).

| word | what happens |
|---|---|
| updates | in place; no node is replaced |
| rolling | in place, but nodes are replaced or reimaged |
| replaces | deleted and created again, by the plugin itself or because the stack tells the engine to |
| refused | neither; the preview says so, and the remedy |

The key is that of [the stack file](stack.md); what has none goes under `properties`. All of what lies in a property does the
same, unless it has a line of its own.
"""


def properties_text() -> str:
    """docs/reference/aks-properties.md."""
    lines = [_PROPERTIES_HEAD]
    for type_, (what, settings) in RESOURCES.items():
        keys = _keys_by_path(settings)
        lines += [f"## {what}\n", "| property | key | a change | besides | read in |", "|---|---|---|---|---|"]
        for path, known in aks_properties.properties(type_).items():
            key = ", ".join(f"`{one}`" for one in keys.get(path, ()))
            besides = "; ".join(filter(None, [known.note, "never off again" if known.keeps else ""]))
            pages = [known.page if one == "docs" else one for one in known.sources]
            cells = [f"`{path}`", key, known.change, besides, ", ".join(pages)]
            lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
        lines.append("")
    lines += ["## Sources\n", *(f"- {key}: {where}" for key, where in aks_properties.sources().items())]
    return "\n".join(lines) + "\n"


def _keys_by_path(settings: tuple[type, ...], above: str = "") -> dict[str, list[str]]:
    """Property -> keys that set it or something in it; those of a mapping by the mapping's own, where it is one property."""
    found: dict[str, list[str]] = {}
    for row in (row for one in settings for row in rows_of(one)):
        if not on(row.says, "aks"):
            continue
        for path in filter(None, on(row.sets, "aks").split(", ")):
            steps = path.split(".")
            for end in range(1, len(steps) + 1):
                found.setdefault(".".join(steps[:end]), []).append(f"{above}{row.key}")
        if not isinstance(row.kind.type, str):
            for path, keys in _keys_by_path((row.kind.type,), f"{above}{row.key}.").items():
                known = found.setdefault(path, [])
                # All keys of a mapping that is one property are said by its name.
                known += [f"{above}{row.key}"] if len(keys) > 1 and f"{above}{row.key}" not in known else keys[: len(keys) == 1]
    return {path: list(dict.fromkeys(keys)) for path, keys in found.items()}
