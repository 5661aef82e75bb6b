"""What may stand beside `existing` in a cluster section: nearly nothing, since the cluster is not the stack's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpu_pools.reading.section import Section

_LEAVE_OUT: Final = "Leave it out: it is the cluster's own, and this stack changes nothing of it."


def refuse_beside(section: Section, own: Iterable[str], beside: Collection[str], instead: Mapping[str, str]) -> None:
    """Refuse what stands beside `existing` and says something of the cluster.

    Args:
        section: of the cluster.
        own: the keys of a cluster of the stack's own making.
        beside: those of them that may stand there.
        instead: key -> how the same is said of a cluster that is there.
    """
    for key in own:
        if key in section.written() and key not in beside:
            section.raw(key)
            section.problems.add(
                section.at(key),
                "stands beside `existing`, whose cluster this stack does not make",
                allowed=", ".join(beside),
                remedy=instead.get(key, _LEAVE_OUT),
            )
