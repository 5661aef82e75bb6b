"""The table of fields: all that is known of one key of a stack file, in one row.

A settings class is a frozen dataclass, and each of its fields that people write is a `row`: what it means, how it is read and
what is allowed, whether it must be there, its default, which property of the cloud it sets and what a change of that does. From
the rows follow the parser (`read`), and what `python -m tools.generate` writes: the types of the components' arguments, their
schema, and the tables in docs/reference/stack.md. So a new option is a row, and the place where it is sent to the cloud.

Not here: what holds between several fields, or needs more of the stack than the section at hand. Such rules stay in the module of
the class, as a reader of its own where they must be told in the order of the fields.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpu_pools.reading.section import Section

_S = TypeVar("_S")

#: What a change of a key does to the cloud's resource; empty where that depends, or no resource has it.
Change = Literal["", "updates", "rolling", "replaces", "refused"]
#: In the place of what a row says, sets or changes, where that is each platform's to say (`RowText`).
BY_PLATFORM: Final[Mapping[str, Any]] = MappingProxyType({})
_ROW: Final = "row"


@dataclass(frozen=True)
class Kind:
    """How a value is read.

    Attributes:
        read: (section, its row) -> the value; None where it is absent, or wrong, which is then a problem.
        type: its type in a program: an annotation, or the settings class of a mapping.
    """

    read: Callable[[Any, Row], object]
    type: str | type


@dataclass(frozen=True)
class Row:
    """One key.

    What differs by platform, or by chart, is a mapping; a platform that `says` does not name does not have the key.

    Attributes:
        key: as a stack file has it.
        says: a sentence.
        kind: how it is read.
        needed: whether it must be there; of a cluster only a deploy needs it.
        either: another key that may stand in its place.
        sets: the property of the cloud's resource, as the plugin calls it.
        change: what a change does.
        doc: for docs/reference/stack.md, where it says more than `says`; Markdown.
        default: what holds where it is absent.
    """

    key: str
    says: str | Mapping[str, str]
    kind: Kind
    needed: bool = False
    either: str = ""
    sets: str | Mapping[str, str] = ""
    change: Change | Mapping[str, Change] = ""
    doc: str = ""
    default: object = None


@dataclass(frozen=True)
class RowText:
    """What one platform says of a row that others have, too: of what is `BY_PLATFORM` there.

    Attributes:
        says: a sentence; empty: the platform does not have the key.
        sets: the property of its resource.
        change: what a change does.
    """

    says: str = ""
    sets: str = ""
    change: Change = ""


def row(
    says: str | Mapping[str, str],
    kind: Kind,
    default: object = None,
    *,
    key: str = "",
    or_else: Row | None = None,
    shown: bool = True,
    **more: Any,  # noqa: ANN401 - the rest of a Row, which checks it
) -> Any:  # noqa: ANN401 - a field of a dataclass, whose annotation is its type
    """A field of a settings class.

    Args:
        says: of the row.
        kind: of the row.
        default: the field's value where the key is absent.
        key: of the row; the field's own name in camelCase by default.
        or_else: the row of `either`, where `kind` reads both.
        shown: whether the value may be in a repr.
        more: of the row.
    """
    metadata = {_ROW: (Row(key, says, kind, default=default, **more), *([or_else] if or_else else []))}
    return dataclasses.field(default_factory=lambda: default, metadata=metadata, repr=shown)


def reads(kind: Kind, default: object = None) -> Any:  # noqa: ANN401 - as a row
    """A field that is not a key: what is read in its turn, from several keys."""
    metadata = {_ROW: (Row("", "", kind),)}
    return dataclasses.field(default_factory=lambda: default, metadata=metadata)


def rows(settings: type) -> Iterator[Row]:
    """Each key of a settings class, in the order in which they are read.

    What is `BY_PLATFORM` stays so: gpu_pools/platforms/known.py has the same rows with what the platforms say.
    """
    for field in dataclasses.fields(settings):
        for one in field.metadata.get(_ROW, ()):
            if one.says != "":
                yield dataclasses.replace(one, key=one.key or camel(field.name))


def row_of(field: dataclasses.Field[Any]) -> Row | None:
    """The row of a field; None: it has none."""
    written: Sequence[Row] = field.metadata.get(_ROW, ())
    return dataclasses.replace(written[0], key=written[0].key or camel(field.name)) if written else None


def read(settings: type[_S], section: Section, *, complete: bool = True, **more: object) -> _S:
    """The settings that a section declares; what is absent or wrong has its default. Asks for every key, and finishes nothing.

    Args:
        settings: a class with rows.
        section: where they are written.
        complete: whether what is needed must be there.
        more: values of fields that have no row.
    """
    found: dict[str, Any] = dict(more)
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        for one in field.metadata.get(_ROW, ())[:1]:
            asked = dataclasses.replace(one, key=one.key or camel(field.name), needed=one.needed and complete)
            value = one.kind.read(section, asked)
            if value is not None:
                found[field.name] = value
    return settings(**found)


def on(value: str | Mapping[str, str], platform: str) -> str:
    """What a row says for one platform; empty: nothing."""
    return value if isinstance(value, str) else value.get(platform, "")


def camel(name: str) -> str:
    """A name of a program as a stack file has it."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def snake(key: str) -> str:
    """A key of a stack file as a program has it."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def text(pattern: str = "", allowed: str = "", remedy: str = "") -> Kind:
    """A text that matches a pattern; one of two keys may be absent."""

    def read_text(section: Section, one: Row) -> str | None:
        needed = one.needed and not one.either
        return section.text(one.key, required=needed, pattern=pattern, allowed=allowed, remedy=remedy)

    return Kind(read_text, "str")


def image_name(example: str) -> Kind:
    """The name of an image with its tag or digest."""
    return Kind(lambda section, one: section.image(one.key, example=example), "str")


def pinned_image(example: str) -> Kind:
    """The name of an image with its digest; the example has none."""
    return Kind(lambda section, one: section.pinned_image(one.key, example=example), "str")


def one_of(choices: Sequence[str], remedy: str = "") -> Kind:
    """One of some texts."""
    return Kind(lambda section, one: section.text(one.key, required=one.needed, choices=choices, remedy=remedy), "str")


def whole_number(minimum: int, maximum: int | None = None, remedy: str = "") -> Kind:
    """A whole number within the bounds."""

    def read_number(section: Section, one: Row) -> int | None:
        return section.integer(one.key, minimum=minimum, maximum=maximum, required=one.needed, remedy=remedy)

    return Kind(read_number, "int")


def number(minimum: float) -> Kind:
    """A number, not below the minimum."""
    return Kind(lambda section, one: section.number(one.key, minimum=minimum), "float")


def flag() -> Kind:
    """True or false."""
    return Kind(lambda section, one: section.flag(one.key), "bool")


def texts() -> Kind:
    """A mapping of texts."""
    return Kind(lambda section, one: section.texts(one.key), "dict[str, str]")


def placed_texts() -> Kind:
    """A mapping of texts that are only placed: in a program they may be Outputs."""
    return Kind(texts().read, "dict[str, pulumi.Input[str]]")


def inner(settings: type, what: str = "a mapping") -> Kind:
    """A mapping with the rows of another settings class; `what` says in an error what it is."""
    return Kind(lambda section, one: read_inner(settings, section, one, what), settings)


def read_inner(settings: type[_S], section: Section, one: Row, what: str = "a mapping") -> _S | None:
    """The mapping below a key, with the rows of another settings class; None where it is absent."""
    within = section.section(one.key, what=what)
    if within is None:
        return None
    found = read(settings, within)
    within.finish()
    return found
