"""Versions as programs print them."""

from __future__ import annotations

import re

Version = tuple[int, int, int]
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def parsed(text: str) -> Version | None:
    """The first version in a text."""
    match = _VERSION.search(text)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3] or 0))
