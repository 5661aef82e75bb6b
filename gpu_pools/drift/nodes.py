"""What the verifiers have reported, as drift: nodes that are not as declared, and nodes of which no report counts.

What a report proves is decided in gpu_pools/evidence/verdicts.py. A silent or an old report is never green. A stack without
verification has nobody who looks at its GPUs: that is said, and is no drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_pools.evidence.shared_text import STRAYED
from gpu_pools.evidence.verdicts import Verdict
from gpu_pools.repairing.ways import ways_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.evidence.reports import Finding
    from gpu_pools.evidence.verdicts import Evidence, NodeEvidence


@dataclass(frozen=True)
class NodeDrift:
    """One difference of one node.

    Attributes:
        node: its name.
        pool: its pool's.
        place: what differs.
        declared: what it should be, JSON.
        real: what it is, JSON.
        cause: the likely cause, in words.
        remedy: what helps.
        repairable: whether `gpu-pools repair` has a way.
        writer: who set it, where the verifier knows; else empty.
    """

    node: str
    pool: str
    place: str
    declared: Any
    real: Any
    cause: str
    remedy: str
    repairable: bool
    writer: str = ""


@dataclass(frozen=True)
class Nodes:
    """What is to be said of the nodes.

    Attributes:
        drift: what is not as declared.
        failures: of what it cannot be told, and why.
        proven: how many nodes are proven.
        note: why nobody has looked; empty where somebody has.
    """

    drift: tuple[NodeDrift, ...] = ()
    failures: tuple[str, ...] = ()
    proven: int = 0
    note: str = ""


def nodes_of(evidence: Evidence) -> Nodes:
    """The nodes of a stack."""
    nodes = [node for pool in evidence.pools for node in pool.nodes]
    drift = [
        *_program(evidence),
        *_strays(evidence),
        *(one for pool in evidence.pools for node in pool.nodes for one in _of(pool.declared.name, node)),
    ]
    proven = sum(node.verdict is Verdict.PROVEN for node in nodes)
    return Nodes(tuple(drift), tuple(dict.fromkeys(_failures(evidence))), proven)


def _program(evidence: Evidence) -> Iterator[NodeDrift]:
    if evidence.replaced:
        remedy = "pulumi up deploys it anew"
        yield NodeDrift("all nodes", "", "the verifiers' program", None, None, evidence.replaced, remedy, repairable=False)


def _strays(evidence: Evidence) -> Iterator[NodeDrift]:
    _, cause, remedy = STRAYED
    for stray in evidence.strays:
        if stray.verdict:
            yield NodeDrift(stray.name, stray.pool, "the labels of its pool", "set", "missing", cause, remedy, repairable=False)


def _of(pool: str, node: NodeEvidence) -> Iterator[NodeDrift]:
    if node.verdict is not Verdict.DIFFERS or node.report is None:
        return
    for one in sorted(node.report.differences, key=lambda finding: finding.rank):
        yield NodeDrift(
            node.name,
            pool,
            f"{one.where}: {one.field}",
            one.expected,
            one.observed,
            one.likely_cause,
            one.remedy,
            repairable=bool(ways_of(one.cause)),
            writer=_writer(node, one),
        )


def _writer(node: NodeEvidence, finding: Finding) -> str:
    return node.report.set_by.get(finding.field, "") if node.report else ""


def _failures(evidence: Evidence) -> Iterator[str]:
    for pool in evidence.pools:
        silent = [node for node in pool.nodes if node.verdict not in {Verdict.DIFFERS, Verdict.PROVEN}]
        for node in silent:
            found = node.report.cannot_tell[:2] if node.report else ()
            why = node.reason or "; ".join(one.likely_cause for one in found)
            yield f"node {node.name} of {pool.declared.name}: {node.verdict.value}: {why}"
        few = len(pool.nodes) < pool.declared.min_nodes
        if pool.reason and (few or pool.verdict is Verdict.CANNOT_TELL):
            yield f"pool {pool.declared.name}: {pool.reason}"
