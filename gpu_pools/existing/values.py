"""Small questions about parsed YAML values that several checks ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

#: Go decodes into int64; larger numbers are refused.
_MOST: Final = 2**63


def is_whole(value: object) -> bool:
    """Whether Go's JSON decoder takes it as an int: 4 and 4.0 are, true and "4" are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_MOST <= value < _MOST and (isinstance(value, int) or value.is_integer())


def unquoted(value: object, is_right: Callable[[object], bool], otherwise: str) -> str:
    """The remedy for a value of another type: to take its quotes off where that makes it right, else another one.

    Args:
        value: as it is written.
        is_right: whether a value has the wanted type.
        otherwise: the remedy where quotes are not what is wrong.
    """
    if not isinstance(value, str):
        return otherwise
    try:
        return "Write it without quotes." if is_right(yaml.safe_load(value)) else otherwise
    except (yaml.YAMLError, ValueError):
        return otherwise
