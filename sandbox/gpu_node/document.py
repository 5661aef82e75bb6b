"""What came of a play: a table for people, one JSON document for machines."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.table import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What a play leaves alone, and why.
LEFT_ALONE: Final = (
    "MIG: its mode is a setting of the GPU, and stays as it is",
    "MPS by the device plugin: its daemon sets compute mode EXCLUSIVE_PROCESS",
    "faults of the GPU itself: they cannot be made without touching it",
)


@dataclass(frozen=True)
class Step:
    """Something that was done or broken, and what was seen then.

    Attributes:
        name: what was done.
        seconds: until it was seen, or given up.
        declared: what should be seen.
        observed: what was.
        good: whether that is the same.
    """

    name: str
    seconds: float
    declared: str
    observed: str
    good: bool


def steps_table(steps: Sequence[Step]) -> str:
    """A line a step."""
    rows = [(one.name, f"{one.seconds:.1f}", one.declared, one.observed, "ok" if one.good else "NOT SO") for one in steps]
    return table(("STEP", "SECONDS", "DECLARED", "OBSERVED", ""), rows)


def document(
    machine: Mapping[str, Any], node: Mapping[str, str], steps: Sequence[Step], settings: Mapping[str, Any], ended: str
) -> dict[str, Any]:
    """The whole play.

    Args:
        machine: identity of the machine.
        node: versions as the node object tells them.
        steps: in their order.
        settings: of the GPUs, before and after.
        ended: why it ended before its end; empty where it did not.
    """
    return {
        "apiVersion": "gpu-pools/v1",
        "kind": "GpuNode",
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "machine": dict(machine),
        "node": dict(node),
        "holds": not ended and bool(steps) and all(step.good for step in steps),
        "ended": ended,
        "steps": [{**asdict(step), "seconds": round(step.seconds, 1)} for step in steps],
        "settings": dict(settings),
        "leftAlone": list(LEFT_ALONE),
    }
