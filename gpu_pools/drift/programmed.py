"""What a program has told the engine of its resources, as far as it matters for drift: read from ``pulumi stack export``.

The events of a refresh do not have it. Secrets in the export are encrypted, and nothing of inputs or outputs is looked at.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_pools.plan.adoption import HELD
from gpu_pools.text.errors import InvalidStackError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Programmed:
    """Of one resource.

    Attributes:
        ignored: paths whose changes the program has the engine ignore.
        replacing: paths for which it has the resource replaced.
        only_read: whether the stack reads it and does not manage it.
        held: whether an update of it is refused, because the pool is only held as it was imported.
    """

    ignored: tuple[str, ...] = ()
    replacing: tuple[str, ...] = ()
    only_read: bool = False
    held: bool = False


def read_export(name: str, text: str) -> Mapping[str, Programmed]:
    """By urn, of what is in a state's export; `name` stands for it in messages.

    Raises:
        InvalidStackError: if it is not one.
    """
    try:
        resources = json.loads(text)["deployment"].get("resources") or []
        return {one["urn"]: _programmed(one) for one in resources}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"it is not a state: {type(error).__name__}"
        remedy = "Name the stack, then the engine is asked; or make the file so."
        raise InvalidStackError([Problem(name, message, "what `pulumi stack export` prints", remedy)]) from error


def _programmed(resource: Mapping[str, Any]) -> Programmed:
    hooks = (resource.get("resourceHooks") or {}).get("BeforeUpdate") or ()
    return Programmed(
        tuple(resource.get("ignoreChanges") or ()),
        tuple(resource.get("replaceOnChanges") or ()),
        bool(resource.get("external")),
        any(str(hook).endswith(HELD) for hook in hooks),
    )
