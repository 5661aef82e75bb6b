"""The dashboards as one HTML page: charts, tiles, tables and texts; no script, nothing to load, light and dark.

page.html.j2 is the page, boards.html.j2 what it has in common with the live one. What Prometheus answers is text of others: the
templates escape it (gpu_pools/text/templates.py), and a policy in the page forbids scripts and foreign content all the same. What
has no data says so in its place: no chart is drawn that could be read as 0.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.dashboards.asking import MOST_SERIES
from gpu_pools.dashboards.chart import chart, line_class
from gpu_pools.dashboards.units import shown
from gpu_pools.mig.geometry import place
from gpu_pools.mig.svg import gpu_style, gpu_svg
from gpu_pools.text.markup import Html
from gpu_pools.text.templates import fill

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_pools.dashboards.asking import Answer, Boards, Line, Panel
    from gpu_pools.plan.planned import Plan, PoolPlan

_MOST_CHARACTERS: Final = 200
_STATES: Final = {"nothing": "None", "unknown": "No data", "refused": "The query failed"}
_MARK: Final = re.compile(r"(\*\*[^*]+\*\*|`[^`]+`)")
_PLACE: Final = re.compile(r"\{\{[^}]*\}\}")


def dashboards_page(stack: str, plan: Plan, boards: Boards) -> str:
    """The whole page.

    Args:
        stack: its name, for the title.
        plan: has the MIG layouts.
        boards: what was asked.
    """
    return fill_page("page.html.j2", plan, stack=stack, boards=boards, style=Html(style()))


def fill_page(template: str, plan: Plan, pool: str = "", **values: object) -> str:
    """Fill the template of a page that has dashboards.

    Args:
        template: the file's name.
        plan: has the MIG layouts.
        pool: whose MIG layouts are drawn; empty: those of all pools.
        values: what else the template uses.
    """
    helpers: dict[str, Any] = {
        "chart": chart,
        "label_names": _label_names,
        "layouts": _layouts,
        "left_out": _left_out,
        "line_class": line_class,
        "lines_of": _lines,
        "longest_reason": _MOST_CHARACTERS * 2,
        "marked": _marked,
        "moment": _moment,
        "paragraph_and_items": _paragraph_and_items,
        "pools": [one for one in plan.pools if pool in {"", one.name} and one.sharing.partitioned],
        "short": short,
        "shown": shown,
        "states": _STATES,
        "without_places": _without_places,
    }
    return fill("gpu_pools.dashboards", template, **helpers, **values)


def style() -> str:
    """The style sheet of a page with dashboards."""
    return resources.files("gpu_pools.dashboards").joinpath("page.css").read_text(encoding="utf-8") + gpu_style()


def short(text: str) -> str:
    """A text of others, no longer than a line or two."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


def _lines(panel: Panel) -> list[Line]:
    return [line for answer in panel.answers for line in answer.lines]


def _label_names(lines: Sequence[Line]) -> list[str]:
    """The columns of a table: each label that a line has."""
    return list(dict.fromkeys(name for line in lines for name in line.labels))


def _left_out(answer: Answer) -> str:
    """Which series are not shown."""
    if answer.series >= MOST_SERIES:
        return f"{len(answer.lines)} of {MOST_SERIES} series or more: no more were asked for, so others may reach higher."
    return f"{len(answer.lines)} of {answer.series} series: those that reach highest."


def _without_places(legend: str) -> str:
    """A legend without its placeholders, which nothing has filled."""
    return _PLACE.sub("", legend).strip()


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")


# --- MIG layouts ------------------------------------------------------------------------------------------------


def _layouts(pool: PoolPlan) -> Iterator[tuple[str, Html]]:
    """Each layout of a pool in words, and where its instances may lie; what a GPU has at the moment `evidence` tells."""
    by_layout: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for index in range(pool.hardware.gpus):
        by_layout.setdefault(tuple(sorted(pool.sharing.layout_of(index).items())), []).append(str(index))
    for layout, indexes in by_layout.items():
        words = f"GPU {', '.join(indexes)}: {', '.join(f'{count}x {profile}' for profile, count in layout) or 'whole'}"
        placed = place(pool.hardware.model, dict(layout)) if pool.hardware.model.profiles else None
        units = pool.hardware.model.placement_units or 1
        known = placed is not None or not layout
        yield words, gpu_svg(words, placed or (), units, parted=bool(layout)) if known else Html()


# --- texts: of Markdown what the dashboards' own have, which is paragraphs, lists, strong words, code ------------


def _paragraph_and_items(text: str) -> tuple[str, list[str]]:
    items = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
    return " ".join(line for line in text.splitlines() if not line.startswith("- ")), items


def _marked(text: str) -> Iterator[tuple[str, str]]:
    """(`strong`, `code` or nothing, words) of each part of a text."""
    for part in _MARK.split(text):
        if not _MARK.fullmatch(part):
            yield "", part
        elif part.startswith("**"):
            yield "strong", part[2:-2]
        else:
            yield "code", part[1:-1]
