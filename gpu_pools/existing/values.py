"""Small questions about parsed YAML values that several checks ask."""

from __future__ import annotations

from typing import Final

#: Go decodes into int64; larger numbers are refused.
_MOST: Final = 2**63


def is_whole(value: object) -> bool:
    """Whether Go's JSON decoder takes it as an int: 4 and 4.0 are, true and "4" are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_MOST <= value < _MOST and (isinstance(value, int) or value.is_integer())
