"""The panels of the dashboards as a table for a terminal: how many series each has, or why it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.text.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.dashboards.asking import Boards

_HEADER: Final = ("DASHBOARD", "PANEL", "SERIES")
_STATES: Final = {"nothing": "none", "unknown": "?", "refused": "failed"}


def dashboards_table(boards: Boards) -> str:
    """A line for each question, and below why there is no data."""
    rows, reasons = [], []
    for board in boards.boards:
        for panel in board.panels:
            for answer in panel.answers:
                rows.append((board.name, panel.title, _STATES.get(answer.state, str(answer.series))))
                if answer.state in {"unknown", "refused"}:
                    reasons.append((answer.words, panel.title))
    return "\n".join([table(_HEADER, rows), *_reasons(reasons)])


def _reasons(reasons: list[tuple[str, str]]) -> Iterator[str]:
    """Each once, with the panels that it is about."""
    by_reason: dict[str, list[str]] = {}
    for words, title in reasons:
        titles = by_reason.setdefault(words, [])
        if title not in titles:
            titles.append(title)
    for words, titles in by_reason.items():
        yield ""
        yield f"{words}\n  No data in: {'; '.join(titles)}."
