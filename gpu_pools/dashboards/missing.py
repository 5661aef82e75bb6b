"""Why a question has no answer: who tells the series that it asks, and whether that one was there.

An empty answer means one of two things. There is nothing to tell, as where no GPU had an Xid; that is known where the teller has
told something else. Or nobody tells it, which is not 0. So each teller has one series that is there whenever it is scraped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.observing import rules, shares
from gpu_pools.observing.series import DECLARED_GPUS, DECLARED_REPLICAS, DECLARED_SHARES, DECLARED_SLICES

if TYPE_CHECKING:
    from collections.abc import Collection

_SERIES: Final = re.compile(r"gpu_pools:\w+:\w+")


@dataclass(frozen=True)
class Teller:
    """Who tells series.

    Attributes:
        proof: a series that is there whenever it is scraped.
        missing: what is wrong where that is not there.
    """

    proof: str
    missing: str


@dataclass(frozen=True)
class Reason:
    """Why there is nothing.

    Attributes:
        known: whether it is known that there is nothing; else it is unknown what there is.
        words: the reason.
    """

    known: bool
    words: str


_RULES: Final = Teller(
    DECLARED_GPUS, "This Prometheus did not evaluate the stack's rules then: does it select the PrometheusRule gpu-pools?"
)
_EXPORTER: Final = Teller(rules.NODE_GPUS, "No DCGM exporter of these pools is scraped: is its DaemonSet there, and a target?")
_VERIFIER: Final = Teller(
    rules.NODE_VERIFIED,
    "No verifier is scraped: does the stack verify its nodes, and has Prometheus' namespace the label gpu-pools/metrics=true?",
)
_KUBE_STATE: Final = Teller(
    shares.NODE_ALLOCATED, "kube-state-metrics is not scraped into this Prometheus, or it tells of no node of these pools."
)
_OFFERED: Final = Teller(shares.NODE_ALLOCATABLE, "Neither kube-state-metrics nor a verifier is scraped into this Prometheus.")
_OWN: Final = "No pod had a value of its own: none had a GPU, or the value would be a copy of its GPU's."
#: Series -> who tells it, and what it means where he is there and it is not; empty: he leaves it out, nobody knows why.
_TOLD_BY: Final = {
    rules.GPU_ACTIVE: (_EXPORTER, ""),
    rules.UNIT_ACTIVE: (_EXPORTER, ""),
    rules.POOL_ACTIVE: (_EXPORTER, ""),
    rules.GPU_MEMORY_USED: (_EXPORTER, ""),
    rules.GPU_MEMORY: (_EXPORTER, ""),
    rules.UNIT_MEMORY_USED: (_EXPORTER, ""),
    rules.UNIT_MEMORY: (_EXPORTER, ""),
    rules.GPU_POWER: (_EXPORTER, ""),
    rules.GPU_TEMPERATURE: (_EXPORTER, ""),
    rules.NODE_GPUS: (_EXPORTER, ""),
    rules.POOL_GPUS: (_EXPORTER, ""),
    rules.POD_ACTIVE: (_EXPORTER, _OWN),
    rules.POD_IDLE: (_EXPORTER, _OWN),
    rules.POD_MEMORY_USED: (_EXPORTER, _OWN),
    rules.XIDS: (_EXPORTER, "No GPU has told of an Xid."),
    rules.NODE_VERIFIED: (_VERIFIER, ""),
    rules.NODE_REPORT_AGE: (_VERIFIER, ""),
    shares.NODE_ALLOCATABLE: (_OFFERED, ""),
    shares.POOL_ALLOCATABLE: (_OFFERED, ""),
    shares.NODE_ALLOCATED: (_KUBE_STATE, ""),
    shares.POOL_ALLOCATED: (_KUBE_STATE, ""),
    shares.POD_ALLOCATED: (_KUBE_STATE, "No pod had a share."),
    shares.WAITING: (_KUBE_STATE, ""),
    DECLARED_GPUS: (_RULES, ""),
    DECLARED_REPLICAS: (_RULES, ""),
    DECLARED_SHARES: (_RULES, ""),
    DECLARED_SLICES: (_RULES, ""),
}
#: The series by which each teller is known to be there.
PROOFS: Final = tuple(dict.fromkeys(teller.proof for teller, _ in _TOLD_BY.values()))
_NO_USE: Final = f"{rules.POD_ACTIVE}{{"


def reason(expression: str, there: Collection[str]) -> Reason:
    """Why a question has an empty answer.

    Args:
        expression: the question.
        there: the `PROOFS` that had a value at that time.
    """
    name = series_of(expression)[0]
    teller, nothing = _TOLD_BY[name]
    if teller.proof not in there:
        return Reason(known=False, words=teller.missing)
    if nothing:
        idle = expression.startswith(_NO_USE) and expression.endswith(f"< {rules.IDLE_BELOW}")
        return Reason(known=True, words="No pod whose use is known uses nothing." if idle else nothing)
    return Reason(known=False, words=f"{name} is not told, although other series of the same source ({teller.proof}) are.")


def series_of(expression: str) -> list[str]:
    """The recorded series that a question asks."""
    return _SERIES.findall(expression)
