"""Arguments that pools of all clouds share."""

from typing import TypedDict


class NodeRangeArgs(TypedDict):
    """Bounds of an autoscaled pool."""

    min: int
    """Fewest nodes."""
    max: int
    """Most nodes."""
