"""Reads descriptions; meeting an unknown raises, meeting a secret is remembered.

A predicate that treated an unknown as absent would pass or fail by accident. So a `Field` gives either what is really there or
`UnknownMetError` with the place, and whoever runs the rule says that it could not be judged. A `Trace` remembers that a secret
was read on the way: messages after that carry no values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_pools.policies.described import Secret, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.policies.described import Resource


class UnknownMetError(Exception):
    """A rule read a value that is not known yet; ``path`` says which."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(path)


@dataclass
class Trace:
    """What happened while one subject was judged.

    Attributes:
        secret: whether a secret value was read.
        undecided: places of unknown values, of parts that could not be judged.
    """

    secret: bool = False
    undecided: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Field:
    """A place in a resource's inputs, and the way to what is there."""

    path: str
    _raw: object
    _trace: Trace

    @staticmethod
    def root(resource: Resource, trace: Trace) -> Field:
        """All inputs of a resource."""
        return Field("", resource.inputs, trace)

    def at(self, *keys: str) -> Field:
        """The place below; one that is not there has the value None.

        Raises:
            UnknownMetError: if something on the way is unknown.
        """
        here = self
        for key in keys:
            inside = here._opened()
            value = inside.get(key) if isinstance(inside, dict) else None
            here = Field(_joined(here.path, key), value, self._trace)
        return here

    def value(self) -> object:
        """The plain value, with everything in it.

        Raises:
            UnknownMetError: if it, or anything in it, is unknown.
        """
        return _plain(self._raw, self.path, self._trace)

    def text(self) -> str:
        """The value where it is a text, else ``""``."""
        value = self.value()
        return value if isinstance(value, str) else ""

    def number(self) -> float | None:
        """The value where it is a number, else None."""
        value = self.value()
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def present(self) -> bool:
        """Whether something is there; an unknown value is not known to be."""
        return self._opened() is not None

    def items(self) -> Iterator[tuple[str, Field]]:
        """The entries of a mapping; none where there is no mapping."""
        inside = self._opened()
        for key, value in inside.items() if isinstance(inside, dict) else ():
            yield str(key), Field(_joined(self.path, str(key)), value, self._trace)

    def each(self) -> Iterator[Field]:
        """The elements of a list; none where there is no list."""
        inside = self._opened()
        for index, value in enumerate(inside) if isinstance(inside, list) else ():
            yield Field(f"{self.path}[{index}]", value, self._trace)

    def _opened(self) -> object:
        """One level of the value."""
        raw = self._raw
        while isinstance(raw, Secret):
            self._trace.secret = True
            raw = raw.value
        if isinstance(raw, Unknown):
            raise UnknownMetError(self.path)
        return raw


def _joined(path: str, key: str) -> str:
    shown = key if key.replace("-", "").replace("_", "").isalnum() else f'["{key}"]'
    return f"{path}{'.' if path and not shown.startswith('[') else ''}{shown}"


def _plain(raw: object, path: str, trace: Trace) -> object:
    value = Field(path, raw, trace)._opened()  # noqa: SLF001 - the same module
    if isinstance(value, dict):
        return _plain_mapping(value, path, trace)
    if isinstance(value, list):
        return [_plain(inside, f"{path}[{index}]", trace) for index, inside in enumerate(value)]
    return value


def _plain_mapping(value: Mapping[object, object], path: str, trace: Trace) -> dict[str, object]:
    return {str(key): _plain(inside, _joined(path, str(key)), trace) for key, inside in value.items()}
