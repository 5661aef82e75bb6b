"""Problems of a stack file: collected, located, and raised once.

A platform engineer should see everything that is wrong at once, each with the path in their own file, so that one edit is
enough. This module only carries and prints problems; deciding what is wrong is the business of the module that knows the rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.harmless import line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_SHOWN_VALUE_LENGTH = 80
#: Names of others are in most messages, and may be of any length.
_LONGEST_PART = 2000
#: How the path of a problem in a program begins, e.g. ``AksGpuNodePool(notebooks).vmSize``.
_COMPONENT: Final = re.compile(r"[A-Z]\w*\([^)]*\)")


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: where in the stack file, e.g. ``gpu-pools:pools[1].sharing``, or in a program: ``AksGpuNodePool(nb).sharing``.
        message: what is wrong, naming the value.
        allowed: what would be right there.
        remedy: what to do.
    """

    path: str
    message: str
    allowed: str
    remedy: str

    def __str__(self) -> str:
        """Three lines for people, whatever the file holds."""
        path, message, allowed, remedy = map(_short, (self.path, self.message, self.allowed, self.remedy))
        return f"{path}: {message}\n    allowed: {allowed}\n    remedy:  {remedy}"


def _short(part: str) -> str:
    shown = line(part[: _LONGEST_PART + 1])
    return shown if len(shown) <= _LONGEST_PART else f"{shown[:_LONGEST_PART]}…"


class RefusedError(Exception):
    """Something given that cannot be used. ``problems`` holds every reason, in its order where that is known."""

    def __init__(self, problems: Iterable[Problem], where: str, undone: str) -> None:
        """Say in what the problems are, and what was therefore not done."""
        self.problems = tuple(problems)
        super().__init__(listed(self.problems, where, undone))


class InvalidStackError(RefusedError):
    """A stack file that cannot be planned."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        found = tuple(problems)
        super().__init__(found, _where(found), "created or changed")


def together(refused: Callable[[Sequence[Problem]], RefusedError], *readers: Callable[[], Any]) -> list[Any]:
    """What each of them reads; what is wrong with one thing is told together with what is wrong with the others.

    Args:
        refused: makes the error of all problems.
        readers: each may raise such an error.

    Raises:
        RefusedError: as `refused` makes it.
    """
    read: list[Any] = []
    problems: list[Problem] = []
    for reader in readers:
        try:
            read.append(reader())
        except RefusedError as error:
            problems += error.problems
    if problems:
        raise refused(problems)
    return read


def _where(problems: Sequence[Problem]) -> str:
    """What the user wrote: a stack file, or the arguments of a component, by whose type and name paths begin then."""
    named = {match[0] if (match := _COMPONENT.match(problem.path)) else "" for problem in problems}
    (one,) = named if len(named) == 1 else ("",)
    return f"the arguments of {one}" if one else "the program" if all(named) and named else "the stack file"


def listed(problems: Sequence[Problem], where: str, undone: str) -> str:
    """Problems for people: how many there are in what was given, what was therefore not done, and each of them."""
    count = len(problems)
    head = f"{count} problem{'' if count == 1 else 's'} in {where}; nothing was {undone}."
    return "\n".join([head, *(f"- {problem}" for problem in problems)])


class Problems:
    """A growing list of problems; checks add to it and go on."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, path: str, message: str, *, allowed: str, remedy: str) -> None:
        """Remember one problem; the same one is kept only once. Keys of the file may hold line breaks, problems don't."""
        problem = Problem(*(" ".join(text.splitlines()) for text in (path, message, allowed, remedy)))
        if problem not in self._found:
            self._found.append(problem)

    def __len__(self) -> int:
        """How many problems were found so far."""
        return len(self._found)

    @property
    def found(self) -> tuple[Problem, ...]:
        """All problems so far, in the order in which they were met."""
        return tuple(self._found)

    def raise_if_any(self) -> None:
        """Raise all problems at once.

        Raises:
            InvalidStackError: if there is any problem.
        """
        if self._found:
            raise InvalidStackError(self._found)


def show(value: object) -> str:
    """A value as a message may carry it: in YAML's words, short, on one line."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = f'"{value}"'
    elif isinstance(value, dict):
        text = f"a mapping with {', '.join(map(str, value)) or 'no keys'}"
    elif isinstance(value, list):
        text = f"a list of {len(value)}"
    else:
        text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_VALUE_LENGTH else f"{text[:_SHOWN_VALUE_LENGTH]}…"
