"""Plain descriptions of what a program declares, as rules see it.

A value inside `Resource.inputs` is known (a plain Python value), `Unknown` (a preview cannot tell it yet) or `Secret`. The two
are types of their own because both are easily taken for something else: an unknown for absent, a secret for printable. Nothing
here reads them; policies/reading.py does, and is the only way in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: API versions inside a type: azure-native:containerservice/v20250501:AgentPool.
_API_VERSION: Final = re.compile(r"^(azure-native:\w+)/v\w+:")


@lru_cache(maxsize=1024)
def plain_type(token: str) -> str:
    """A type token without Azure's API version."""
    return _API_VERSION.sub(r"\1:", token)


@dataclass(frozen=True)
class Unknown:
    """A value that cannot be known during a preview."""


@dataclass(frozen=True, repr=False)
class Secret:
    """A value that must not be printed; it may be judged."""

    value: object

    def __repr__(self) -> str:
        """Never the value."""
        return "Secret(...)"


@dataclass(frozen=True)
class Resource:
    """One resource of a program.

    Attributes:
        type: the engine's type token; Azure's API version is cut off.
        name: its name in the program.
        urn: what the engine calls it.
        inputs: plain values, `Unknown` and `Secret`, at any depth.
        dependencies: urns of what it waits for.
        parent: urn of the component around it, or ``""``.
        protect: whether the engine refuses to delete it.
        ignore_changes: inputs whose changes the engine ignores.
    """

    type: str
    name: str
    urn: str
    inputs: Mapping[str, object]
    dependencies: frozenset[str] = frozenset()
    parent: str = ""
    protect: bool = False
    ignore_changes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Cut the API version off the type."""
        object.__setattr__(self, "type", plain_type(self.type))


@dataclass(frozen=True)
class Stack:
    """All resources of a program, or the one that is about to be made.

    Attributes:
        resources: in the program's order.
        acknowledged: (type, name in the cloud) of what the stack's configuration acknowledges -> whether as it is declared now,
            and so unprotected; False: an acknowledgement of another change stands there.
    """

    resources: tuple[Resource, ...] = field(default_factory=tuple)
    acknowledged: Mapping[tuple[str, str], bool] = field(default_factory=dict)

    def of(self, *types: str) -> tuple[Resource, ...]:
        """The resources of these types."""
        return tuple(resource for resource in self.resources if resource.type in types)

    @cached_property
    def awaited(self) -> Mapping[str, frozenset[str]]:
        """Urn -> urns of all that it waits for, directly or through others, and of itself.

        Engines list resources in any order, and never in a circle.
        """
        needs = {resource.urn: resource.dependencies for resource in self.resources}
        known: dict[str, frozenset[str]] = {}
        for urn in needs:
            open_urns = [urn]
            while open_urns:
                here = open_urns[-1]
                before = needs.get(here, frozenset())
                missing = [one for one in before if one not in known]
                open_urns += missing
                if not missing:
                    known[open_urns.pop()] = frozenset((here,)).union(*(known[one] for one in before))
        return known
