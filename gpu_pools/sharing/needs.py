"""What a declaration says its pods need: ``needs: {memoryPerReplica: 12Gi}``.

Nothing of it is rendered; it is a budget that the plan holds against the hardware (gpu_pools/plan/checks.py). Reading
only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.reading.fields import Kind, Row, read, row
from gpu_pools.reading.section import Section

if TYPE_CHECKING:
    from gpu_pools.text.errors import Problems

_MIB: Final = {"Mi": 1, "Gi": 1024}
_AMOUNT: Final = r"[1-9][0-9]{0,8}(Mi|Gi)"


def _memory(section: Section, one: Row) -> int | None:
    text = section.text(
        one.key,
        required=one.needed,
        pattern=_AMOUNT,
        allowed="a whole number of Mi or Gi, e.g. 12Gi",
        remedy="Write e.g. `memoryPerReplica: 12Gi`.",
    )
    return int(text[:-2]) * _MIB[text[-2:]] if text else None


@dataclass(frozen=True)
class Needs:
    """The needs of one pod that gets one replica, one MIG instance or one whole GPU."""

    memory_per_replica_mib: int = row(
        "GPU memory, e.g. 12Gi.",
        Kind(_memory, "str"),
        0,
        key="memoryPerReplica",
        needed=True,
        doc="GPU memory that a pod's own allocations may reach: a whole number of `Mi` or `Gi`, e.g. `12Gi`.",
    )

    def as_json(self) -> dict[str, Any]:
        """As in a stack file."""
        return {"memoryPerReplica": f"{self.memory_per_replica_mib}Mi"}


def parse_needs(value: object, path: str, problems: Problems) -> Needs | None:
    """The ``needs`` of a declaration; None (and problems) where they cannot be read."""
    section = Section(value, path, problems, what="a mapping with memoryPerReplica")
    needs = read(Needs, section)
    section.finish()
    return needs if needs.memory_per_replica_mib else None
