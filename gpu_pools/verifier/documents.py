"""Frozen dataclasses from JSON and back.

Reading is strict: a field that is missing, unknown or of another type is a problem, and all problems come out at once, each
with its path. Fields are camelCase in JSON. A union of dataclasses is decided by the fields that are there. Nothing here
knows what the documents mean.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

_Document = TypeVar("_Document")
_ENDING = {"mib": "MiB"}


class DocumentError(Exception):
    """A document that cannot be used. ``problems`` holds one sentence for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


def read(kind: type[_Document], value: object) -> _Document:
    """The document as a `kind`.

    Raises:
        DocumentError: with everything that is wrong in it.
    """
    problems: list[str] = []
    document = _read(kind, value, "", problems)
    if problems:
        raise DocumentError(problems)
    return typing.cast("_Document", document)


def as_json(value: Any) -> Any:  # noqa: ANN401
    """What `read` would read back."""
    if dataclasses.is_dataclass(value):
        return {_name(field.name): as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    return value


def _name(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(_ENDING.get(word, word.capitalize()) for word in rest)


@lru_cache
def _fields(kind: Any) -> dict[str, tuple[str, Any]]:  # noqa: ANN401
    """Name in JSON -> (attribute, type)."""
    hints = typing.get_type_hints(kind)
    return {_name(field.name): (field.name, hints[field.name]) for field in dataclasses.fields(kind)}


def _read(kind: Any, value: object, path: str, problems: list[str]) -> object:  # noqa: ANN401
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, value, path, problems)
    readers = {types.UnionType: _read_union, tuple: _read_tuple, Mapping: _read_mapping}
    reader = readers.get(typing.get_origin(kind))
    if reader is not None:
        return reader(typing.get_args(kind), value, path, problems)
    # A bool is an int for isinstance.
    if type(value) is not kind:
        problems.append(_refused(value, {str: "text", int: "a whole number", bool: "true or false"}[kind], path))
    return value


def _read_dataclass(kind: Any, value: object, path: str, problems: list[str]) -> object:  # noqa: ANN401
    if not isinstance(value, dict):
        problems.append(_refused(value, "a mapping", path))
        return None
    fields = _fields(kind)
    before = len(problems)
    problems += [f"{_at(path, key)} is unknown; known are {', '.join(fields)}" for key in value if key not in fields]
    problems += [f"{_at(path, key)} is missing" for key in fields if key not in value]
    found = {
        attribute: _read(hint, value[key], _at(path, key), problems) for key, (attribute, hint) in fields.items() if key in value
    }
    return kind(**found) if len(problems) == before else None


def _read_union(options: tuple[Any, ...], value: object, path: str, problems: list[str]) -> object:
    if value is None and types.NoneType in options:
        return None
    rest = [option for option in options if option is not types.NoneType]
    if isinstance(value, dict):
        exact = [option for option in rest if dataclasses.is_dataclass(option) and _fields(option).keys() == value.keys()]  # type: ignore[arg-type]
        rest = exact or rest
    return _read(rest[0], value, path, problems)


def _read_tuple(items: tuple[Any, ...], value: object, path: str, problems: list[str]) -> object:
    if not isinstance(value, list):
        problems.append(_refused(value, "a list", path))
        return None
    kinds = [items[0]] * len(value) if items[-1] is Ellipsis else list(items)
    if len(kinds) != len(value):
        problems.append(_refused(value, f"a list of {len(kinds)}", path))
        return None
    return tuple(
        _read(kind, item, f"{path}[{index}]", problems) for index, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def _read_mapping(items: tuple[Any, ...], value: object, path: str, problems: list[str]) -> object:
    if not isinstance(value, dict):
        problems.append(_refused(value, "a mapping", path))
        return None
    return {str(key): _read(items[1], item, f"{path}.{key}", problems) for key, item in value.items()}


def _refused(value: object, wanted: str, path: str) -> str:
    shown = "nothing" if value is None else f"{value!r:.60}"
    return f"{path or 'the document'} is {shown}, not {wanted}"


def _at(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
