"""The types of azure-native's resources, and what a stack file's `properties:` may hold of them.

`properties:` is the way out: whatever Azure has and this project does not, in the plugin's own words (camelCase), merged last
into the provider's arguments. A wrong key would be without effect and without a word, so each is held against the SDK's types
(azure_native.json, written by `python -m tools.generate` off the SDK that requirements.txt pins). A value that its enumeration
does not list is a warning, with the nearest: the plugin sends any text, and Azure may know newer ones.

Not here: what Azure refuses, and what a change of a property does (gpu_pools/platforms/aks/properties.py).
"""

from __future__ import annotations

import difflib
import json
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.reading.fields import Kind, Row
from gpu_pools.reading.later import Later
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.reading.section import Section
    from gpu_pools.text.errors import Problems

_PLAIN: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "string": ("a text", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
}


@lru_cache(maxsize=1)
def _data() -> Any:  # noqa: ANN401 - the file's shape
    return json.loads((resources.files("gpu_pools.platforms.aks") / "azure_native.json").read_text(encoding="utf-8"))


def version() -> str:
    """The version of azure-native whose types these are."""
    found: str = _data()["version"]
    return found


def types() -> Mapping[str, Mapping[str, str]]:
    """Type -> property -> what it is: `string`, `list of string`, `map of T`, a type, or an enumeration."""
    found: Mapping[str, Mapping[str, str]] = _data()["types"]
    return found


def enums() -> Mapping[str, list[str]]:
    """Enumeration -> its values."""
    found: Mapping[str, list[str]] = _data()["enums"]
    return found


def kind_of(type_: str, path: str) -> str | None:
    """What a property is, by its path below a type; None where there is none."""
    kind = type_
    for key in path.split("."):
        kind = kind.removeprefix("list of ")
        kind = kind.removeprefix("map of ") if kind.startswith("map of ") else types().get(kind, {}).get(key, "")
        if not kind:
            return None
    return kind


def properties(type_: str, kinds: Mapping[str, str]) -> Kind:
    """The mapping `properties:`.

    Args:
        type_: of the resource.
        kinds: paths that the stack decides by keys of its own -> what to do instead.
    """

    def read(section: Section, one: Row) -> dict[str, Any] | None:
        if not section.given(one.key):
            return None
        written, place = section.raw(one.key), section.at(one.key)
        _check_planned(written, kinds, place, section.problems)
        _check(written, type_, place, section.problems)
        return written if isinstance(written, dict) else None

    return Kind(read, "dict[str, Any]")


def unlisted(value: object, kind: str, place: str) -> Iterator[str]:
    """What the enumerations of the SDK do not list, as warnings.

    Args:
        value: a mapping `properties:`, or what is below it.
        kind: its type.
        place: where it stands.
    """
    if isinstance(value, dict):
        for key, entry in value.items():
            below = kind.removeprefix("map of ") if kind.startswith("map of ") else types().get(kind, {}).get(key, "")
            yield from unlisted(entry, below, f"{place}.{key}")
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from unlisted(entry, kind.removeprefix("list of "), f"{place}[{index}]")
    elif isinstance(value, str) and not isinstance(value, Later) and value not in enums().get(kind, [value]):
        listed = enums()[kind]
        near = difflib.get_close_matches(value.lower(), [one.lower() for one in listed], n=1, cutoff=0.5)
        meant = next((f" (did you mean {one}?)" for one in listed if one.lower() in near), "")
        yield (
            f"{place}: {show(value)} is not among the values of {kind} in azure-native {version()}, {', '.join(listed)}{meant}; "
            "it is sent as it is, and Azure decides in the deploy"
        )


def _check_planned(written: object, kinds: Mapping[str, str], place: str, problems: Problems) -> None:
    for path, remedy in kinds.items():
        found: object = written
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            problems.add(
                f"{place}.{path}", "is decided by the stack itself", allowed="any other property", remedy=f"Take it out. {remedy}"
            )


def _check(value: object, kind: str, place: str, problems: Problems) -> None:
    """Hold a value against its kind, all that is below it included."""
    if value is None or (isinstance(value, Later) and kind in {"string", *enums()}):
        return
    if kind.startswith("list of "):
        if isinstance(value, list):
            for index, entry in enumerate(value):
                _check(entry, kind.removeprefix("list of "), f"{place}[{index}]", problems)
        else:
            _refuse(value, "a list", place, problems)
    elif kind.startswith("map of ") or kind in types():
        if isinstance(value, dict):
            _check_keys(value, kind, place, problems)
        else:
            _refuse(value, "a mapping", place, problems)
    elif kind in {"Any", "any"}:
        return
    else:
        what, plain = _PLAIN.get(kind, _PLAIN["string"])
        if not isinstance(value, plain) or (isinstance(value, bool) and bool not in plain):
            _refuse(value, what, place, problems)


def _check_keys(value: Mapping[str, object], kind: str, place: str, problems: Problems) -> None:
    if kind.startswith("map of "):
        for key, entry in value.items():
            _check(entry, kind.removeprefix("map of "), f"{place}.{key}", problems)
        return
    known = types()[kind]
    for key, entry in value.items():
        if key in known:
            _check(entry, known[key], f"{place}.{key}", problems)
            continue
        near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
        problems.add(
            f"{place}.{key}",
            f"unknown property `{key}` of azure-native's {kind}",
            allowed=", ".join(sorted(known)),
            remedy=f"Did you mean `{near[0]}`?"
            if near
            else "Look it up in the provider's reference; it writes names in camelCase.",
        )


def _refuse(value: object, what: str, place: str, problems: Problems) -> None:
    problems.add(place, f"{show(value)} is not {what}", allowed=what, remedy=f"Write {what}, as azure-native has it.")
