"""From options to the inputs of azure-native's resources, by the path that each row says it sets.

A row whose `sets` is one path needs nothing else to be sent. What is sent in another shape is in components/aks.py.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from gpu_pools.stack.fields import on, row_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def sent(options: object) -> dict[str, Any]:
    """What options ask for, as the plugin's inputs; what they leave out is not in it."""
    inputs: dict[str, Any] = {}
    for field in dataclasses.fields(options):  # type: ignore[arg-type]
        value, row = getattr(options, field.name), row_of(field)
        if row is None or value is None or value in ((), {}):
            continue
        if dataclasses.is_dataclass(value):
            inputs = merged(inputs, sent(value))
        elif (path := on(row.sets, "aks")) and "," not in path:
            inputs = merged(inputs, _below(path.split("."), list(value) if isinstance(value, tuple) else value))
    return inputs


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both, mappings in them too; of what both have the second counts, also a list as a whole."""
    result = dict(first)
    for key, value in second.items():
        before = result.get(key)
        result[key] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


def _below(path: list[str], value: object) -> dict[str, Any]:
    first, *rest = path
    return {first: _below(rest, value) if rest else value}
