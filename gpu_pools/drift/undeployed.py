"""What the stack file declares and the state does not have: read from the engine's preview, ``pulumi preview --json``. Pure.

Without a refresh, so it is the program against the state and nothing else. Secrets are not looked at: only names are kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from gpu_pools.text.errors import InvalidStackError, Problem

#: Steps that change nothing, or only read.
_NOTHING = {"same", "read", "refresh"}


@dataclass(frozen=True)
class Undeployed:
    """What a deploy would do to one resource.

    Attributes:
        type: its type token.
        name: its name in the program.
        op: the engine's word: ``create``, ``update``, ``replace``, ``delete`` and their parts.
        properties: what differs, as paths; none where the engine names none.
    """

    type: str
    name: str
    op: str
    properties: tuple[str, ...] = ()


def read_preview(name: str, text: str) -> tuple[Undeployed, ...]:
    """What a preview would do; `name` stands for it in messages.

    Raises:
        InvalidStackError: if it is not one.
    """
    try:
        steps = json.loads(text).get("steps") or []
        found = [_undeployed(step) for step in steps if step["op"] not in _NOTHING]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = Problem(name, f"it is not a preview: {type(error).__name__}", "what `pulumi preview --json` prints", "Run it.")
        raise InvalidStackError([problem]) from error
    return tuple(sorted(found, key=lambda one: (one.type, one.name, one.op)))


def _undeployed(step: dict[str, object]) -> Undeployed:
    head, _, name = str(step["urn"]).rpartition("::")
    differs = step.get("detailedDiff") or step.get("diffReasons") or ()
    properties = tuple(sorted(map(str, differs))) if isinstance(differs, dict | list) else ()
    return Undeployed(head.rpartition("::")[2].rpartition("$")[2], name, str(step["op"]), properties)
