"""The evidence for machines: one JSON document with what was declared, what was seen, when, by what, and the digests.

The same evidence gives the same text: pools and nodes are sorted, and the only time of the collector's own is `collected`. It is
ASCII, so nothing in it can upset a terminal or a page.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.shared_text import REPLACED, STRAYED, TRUST
from gpu_pools.evidence.verdicts import Verdict

if TYPE_CHECKING:
    from gpu_pools.evidence.verdicts import Evidence, NodeEvidence, PoolEvidence, Stray

API_VERSION: Final = "gpu-pools/v1"
KIND: Final = "Evidence"


def evidence_text(evidence: Evidence) -> str:
    """The document, indented, with a line break at its end."""
    return json.dumps(evidence_json(evidence), indent=1, sort_keys=True) + "\n"


def evidence_json(evidence: Evidence) -> dict[str, Any]:
    """The document."""
    counts = Counter(node.verdict for pool in evidence.pools for node in pool.nodes)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "stack": evidence.stack,
        "collected": evidence.collected,
        "verdict": evidence.verdict.value,
        "exitCode": evidence.verdict.exit_code,
        "nodes": {verdict.value: counts[verdict] for verdict in Verdict if verdict is not Verdict.NOT_YET_PROVEN},
        "trust": TRUST,
        "program": evidence.declared.digest,
        "programFile": {
            "configMap": evidence.declared.program,
            "sha256": evidence.declared.program_sha256,
            "incidents": [REPLACED[0]] if evidence.replaced else [],
            "replaced": evidence.replaced,
        },
        "intervalSeconds": evidence.declared.interval_seconds,
        "pools": [_pool(pool) for pool in evidence.pools],
        # Only where there are such.
        **({"strays": [_stray(stray) for stray in evidence.strays]} if evidence.strays else {}),
    }


def _stray(stray: Stray) -> dict[str, Any]:
    verdict = stray.verdict.value if stray.verdict else None
    incidents = [STRAYED[0]] if stray.verdict else []
    return {"name": stray.name, "pool": stray.pool, "traces": list(stray.traces), "verdict": verdict, "incidents": incidents}


def _pool(pool: PoolEvidence) -> dict[str, Any]:
    declared = pool.declared
    return {
        "name": declared.name,
        "verdict": pool.verdict.value,
        "reason": pool.reason,
        "declared": declared.declared,
        "minNodes": declared.min_nodes,
        "nodeSelector": dict(declared.node_selector),
        "expectation": {"configMap": declared.config_map, "sha256": declared.sha256, "document": pool.expectation},
        "nodes": [_node(node) for node in pool.nodes],
    }


def _node(node: NodeEvidence) -> dict[str, Any]:
    return {
        "name": node.name,
        "uid": node.uid,
        "verdict": node.verdict.value,
        "reason": node.reason,
        "ready": node.ready,
        "allocatable": dict(node.allocatable),
        "versions": dict(node.versions),
        # As it was found; what is wrong with one that cannot be read stands in the reason.
        "report": None if node.report is None else node.report.document,
    }
