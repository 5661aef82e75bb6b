"""What a rule is: an object that says what it judges, why it matters, how to repair it, and a pure predicate.

A rule's predicate gets a `Case`, one resource with the program around it, and yields what it found. It never decides its level,
never looks at exceptions and never catches unknowns: whoever runs it does (policies/judging.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gpu_pools.policies.reading import Field, Trace, UnknownMetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gpu_pools.policies.described import Resource, Stack

Level = Literal["advisory", "mandatory", "disabled"]


@dataclass(frozen=True)
class Found:
    """One thing that a predicate found.

    Attributes:
        where: the place in the resource, e.g. ``gpuProfile.driver``.
        what: what is there, naming the value; dropped where a secret was read.
    """

    where: str
    what: str


@dataclass(frozen=True)
class Limit:
    """Something of a rule that a stack may set.

    Attributes:
        name: in the pack's configuration.
        schema: JSON schema of its values.
        default: what holds where the stack sets nothing; None: then the rule judges nothing by it.
        load: makes what predicates get of what is written, e.g. reads the file that it names; raises ValueError.
    """

    name: str
    schema: Mapping[str, Any]
    default: Any = None
    load: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Case:
    """One resource under judgement.

    Attributes:
        resource: the resource.
        stack: the program around it; only itself where the rule is not a rule about whole programs.
        limits: the rule's limits as they hold in this stack.
        trace: what happened.
    """

    resource: Resource
    stack: Stack
    limits: Mapping[str, Any]
    trace: Trace

    @property
    def inputs(self) -> Field:
        """The resource's inputs."""
        return Field.root(self.resource, self.trace)

    def of(self, *types: str) -> list[tuple[Resource, Field]]:
        """Other resources of the program, and this one, with their inputs."""
        return [(resource, Field.root(resource, self.trace)) for resource in self.stack.of(*types)]

    def each(self, fields: Iterable[Field], judge: Callable[[Field], Iterable[Found]]) -> Iterator[Found]:
        """Judge parts one by one: an unknown in one of them hides nothing in the others."""
        for part in fields:
            try:
                yield from judge(part)
            except UnknownMetError as met:
                self.trace.undecided.append(met.path)


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        name: what stack configurations and messages call it.
        title: what must hold, in one sentence.
        incidents: ids of the incidents behind it (docs/reference/rules.md); empty for rules of an organisation.
        types: of the resources that it judges.
        judge: the predicate.
        why: what happens without it.
        repair: what to do, in the words of the resource's own inputs.
        stack_repair: what to do where the sections of a stack file declare the resource, in their words; empty: as `repair`, or
            no section can break the rule.
        level: where the stack sets none.
        limits: what a stack may set.
        whole: whether it needs the whole program, and so judges only once everything is declared.
    """

    name: str
    title: str
    incidents: tuple[str, ...]
    types: tuple[str, ...]
    judge: Callable[[Case], Iterable[Found]]
    why: str
    repair: str
    stack_repair: str = ""
    level: Level = "mandatory"
    limits: tuple[Limit, ...] = ()
    whole: bool = False
