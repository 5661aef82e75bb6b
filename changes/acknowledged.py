"""Replacements that somebody has to have read about: which there are, and which the stack file acknowledges.

The section ``gpu-pools:acknowledged`` names a replacement by its id, which follows from the resource and from the values that
change: it holds for exactly that change, and for none that comes later. A pool that is replaced only because its cluster is needs
no acknowledgement of its own. Only this reads the section; the plan and the components do not.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from changes.pools import CLUSTER_TYPES, POOL_TYPES
from changes.steps import top
from gpus.errors import Problems
from gpus.section import Section
from gpus.settings import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from changes.steps import Step

SECTION: Final = f"{NAMESPACE}:acknowledged"
_LEAST_REASON: Final = 10


@dataclass(frozen=True)
class Replacement:
    """A cluster or pool that is replaced.

    Attributes:
        resource: its name in the program.
        what: ``cluster`` or ``pool``.
        id: of this very change.
        changes: (input, before, after) of what forces it, as shown to people; empty where it follows another's.
        acknowledged: the reason in the stack file; None: it is not acknowledged.
    """

    resource: str
    what: str
    id: str
    changes: tuple[tuple[str, str, str], ...]
    acknowledged: str | None


def replacements(steps: Iterable[Step], config: Mapping[str, object]) -> tuple[Replacement, ...]:
    """All replacements of clusters and pools, clusters first.

    Raises:
        InvalidStackError: if the section is wrong. A change that is not there is no error: it may be done already.
    """
    replaced = [one for one in steps if one.op == "replace"]
    whole = any(one.type in CLUSTER_TYPES for one in replaced)
    found = [one for one in replaced if one.type in CLUSTER_TYPES or (one.type in POOL_TYPES and (one.because or not whole))]
    # One that follows another has the other's reason.
    causes = [cause for one in replaced for cause in _changed(one)]
    ids = {_id(step, causes): step for step in found}
    reasons = _read(config.get(SECTION), ids)
    return tuple(
        Replacement(
            step.name, "cluster" if step.type in CLUSTER_TYPES else "pool", number, tuple(_shown(step)), reasons.get(number)
        )
        for number, step in sorted(ids.items(), key=lambda entry: (entry[1].type not in CLUSTER_TYPES, entry[1].name))
    )


def _id(step: Step, causes: list[object]) -> str:
    exactly = [step.type, step.name, _changed(step) or causes]
    return hashlib.sha256(json.dumps(exactly, sort_keys=True).encode()).hexdigest()[:8]


def _changed(step: Step) -> list[object]:
    return [[step.name, key, step.old.get(key), step.new.get(key)] for key in sorted(set(map(top, step.because)))]


def _shown(step: Step) -> Iterable[tuple[str, str, str]]:
    for key in dict.fromkeys(map(top, step.because)):
        yield key, json.dumps(step.old.get(key)), json.dumps(step.new.get(key))


def _read(value: object, ids: Iterable[str]) -> dict[str, str]:
    """Id -> reason."""
    problems, found = Problems(), {}
    entries = value if isinstance(value, list) else []
    if value is not None and not isinstance(value, list):
        problems.add(SECTION, "is no list", allowed="a list of `change` and `reason`", remedy="Start each entry with a dash.")
    for index, entry in enumerate(entries):
        section = Section(entry, f"{SECTION}[{index}]", problems, what="a mapping with `change` and `reason`")
        number = section.text("change", required=True, pattern="[0-9a-f]{8}", allowed="the id that the report of a change shows")
        reason = section.text(
            "reason", required=True, pattern=rf"\s*\S.{{{_LEAST_REASON - 1},}}", allowed="a sentence of 10 characters or more"
        )
        section.finish()
        if number and reason:
            found[number] = reason
    problems.raise_if_any()
    return {number: reason for number, reason in found.items() if number in set(ids)}
