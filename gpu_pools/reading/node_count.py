"""How many nodes: ``count: 2``, or ``nodes: {min: 0, max: 4}`` for an autoscaler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.reading.fields import Kind

if TYPE_CHECKING:
    from gpu_pools.reading.section import Section


@dataclass(frozen=True)
class NodeCount:
    """How many nodes.

    Attributes:
        fewest: at least.
        most: at most; None where the cloud decides.
        autoscaled: whether the number is the autoscaler's, which is what ``nodes`` says, also where both bounds are the same.
    """

    fewest: int
    most: int | None
    autoscaled: bool


def parse_node_count(section: Section, *, smallest: int = 0, default: NodeCount | None = None) -> NodeCount:
    """From ``count: 2`` or ``nodes: {min: 0, max: 4}``; exactly one of the two, or the default."""
    has_count, has_nodes = section.given("count"), section.given("nodes")
    if has_count == has_nodes:
        if has_count or default is None:
            section.problems.add(
                section.path,
                "gives both `count` and `nodes`" if has_count else "gives neither `count` nor `nodes`",
                allowed="`count: 2` for a fixed size, or `nodes: {min: 0, max: 4}` for autoscaling",
                remedy="Keep one of them." if has_count else "Add one of them.",
            )
            return NodeCount(smallest, smallest, autoscaled=False)
        return default
    if has_count:
        count = section.integer("count", minimum=smallest, maximum=1000)
        fixed = smallest if count is None else count
        return NodeCount(fixed, fixed, autoscaled=False)
    return NodeCount(*_parse_range(section, smallest), autoscaled=True)


def _parse_range(section: Section, smallest: int) -> tuple[int, int]:
    nodes = section.section("nodes", what="a mapping with min and max")
    if nodes is None or not nodes.readable:
        return smallest, smallest
    low = nodes.integer("min", minimum=smallest, maximum=1000, required=True)
    high = nodes.integer("max", minimum=max(smallest, 1), maximum=1000, required=True)
    nodes.finish()
    if low is not None and high is not None and low > high:
        nodes.problems.add(
            nodes.path, f"min {low} is greater than max {high}", allowed="min <= max", remedy="Swap or correct the two numbers."
        )
    return low if low is not None else smallest, high if high is not None else smallest


#: Read together with the count that may stand in its place.
RANGE: Final = Kind(lambda section, one: section.raw(one.key), "NodeRangeArgs")
