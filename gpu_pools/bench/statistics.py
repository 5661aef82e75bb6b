"""Figures out of what clients did: throughput, percentiles of latency, fairness, what is lost by sharing. Pure functions.

An operation is (when it ended, how long it took), in seconds of one clock that all clients share. It counts in the window in
which it ended, so a long operation counts once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

Operation = tuple[float, float]
PERCENTS: Final = (50, 90, 99)


@dataclass(frozen=True)
class Measured:
    """What some clients did in the windows of one case.

    Attributes:
        rate: operations per second of all clients together, the median of the windows.
        lowest: of the windows.
        highest: of the windows.
        client_rates: operations per second of each client, over all windows.
        fairness: Jain's index of these: 1 is even, 1/clients is all for one.
        latency: percentile -> seconds of an operation, of all clients; empty where none ended.
        longest: seconds of the longest operation; None where none ended.
    """

    rate: float
    lowest: float
    highest: float
    client_rates: tuple[float, ...]
    fairness: float
    latency: dict[int, float]
    longest: float | None


def percentile(sorted_values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all are not above (nearest rank).

    Args:
        sorted_values: ascending.
        percent: above 0, at most 100.

    Raises:
        ValueError: when there is no value, or no such percentile.
    """
    if not sorted_values or not 0 < percent <= 100:  # noqa: PLR2004 - percent
        message = f"no percentile {percent} of {len(sorted_values)} values"
        raise ValueError(message)
    return sorted_values[max(math.ceil(len(sorted_values) * percent / 100) - 1, 0)]


def fairness(rates: Sequence[float]) -> float:
    """Jain's index: (sum)² / (n · sum of squares) [R. Jain et al., DEC-TR-301, 1984]; 1 where nobody did anything."""
    if not (most := max(rates)):
        return 1.0
    # Of the greatest: a square of a tiny rate is rounded to nothing.
    shares = [rate / most for rate in rates]
    return math.fsum(shares) ** 2 / (len(shares) * math.fsum(share * share for share in shares))


def measured(clients: Sequence[Sequence[Operation]], start: float, window: float, windows: int) -> Measured:
    """What clients did.

    Args:
        clients: the operations of each; at least one client.
        start: when the first window begins, seconds.
        window: seconds of each.
        windows: how many, at least one.
    """
    end = start + window * windows
    counted = [[one for one in operations if start <= one[0] < end] for operations in clients]
    rates = [
        sum(start + window * index <= one[0] < start + window * (index + 1) for operations in counted for one in operations)
        / window
        for index in range(windows)
    ]
    seconds = sorted(took for operations in counted for _, took in operations)
    each = tuple(len(operations) / (window * windows) for operations in counted)
    return Measured(
        rate=median(rates),
        lowest=min(rates),
        highest=max(rates),
        client_rates=each,
        fairness=fairness(each),
        latency={percent: percentile(seconds, percent) for percent in PERCENTS} if seconds else {},
        longest=seconds[-1] if seconds else None,
    )


def loss(alone: float, together: float) -> float | None:
    """The part of one client's throughput that is lost when several share it: 0.1 is a tenth; None where there was none alone.

    Below 0 where clients leave gaps that others fill.
    """
    return 1 - together / alone if alone > 0 else None


def longest_gap(operations: Sequence[Operation], start: float, end: float) -> float:
    """The longest time without the end of an operation, between two moments, seconds."""
    marks = [start, *sorted(ended for ended, _ in operations if start <= ended <= end), end]
    return max(after - before for before, after in pairwise(marks))
