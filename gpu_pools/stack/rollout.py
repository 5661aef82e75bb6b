"""How a pool's living nodes change: a mapping ``rollout`` of the pool, with which they do so in place and a few at a time.

Only settings. What is done on a node is in gpu_pools/verifier/change.py, and decided in gpu_pools/verifier/steps.py. A share of
the nodes in percent and maintenance windows are not here: a share would have to be counted anew for each node that joins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gpu_pools.stack.fields import Kind, Row, one_of, read_inner, row, whole_number
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from gpu_pools.stack.section import Section

#: What becomes of a change where pods do not go in time.
Staying = Literal["wait", "stop", "delete"]
_STAYING: Final = ("wait", "stop", "delete")
DRAIN_SECONDS: Final = 600
DAY_SECONDS: Final = 86_400
#: As many Leases are asked for at most by a node that waits for its turn.
_MOST_AT_ONCE: Final = 100


def _nodes(section: Section, one: Row) -> int | None:
    written = section.raw(one.key)
    if isinstance(written, str):
        section.problems.add(
            section.at(one.key),
            f"{show(written)} is not a number of nodes",
            allowed=f"a whole number from 1 to {_MOST_AT_ONCE}",
            remedy="Write how many nodes may change at the same time; a share in percent is not supported.",
        )
        return None
    found = whole_number(1, _MOST_AT_ONCE).read(section, one)
    return found if isinstance(found, int) else None


NODES: Final = Kind(_nodes, "int")


@dataclass(frozen=True)
class Rollout:
    """How the nodes of a pool change.

    Attributes:
        max_unavailable: how many at the same time.
        drain_seconds: how long the pods that hold GPUs of a node may take to go.
        pods_that_stay: what follows where they do not.
    """

    max_unavailable: int = row(
        "How many nodes change at the same time.",
        NODES,
        1,
        doc="How many nodes change at the same time, 1 to 100; not a share in percent.",
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


def _rollout(section: Section, one: Row) -> Rollout | None:
    return read_inner(Rollout, section, one, "a mapping with maxUnavailable, drainTimeoutSeconds or podsThatStay")


ROLLOUT: Final = Kind(_rollout, Rollout)
