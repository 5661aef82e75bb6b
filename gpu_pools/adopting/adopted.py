"""What an adoption comes to: a stack file's sections, what is to be imported, and what has to be said. Only data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpu_pools.text.errors import InvalidStackError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.text.errors import Problem


class NotAdoptableError(RefusedError):
    """Nothing can be written: a document is not what it must be, or nothing in it can be adopted.

    Attributes:
        problems: all that were found.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems, "what was given", "written")


@dataclass(frozen=True)
class Unsaid:
    """Something that is there and that the stack file does not say.

    Attributes:
        place: where it is, e.g. ``pool gpu: messageOfTheDay``.
        why: why it is not in the stack file, and what that means.
    """

    place: str
    why: str

    def as_json(self) -> dict[str, str]:
        """For machines."""
        return {"place": self.place, "why": self.why}


@dataclass(frozen=True)
class Imported:
    """A resource for the engine's state.

    Attributes:
        type: its token.
        name: its Pulumi name.
        parent: Pulumi name of the component that it lies in; empty for the outermost.
        id: of the provider; empty for a component.
        version: of the provider; empty where any will do.
    """

    type: str
    name: str
    parent: str = ""
    id: str = ""
    version: str = ""


@dataclass(frozen=True)
class Taken:
    """A pool that is taken over.

    Attributes:
        entry: of `gpu-pools:pools`.
        sharing: the declaration that `entry` names.
        imports: what of it comes into the state.
        changes: what the first preview will change of it, in words; empty: nothing.
    """

    entry: Mapping[str, Any]
    sharing: Mapping[str, Any]
    imports: tuple[Imported, ...] = ()
    changes: tuple[str, ...] = ()


@dataclass
class Adopted:
    """All of it.

    Attributes:
        sections: of the stack file, without the namespace.
        imports: for the engine's state, parents first.
        changes: pool -> what the first preview changes of it.
        managed: what the stack manages from then on, a sentence each.
        unsaid: what the stack file does not say.
    """

    sections: dict[str, Any] = field(default_factory=dict)
    imports: list[Imported] = field(default_factory=list)
    changes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    managed: list[str] = field(default_factory=list)
    unsaid: list[Unsaid] = field(default_factory=list)

    @property
    def config(self) -> dict[str, Any]:
        """The stack file's `config`."""
        return {f"gpu-pools:{key}": value for key, value in self.sections.items()}

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "config": self.config,
            "imports": [{"type": one.type, "name": one.name, "id": one.id} for one in self.imports],
            "changes": {pool: list(changes) for pool, changes in self.changes.items()},
            "managed": self.managed,
            "unsaid": [one.as_json() for one in self.unsaid],
        }


def problems_of(error: InvalidStackError) -> str:
    """What a planner says of a pool, as one clause."""
    return "; ".join(f"{one.message} ({one.allowed})" for one in error.problems)
