"""Values with their units, as Grafana names these (`percentunit`, `bytes`, …), and the ticks of axes that fit them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_THOUSANDS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"), (1.0, ""))
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
#: Unit -> (factor, what stands behind the number), the largest first. A value below the last factor has that one.
_SCALES: Final = {
    "short": _THOUSANDS,
    "percentunit": ((0.01, " %"),),
    "bytes": tuple((1024.0**power, f" {name}B") for power, name in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki"), (0, ""))),
    "watt": tuple((factor, f" {name.lower() if name == 'K' else name}W") for factor, name in _THOUSANDS),
    "celsius": ((1.0, " °C"),),
    "s": ((float(_DAY), " d"), (float(_HOUR), " h"), (float(_MINUTE), " min"), (1.0, " s")),
}
#: Seconds between ticks; more are powers of ten of days.
_SECONDS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, _DAY)
_NICE: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_DIGITS: Final = 3
_HUNDRED: Final = 100
#: A smaller range is none: what it is divided by would be 0.
_LEAST: Final = 1e-9
#: No axis goes beyond: sums of larger numbers are not finite.
_MOST: Final = 1e300
_TICKS: Final = 4


def shown(value: float, unit: str) -> str:
    """A value with its unit, in three digits."""
    scale = _SCALES[unit]
    factor, name = next((one for one in scale if abs(value) >= one[0]), scale[-1])
    return f"{_number(value / factor)}{name}"


def _number(value: float) -> str:
    """Three digits, more where they stand before the point; no sign of a zero."""
    text = f"{value:.0f}" if abs(value) >= _HUNDRED and abs(value) < _MOST else f"{value:.{_DIGITS}g}"
    return "0" if float(text) == 0 else text


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high` with ticks at multiples of `step`."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def part(self, value: float) -> float:
        """Where a value is, from 0 to 1; what is beyond is at the end."""
        # Halves, since the difference of large numbers is not finite.
        place = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return min(1.0, max(0.0, place))


def axis(least: float, most: float, unit: str) -> Axis:
    """The axis of such values: with 0 on it, and of shares of a whole with 1 where they come near."""
    low, high = max(-_MOST, min(0.0, least)), min(_MOST, max(0.0, most))
    if unit == "percentunit" and 0.5 < high <= 1:  # noqa: PLR2004 - nearer to all than to nothing
        high = 1.0
    if high - low < _LEAST:
        high = low + 1.0
    step = _step((high - low) / _TICKS, unit)
    if unit == "short":
        # What the dashboards have without a unit is counted.
        step = max(1.0, step)
    first, last = math.floor(low / step + _LEAST), math.ceil(high / step - _LEAST)
    ticks = tuple(number * step for number in range(first, max(last, first + 1) + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def _step(rough: float, unit: str) -> float:
    """The next larger nice one."""
    if unit == "s" and rough <= _DAY:
        return next(float(one) for one in _SECONDS if one >= rough) if rough > 1 else _nice(rough)
    if unit == "s":
        return _DAY * _nice(rough / _DAY)
    if unit == "bytes" and rough >= 1:
        power = 1024.0 ** math.floor(math.log(rough, 1024))
        return power * _binary(rough / power)
    return _nice(rough)


def _binary(rough: float) -> float:
    """A power of two, at most 1024."""
    return float(2 ** math.ceil(math.log2(rough)))


def _nice(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next((one for one in _NICE if one * power >= rough), _NICE[-1]) * power
