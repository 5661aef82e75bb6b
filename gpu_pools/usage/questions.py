"""What is asked of Prometheus about a time: for each recorded series its sum over steps, and in how many steps it was there.

By steps, not by samples: rules may be evaluated as often as one likes, and a series counts for as long as it was there. A step is
a minute, or so long that there are at most 1,440 (a day's minutes). That keeps a question of some thousand pods below what
Prometheus loads for one (`query.max-samples`, 50 million). What is shorter than a step may be missed.

All questions are about one moment: a sum and a count of two moments are not of the same rows. Rows of other pools, and numbers
that no such series can have, are left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.observing import rules, shares
from gpu_pools.observing.series import DECLARED_GPUS, POOL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_pools.observing.prometheus import Prometheus, Sample
    from gpu_pools.observing.times import Span

#: More than all GPUs of the world have shares, in as many steps as there are: sums of such numbers stay finite.
_MOST: Final = 1e15
#: What is summed, and what is counted as well.
SERIES: Final = (
    shares.NODE_POOL,
    rules.NODE_GPUS,
    rules.GPU_ACTIVE,
    rules.UNIT_ACTIVE,
    shares.NODE_ALLOCATABLE,
    shares.NODE_ALLOCATED,
    shares.POD_ALLOCATED,
    rules.POD_ACTIVE,
    rules.POD_IDLE,
)


@dataclass(frozen=True)
class Answers:
    """What Prometheus has of the time.

    Attributes:
        sums: series -> the sum over all steps, of each row.
        counts: series -> in how many steps each row was there.
        covered: in how many steps there was anything.
    """

    sums: Mapping[str, Sequence[Sample]]
    counts: Mapping[str, Sequence[Sample]]
    covered: float


def asked(prometheus: Prometheus, over: Span, pools: Iterable[str], at: float | None = None) -> Answers:
    """Ask all of it.

    Args:
        prometheus: who is asked.
        over: the time.
        pools: whose.
        at: its end, in seconds since the epoch; None: now.

    Raises:
        CannotAskError: where there is no answer.
    """
    named, moment = frozenset(pools), time.time() if at is None else at
    chosen = f'{{{POOL}=~"{"|".join(sorted(named))}"}}'
    window = f"[{over.seconds}s:{over.step}s]"

    def ask(function: str, series: str) -> list[Sample]:
        rows = prometheus.ask(f"{function}({series}{chosen}{window})", at=moment)
        return [row for row in rows if row.labels.get(POOL) in named and 0 <= row.value <= _MOST]

    covered = prometheus.ask(f"max(count_over_time({DECLARED_GPUS}{chosen}{window}))", at=moment)
    return Answers(
        {name: ask("sum_over_time", name) for name in SERIES},
        {name: ask("count_over_time", name) for name in SERIES},
        max(0.0, covered[0].value) if covered else 0,
    )
