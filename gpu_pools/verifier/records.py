"""Frozen values with named fields, as dataclasses are, for what every assertion loads.

To load dataclasses, and to make classes with it, takes longer than to read a GPU: it loads Python's disassembler, and compiles
methods for each class. Who asks a record for what a dataclass has (dataclasses.replace, fields) gets it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes time to load, too
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:  # noqa: D103 - says something to type checkers alone
        return lambda kind: kind


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
