"""Reads the engine's preview of a refresh: ``pulumi refresh --preview-only --json`` as a stream of events.

The engine writes that stream with PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true, one document a line. The other form, one document
with ``steps``, is not read: of a resource that the stack only reads it does not tell that it has changed.

A refresh that was cut off, that failed, or that counts other things than it tells is never taken for one without differences:
each such reason is among `failures`. What was read until then is kept, since it may be the very reason, as a deleted cluster is.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.errors import InvalidStackError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ROOT: Final = "pulumi:pulumi:Stack"
_OPERATIONS: Final = {"same", "update", "delete"}


@dataclass(frozen=True)
class State:
    """Inputs and outputs of a resource; both empty where it is gone."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Resource:
    """What the engine tells of one resource.

    Attributes:
        urn: of the resource.
        type: its type token.
        op: ``same``, ``update`` or ``delete``.
        before: as the state has it.
        now: as it is.
        changes: path of a difference -> its kind, as ``pulumi up`` would have it the other way round; None: the engine names
            none, which it does of what the stack only reads.
    """

    urn: str
    type: str
    op: str
    before: State
    now: State
    changes: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """Its name in the program."""
        return self.urn.rpartition("::")[2]


@dataclass(frozen=True)
class Refresh:
    """A refresh, read.

    Attributes:
        resources: all that the engine has asked for.
        warnings: what the engine warns of, as an object that is not ready.
        failures: why there may be differences that it does not tell; none: it came to its end.
    """

    resources: tuple[Resource, ...]
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


def read_refresh(name: str, text: str) -> Refresh:
    """The refresh in a text; `name` stands for it in messages.

    Raises:
        InvalidStackError: if nothing in it is an event of the engine.
    """
    documents, broken = _documents(text)
    if not any(key.endswith("Event") for one in documents for key in one):
        raise InvalidStackError(
            [
                Problem(
                    name,
                    "it is not a stream of the engine's events",
                    "what `pulumi refresh --preview-only --json` prints with PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true",
                    "Name the stack, then the engine is asked; or make the file so.",
                )
            ]
        )
    try:
        begun = [one["resourcePreEvent"]["metadata"]["urn"] for one in documents if "resourcePreEvent" in one]
        resources = tuple(_resource(one["resOutputsEvent"]["metadata"]) for one in documents if "resOutputsEvent" in one)
        said = [one["diagnosticEvent"] for one in documents if "diagnosticEvent" in one]
        failures = [
            *(["a line is not a whole event: it was cut off"] if broken else []),
            *(_said(one) for one in said if one["severity"] == "error"),
            *_unlike(begun, resources),
            *_ended([one["summaryEvent"] for one in documents if "summaryEvent" in one], resources),
        ]
    except (KeyError, TypeError, AttributeError) as error:
        return Refresh((), failures=(f"an event is not as the engine writes it: {type(error).__name__} {error}",))
    warnings = [_said(one) for one in said if one["severity"] == "warning"]
    return Refresh(resources, tuple(dict.fromkeys(warnings)), tuple(dict.fromkeys(failures)))


def _documents(text: str) -> tuple[list[dict[str, Any]], bool]:
    """The documents, and whether a line that begins as one is none."""
    found, broken = [], False
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                broken = True
    return found, broken


def _resource(metadata: Mapping[str, Any]) -> Resource:
    detailed = metadata.get("detailedDiff")
    changes = None if detailed is None else {path: str(one.get("diffKind")) for path, one in detailed.items()}
    before, now = _state(metadata.get("old")), _state(metadata.get("new"))
    return Resource(metadata["urn"], metadata["type"], metadata["op"], before, now, changes)


def _state(told: Mapping[str, Any] | None) -> State:
    return State((told or {}).get("inputs") or {}, (told or {}).get("outputs") or {})


def _said(event: Mapping[str, Any]) -> str:
    of = str(event.get("urn") or "").rpartition("::")[2]
    return " ".join(f"{f'{of}: ' if of else ''}{event['message']}".split())


def _unlike(begun: Sequence[str], resources: Sequence[Resource]) -> Iterator[str]:
    """Resources of which the engine began to tell, and did not."""
    for urn in Counter(begun) - Counter(one.urn for one in resources):
        yield f"{urn.rpartition('::')[2]} was not read"
    for one in resources:
        if one.op not in _OPERATIONS:
            yield f"{one.name}: `{one.op}` is not what a refresh does"


def _ended(summaries: Sequence[Mapping[str, Any]], resources: Sequence[Resource]) -> Iterator[str]:
    if len(summaries) != 1:
        yield "the engine did not come to its end"
        return
    (summary,) = summaries
    if summary.get("result") not in {None, "succeeded"}:
        yield f"the engine says that the refresh {summary['result']}"
    if summary.get("maybeCorrupt"):
        yield "the engine says that the state may be corrupt"
    if summary.get("isPreview") is False:
        yield "it was no preview: the state has been written anew, so that nothing can differ from it any more"
    counted = {op: number for op, number in (summary.get("resourceChanges") or {}).items() if number}
    by_op = Counter(one.op for one in resources)
    if counted != dict(by_op):
        yield f"the engine counts {_counts(counted)}, and tells of {_counts(by_op)}"
    if all(one.type == _ROOT for one in resources):
        yield "there is nothing in the state: the stack is not deployed"


def _counts(of: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {op}" for op, number in sorted(of.items())) or "nothing"
