"""How a pool's living nodes change: a mapping ``rollout`` of the pool, with which they do so in place and a few at a time.

Only settings. What is done on a node is in gpu_pools/verifier/changer/change.py, and decided in steps.py beside it. Windows
have the words of an AKS cluster's `maintenance`, without what needs a calendar (`every`, `startDate`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from gpu_pools.reading.fields import Kind, Row, inner, one_of, read, row, text, whole_number
from gpu_pools.reading.section import Section
from gpu_pools.text.errors import show
from gpu_pools.verifier.changer.windows import DAYS, written

#: What becomes of a change where pods do not go in time.
Staying = Literal["wait", "stop", "delete"]
_STAYING: Final = ("wait", "stop", "delete")
DRAIN_SECONDS: Final = 600
DAY_SECONDS: Final = 86_400
#: As many Leases are asked for at most by a node that waits for a rollout slot.
MOST_AT_ONCE: Final = 100
_SHARE: Final = re.compile(r"([1-9]|[1-9]\d|100)%")


def _nodes(section: Section, one: Row) -> int | str | None:
    value = section.raw(one.key)
    if isinstance(value, str):
        if _SHARE.fullmatch(value):
            return value
        # A program has one type for both.
        if not value.isdecimal() or not 1 <= int(value) <= MOST_AT_ONCE:
            section.problems.add(
                section.at(one.key),
                f"{show(value)} is neither a number of nodes nor a share of them",
                allowed=f'a whole number from 1 to {MOST_AT_ONCE}, or a share from "1%" to "100%"',
                remedy="Write how many nodes may change at the same time.",
            )
            return None
        return int(value)
    found = whole_number(1, MOST_AT_ONCE).read(section, one)
    return found if isinstance(found, int) else None


@dataclass(frozen=True)
class RolloutWindow:
    """When changes may begin: weekly, or daily where no day is named."""

    day: str | None = row("Day of the week; without one: every day.", one_of(DAYS))
    start_time: str | None = row(
        "When it begins, e.g. 22:00.", text(r"([01]\d|2[0-3]):[0-5]\d", 'a time in quotes, e.g. "22:00"'), needed=True
    )
    duration_hours: int | None = row("For how many hours, 1 to 24.", whole_number(1, 24), needed=True)
    utc_offset: str | None = row(
        "From UTC, e.g. +01:00; none by default.", text(r"[+-]([01]\d|2[0-3]):[0-5]\d", 'an offset in quotes, e.g. "+01:00"')
    )

    def __str__(self) -> str:
        """As the changers' command line has it."""
        return written(self.day, self.start_time or "", self.duration_hours or 0, self.utc_offset or "+00:00")


def _window(value: object, path: str, section: Section) -> RolloutWindow | None:
    within = Section(value, path, section.problems, what="a mapping with day, startTime and durationHours")
    if not within.readable:
        return None
    found = read(RolloutWindow, within)
    within.finish()
    return found if found.start_time and found.duration_hours else None


def _windows(section: Section, one: Row) -> tuple[RolloutWindow, ...]:
    return section.each(one.key, lambda value, path: _window(value, path, section), what="a list of windows")


@dataclass(frozen=True)
class Rollout:
    """How the nodes of a pool change.

    Attributes:
        max_unavailable: how many at the same time, or which share of them.
        drain_seconds: how long the pods that hold GPUs of a node may take to go.
        pods_that_stay: what follows where they do not.
        windows: when changes may begin; none: at any time.
    """

    max_unavailable: int | str = row(
        'How many nodes change at the same time, e.g. "2" or "25%".',
        Kind(_nodes, "str"),
        1,
        doc="How many nodes change at the same time: 1 to 100, or a share of the pool's nodes such as `25%`, rounded up as a "
        "DaemonSet's `maxUnavailable` is. Of an autoscaled pool the nodes that are there count.",
    )
    drain_seconds: int = row(
        "How long pods that hold GPUs may take to go, in seconds.",
        whole_number(1, DAY_SECONDS),
        DRAIN_SECONDS,
        key="drainTimeoutSeconds",
        doc="How long the pods of a node that hold GPUs may take to go, in seconds.",
    )
    pods_that_stay: Staying = row(
        "Of pods that do not go in time: wait, stop or delete.",
        one_of(_STAYING),
        "stop",
        doc="What follows where they do not go in time: `wait` for them, `stop` the change and give the node back as it was, or "
        "`delete` them, whatever their disruption budgets say.",
    )
    windows: tuple[RolloutWindow, ...] = row(
        "When changes that take nodes away may begin; at any time by default.",
        Kind(_windows, "list[RolloutWindowArgs]"),
        (),
        doc="When the change of a node may begin, each with `startTime` and `durationHours` (1 to 24), `day` (without one: every "
        "day) and `utcOffset`, as an AKS cluster's `maintenance` has them. A change that has begun goes on to its end. The "
        "offset is fixed, so a window does not follow daylight saving. Without any: at any time.",
    )


ROLLOUT: Final = inner(Rollout, "a mapping with maxUnavailable, drainTimeoutSeconds, podsThatStay or windows")
