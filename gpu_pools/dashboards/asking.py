"""Asks a Prometheus what the panels of the dashboards ask, each question once: over a time for charts, now for the others.

The panels are those of gpu_pools/observing/dashboards.py, as Grafana gets them. What is to be chosen there is chosen by a
`Choice`, which says all where nothing else is said: each pool of the plan, each node, each GPU. A question that Prometheus
refuses is told in its panel; where it cannot be asked at all, nothing is told.

Questions are bounded: so many steps that a chart can show them, and so many series at most. Of an answer only what is shown is
kept, since a fleet has thousands of series: of a chart those that reach highest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from gpu_pools.dashboards.choosing import Choice, filled, matchers
from gpu_pools.dashboards.missing import PROOFS, reason
from gpu_pools.observing.dashboards import dashboards
from gpu_pools.observing.prometheus import RefusedError, Row
from gpu_pools.observing.series import DECLARED_GPUS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_pools.observing.prometheus import Prometheus
    from gpu_pools.observing.times import Window
    from gpu_pools.plan.planned import Plan

#: The most steps of a chart, and series of an answer.
MOST_STEPS: Final = 360
MOST_SERIES: Final = 2000
#: What a panel shows of them.
MOST_LINES: Final = 20
MOST_ROWS: Final = 50
_PLACE: Final = re.compile(r"\{\{ *(\w+) *\}\}")
_NAME: Final = "__name__"

Kind = Literal["timeseries", "stat", "table", "text"]
State = Literal["data", "nothing", "unknown", "refused"]


@dataclass(frozen=True)
class Line:
    """A series of an answer.

    Attributes:
        legend: its name, as the dashboard has it; not unique.
        labels: its labels, without the name of a series.
        points: (seconds since the epoch, value); of what is asked about now one.
    """

    legend: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]

    @property
    def highest(self) -> float:
        """The largest value."""
        return max(value for _, value in self.points)


@dataclass(frozen=True)
class Answer:
    """What came of a question.

    Attributes:
        expression: the question, as it was asked.
        legend: of the dashboard, with its places.
        lines: the series that are shown.
        series: how many there are; where it is `MOST_SERIES` there may be more.
        state: `data`; `nothing`: it is known that there is nothing; `unknown`: it is not told; `refused`.
        words: why, where there is no data.
    """

    expression: str
    legend: str
    lines: tuple[Line, ...]
    series: int
    state: State
    words: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel; `says`: the Markdown of one that is text, `width`: of 24 columns."""

    title: str
    kind: Kind
    unit: str
    width: int
    says: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Board:
    """A dashboard."""

    name: str
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Boards:
    """All of them; `covered`: at how many steps of the window the stack's rules were evaluated."""

    window: Window
    covered: int
    boards: tuple[Board, ...]

    @property
    def is_whole(self) -> bool:
        """Whether each question has an answer."""
        answers = (answer for board in self.boards for panel in board.panels for answer in panel.answers)
        return all(answer.state in {"data", "nothing"} for answer in answers)


@dataclass(frozen=True)
class _There:
    """The `PROOFS` that had a value at some step, and those that have one at the end."""

    ever: frozenset[str]
    now: frozenset[str]


def asked(prometheus: Prometheus, plan: Plan, window: Window, choice: Choice | None = None) -> Boards:
    """Ask everything that is chosen; without a choice all.

    Raises:
        CannotAskError: where Prometheus cannot be asked.
    """
    choice = choice or Choice()
    chosen = matchers(plan, choice)
    counted = {name: prometheus.ask_range(f'count({name}{{gpu_pool=~"{chosen["pool"]}"}})', window) for name in PROOFS}
    times = {name: [time for row in rows for time, _ in row.points] for name, rows in counted.items()}
    there = _There(
        frozenset(name for name, found in times.items() if found),
        frozenset(name for name, found in times.items() if window.end in found),
    )
    boards = (
        Board(name, board["title"], tuple(_panel(prometheus, panel, window, chosen, there) for panel in board["panels"]))
        for name, board in dashboards(plan).items()
        if choice.board in {"", name}
    )
    return Boards(window, len(times[DECLARED_GPUS]), tuple(boards))


def _panel(prometheus: Prometheus, panel: Mapping[str, Any], window: Window, chosen: Mapping[str, str], there: _There) -> Panel:
    kind: Kind = panel["type"]
    when = window if kind == "timeseries" else window.end
    targets = [*_targets(panel)]
    most = MOST_LINES // max(1, len(targets)) if kind == "timeseries" else MOST_ROWS
    answers = (_answer(prometheus, target, when, chosen, there, most) for target in targets)
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
    return Panel(panel["title"], kind, unit, panel["gridPos"]["w"], panel.get("options", {}).get("content", ""), tuple(answers))


def _targets(panel: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for target in panel.get("targets", ()):
        yield target["expr"], target["legendFormat"]


def _answer(
    prometheus: Prometheus, target: tuple[str, str], when: Window | int, chosen: Mapping[str, str], there: _There, most: int
) -> Answer:
    """Over a window, or at a moment; so many series at most are kept."""
    written, legend = target
    expression = filled(written, chosen)
    try:
        rows = _rows(prometheus, expression, when)
    except RefusedError as error:
        return Answer(expression, legend, (), 0, "refused", error.message)
    if rows:
        lines = sorted((_line(row, legend) for row in rows), key=_order)
        return Answer(expression, legend, tuple(_highest(lines, most)), len(rows), "data")
    why = reason(expression, there.now if isinstance(when, int) else there.ever)
    return Answer(expression, legend, (), 0, "nothing" if why.known else "unknown", why.words)


def _highest(lines: Sequence[Line], most: int) -> list[Line]:
    """Those that reach highest, in their order."""
    by_height = sorted(range(len(lines)), key=lambda index: -lines[index].highest)
    return [lines[index] for index in sorted(by_height[:most])]


def _rows(prometheus: Prometheus, expression: str, when: Window | int) -> Sequence[Row]:
    """Those that have a value."""
    if isinstance(when, int):
        samples = prometheus.ask(expression, at=when, limit=MOST_SERIES)
        return [Row(one.labels, [(when, one.value)]) for one in samples]
    return [row for row in prometheus.ask_range(expression, when, limit=MOST_SERIES) if row.points]


def _line(row: Row, legend: str) -> Line:
    labels = {name: text for name, text in sorted(row.labels.items()) if name != _NAME}
    named = " ".join(_PLACE.sub(lambda found: labels.get(found[1], ""), legend).split())
    return Line(named or ", ".join(f"{name}={text}" for name, text in labels.items()) or "value", labels, row.points)


def _order(line: Line) -> tuple[str, tuple[tuple[str, str], ...]]:
    return line.legend, tuple(line.labels.items())
