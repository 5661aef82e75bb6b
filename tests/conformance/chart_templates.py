"""Which values the templates of a chart read: a reader of Go templates that follows `with`, `range` and variables.

It knows what the known charts use. A value that a named template reads (`include "x" .Values.y`) counts as read as far as
the call names it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ValuePath = tuple[str, ...]
_ACTION: Final = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)
_TEXT: Final = re.compile(r'"(?:\\.|[^"\\])*"|`[^`]*`')
#: A variable or nothing, and the fields after it; a lone dot is the present context.
_CHAIN: Final = re.compile(r"(?<![\w)\]])(\$\w*|)((?:\.[A-Za-z_]\w*)+|\.(?!\w))")
_ASSIGNED: Final = re.compile(r"(?:with\s+)?(\$\w+)\s*:?=\s*\$?\w*(?:\.\w+)+\s*$")
_OPENING: Final = frozenset({"if", "range", "with", "define", "block"})
#: The part of a path that stands for any element of what is ranged over.
ELEMENT: Final = "[]"


def read_values(chart: Path) -> frozenset[ValuePath]:
    """Return the path of each value that the templates of a chart read, without what is inside of list elements.

    Args:
        chart: the folder with `templates`.
    """
    files = [file for file in sorted((chart / "templates").rglob("*")) if file.suffix in {".yaml", ".tpl"}]
    return frozenset(path for file in files for path in _paths(file.read_text(encoding="utf-8")))


def _paths(template: str) -> Iterator[ValuePath]:
    dot: ValuePath | None = ()
    outer: list[ValuePath | None] = []
    variables: dict[str, ValuePath] = {}
    for action in _ACTION.finditer(template):
        code = _TEXT.sub('""', action[1].strip())
        if code.startswith("/*"):
            continue
        word = code.split(maxsplit=1)[0] if code else ""
        if word == "end":
            dot = outer.pop()
            continue
        found = [path for chain in _CHAIN.finditer(code) if (path := _resolve(chain, dot, variables)) is not None]
        yield from (path[1 : path.index(ELEMENT) if ELEMENT in path else None] for path in found if _is_value(path))
        if (assigned := _ASSIGNED.match(code)) and found:
            variables[assigned[1]] = found[-1]
        if word in _OPENING:
            outer.append(dot)
            dot = _context(word, found, dot)


def _is_value(path: ValuePath) -> bool:
    return path[:1] == ("Values",) and len(path) > 1


def _resolve(chain: re.Match[str], dot: ValuePath | None, variables: dict[str, ValuePath]) -> ValuePath | None:
    """Return what a chain of fields stands for; None where the context is not known."""
    base = dot if chain[1] == "" else () if chain[1] == "$" else variables.get(chain[1])
    return None if base is None else base + tuple(part for part in chain[2].split(".") if part)


def _context(word: str, found: list[ValuePath], dot: ValuePath | None) -> ValuePath | None:
    """Return what the dot is inside of a block."""
    if word == "with":
        return found[-1] if found else None
    if word == "range":
        return (*found[-1], ELEMENT) if found else None
    return () if word == "define" else dot
