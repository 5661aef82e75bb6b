"""Arguments that pools of all clouds share."""

from typing import NotRequired, TypedDict


class NodeRangeArgs(TypedDict):
    """Bounds of an autoscaled pool."""

    min: int
    """Fewest nodes."""
    max: int
    """Most nodes."""


class MinimumArgs(TypedDict):
    """What a node's driver must be at least; the verification holds each node against it."""

    driver: NotRequired[str]
    """A driver version, e.g. 570.124.06."""
    cuda: NotRequired[str]
    """The newest CUDA version that the driver must know at least, e.g. 12.8."""
