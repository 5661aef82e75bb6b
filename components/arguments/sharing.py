"""The types of sharing declarations among arguments.

In a schema a declaration is one mapping, `SharingArgs`, with the strategy as its key: what `declared` of a sharing component is,
and what a program of any language can write down by itself. In a Python program the component can stand there, too: `Sharing` is
both for a type checker, and the mapping for Pulumi's analyzer, which knows no unions.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NotRequired, Protocol, TypedDict

from gpu_pools.components.arguments.modes import NeedsArgs, SideBySideArgs, SlicesArgs


class WholeArgs(TypedDict):
    """Whole GPUs have no settings."""


class MigGroupArgs(TypedDict):
    """The layout of some of a node's GPUs."""

    index: list[int]
    """The GPUs' indexes on the node."""
    layout: dict[str, int]
    """MIG profile -> instances; empty: these GPUs stay whole."""


class PartitionsArgs(TypedDict):
    """How the GPUs are partitioned: `layout` for all alike, or `gpus`."""

    layout: NotRequired[dict[str, int]]
    """MIG profile -> instances, on every GPU."""
    gpus: NotRequired[list[MigGroupArgs]]
    """One entry per group of GPU indexes; each index of the node exactly once."""
    time_slicing: NotRequired[SlicesArgs]
    """Pods take turns on each instance."""


class SharingArgs(TypedDict):
    """How GPUs are shared: exactly one of the four strategies, and what pods need."""

    exclusive: NotRequired[WholeArgs]
    """One pod has a whole GPU."""
    time_slicing: NotRequired[SlicesArgs]
    """Pods take turns on a GPU, without memory or fault isolation."""
    mps: NotRequired[SideBySideArgs]
    """Pods run on a GPU side by side, each with an equal share of memory and threads."""
    mig: NotRequired[PartitionsArgs]
    """GPUs are partitioned in hardware."""
    needs: NotRequired[NeedsArgs]
    """What each pod needs."""


class Declared(Protocol):
    """A component that holds a declaration: of sharing, or of a pool."""

    @property
    def written(self) -> Mapping[str, Any]:
        """The declaration in the stack file's words."""


if TYPE_CHECKING:
    Sharing = SharingArgs | dict[str, Any] | Declared
else:
    Sharing = SharingArgs
