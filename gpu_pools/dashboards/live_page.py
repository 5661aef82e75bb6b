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

from gpu_pools.dashboards.page import fill_page
from gpu_pools.observing.dashboards import dashboards

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

    def address(board: str) -> str:
        """A link to a dashboard; what is chosen goes along."""
        chosen = {variable: shown.choice.of(variable) for variable in _NAMES if shown.choice.of(variable)}
        return urlencode({"board": board, **chosen, "over": shown.over})

    return fill_page(
        "live.html.j2",
        shown.plan,
        shown.choice.pool,
        page=shown,
        titles={name: board["title"] for name, board in dashboards(shown.plan).items()},
        labels=_NAMES,
        options=_options,
        times=[(one, f"last {one}") for one in shown.overs],
        address=address,
        asked=datetime.fromtimestamp(shown.now, UTC).strftime("%H:%M:%S"),
        refresh=REFRESH,
    )


def _options(values: Sequence[str]) -> list[tuple[str, str]]:
    """(value, text) of what can be chosen of a variable."""
    return [("", "all"), *((value, value) for value in values)]
