"""Which nodes a pool's ``rollout`` is changing, by the annotation that the change itself keeps. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.shared_text import plain
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: As gpu_pools/verifier/changer/living_node.py writes it.
ANNOTATION: Final = "gpu-pools/change"


def changing(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each, by node: since when, and what stands against it."""
    texts = {str(at(node, "metadata", "name")): at(node, "metadata", "annotations", ANNOTATION) for node in nodes}
    return sorted(f"{plain(name)} is being changed{_told(text)}" for name, text in texts.items() if text)


def _told(text: object) -> str:
    try:
        mark: Any = json.loads(text) if isinstance(text, str) else None
        since, why, stopped = mark["since"], mark.get("why"), mark.get("stopped")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ": its annotation cannot be read"
    state = " (stopped, and given back as it was)" if stopped else ""
    return f" since {plain(since)}{state}" + (f": {plain(why)}" if why else "")
