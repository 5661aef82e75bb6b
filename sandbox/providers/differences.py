"""What changed between two sets of inputs, as the engine wants to hear it: path by path.

Which paths force a replacement is data of each stand-in: patterns such as `vmSize`, `networkProfile` (and
all below it) or `agentPoolProfiles[*].name`. An unknown new value counts as changed: a preview must not
promise that nothing happens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.providers.values import UNKNOWN, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Diff:
    """What a provider says about old and new inputs.

    Attributes:
        changes: whether anything has to be done.
        replaces: top-level properties that force a replacement.
        delete_before_replace: whether the old resource must go first.
        diffs: top-level properties that changed.
        detailed: property path -> "add" | "delete" | "update", each maybe with "-replace" appended.
    """

    changes: bool
    replaces: list[str] = field(default_factory=list)
    delete_before_replace: bool = False
    diffs: list[str] = field(default_factory=list)
    detailed: Mapping[str, str] = field(default_factory=dict)


def compare(
    old: Mapping[str, Value],
    new: Mapping[str, Value],
    *,
    replace_on: Sequence[str] = (),
    delete_before_replace: bool = False,
) -> Diff:
    """Compare two sets of inputs.

    Args:
        old: the inputs of the last deployment, without secrets wrappers.
        new: the inputs wanted now, likewise.
        replace_on: patterns of the paths whose change forces a replacement.
        delete_before_replace: what to say if a replacement is needed.
    """
    detailed: dict[str, str] = {}
    replaces: set[str] = set()
    for path, kind in _changed(old, new, ""):
        forces = any(_matches(pattern, path) for pattern in replace_on)
        detailed[path] = f"{kind}-replace" if forces else kind
        if forces:
            replaces.add(_top(path))
    return Diff(
        changes=bool(detailed),
        replaces=sorted(replaces),
        delete_before_replace=delete_before_replace and bool(replaces),
        diffs=sorted({_top(path) for path in detailed}),
        detailed=detailed,
    )


def _changed(old: Value, new: Value, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _changed(old.get(key), new.get(key), _join(path, key))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else None
            after = new[index] if index < len(new) else None
            yield from _changed(before, after, f"{path}[{index}]")
    elif new is UNKNOWN:
        yield path, "update" if old is not None else "add"
    elif old != new:
        yield path, "add" if old is None else "delete" if new is None else "update"


def _join(path: str, key: str) -> str:
    if not _PLAIN_KEY.fullmatch(key):
        quoted = key.replace('"', '\\"')
        return f'{path}["{quoted}"]'
    return f"{path}.{key}" if path else key


def _top(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _matches(pattern: str, path: str) -> bool:
    expression = re.escape(pattern).replace(r"\[\*\]", r"\[\d+\]")
    return re.match(rf"{expression}(?![A-Za-z0-9_])", path) is not None
