"""The dashboards as a page that a server draws anew for each request: one dashboard at a time, with what is chosen above it.

What is chosen is a form whose address says all of it, so that a link can be kept, and it works without a script. With the script
(live.js, the server's own) what is drawn is replaced in its place while somebody looks; without, the whole page is loaded anew.
Where Prometheus cannot be asked the page says so, and goes on asking.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from gpu_pools.dashboards.page import drawn, short, time_of
from gpu_pools.observing.dashboards import dashboards
from gpu_pools.text.markup import Html

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.dashboards.asking import Boards
    from gpu_pools.dashboards.choosing import Choice
    from gpu_pools.plan.planned import Plan

#: Seconds between two looks.
REFRESH: Final = 20
_NAMES: Final = {"pool": "Pool", "node": "Node", "gpu": "GPU"}


@dataclass(frozen=True)
class Shown:
    """What a page shows.

    Attributes:
        stack: its name.
        plan: of the stack.
        choice: what is chosen; of the dashboards one.
        over: how long until now, as it is written.
        overs: which times can be chosen.
        values: variable -> what can be chosen of it.
        boards: what was asked; None where Prometheus could not be asked.
        failed: why.
        gone: of what is chosen what there is not; all is shown instead.
        now: when it was asked.
    """

    stack: str
    plan: Plan
    choice: Choice
    over: str
    overs: Sequence[str]
    values: Mapping[str, Sequence[str]]
    boards: Boards | None
    failed: str
    gone: Sequence[str]
    now: float


def live_page(shown: Shown) -> str:
    """The whole page."""
    names = {name: board["title"] for name, board in dashboards(shown.plan).items()}
    return Html.all(
        [
            Html("<!DOCTYPE html>"),
            Html('<html lang="en">'),
            Html("<head>"),
            Html('<meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html.of("<title>{}: GPUs of {}</title>", names[shown.choice.board], short(shown.stack)),
            Html('<link rel="stylesheet" href="page.css">'),
            Html('<link rel="icon" href="data:,">'),
            Html.of('<noscript><meta http-equiv="refresh" content="{}"></noscript>', REFRESH),
            Html('<script src="live.js" defer></script>'),
            Html("</head>"),
            Html.of('<body data-refresh="{}">', REFRESH),
            Html.of("<header><h1>GPUs of {}</h1>", short(shown.stack)),
            _boards(names, shown),
            _choices(shown),
            Html('<p id="told" role="status" hidden></p>'),
            Html("</header>"),
            Html("<main>"),
            *_inside(shown),
            Html("</main>"),
            Html("</body>"),
            Html("</html>\n"),
        ],
        "\n",
    )


def _boards(names: Mapping[str, str], shown: Shown) -> Html:
    """A link to each dashboard; what is chosen goes along."""
    links = []
    for name, title in names.items():
        here = Html(' aria-current="page"') if name == shown.choice.board else Html()
        chosen = {variable: shown.choice.of(variable) for variable in _NAMES if shown.choice.of(variable)}
        address = urlencode({"board": name, **chosen, "over": shown.over})
        links.append(Html.of('<a href="?{}"{}>{}</a>', address, here, title))
    return Html.of('<nav aria-label="Dashboards">{}</nav>', Html.all(links, " "))


def _choices(shown: Shown) -> Html:
    parts = [Html.of('<input type="hidden" name="board" value="{}">', shown.choice.board)]
    for name, values in shown.values.items():
        options = [("", "all"), *((value, value) for value in values)]
        parts.append(_select(name, _NAMES[name], options, shown.choice.of(name)))
    parts.append(_select("over", "Time", [(one, f"last {one}") for one in shown.overs], shown.over))
    parts.append(Html("<button>Show</button>"))
    return Html.of('<form method="get" id="choice">{}</form>', Html.all(parts))


def _select(name: str, label: str, options: Sequence[tuple[str, str]], chosen: str) -> Html:
    written = (
        Html.of('<option value="{}"{}>{}</option>', value, Html(" selected") if value == chosen else Html(), short(text))
        for value, text in options
    )
    return Html.of('<label>{} <select name="{}">{}</select></label>', label, name, Html.all(written))


def _inside(shown: Shown) -> Iterator[Html]:
    if shown.boards is None:
        yield Html.of('<p class="why refused"><strong>Prometheus cannot be asked:</strong> {}</p>', shown.failed)
        return
    for words in shown.gone:
        yield Html.of('<p class="why unknown"><strong>Not there:</strong> {}; all are shown.</p>', words)
    yield from time_of(shown.boards)
    asked = datetime.fromtimestamp(shown.now, UTC).strftime("%H:%M:%S")
    yield Html.of('<p class="soft">Asked at {} UTC; again every {} seconds.</p>', asked, REFRESH)
    yield from drawn(shown.boards, shown.plan, shown.choice.pool)
