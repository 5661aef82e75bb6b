"""What the ids of incidents in a plan's warnings stand for: the line of the reference, for those who have never read it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sandbox.state import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpus.plan import PoolPlan

REFERENCE: Final = "docs/reference/rules.md"
_ID: Final = re.compile(r"\b[A-Z]\d\d\b")
_IN_BRACKETS: Final = re.compile(r"\(([A-Z]\d\d(?:, [A-Z]\d\d)*)\)")


def meanings(pools: Iterable[PoolPlan]) -> list[str]:
    """A line for each incident that the warnings of pools name, in the order of their ids."""
    warnings = [warning for pool in pools for warning in pool.warnings]
    return list(_lines({name for warning in warnings for found in _IN_BRACKETS.findall(warning) for name in _ID.findall(found)}))


def _lines(wanted: Iterable[str]) -> Iterator[str]:
    known = _known()
    yield from (f"{name}: {known[name]}" for name in sorted(wanted) if name in known)


def _known() -> dict[str, str]:
    """Id -> what happens, from the reference's table; a row may have several ids."""
    text = (PROJECT / REFERENCE).read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z]\d\d(?:, [A-Z]\d\d)*) \| ([^|]+) \|", text, re.MULTILINE)
    return {name: what.strip() for names, what in rows for name in _ID.findall(names)}
