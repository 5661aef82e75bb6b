"""A value inside nested mappings, such as chart values and Kubernetes objects are; nothing is judged here."""

from __future__ import annotations


def at(values: object, *keys: str) -> object:
    """The value below these keys, None where there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values
