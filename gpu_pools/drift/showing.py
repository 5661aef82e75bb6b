"""Drift for people and for machines: a table with what follows from it, and one JSON document. No secret is in either."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.drift.judged import Verdict
from gpu_pools.drift.paths import SECRET, Nothing
from gpu_pools.text import harmless
from gpu_pools.text.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.drift.differences import Difference
    from gpu_pools.drift.judged import Drift, Judged
    from gpu_pools.drift.nodes import NodeDrift, Nodes
    from gpu_pools.drift.undeployed import Undeployed

_LONGEST: Final = 60
_WORDS: Final = {Verdict.NONE: "no drift", Verdict.DRIFT: "drift", Verdict.CANNOT_TELL: "cannot tell"}
_UP: Final = """\
These are changes of a person or of another program: no cloud is known to make them by itself.
`pulumi up` alone does nothing about them, since it compares with the state.
Write into the stack file what is to stay; then `pulumi refresh`, and `pulumi up`."""


def drift_text(drift: Drift) -> str:
    """For a terminal, with a line break at its end."""
    return "\n\n".join(_parts(drift)) + "\n"


def _parts(drift: Drift) -> Iterator[str]:
    on_nodes = drift.nodes.drift if drift.nodes else ()
    if drift.drift or on_nodes:
        rows = [_drift_row(one) for one in drift.drift] + [_node_row(one, drift.stack) for one in on_nodes]
        yield table(("RESOURCE", "PROPERTY", "STATE", "REAL", "WHO", "UP, AFTER A REFRESH"), rows)
    if drift.drift:
        yield _UP
    if on_nodes:
        yield "\n".join(
            ["On the nodes, as their verifiers say, the first of each node first:", *dict.fromkeys(map(_remedy, on_nodes))]
        )
    if drift.undeployed:
        undeployed = [(f"{one.type.rpartition(':')[2]} {one.name}", one.op, _paths(one)) for one in drift.undeployed]
        yield "\n".join(["Declared, and not deployed:", table(("RESOURCE", "UP DOES", "PROPERTIES"), undeployed)])
    if drift.others:
        others = [(*_row(one.difference), one.rule.who if one.rule else "") for one in drift.others]
        reasons = dict.fromkeys(f"  {one.rule.who}: {one.rule.because}" for one in drift.others if one.rule)
        yield "\n".join(["Not drift:", table(("RESOURCE", "PROPERTY", "STATE", "REAL", "WHOSE"), others), *reasons])
    if drift.warnings:
        yield "\n".join(["The engine warns:", *(f"  {harmless.line(one)}" for one in drift.warnings)])
    if drift.untold:
        yield "\n".join(["It cannot be told whether that is all:", *(f"  {harmless.line(one)}" for one in drift.untold)])
    if drift.nodes:
        yield drift.nodes.note or f"Nodes that their verifiers have proven: {drift.nodes.proven}"
    yield f"{harmless.line(drift.stack)}: {_WORDS[drift.verdict]}{_count(drift)}"


def _count(drift: Drift) -> str:
    count = len(drift.drift) + len(drift.nodes.drift if drift.nodes else ()) + len(drift.undeployed or ())
    return f" in {count} place{'' if count == 1 else 's'}" if count else ""


def _drift_row(one: Judged) -> tuple[str, str, str, str, str, str]:
    resource, place, was, now = _row(one.difference)
    return resource, place, was, now, str(one.writer or "-"), one.up.value if one.up else ""


def _node_row(one: NodeDrift, stack: str) -> tuple[str, str, str, str, str, str]:
    up = f"nothing: gpu-pools repair {one.node} --stack {stack}" if one.repairable else "see below"
    return f"Node {one.node}", one.place, _short(one.declared), _short(one.real), one.writer or "-", up


def _remedy(one: NodeDrift) -> str:
    return f"  {harmless.line(one.node)}: {harmless.line(one.cause)}\n      remedy: {harmless.line(one.remedy)}"


def _paths(one: Undeployed) -> str:
    shown = ", ".join(one.properties)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _row(difference: Difference) -> tuple[str, str, str, str]:
    type_ = difference.resource.type.rpartition(":")[2]
    return f"{type_} {difference.resource.name}", difference.place or "-", *_sides(difference)


def _sides(difference: Difference) -> tuple[str, str]:
    if difference.kind == "gone":
        return "there", "gone"
    if difference.repeats:
        return "-", f"pools of this stack: {difference.repeats}"
    if difference.pool and not difference.steps:
        return ("-", "there") if difference.kind == "add" else ("there", "gone")
    return _short(difference.was), _short(difference.now)


def _short(value: object) -> str:
    shown = value.shown if isinstance(value, Nothing) else json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def drift_json(drift: Drift) -> str:
    """The document, indented, with a line break at its end."""
    whole = {
        "apiVersion": "gpu-pools/v1",
        "kind": "Drift",
        "stack": drift.stack,
        "verdict": _WORDS[drift.verdict],
        "exitCode": drift.verdict.value,
        "drift": [_judged(one) for one in drift.drift],
        "notDrift": [_judged(one) for one in drift.others],
        "warnings": list(drift.warnings),
        "failures": list(drift.untold),
        "undeployed": None if drift.undeployed is None else [asdict(one) for one in drift.undeployed],
        "nodes": None if drift.nodes is None else _nodes(drift.nodes),
    }
    return json.dumps(whole, indent=1) + "\n"


def _nodes(nodes: Nodes) -> dict[str, Any]:
    return {"proven": nodes.proven, "note": nodes.note or None, "drift": [asdict(one) for one in nodes.drift]}


def _judged(one: Judged) -> dict[str, Any]:
    difference, rule = one.difference, one.rule
    return {
        "resource": {
            "type": difference.resource.type,
            "name": difference.resource.name,
            "urn": difference.resource.urn,
        },
        "property": difference.place or None,
        "change": difference.kind,
        "state": _value(difference.was),
        "real": _value(difference.now),
        "upAfterRefresh": one.up.value if one.up else None,
        "who": None if one.writer is None else asdict(one.writer),
        "whose": None
        if rule is None
        else {"rule": rule.id, "who": rule.who, "because": rule.because, "sources": list(rule.sources)},
    }


def _value(value: object) -> dict[str, Any]:
    """What is there; no `value`: nothing is, or it is not shown."""
    if isinstance(value, Nothing):
        return {"secret": value is SECRET}
    return {"secret": False, "value": value}
