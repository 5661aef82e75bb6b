"""Texts that table, page and document share; text of others cut to what can be shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.evidence.consequences import root_of
from gpu_pools.evidence.verdicts import Verdict
from gpu_pools.text import harmless
from gpu_pools.text.pages import name_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.evidence.reports import Finding, Report
    from gpu_pools.evidence.verdicts import Evidence, NodeEvidence, PoolEvidence

#: So that nobody needs colours to tell them apart.
SIGNS: Final = {
    Verdict.PROVEN: "✓",
    Verdict.DIFFERS: "✗",
    Verdict.CANNOT_TELL: "?",
    Verdict.STALE: "?",
    Verdict.NOT_VERIFIED: "?",
    Verdict.NOT_YET_PROVEN: "…",
}
_MOST_CHARACTERS: Final = 400
#: Shown with every verdict: it is no better than what it rests on.
TRUST: Final = "Reports stand on the nodes: who may write a node's status, or is root on the node, can forge its report."
#: Incident, likely cause, remedy.
REPLACED: Final = (
    "W90",
    "somebody has replaced the verifiers' program in the cluster",
    "Run `pulumi up`, which deploys it anew; then look in the API server's audit log for who may write ConfigMaps there.",
)
_PAGE: Final = name_page("reference/verification.md", "nodes-in-no-pool")
_LEFT: Final = f"If it left on purpose, remove what is left of the verifiers ({_PAGE})."
STRAYED: Final = (
    "W92",
    "a node has something of this stack's verifiers, and no pool selects it: it is in no verdict",
    f"Set the labels of its pool again, and look in the API server's audit log for who took them off. {_LEFT}",
)
_MISSING: Final = "missing"


def plain(text: object, most: int = _MOST_CHARACTERS) -> str:
    """A text as one short line, with nothing in it that a terminal would act on."""
    shown = harmless.line(str(text)[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def value(found: object) -> str:
    """An expected or observed value in words."""
    if isinstance(found, dict):
        return plain(", ".join(f"{count}x {name}" for name, count in sorted(found.items())) or "none")
    if isinstance(found, list):
        return plain(", ".join(map(str, found)) or "none")
    return plain("nothing" if found is None else found)


@dataclass(frozen=True)
class Group:
    """Findings with one likely cause: where they are."""

    cause: Finding
    places: tuple[tuple[PoolEvidence, NodeEvidence, Finding], ...]

    @property
    def nodes(self) -> int:
        """On how many nodes."""
        return len({(pool.declared.name, node.name) for pool, node, _ in self.places})

    @property
    def follows_from(self) -> str:
        """What brings these findings with it on each of their nodes; empty where they stand for themselves on one of them."""
        roots = [_root(node, finding) for _, node, finding in self.places]
        return "; ".join(dict.fromkeys(one.likely_cause for one in roots if one)) if all(roots) else ""


def _root(node: NodeEvidence, finding: Finding) -> Finding | None:
    """The finding of the same node that brings this one with it."""
    found = node.report.differences if node.report else ()
    root = root_of(finding.cause, [one.cause for one in found])
    return next((one for one in found if one.cause == root), None)


def differences(evidence: Evidence) -> list[Group]:
    """The differences by likely cause: what explains others first, as in the verifiers' own reports."""
    return _grouped(
        (pool, node, finding)
        for pool, node in _nodes(evidence)
        if node.report and node.verdict is Verdict.DIFFERS
        for finding in node.report.differences
    )


def questions(evidence: Evidence) -> list[Group]:
    """The same of what verifiers could not tell."""
    return _grouped(
        (pool, node, finding)
        for pool, node in _nodes(evidence)
        if node.report and node.verdict in {Verdict.DIFFERS, Verdict.CANNOT_TELL}
        for finding in node.report.cannot_tell
    )


def unproven(evidence: Evidence) -> list[tuple[PoolEvidence, NodeEvidence | None, str]]:
    """(pool, node or None, reason) of what is neither a difference nor proof."""
    found: list[tuple[PoolEvidence, NodeEvidence | None, str]] = []
    for pool in evidence.pools:
        if pool.reason:
            found.append((pool, None, pool.reason))
        found += [(pool, node, node.reason) for node in pool.nodes if node.reason and node.reason != pool.reason]
    return found


def summary(evidence: Evidence) -> str:
    """One line about all nodes, e.g. ``8 nodes: 7 proven, 1 differs``."""
    counts = Counter(node.verdict for _, node in _nodes(evidence))
    total = sum(counts.values())
    by_verdict = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in reversed(Verdict) if counts[verdict])
    waiting = [pool.declared.name for pool in evidence.pools if pool.verdict is Verdict.NOT_YET_PROVEN]
    more = f"; not yet proven: {', '.join(map(plain, waiting))}" if waiting else ""
    return f"{total} node{'' if total == 1 else 's'}" + (f": {by_verdict}" if by_verdict else "") + more


def strayed(evidence: Evidence) -> list[str]:
    """A line for each node that is in no pool: those that count, then those of other stacks or of pools that were taken out."""
    counted = [stray for stray in evidence.strays if stray.verdict]
    others = [stray for stray in evidence.strays if not stray.verdict]
    return [
        *(f"{plain(one.pool or 'unknown pool')}/{plain(one.name)}: {plain(', '.join(one.traces))}" for one in counted),
        *(f"{plain(one.pool)}/{plain(one.name)}: not of this stack's pools: {plain(', '.join(one.traces))}" for one in others),
    ]


def omitted(node: NodeEvidence) -> str:
    """What a node's report had no room for; empty where that is nothing."""
    if node.report is None or not node.report.omitted:
        return ""
    return ", ".join(f"{count} more of {plain(kind)}" for kind, count in node.report.omitted.items())


def set_by(report: Report) -> list[str]:
    """Who has set the pool's labels and taints on a node, e.g. ``labels: 3 by nfd``."""
    lines = []
    for kind in ("label", "taint"):
        counts = Counter(who for what, who in report.set_by.items() if what.startswith(f"{kind} "))
        if counts:
            lines.append(f"{kind}s: {', '.join(_by(who, count) for who, count in sorted(counts.items()))}")
    return lines


def _by(who: str, count: int) -> str:
    return f"{count} {who}" if who == _MISSING else f"{count} by {who}"


def _nodes(evidence: Evidence) -> Iterator[tuple[PoolEvidence, NodeEvidence]]:
    return ((pool, node) for pool in evidence.pools for node in pool.nodes)


def _grouped(found: Iterator[tuple[PoolEvidence, NodeEvidence, Finding]]) -> list[Group]:
    groups: dict[tuple[str, str, str], list[tuple[PoolEvidence, NodeEvidence, Finding]]] = {}
    for pool, node, finding in found:
        groups.setdefault((finding.cause, finding.likely_cause, finding.remedy), []).append((pool, node, finding))
    made = [Group(places[0][2], tuple(places)) for places in groups.values()]
    return sorted(made, key=lambda group: (group.cause.rank, -group.nodes, group.cause.cause))
