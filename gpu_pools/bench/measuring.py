"""The measurement itself: kind by kind, client by client; then neighbours; then faults. What fails is written down and passed.

Clients of a kind join one after the other, so each number of them is measured with as many contexts as there are clients: the
first is truly alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.bench.conductor import ClientFailed, Group
from gpu_pools.bench.document import Bystander, FaultSeen, Neighbour, Row
from gpu_pools.bench.statistics import longest_gap, measured
from gpu_pools.bench.workloads import CLIENTS, FAULTS, FLOOD, KINDS, QUIET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpu_pools.bench.conductor import Outcome, Start
    from gpu_pools.bench.statistics import Measured
    from gpu_pools.bench.workloads import Effort

_FLOODS: Final = (0, 1, 3)
_BYSTANDERS: Final = ("training", QUIET)
_LEAD_SECONDS: Final = 0.5
#: Let the driver give back what clients had, before the next ones are counted.
_REST_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Setting:
    """Whom to measure, and how.

    Attributes:
        starts: of clients, in turn.
        effort: how long.
        used_mib: reads what is used of the GPU.
        state: reads how it fares.
        tell: is told what is being measured.
    """

    starts: Sequence[Start]
    effort: Effort
    used_mib: Callable[[], int | None]
    state: Callable[[], dict[str, str]]
    tell: Callable[[str], None]

    def group(self) -> Group:
        """Clients, none yet."""
        return Group(self.starts)


def throughput(setting: Setting, kinds: Sequence[str] = tuple(KINDS), counts: Sequence[int] = CLIENTS) -> Iterator[Row]:
    """Each kind, alone and together."""
    for kind in kinds:
        before, count = setting.used_mib(), 1
        with setting.group() as group:
            try:
                group.prepare([kind] * max(counts))
                for count in counts:
                    setting.tell(f"{kind}: {count} client{'s' * (count > 1)}")
                    group.join(count - len(group.clients))
                    figures, errors = group.measure(setting.effort)
                    held = sum(client.mib for client in group.clients)
                    yield _row(kind, count, figures, errors, held, _more(before, setting.used_mib()), setting.state())
            except ClientFailed as error:
                setting.tell(f"{kind}: {error}")
                yield Row(kind, count, 0, 0, 0, 1, (), {}, None, 0, 0, (str(error),), setting.state())
        time.sleep(_REST_SECONDS)


def neighbours(setting: Setting) -> Iterator[Neighbour]:
    """A quiet client beside none, one, three floods."""
    for floods in _FLOODS:
        setting.tell(f"a quiet client beside {floods} that flood the GPU")
        with setting.group() as group:
            group.prepare([QUIET, *[FLOOD] * floods])
            group.join(1 + floods)
            start = time.monotonic() + _LEAD_SECONDS
            end = start + setting.effort.warm_up + 2 * setting.effort.window * setting.effort.windows
            quiet, *others = group.work(start, end)
        begin = start + setting.effort.warm_up
        yield _neighbour(floods, quiet, others, begin, end)
        time.sleep(_REST_SECONDS)


def faults(setting: Setting, which: Sequence[str] = FAULTS) -> Iterator[FaultSeen]:
    """Two that work, and a third that takes all memory, breaks its context, or is killed."""
    aside = setting.effort.aside
    for what in which:
        setting.tell({"memory": "one takes all memory", "crash": "one breaks its context", "kill": "one is killed"}[what])
        with setting.group() as group:
            group.prepare([*_BYSTANDERS, FLOOD if what == "kill" else "compute", QUIET])
            group.join(3)
            start = time.monotonic() + _LEAD_SECONDS
            at = start + aside
            *others, faulty = group.work(start, at + 2 * aside, (2, what, at))
            newcomer = None
            try:
                group.join(1)
            except ClientFailed as error:
                newcomer = str(error)
        # The first second of work is not counted: contexts warm up.
        seen = tuple(
            _bystander(kind, outcome, start + min(1.0, aside / 2), at, at + 2 * aside)
            for kind, outcome in zip(_BYSTANDERS, others, strict=True)
        )
        yield FaultSeen(what, faulty.error, seen, newcomer)
        time.sleep(_REST_SECONDS)


def _more(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else now - before


def _row(kind: str, count: int, figures: Measured, errors: list[str], held: int, used: int | None, state: dict[str, str]) -> Row:
    return Row(
        kind=kind,
        clients=count,
        rate=figures.rate,
        lowest=figures.lowest,
        highest=figures.highest,
        fairness=figures.fairness,
        client_rates=figures.client_rates,
        latency={str(percent): seconds for percent, seconds in figures.latency.items()},
        longest=figures.longest,
        held_mib=held,
        used_mib=used,
        errors=tuple(errors),
        state=state,
    )


def _neighbour(floods: int, quiet: Outcome, others: Sequence[Outcome], begin: float, end: float) -> Neighbour:

    own = measured([quiet.operations], begin, end - begin, 1)
    rest = measured([one.operations for one in others], begin, end - begin, 1) if others else None
    latency = {str(percent): seconds for percent, seconds in own.latency.items()}
    return Neighbour(floods, latency, own.longest, own.rate, rest.rate if rest else 0.0)


def _bystander(kind: str, outcome: Outcome, begin: float, at: float, end: float) -> Bystander:
    before = [one for one in outcome.operations if begin <= one[0] < at]
    after = [one for one in outcome.operations if at <= one[0] <= end]
    return Bystander(
        kind=kind,
        before=len(before) / (at - begin),
        after=len(after) / (end - at),
        longest_gap=longest_gap(outcome.operations, at, end),
        error=outcome.error,
    )
