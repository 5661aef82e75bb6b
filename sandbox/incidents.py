"""What the ids of incidents in a plan's warnings stand for: the line of the reference, for those who have never read it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sandbox.state import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpus.plan import PoolPlan

REFERENCE: Final = "docs/reference/rules.md"
_ID: Final = re.compile(r"\b[A-Z]\d\d\b")


def meanings(pools: Iterable[PoolPlan]) -> list[str]:
    """A line for each incident that the warnings of pools name, in the order of their ids."""
    named = {name for pool in pools for warning in pool.warnings for name in _ID.findall(warning)}
    # What only looks like one, as the name of a GPU, has no line.
    return [f"{name}: {what}" for name, what in sorted(_known().items()) if name in named]


def _known() -> dict[str, str]:
    """Id -> what happens, from the reference's table; a row may have several ids."""
    text = (PROJECT / REFERENCE).read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z]\d\d(?:, [A-Z]\d\d)*) \| ([^|]+) \|", text, re.MULTILINE)
    return {name: what.strip() for names, what in rows for name in _ID.findall(names)}
