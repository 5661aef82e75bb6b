"""The evidence as one HTML page: nothing to load, no script, what differs on top, each GPU drawn as it is.

page.html.j2 is the page. Everything that comes from a cluster is text there, and escaped (gpu_pools/text/templates.py); a policy
in the page forbids scripts and foreign content all the same.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.evidence.picture import picture
from gpu_pools.evidence.shared_text import (
    REPLACED,
    SIGNS,
    STRAYED,
    TRUST,
    differences,
    omitted,
    plain,
    questions,
    set_by,
    strayed,
    summary,
    unproven,
    value,
)
from gpu_pools.evidence.verdicts import Verdict, duration_text
from gpu_pools.mig.svg import gpu_style
from gpu_pools.text.incidents import explained
from gpu_pools.text.markup import Html
from gpu_pools.text.table import resources_text
from gpu_pools.text.templates import fill

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.evidence.reports import Report
    from gpu_pools.evidence.verdicts import Evidence, NodeEvidence

_MPS: Final = {"activeThreadPercentage": "MPS threads {} %", "memoryLimits": "MPS memory {}", "failure": "MPS: {}"}
_CLASS: Final = {Verdict.PROVEN: "proven", Verdict.DIFFERS: "differs"}
_LABELS: Final = {"driver": "driver", "cuda": "CUDA", "nvml": "NVML"}


def evidence_page(evidence: Evidence) -> str:
    """The whole page."""

    def age(report: Report) -> str:
        return duration_text(max(0.0, (evidence.time - report.time).total_seconds()))

    return fill(
        "gpu_pools.evidence",
        "page.html.j2",
        evidence=evidence,
        style=Html(resources.files("gpu_pools.evidence").joinpath("page.css").read_text(encoding="utf-8") + gpu_style()),
        summary=summary(evidence),
        trust=TRUST,
        interval=duration_text(evidence.declared.interval_seconds),
        replaced=REPLACED,
        strayed=STRAYED,
        strays=strayed(evidence),
        differences=differences(evidence),
        questions=questions(evidence),
        unproven=unproven(evidence),
        classes=_CLASS,
        signs=SIGNS,
        plain=plain,
        value=value,
        explained=explained,
        advertised=_advertised,
        omitted=omitted,
        picture=picture,
        resources=resources_text,
        versions=_versions,
        age=age,
    )


def _advertised(expectation: Mapping[str, Any]) -> str:
    """What each node of a pool advertises, by the pool's expectation."""
    expected = expectation["node"].get("allocatable")
    return resources_text(expected) if isinstance(expected, dict) else ""


def _versions(node: NodeEvidence) -> Iterator[str]:
    """The versions on a node, its settings of MPS, and who has set its labels and taints."""
    if node.report:
        yield from (f"{words} {node.report.versions[key]}" for key, words in _LABELS.items() if key in node.report.versions)
        yield from (_MPS[key].format(text) for key, text in node.report.mps.items() if key in _MPS)
        yield from set_by(node.report)
    if "kubeletVersion" in node.versions:
        yield f"kubelet {node.versions['kubeletVersion']}"
