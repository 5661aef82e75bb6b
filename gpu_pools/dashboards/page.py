"""The dashboards as one HTML page: charts, tiles, tables and texts; no script, nothing to load, light and dark.

What Prometheus answers is text of others: each element is written through gpu_pools/text/markup.py, which escapes it, and a
policy in the page forbids scripts and foreign content all the same. What has no data says so in its place: no chart is drawn that
could be read as 0.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Final

from gpu_pools.dashboards.asking import MOST_SERIES
from gpu_pools.dashboards.chart import chart, line_class
from gpu_pools.dashboards.units import shown
from gpu_pools.mig.geometry import place
from gpu_pools.mig.svg import gpu_style, gpu_svg
from gpu_pools.text.markup import Html

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_pools.dashboards.asking import Answer, Board, Boards, Line, Panel
    from gpu_pools.observing.times import Window
    from gpu_pools.plan.planned import Plan, PoolPlan
    from gpu_pools.sharing.mode import Sharing

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_MOST_CHARACTERS: Final = 200
_STATES: Final = {"nothing": "None", "unknown": "No data", "refused": "The query failed"}
_MARK: Final = re.compile(r"(\*\*[^*]+\*\*|`[^`]+`)")
_PLACE: Final = re.compile(r"\{\{[^}]*\}\}")
_BOARD_OF_GPUS: Final = "gpu"


def dashboards_page(stack: str, plan: Plan, boards: Boards) -> str:
    """The whole page.

    Args:
        stack: its name, for the title.
        plan: has the MIG layouts.
        boards: what was asked.
    """
    return Html.all(
        [
            Html("<!DOCTYPE html>"),
            Html('<html lang="en">'),
            Html("<head>"),
            Html('<meta charset="utf-8">'),
            Html.of('<meta http-equiv="Content-Security-Policy" content="{}">', Html(_POLICY)),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html.of("<title>GPUs of {}</title>", short(stack)),
            Html.of("<style>\n{}</style>", Html(style())),
            Html("</head>"),
            Html("<body>"),
            Html.of("<header><h1>GPUs of {}</h1>", short(stack)),
            *time_of(boards),
            Html("</header>"),
            Html("<main>"),
            *drawn(boards, plan),
            Html("</main>"),
            Html("</body>"),
            Html("</html>\n"),
        ],
        "\n",
    )


def style() -> str:
    """The style sheet of a page with dashboards."""
    return resources.files("gpu_pools.dashboards").joinpath("page.css").read_text(encoding="utf-8") + gpu_style()


def drawn(boards: Boards, plan: Plan, pool: str = "") -> Iterator[Html]:
    """Each dashboard; of MIG layouts those of one pool, where one is named."""
    pools = [planned for planned in plan.pools if pool in {"", planned.name}]
    for board in boards.boards:
        yield from _board(board, boards.window, pools)


def time_of(boards: Boards) -> Iterator[Html]:
    """The time that is shown, and how much of it is not known."""
    window = boards.window
    step = f"a value every {shown(window.step, 's')}"
    yield Html.of('<p class="soft">{} to {} UTC, {}.</p>', _moment(window.start), _moment(window.end), step)
    steps = (window.end - window.start) // window.step + 1
    if boards.covered < steps:
        part = f"{boards.covered} of {steps}"
        yield Html.of('<p class="why unknown"><strong>Not all of the time:</strong> rules were evaluated at {} steps.</p>', part)


def _board(board: Board, window: Window, pools: Sequence[PoolPlan]) -> Iterator[Html]:
    yield Html.of('<section><h2>{}</h2><div class="board">', board.title)
    for panel in board.panels:
        yield _framed(panel.title, panel.width, _inside(panel, window))
    if board.name == _BOARD_OF_GPUS and (layouts := tuple(_layouts(pools))):
        yield _framed("MIG layouts, as declared", 24, layouts)
    yield Html("</div></section>")


def _framed(title: str, width: int, parts: Sequence[Html] | Iterator[Html]) -> Html:
    return Html.of('<section class="panel w{}"><h3>{}</h3>{}</section>', width, title, Html.all(parts))


def _inside(panel: Panel, window: Window) -> Iterator[Html]:
    if panel.kind == "text":
        yield from _markdown(panel.says)
        return
    lines = [line for answer in panel.answers for line in answer.lines]
    if lines and panel.kind == "timeseries":
        yield from _chart(panel, lines, window)
    elif panel.kind == "stat":
        yield from (_tile(line, panel.unit) for line in lines)
    elif lines:
        yield from _table(lines, panel.unit)
    for answer in panel.answers:
        yield from _of_how_many(answer)
        yield from _why(answer, of_several=len(panel.answers) > 1)


def _of_how_many(answer: Answer) -> Iterator[Html]:
    """What is not shown."""
    if len(answer.lines) == answer.series:
        return
    text = f"{len(answer.lines)} of {answer.series} series: those that reach highest."
    if answer.series >= MOST_SERIES:
        text = f"{len(answer.lines)} of {MOST_SERIES} series or more: no more were asked for, so others may reach higher."
    yield Html.of('<p class="soft">{}</p>', text)


def _why(answer: Answer, *, of_several: bool) -> Iterator[Html]:
    """Why there is no data of one question; the question, where a panel has several or it was refused."""
    if answer.state == "data":
        return
    which = Html.of(" ({})", _PLACE.sub("", answer.legend).strip()) if of_several else Html()
    text = '<p class="why {}"><strong>{}</strong>{}: {}{}</p>'
    query = Html.of("<br><code>{}</code>", answer.expression) if answer.state == "refused" else Html()
    yield Html.of(text, answer.state, _STATES[answer.state], which, answer.words[: _MOST_CHARACTERS * 2], query)


# --- charts, tiles, tables --------------------------------------------------------------------------------------


def _chart(panel: Panel, lines: Sequence[Line], window: Window) -> Iterator[Html]:
    yield chart(f"{panel.title}: {len(lines)} lines; their last values are below", lines, panel.unit, window, panel.width)
    entries = (_entry(number, line, panel.unit, window) for number, line in enumerate(lines))
    yield Html.of('<ul class="legend">{}</ul>', Html.all(entries))


def _entry(number: int, line: Line, unit: str, window: Window) -> Html:
    key = '<svg class="key" viewBox="0 0 22 8" aria-hidden="true"><path class="line {}" d="M0 4H22"/></svg>'
    time, last = line.points[-1]
    gone = "" if time >= window.end else f" at {_moment(time)}"
    values = f"last {shown(last, unit)}{gone}, max {shown(line.highest, unit)}"
    text = '<li>{}<span class="name">{}</span><span class="soft">{}</span></li>'
    return Html.of(text, Html.of(key, line_class(number)), short(line.legend), values)


def _tile(line: Line, unit: str) -> Html:
    return Html.of('<div class="value">{}</div><p class="soft">{}</p>', shown(line.points[-1][1], unit), short(line.legend))


def _table(lines: Sequence[Line], unit: str) -> Iterator[Html]:
    names = list(dict.fromkeys(name for line in lines for name in line.labels))
    head = Html.all(Html.of('<th scope="col">{}</th>', short(name)) for name in names)
    yield Html.of('<div class="wide"><table><thead><tr>{}<th scope="col" class="number">value</th></tr></thead><tbody>', head)
    for line in lines:
        cells = Html.all(Html.of("<td>{}</td>", short(line.labels.get(name, ""))) for name in names)
        yield Html.of('<tr>{}<td class="number">{}</td></tr>', cells, shown(line.points[-1][1], unit))
    yield Html("</tbody></table></div>")


# --- MIG layouts ------------------------------------------------------------------------------------------------


def _layouts(pools: Sequence[PoolPlan]) -> Iterator[Html]:
    """Each layout of each pool, where its instances may lie; what a GPU has at the moment `evidence` tells."""
    for pool in pools:
        if pool.sharing.partitioned:
            yield Html.of('<p><strong>{}</strong></p><ul class="gpus">{}</ul>', pool.name, Html.all(_gpus(pool, pool.sharing)))


def _gpus(pool: PoolPlan, sharing: Sharing) -> Iterator[Html]:
    by_layout: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for index in range(pool.hardware.gpus):
        by_layout.setdefault(tuple(sorted(sharing.layout_of(index).items())), []).append(str(index))
    for layout, indexes in by_layout.items():
        words = f"GPU {', '.join(indexes)}: {', '.join(f'{count}x {profile}' for profile, count in layout) or 'whole'}"
        placed = place(pool.hardware.model, dict(layout)) if pool.hardware.model.profiles else None
        units = pool.hardware.model.placement_units or 1
        known = placed is not None or not layout
        picture = gpu_svg(words, placed or (), units, parted=bool(layout)) if known else Html()
        yield Html.of("<li>{}{}</li>", words, picture)


# --- texts ------------------------------------------------------------------------------------------------------


def _markdown(text: str) -> Iterator[Html]:
    """Of Markdown what the dashboards' own texts have: paragraphs, lists, strong words, code."""
    items = [line for line in text.splitlines() if line.startswith("- ")]
    rest = " ".join(line for line in text.splitlines() if not line.startswith("- "))
    if rest:
        yield Html.of("<p>{}</p>", _words(rest))
    if items:
        yield Html.of("<ul>{}</ul>", Html.all(Html.of("<li>{}</li>", _words(item.removeprefix("- "))) for item in items))


def _words(text: str) -> Html:
    return Html.all(map(_word, _MARK.split(text)))


def _word(part: str) -> Html:
    if _MARK.fullmatch(part):
        return Html.of("<strong>{}</strong>", part[2:-2]) if part.startswith("**") else Html.of("<code>{}</code>", part[1:-1])
    return Html.of("{}", part)


def short(text: str) -> str:
    """A text of others, no longer than a line or two."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")
