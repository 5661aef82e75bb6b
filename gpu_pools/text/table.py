"""Plain tables for people; no colour, no wrapping, columns as wide as their content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_pools.text import harmless

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a rule below its header; whatever a cell holds, a row is one line."""
    cells = [[harmless.line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def resources_text(resources: Mapping[str, int]) -> str:
    """Advertised resources in one cell, e.g. ``gpu 8``; the prefix nvidia.com/ is left out."""
    return ", ".join(f"{name.removeprefix('nvidia.com/')} {count}" for name, count in resources.items()) or "nothing"
