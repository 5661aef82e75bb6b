"""The evidence for a terminal: a line per node, then what differs and what is not proven, with causes and remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpu_pools.evidence.shared_text import (
    REPLACED,
    STRAYED,
    TRUST,
    differences,
    omitted,
    plain,
    questions,
    strayed,
    summary,
    unproven,
    value,
)
from gpu_pools.evidence.verdicts import Verdict, duration_text, worst
from gpu_pools.text.incidents import explained
from gpu_pools.text.table import resources_text, table
from gpu_pools.text.terminal import coloured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.evidence.shared_text import Group
    from gpu_pools.evidence.verdicts import Evidence, NodeEvidence, PoolEvidence

_HEADER: Final = ("POOL", "NODE", "DECLARED", "OBSERVED", "REPORTED", "VERDICT")
_RED, _GREEN, _YELLOW = 31, 32, 33
_NAME_CHARACTERS: Final = 63
#: Of one cause; the JSON file and the page have all.
_MOST_PLACES: Final = 10
_MOST_LINES: Final = 30


def evidence_table(evidence: Evidence, *, colour: bool) -> str:
    """The whole text.

    Args:
        evidence: what to show.
        colour: whether to colour the verdicts, for a `gpu_pools.text.terminal.Terminal`.
    """
    rows = [row for pool in evidence.pools for row in _rows(evidence, pool)]
    head, rule, *lines = table(_HEADER, [cells for cells, _ in rows]).split("\n")
    painted = [_painted(line, verdict, colour=colour) for line, (_, verdict) in zip(lines, rows, strict=True)]
    return "\n".join([head, rule, *painted, *findings(evidence), "", TRUST, summary(evidence)])


def findings(evidence: Evidence) -> list[str]:
    """The lines below the table: what differs, what cannot be told, what is not proven, with causes and remedies."""
    groups = [*_groups("differs", differences(evidence)), *_groups("cannot tell", questions(evidence))]
    return [*_replaced(evidence), *_strayed(evidence), *groups, *_unproven(evidence)]


def _replaced(evidence: Evidence) -> Iterator[str]:
    if evidence.replaced:
        incident, cause, remedy = REPLACED
        yield ""
        yield f"differs: {cause} ({incident})"
        yield f"    remedy: {remedy}"
        yield from (f"    {line}" for line in explained([incident]))
        yield f"    {plain(evidence.declared.namespace)}: {plain(evidence.replaced)}"


def _strayed(evidence: Evidence) -> Iterator[str]:
    lines = strayed(evidence)
    if not lines:
        return
    incident, cause, remedy = STRAYED
    verdicts = [stray.verdict for stray in evidence.strays if stray.verdict]
    yield ""
    yield f"{worst(verdicts).value if verdicts else 'note'}: {cause} ({incident})"
    yield f"    remedy: {remedy}"
    yield from (f"    {line}" for line in explained([incident]))
    yield from (f"    {line}" for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield f"    and {len(lines) - _MOST_LINES} more"


def _rows(evidence: Evidence, pool: PoolEvidence) -> Iterator[tuple[tuple[str, ...], Verdict]]:
    name, declared = plain(pool.declared.name, _NAME_CHARACTERS), plain(pool.declared.declared, _NAME_CHARACTERS)
    for node in pool.nodes:
        devices = node.report.devices if node.report else {}
        seen = plain(resources_text({**node.allocatable, **devices}), _NAME_CHARACTERS)
        age = _age(evidence, node)
        yield (name, _name(node), declared, seen, age, node.verdict.value), node.verdict
    if not pool.nodes or pool.verdict is Verdict.NOT_YET_PROVEN:
        lacking = "more nodes" if pool.nodes else "no node yet"
        words = lacking if pool.verdict is Verdict.NOT_YET_PROVEN else "-"
        yield (name, words, declared, "-", "-", pool.verdict.value), pool.verdict


def _name(node: NodeEvidence) -> str:
    return plain(node.name, _NAME_CHARACTERS) + ("" if node.ready else " (NotReady)")


def _age(evidence: Evidence, node: NodeEvidence) -> str:
    if node.report is None:
        return "-"
    return f"{duration_text(max(0.0, (evidence.time - node.report.time).total_seconds()))} ago"


def _painted(line: str, verdict: Verdict, *, colour: bool) -> str:
    if not colour:
        return line
    paint = {Verdict.PROVEN: _GREEN, Verdict.DIFFERS: _RED}.get(verdict, _YELLOW)
    return f"{line.removesuffix(verdict.value)}{coloured(verdict.value, paint)}"


def _groups(word: str, groups: list[Group]) -> Iterator[str]:
    for group in groups:
        incidents = f" ({', '.join(map(plain, group.cause.incidents))})" if group.cause.incidents else ""
        yield ""
        yield f"{word}: {plain(group.cause.likely_cause)}{incidents}"
        root = group.follows_from
        yield f"    follows from: {plain(root)}" if root else f"    remedy: {plain(group.cause.remedy)}"
        yield from (f"    {line}" for line in explained(group.cause.incidents))
        for pool, node, finding in group.places[:_MOST_PLACES]:
            detail = f" ({plain(finding.detail)})" if finding.detail else ""
            what = f"{plain(finding.field)} is {value(finding.observed)}, expected {value(finding.expected)}"
            yield f"    {plain(pool.declared.name)}/{plain(node.name)}: {plain(finding.where)}: {what}{detail}"
        if len(group.places) > _MOST_PLACES:
            yield f"    and {len(group.places) - _MOST_PLACES} more"


def _unproven(evidence: Evidence) -> Iterator[str]:
    found = unproven(evidence)
    if found:
        yield ""
    for pool, node, reason in found[:_MOST_LINES]:
        where = plain(pool.declared.name) + (f"/{plain(node.name)}" if node else "")
        verdict = node.verdict if node else pool.verdict
        yield f"{verdict.value}: {where}: {plain(reason)}"
    if len(found) > _MOST_LINES:
        yield f"and {len(found) - _MOST_LINES} more"
    for pool in evidence.pools:
        for node in pool.nodes:
            if rest := omitted(node):
                yield f"{plain(pool.declared.name)}/{plain(node.name)}: its report had no room for {rest}"
