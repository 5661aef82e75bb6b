"""Refuses what no stack file needs and every terminal obeys: control characters, and turns of direction.

YAML writes them as escapes, so that a review of the file shows letters, and what is made of it (a tag in a cloud, a label, the
engine's own diff) does something to whoever looks at it. This project's own output is harmless by itself
(gpu_pools/text/harmless.py); other programs show the same values, too. Line breaks and tabs may be needed in values of charts.
Marks of direction that scripts are written with (U+200E, U+200F, U+061C) turn nothing around.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpu_pools.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.text.errors import Problems

_REFUSED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)")


def check_text(config: Mapping[str, object], problems: Problems) -> None:
    """Add a problem for each key and each text that holds such a character, at any depth."""
    for path, text in _texts(config):
        if found := _REFUSED.search(text):
            problems.add(
                path,
                f"holds {harmless.line(found[0])} at character {found.start() + 1}",
                allowed="letters of any script, line breaks and tabs; no control character, and none that turns text around",
                remedy="Take it out; nothing here means anything by it.",
            )


def _texts(config: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """(path, text) of keys and texts; not by recursion, and nothing twice: YAML nests deep, and may have a list many times."""
    left: list[tuple[str, object]] = [("", config)]
    seen: set[int] = set()
    while left:
        path, value = left.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict | list) and id(value) not in seen:
            seen.add(id(value))
            inside = [*_inside(path, value)]
            yield from ((place, key) for place, key, _ in inside if key)
            left += [(place, inner) for place, _, inner in reversed(inside)]


def _inside(path: str, value: Mapping[object, object] | list[object]) -> Iterator[tuple[str, str, object]]:
    """(path, key, value) of what is in a mapping or a list, which has no keys."""
    if isinstance(value, list):
        yield from ((f"{path}[{index}]", "", inner) for index, inner in enumerate(value))
    else:
        yield from ((f"{path}.{key}" if path else str(key), str(key), inner) for key, inner in value.items())
