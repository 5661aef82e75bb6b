"""Label selectors as apimachinery's `labels.Parse` has them, as far as the project uses them.

What a real API server makes of them is in tests/engine/test_upgrades.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_chosen(thing: Mapping[str, Any], selector: str) -> bool:
    """Whether an object is."""
    labels = thing["metadata"].get("labels") or {}
    return all(_meets(labels, part) for part in re.split(r",(?![^(]*\))", selector))


def _meets(labels: Mapping[str, str], part: str) -> bool:
    if found := re.fullmatch(r"(\S+) notin \((.*)\)", part):
        return labels.get(found[1]) not in found[2].split(", ")
    if found := re.fullmatch(r"([^!=]+)(!=|=)(.*)", part):
        return (labels.get(found[1]) == found[3]) == (found[2] == "=")
    return part in labels
