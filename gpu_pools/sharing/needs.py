"""What a declaration says its pods need: ``needs: {memoryPerReplica: 12Gi}``.

Nothing of it is rendered; it is a budget that the plan holds against the hardware (gpu_pools/plan/memory_budget.py). Reading
only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.reading.section import Section

if TYPE_CHECKING:
    from gpu_pools.text.errors import Problems

_MIB: Final = {"Mi": 1, "Gi": 1024}
_AMOUNT: Final = r"[1-9][0-9]{0,8}(Mi|Gi)"


@dataclass(frozen=True)
class Needs:
    """The needs of one pod that gets one replica, one MIG instance or one whole GPU.

    Attributes:
        memory_per_replica_mib: GPU memory in MiB that its own allocations may reach.
    """

    memory_per_replica_mib: int

    def as_json(self) -> dict[str, Any]:
        """As in a stack file."""
        return {"memoryPerReplica": f"{self.memory_per_replica_mib}Mi"}


def parse_needs(value: object, path: str, problems: Problems) -> Needs | None:
    """The ``needs`` of a declaration; None (and problems) where they cannot be read."""
    section = Section(value, path, problems, what="a mapping with memoryPerReplica")
    text = section.text(
        "memoryPerReplica",
        required=section.readable,
        pattern=_AMOUNT,
        allowed="a whole number of Mi or Gi, e.g. 12Gi",
        remedy="Write e.g. `memoryPerReplica: 12Gi`.",
    )
    section.finish()
    return None if text is None else Needs(int(text[:-2]) * _MIB[text[-2:]])
