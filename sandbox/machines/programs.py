"""Which program a pod is, and the two things that every program on a machine can be asked.

A program decides what becomes of its pods (outcomes) and leaves its mark on the machine; that it has no pod on a machine any
more is told to it, too. Pods of unknown programs simply run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sandbox.machines.machine import Machine
    from sandbox.machines.objects import Json
    from sandbox.machines.outcomes import Outcome
    from sandbox.machines.world import World


@dataclass(frozen=True)
class Context:
    """One pod on one machine in one pass.

    Attributes:
        world: the pass.
        machine: the machine that the pod is bound to.
        node: the node object.
        pod: the pod.
        attempt: how often its crashing container was restarted.
    """

    world: World
    machine: Machine
    node: Json
    pod: Json
    attempt: int


class Program(Protocol):
    """The behaviour of the pods of one program."""

    def runs(self, pod: Json) -> bool:
        """Whether a pod is one of this program's."""

    def evaluate(self, context: Context) -> Outcome:
        """What becomes of a pod now; changes the machine accordingly."""

    def absent(self, world: World, machine: Machine) -> None:
        """The machine has no pod of this program."""
