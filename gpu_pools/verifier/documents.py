"""Records, which are frozen values with named fields, and how they are read from JSON and written back.

A record is what a dataclass is, for what every assertion loads. To load dataclasses, and to make classes with it, takes longer
than to read a GPU: it loads Python's disassembler, and compiles methods for each class. Who asks a record for what a dataclass
has (dataclasses.replace, fields) gets it.

Reading is strict: a field that is missing, unknown or of another type is a problem, and all problems come out at once, each
with its path. A field with a default may be missing. Fields are camelCase in JSON. A union of records is decided by the fields
that are there. Nothing here knows what the documents mean.

Each assertion loads this, so it makes do without typing, dataclasses and json, which take longer to load than all the rest.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing takes time to load, too
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, TypeVar, dataclass_transform

    _Document = TypeVar("_Document")
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:  # noqa: D103 - says something to type checkers alone
        return lambda kind: kind


# --- records ------------------------------------------------------------------------------------------------------


class _AsDataclass:
    """What the module dataclasses looks for at a class; made where somebody looks."""

    def __get__(self, _: object, kind: type) -> dict[str, Any]:
        from dataclasses import dataclass  # noqa: PLC0415 - see above

        defaults = {name: vars(kind)[name] for name in kind.__annotations__ if name in vars(kind)}
        same = type(kind.__name__, (), {**defaults, "__annotations__": kind.__annotations__, "__module__": kind.__module__})
        fields: dict[str, Any] = dataclass(frozen=True)(same).__dataclass_fields__  # type: ignore[attr-defined]
        return fields


@dataclass_transform(frozen_default=True, eq_default=True)
class Record:
    """The base of a class whose annotations are its fields."""

    if not TYPE_CHECKING:
        __dataclass_fields__ = _AsDataclass()
    record_fields: ClassVar[tuple[str, ...]] = ()
    """Names of the fields, in order."""

    def __init_subclass__(cls) -> None:
        """Take the fields of a class."""
        cls.record_fields = tuple(cls.__annotations__)

    if not TYPE_CHECKING:

        def __init__(self, *values: object, **named: object) -> None:
            """Take the values of the fields, by order or by name.

            Raises:
                TypeError: where one is missing, unknown or given twice.
            """
            fields = self.record_fields
            given = dict(zip(fields, values, strict=False))
            twice, unknown = given.keys() & named.keys(), named.keys() - set(fields)
            given.update(named)
            missing = [name for name in fields if name not in given and not hasattr(type(self), name)]
            if len(values) > len(fields) or twice or unknown or missing:
                message = f"{type(self).__name__} takes {', '.join(fields)}, and got {values!r:.60} {sorted(named)}"
                raise TypeError(message)
            self.__dict__.update((name, given[name] if name in given else getattr(type(self), name)) for name in fields)

    def __setattr__(self, name: str, value: object = None) -> None:
        """Refuse.

        Raises:
            AttributeError: always.
        """
        message = f"{name} of a {type(self).__name__} cannot be changed"
        raise AttributeError(message)

    __delattr__ = __setattr__

    def __eq__(self, other: object) -> bool:
        """Whether the other is of the same class with equal values."""
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        """Of the values."""
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        """As a dataclass is shown."""
        shown = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self.record_fields)
        return f"{type(self).__qualname__}({shown})"


# --- documents ----------------------------------------------------------------------------------------------------

_ENDING = {"mib": "MiB"}
_Union = type(int | str)
_NoneType = type(None)
#: Class -> name in JSON -> (attribute, type), once it has been asked for.
_KNOWN: dict[Any, dict[str, tuple[str, Any]]] = {}


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
    found: Any = document
    return found  # type: ignore[no-any-return]


def parse_json(text: str) -> object:
    """The value of a JSON text.

    Raises:
        ValueError: where it is none.
    """
    try:
        # The part of json in C. Its part in Python loads Python's regular expressions, and is asked where anything is odd.
        from _json import make_scanner  # noqa: PLC0415

        scanning: Any = _Scanning
        value, end = make_scanner(scanning)(text.strip(_BLANKS), 0)
        if end == len(text.strip(_BLANKS)):
            return value
    except (ImportError, TypeError, AttributeError, StopIteration):
        pass
    import json  # noqa: PLC0415 - see above

    return json.loads(text)


_BLANKS = " \t\n\r"


class _Scanning:
    """How json's part in C is to read, as json.JSONDecoder says it by default."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float


def as_json(value: Any) -> Any:  # noqa: ANN401
    """What `read` would read back."""
    if isinstance(value, Record):
        return {
            _name(field): as_json(getattr(value, field))
            for field in value.record_fields
            # What is None by default need not be said, and is not.
            if getattr(value, field) is not None or field not in vars(type(value))
        }
    if hasattr(value, "__dataclass_fields__"):
        return {
            _name(name): as_json(getattr(value, name))
            for name, field in value.__dataclass_fields__.items()
            if getattr(value, name) is not None or "if any" not in field.metadata
        }
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    return value


def _name(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(_ENDING.get(word, word.capitalize()) for word in rest)


def _fields(kind: Any) -> dict[str, tuple[str, Any]]:  # noqa: ANN401
    """Name in JSON -> (attribute, type)."""
    if kind not in _KNOWN:
        # As typing.get_type_hints does it. A mapping of a document is a dict: what says so loads as long as typing.
        names = {"Mapping": dict, **vars(sys.modules[kind.__module__])}
        _KNOWN[kind] = {
            _name(field): (field, eval(kind.__annotations__[field], names))  # noqa: S307 - our own annotations
            for field in kind.record_fields
        }
    return _KNOWN[kind]


def _is_record(kind: Any) -> bool:  # noqa: ANN401
    return isinstance(kind, type) and issubclass(kind, Record)


def _read(kind: Any, value: object, path: str, problems: list[str]) -> object:  # noqa: ANN401
    readers: dict[Any, Any] = {_Union: _read_union, tuple: _read_tuple, dict: _read_mapping}
    # Of `tuple[int, ...]` and `int | str`, the tuple and the class of unions.
    reader = readers.get(getattr(kind, "__origin__", type(kind)))
    if reader is not None:
        return reader(kind.__args__, value, path, problems)
    if _is_record(kind):
        return _read_record(kind, value, path, problems)
    # A bool is an int for isinstance.
    if type(value) is not kind:
        problems.append(_refused(value, {str: "text", int: "a whole number", bool: "true or false"}[kind], path))
    return value


def _read_record(kind: Any, value: object, path: str, problems: list[str]) -> object:  # noqa: ANN401
    if not isinstance(value, dict):
        problems.append(_refused(value, "a mapping", path))
        return None
    fields = _fields(kind)
    before = len(problems)
    problems += [f"{_at(path, key)} is unknown; known are {', '.join(fields)}" for key in value if key not in fields]
    problems += [
        f"{_at(path, key)} is missing"
        for key, (attribute, _) in fields.items()
        if key not in value and attribute not in vars(kind)
    ]
    found = {
        attribute: _read(hint, value[key], _at(path, key), problems) for key, (attribute, hint) in fields.items() if key in value
    }
    return kind(**found) if len(problems) == before else None


def _read_union(options: tuple[Any, ...], value: object, path: str, problems: list[str]) -> object:
    if value is None and _NoneType in options:
        return None
    rest = [option for option in options if option is not _NoneType]
    if isinstance(value, dict):
        exact = [option for option in rest if _is_record(option) and _fields(option).keys() == value.keys()]
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
