"""Which program a pod is, and the two things that every program on a machine can be asked.

A program decides what becomes of its pods (outcomes) and leaves its mark on the machine; that it has no pod on a machine any
more is told to it, too. Pods of unknown programs simply run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        mounted: its ConfigMaps by name, as its volumes show them now.
        restarts: container -> how often it was started again; a container that has ended stays so until this changes.
        ended: the containers that wait for that.
    """

    world: World
    machine: Machine
    node: Json
    pod: Json
    mounted: Mapping[str, Json]
    restarts: Mapping[str, int]
    ended: frozenset[str] = frozenset()


class Program(Protocol):
    """The behaviour of the pods of one program."""

    def runs(self, pod: Json) -> bool:
        """Whether a pod is one of this program's."""

    def evaluate(self, context: Context) -> Outcome:
        """What becomes of a pod now; changes the machine accordingly."""

    def absent(self, world: World, machine: Machine) -> None:
        """The machine has no pod of this program."""
