"""Exceptions from a rule: for one resource, with a reason, until a day.

An exception without a reason or an end would be a silent switch, so both are required; after its day it excepts nothing, and the
finding says that it ended. Names are whole names or patterns with ``*``.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "array",
    "description": "Resources that this rule leaves alone, each with a reason and the last day of the exception.",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["resource", "reason", "until"],
        "properties": {
            "resource": {"type": "string", "minLength": 1},
            "reason": {"type": "string", "minLength": 10},
            "until": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        },
    },
}
_SHORTEST_REASON: Final = 10


@dataclass(frozen=True)
class Exemption:
    """One exception.

    Attributes:
        resource: name of a resource in the program, or a pattern with ``*``.
        reason: why.
        until: its last day.
    """

    resource: str
    reason: str
    until: dt.date

    def covers(self, name: str) -> bool:
        """Whether it is about the resource of that name."""
        return fnmatch.fnmatchcase(name, self.resource)


def parse_exemptions(written: object) -> tuple[Exemption, ...]:
    """The exceptions of a rule as the pack's configuration has them.

    Raises:
        ValueError: naming the first that lacks a resource, a reason or a day; nothing is excepted by a broken entry.
    """
    if written is None:
        return ()
    if not isinstance(written, list):
        raise ValueError("`exceptions` must be a list")  # noqa: TRY004 - one kind of error for whoever reads configurations
    return tuple(_parse(entry, f"exceptions[{index}]") for index, entry in enumerate(written))


def _parse(entry: object, path: str) -> Exemption:
    if not isinstance(entry, dict) or set(entry) != {"resource", "reason", "until"}:
        raise ValueError(f"{path} must have exactly `resource`, `reason` and `until`")
    resource, reason, until = str(entry["resource"]), str(entry["reason"]).strip(), str(entry["until"])
    if not resource.strip("*? "):
        raise ValueError(f'{path}.resource "{resource}" would except everything; name resources')
    if len(reason) < _SHORTEST_REASON:
        raise ValueError(f"{path}.reason must be a sentence of at least {_SHORTEST_REASON} characters")
    try:
        return Exemption(resource, reason, dt.date.fromisoformat(until))
    except ValueError:
        raise ValueError(f'{path}.until "{until}" is not a day such as 2027-03-31') from None


def holding(exemptions: Iterable[Exemption], name: str, today: dt.date) -> tuple[Exemption | None, Exemption | None]:
    """(one that holds for the resource today, one that held and has ended)."""
    mine = [exemption for exemption in exemptions if exemption.covers(name)]
    live = next((exemption for exemption in mine if exemption.until >= today), None)
    return live, next((exemption for exemption in mine if exemption.until < today), None)
