"""Sharing declarations as typed, reusable resources: Exclusive, TimeSlicing, Mps, Mig.

One class per strategy, so that a combination which the device plugin would resolve in silence cannot be written down. A
declaration makes nothing in the cloud: pools take it as `sharing`, and one declaration may serve many pools. It stands in the
stack's tree and state, so that a review shows what changed. Whether it fits the GPUs is the plan's business, since only a
pool has hardware.
"""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, cast

import pulumi

from gpu_pools.components.arguments.known import known_args
from gpu_pools.components.arguments.modes import NeedsArgs, SideBySideArgs, SlicesArgs
from gpu_pools.components.arguments.sharing import PartitionsArgs, SharingArgs
from gpu_pools.components.arguments.to_stack import stack_keys
from gpu_pools.sharing.mode import Sharing
from gpu_pools.sharing.modes import parse_sharing
from gpu_pools.text.errors import Problems

__all__ = [
    "Exclusive",
    "ExclusiveArgs",
    "Mig",
    "MigArgs",
    "Mps",
    "MpsArgs",
    "NeedsArgs",
    "SharingDeclaration",
    "SlicesArgs",
    "TimeSlicing",
    "TimeSlicingArgs",
    "declare",
]


class ExclusiveArgs(TypedDict):
    """Whole GPUs have no other settings."""

    needs: NotRequired[NeedsArgs]
    """What each pod needs."""


class TimeSlicingArgs(SlicesArgs):
    """How pods take turns on whole GPUs."""

    needs: NotRequired[NeedsArgs]
    """What each pod needs."""


class MpsArgs(SideBySideArgs):
    """How pods run side by side."""

    needs: NotRequired[NeedsArgs]
    """What each pod needs."""


class MigArgs(PartitionsArgs):
    """How the GPUs are partitioned: `layout` for all alike, or `gpus`."""

    needs: NotRequired[NeedsArgs]
    """What each pod needs."""


class SharingDeclaration(pulumi.ComponentResource):
    """A declaration in any mode: a name and what was declared, checked."""

    strategy: pulumi.Output[str]
    """The mode: exclusive, timeSlicing, mps or mig."""
    declared: pulumi.Output[SharingArgs]
    """The declaration in the stack file's words."""

    def __init__(
        self,
        name: str,
        args: Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
        *,
        planned: Sharing | None = None,
        strategy: str = "",
    ) -> None:
        """Check and hold the declaration.

        Args:
            name: of the component.
            args: the declaration.
            opts: options of the component.
            planned: what the arguments mean, where they were checked with a whole stack.
            strategy: the mode's key in a stack file; the class's own by default.

        Raises:
            InvalidStackError: with everything that is wrong with it.
        """
        kind = strategy[:1].upper() + strategy[1:] or type(self).__name__
        strategy = strategy or kind[0].lower() + kind[1:]
        if kind in _ARGUMENTS:
            args = known_args(f"{kind}({name})", args, _ARGUMENTS[kind])
        settings = stack_keys(args, "time_slicing", "gpus", "needs")
        # In a stack file the needs stand beside the strategy: they are the pods', not a setting of it.
        needs = {"needs": settings.pop("needs")} if "needs" in settings else {}
        #: The declaration in the stack file's words, as a plain mapping.
        self.written = {strategy: settings, **needs}
        #: The declaration as gpu_pools knows it.
        self.declaration = planned or _checked(self.written, f"{kind}({name})")
        super().__init__(f"gpu-pools:index:{kind}", name, None, opts)
        self.strategy = pulumi.Output.from_input(strategy)
        self.declared = pulumi.Output.from_input(cast("SharingArgs", self.written))
        self.register_outputs({"strategy": self.strategy, "declared": self.declared})


class Exclusive(SharingDeclaration):
    """One pod has a whole GPU."""

    def __init__(
        self, name: str, args: ExclusiveArgs, opts: pulumi.ResourceOptions | None = None, *, planned: Sharing | None = None
    ) -> None:
        """Declare whole GPUs."""
        super().__init__(name, args, opts, planned=planned)


class TimeSlicing(SharingDeclaration):
    """Pods take turns on a GPU, without memory or fault isolation."""

    def __init__(
        self, name: str, args: TimeSlicingArgs, opts: pulumi.ResourceOptions | None = None, *, planned: Sharing | None = None
    ) -> None:
        """Declare time-slicing."""
        super().__init__(name, args, opts, planned=planned)


class Mps(SharingDeclaration):
    """Pods run on a GPU side by side, each with an equal share of memory and threads."""

    def __init__(
        self, name: str, args: MpsArgs, opts: pulumi.ResourceOptions | None = None, *, planned: Sharing | None = None
    ) -> None:
        """Declare MPS."""
        super().__init__(name, args, opts, planned=planned)


class Mig(SharingDeclaration):
    """GPUs are partitioned in hardware."""

    def __init__(
        self, name: str, args: MigArgs, opts: pulumi.ResourceOptions | None = None, *, planned: Sharing | None = None
    ) -> None:
        """Declare a MIG layout."""
        super().__init__(name, args, opts, planned=planned)


def declare(
    name: str, written: Mapping[str, Any], sharing: Sharing, opts: pulumi.ResourceOptions | None = None
) -> SharingDeclaration:
    """The component for a declaration of a stack that is planned.

    Args:
        name: of the component.
        written: in the stack file's words, e.g. ``{"mps": {"replicas": 10}}``.
        sharing: what that means.
        opts: options of the component.
    """
    needs = {"needs": written["needs"]} if "needs" in written else {}
    ((strategy, settings),) = ((key, value) for key, value in written.items() if key != "needs")
    # A mode without a class of its own is declared by a stack file only.
    kind = _CLASSES.get(strategy, SharingDeclaration)
    more = {} if strategy in _CLASSES else {"strategy": strategy}
    return kind(name, {**(settings or {}), **needs}, opts, planned=sharing, **more)


def _checked(written: Mapping[str, Any], what: str) -> Sharing:
    problems = Problems()
    declaration = parse_sharing(written, what, problems)
    problems.raise_if_any()
    return cast("Sharing", declaration)


_CLASSES: dict[str, type[SharingDeclaration]] = {"exclusive": Exclusive, "timeSlicing": TimeSlicing, "mps": Mps, "mig": Mig}
_ARGUMENTS: dict[str, type] = {
    "Exclusive": ExclusiveArgs,
    "TimeSlicing": TimeSlicingArgs,
    "Mps": MpsArgs,
    "Mig": MigArgs,
}
