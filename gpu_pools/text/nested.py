"""A value inside nested mappings, such as chart values and Kubernetes objects are; nothing is judged here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def at(values: object, *keys: str) -> object:
    """The value below these keys, None where there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def leaves(values: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that is not a mapping, with the dotted path to it; an empty mapping has none.

    Args:
        values: nested mappings.
        above: what each path begins with.
    """
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
