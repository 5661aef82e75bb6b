"""Reads causes.json: the likely causes of differences, each with its remedy and the incidents in which users met it.

A cause stands above those that it may bring with it, and reports keep this order. The ids of incidents are those of
docs/reference/verification.md. The comparison decides which cause fits.
"""

from __future__ import annotations

import json
import pkgutil
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Cause:
    """A likely cause.

    Attributes:
        key: its name here.
        rank: its place in the order.
        text: the cause, one sentence.
        remedy: what to do, one sentence.
        incidents: ids of the incidents.
    """

    key: str
    rank: int
    text: str
    remedy: str
    incidents: tuple[str, ...]


def cause(key: str) -> Cause:
    """The cause of that key.

    Raises:
        KeyError: if there is none.
    """
    return CAUSES[key]


def _read(data: bytes) -> dict[str, Cause]:
    """Each group maps keys to text, remedy and incidents."""
    groups: dict[str, dict[str, tuple[str, str, str]]] = json.loads(data)
    rows = (row for group in groups.values() for row in group.items())
    return {
        key: Cause(key, rank, text, remedy, tuple(incidents.split()))
        for rank, (key, (text, remedy, incidents)) in enumerate(rows)
    }


CAUSES: Final = _read(pkgutil.get_data(__package__, "causes.json") or b"")
