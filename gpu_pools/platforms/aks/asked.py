"""What Azure is asked for by an option's own key or by `properties`, as one value: what rules between options have to look at.

`properties` is merged last into what is sent, so what stands there is what holds. A value that the key itself would refuse is
left to Azure: `properties` is the way to what Azure has and this project does not know yet. Lists of mappings, such as the load
balancer's addresses, are not looked into. What is sent, and the ids of changes, follow from the options as they are written.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from gpu_pools.reading.fields import on, row_of, rows
from gpu_pools.reading.section import Section
from gpu_pools.text.errors import Problems
from gpu_pools.text.nested import at

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_S = TypeVar("_S")


def asked(settings: _S, properties: Mapping[str, Any], only: Collection[str] = ()) -> _S:
    """The settings with what `properties` says in the place of the keys that set the same.

    Args:
        settings: an instance of a class with rows.
        properties: of azure-native.
        only: names of the fields to look at; empty: all.
    """
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        row, mine = row_of(field), getattr(settings, field.name)
        if row is None or (only and field.name not in only):
            continue
        if isinstance(row.kind.type, type):
            written = row.kind.type() if mine is None else mine
            below = asked(written, properties)
            if below != written:
                changed[field.name] = below
            continue
        value = at(properties, *_path(row.sets)) if _path(row.sets) else None
        if value is None:
            continue
        problems = Problems()
        found = row.kind.read(Section({row.key: value}, "properties", problems), row)
        if found is not None and not problems.found:
            changed[field.name] = {**mine, **found} if isinstance(found, dict) and isinstance(mine, dict) else found
    return dataclasses.replace(settings, **changed) if changed else settings  # type: ignore[type-var]


def place_of(settings: type, place: str, properties: Mapping[str, Any]) -> str:
    """Where the value of a key is written: the key's own place, or the property that wins over it.

    Args:
        settings: a class with rows.
        place: the key, or several with points between; one that no row has stays as it is.
        properties: of azure-native.
    """
    key, _, below = place.partition(".")
    row = next((one for one in rows(settings) if one.key == key), None)
    if row is None:
        return place
    if isinstance(row.kind.type, type) and below:
        inner = place_of(row.kind.type, below, properties)
        return inner if inner != below else place
    path = _path(row.sets)
    return ".".join(("properties", *path)) if path and at(properties, *path) is not None else place


def _path(sets: str | Mapping[str, str]) -> tuple[str, ...]:
    """The one property that a row sets; nothing where it sets none or several."""
    text = on(sets, "aks")
    return tuple(text.split(".")) if text and "," not in text else ()
