"""A line chart as inline SVG: an axis of values, one of times, a line for each series. Asks nobody.

A line ends where a value is missing and begins where the next one is; a value between two missing ones is a dot. So a gap is a
gap, and what was told once can be seen. Colours and dashes are classes of gpu_pools/dashboards/page.css.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from gpu_pools.dashboards.units import axis, shown
from gpu_pools.text.markup import Html

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_pools.dashboards.asking import Line
    from gpu_pools.dashboards.units import Axis
    from gpu_pools.observing.times import Window

#: Pixels of a chart that is half as wide as the page, and of its frame.
_HEIGHT: Final = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 10, 26
_PER_COLUMN: Final = 48
COLOURS: Final = 8
#: What lines of the same colour differ by.
DASHES: Final = 3
#: A line that lacks more than this many steps has a gap.
_GAP: Final = 1.5
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TIMES: Final = (
    *(_MINUTE * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * hours for hours in (1, 2, 3, 6, 12)),
    *(_DAY * days for days in (1, 2, 7, 14, 28)),
)
_PIXELS_PER_TIME: Final = 90


def chart(words: str, lines: Sequence[Line], unit: str, window: Window, columns: int) -> Html:
    """The chart.

    Args:
        words: what it shows, for who cannot see it.
        lines: the series; the first has the first colour.
        unit: of the values, as Grafana names it.
        window: the time.
        columns: its width, of 24.
    """
    width = columns * _PER_COLUMN
    values = [value for line in lines for _, value in line.points]
    scale = axis(min(values), max(values), unit)
    frame = _Frame(width, scale, window)
    parts = [*_values(frame, unit), *_times(frame)]
    for number, line in enumerate(lines):
        parts += _line(frame, line, line_class(number), window.step)
    svg = '<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {} {}">{}</svg>'
    return Html.of(svg, words, width, _HEIGHT, Html.all(parts))


def line_class(number: int) -> str:
    """The classes of a line by its number: other colours first, then other dashes."""
    return f"c{number % COLOURS} d{number // COLOURS % DASHES}"


class _Frame:
    """Where values and times are on the picture."""

    def __init__(self, width: int, scale: Axis, window: Window) -> None:
        self.right = width - _RIGHT
        self.scale, self.window = scale, window

    def x(self, time: float) -> str:
        part = (time - self.window.start) / (self.window.end - self.window.start)
        return f"{_LEFT + min(1.0, max(0.0, part)) * (self.right - _LEFT):.1f}"

    def y(self, value: float) -> str:
        return f"{_HEIGHT - _BOTTOM - self.scale.part(value) * (_HEIGHT - _TOP - _BOTTOM):.1f}"


def _values(frame: _Frame, unit: str) -> Iterator[Html]:
    for tick in frame.scale.ticks:
        y = frame.y(tick)
        yield Html.of('<path class="grid" d="M{} {}H{}"/>', _LEFT, y, frame.right)
        yield Html.of('<text class="at-y" x="{}" y="{}" dy="4">{}</text>', _LEFT - 8, y, shown(tick, unit))


def _times(frame: _Frame) -> Iterator[Html]:
    start, end = frame.window.start, frame.window.end
    most = max(2, (frame.right - _LEFT) // _PIXELS_PER_TIME)
    step = next((one for one in _TIMES if (end - start) / one <= most), _TIMES[-1])
    for time in range(-(-start // step) * step, end + 1, step):
        x = frame.x(time)
        yield Html.of('<path class="grid" d="M{} {}V{}"/>', x, _TOP, _HEIGHT - _BOTTOM)
        words = datetime.fromtimestamp(time, UTC).strftime(_format(end - start, step))
        yield Html.of('<text class="at-x" x="{}" y="{}">{}</text>', x, _HEIGHT - 8, words)


def _format(seconds: int, step: int) -> str:
    if step >= _DAY:
        return "%d %b"
    return "%H:%M" if seconds <= _DAY else "%d %b %H:%M"


def _line(frame: _Frame, line: Line, classes: str, step: int) -> Iterator[Html]:
    path = ""
    for piece in _pieces(line.points, step):
        if len(piece) == 1:
            ((time, value),) = piece
            yield Html.of('<circle class="{}" cx="{}" cy="{}" r="2.5"/>', classes, frame.x(time), frame.y(value))
            continue
        path += "M" + "L".join(f"{frame.x(time)} {frame.y(value)}" for time, value in piece)
    if path:
        yield Html.of('<path class="line {}" d="{}"/>', classes, path)


def _pieces(points: Sequence[tuple[float, float]], step: int) -> Iterator[list[tuple[float, float]]]:
    """Points without a gap between them."""
    piece: list[tuple[float, float]] = []
    for point in points:
        if piece and point[0] - piece[-1][0] > _GAP * step:
            yield piece
            piece = []
        piece.append(point)
    if piece:
        yield piece
