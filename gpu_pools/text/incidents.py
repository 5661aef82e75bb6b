"""What the ids in messages (C06, R14, …) stand for: a line each, and where the documentation says more.

Messages name an id where a rule comes from an incident. Whoever prints messages adds a line for each id that they name, once.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from gpu_pools.text.pages import name_page
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PAGE: Final = "reference/rules.md"
_ID: Final = re.compile(r"\b[A-Z]\d\d\b")


def named(texts: Iterable[str]) -> tuple[str, ...]:
    """The ids that texts name, in their order; letters and digits that stand for no incident, as in a GPU's name, are none."""
    return tuple(dict.fromkeys(one for text in texts for one in _ID.findall(text) if one in _lines()))


def link(incident: str) -> str:
    """Where the documentation has it."""
    return name_page(_PAGE, incident.lower())


def explained(texts: Iterable[str]) -> tuple[str, ...]:
    """A line for each id that the texts name: what it stands for, and where more is said."""
    return tuple(f"{one}: {_lines()[one]} ({link(one)})" for one in named(texts))


@lru_cache(maxsize=1)
def _lines() -> Mapping[str, str]:
    lines: dict[str, str] = load_yaml((resources.files("gpu_pools.text") / "incidents.yaml").read_text(encoding="utf-8"))
    return lines
