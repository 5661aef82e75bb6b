"""Measurements as one picture (SVG): throughput against the number of clients, a panel per kind, a line per measurement.

Written by hand: two axes and some lines need no library, and the text stays stable under diff.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from gpu_pools.bench.workloads import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_pools.bench.document import Document

_COLOURS: Final = ("#0b6e99", "#c2410c", "#4d7c0f", "#7e22ce", "#a16207", "#be185d")
_WIDTH, _HEIGHT, _GAP = 230, 150, 54
_PER_ROW: Final = 3
_TOP: Final = 30


def drawn(documents: Sequence[Document]) -> str:
    """The picture: what one client does that has the GPU to itself is 1."""
    kinds = [kind for kind in KINDS if any(document.alone(kind) for document in documents)]
    rows = -(-len(kinds) // _PER_ROW)
    width = _GAP + min(len(kinds), _PER_ROW) * (_WIDTH + _GAP)
    legend = _TOP + rows * (_HEIGHT + _GAP) + 10
    height = legend + 20 * len(documents) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        "<title>Throughput of all clients together; what one does alone is 1</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for index, kind in enumerate(kinds):
        left, top = _GAP + index % _PER_ROW * (_WIDTH + _GAP), _TOP + index // _PER_ROW * (_HEIGHT + _GAP)
        parts += _panel(kind, documents, left, top)
    for index, document in enumerate(documents):
        y = legend + 20 * index
        parts.append(f'<rect x="{_GAP}" y="{y}" width="14" height="4" fill="{_colour(index)}"/>')
        parts.append(
            f'<text x="{_GAP + 22}" y="{y + 6}">{escape(f"{document.title} ({document.backend}, {document.date[:10]})")}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _panel(kind: str, documents: Sequence[Document], left: int, top: int) -> list[str]:
    whole = _whole(documents, kind)
    lines = [_points(document, kind, whole) for document in documents]
    most_clients = max((clients for line in lines for clients, _ in line), default=1)
    highest = max(1.0, *(value for line in lines for _, value in line)) * 1.1

    def x(clients: float) -> float:
        return round(left + (clients - 1) / max(most_clients - 1, 1) * _WIDTH, 1)

    def y(value: float) -> float:
        return round(top + _HEIGHT - value / highest * _HEIGHT, 1)

    parts = [
        f'<text x="{left}" y="{top - 8}" font-weight="bold">{escape(kind)}</text>',
        f'<path d="M{left} {top}V{top + _HEIGHT}H{left + _WIDTH}" fill="none" stroke="#444"/>',
        f'<path d="M{left} {y(1)}H{left + _WIDTH}" stroke="#bbb" stroke-dasharray="4 3"/>',
        f'<text x="{left - 6}" y="{y(1) + 4}" text-anchor="end">1</text>',
    ]
    if highest > 2:  # noqa: PLR2004 - where the axis has room for another number
        parts.append(f'<text x="{left - 6}" y="{top + 10}" text-anchor="end">{highest:.1f}</text>')
    counts = sorted({clients for line in lines for clients, _ in line})
    parts += [f'<text x="{x(clients)}" y="{top + _HEIGHT + 16}" text-anchor="middle">{clients}</text>' for clients in counts]
    for index, line in enumerate(lines):
        if line:
            path = "L".join(f"{x(clients)} {y(value)}" for clients, value in line)
            parts.append(f'<path d="M{path}" fill="none" stroke="{_colour(index)}" stroke-width="2"/>')
            parts += [f'<circle cx="{x(clients)}" cy="{y(value)}" r="3" fill="{_colour(index)}"/>' for clients, value in line]
    return parts


def _points(document: Document, kind: str, whole: float) -> list[tuple[int, float]]:
    return [(row.clients, row.rate / whole) for row in document.rows if row.kind == kind and row.rate]


def _whole(documents: Sequence[Document], kind: str) -> float:
    """What one client does alone, operations per second: of the first measurement in which it has the whole GPU, else of any."""
    found = sorted((document.limits is not None, index) for index, document in enumerate(documents) if document.alone(kind))
    alone = documents[found[0][1]].alone(kind)
    return alone.rate if alone and alone.rate else 1.0


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]
