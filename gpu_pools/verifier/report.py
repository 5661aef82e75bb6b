"""The same findings three ways: for people, for machines, for a termination message. Decides nothing.

For Prometheus: gpu_pools/verifier/metrics.py.
"""

from __future__ import annotations

from .findings import Verdict, ordered
from .plain import line

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from typing import Any, Final

    from .expectation import Expectation
    from .findings import Finding
    from .observation import Assertion

API_VERSION: Final = "gpu-pools/v1"
#: The kubelet cuts a termination message there.
MOST_TERMINATION_BYTES: Final = 4096


def shown(value: object) -> str:
    """A value as messages show it."""
    if isinstance(value, dict):
        return ", ".join(f"{count}x {name}" for name, count in sorted(value.items())) or "none"
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    return str(value)


def text(expected: Expectation, assertion: Assertion) -> str:
    """For people: the verdict, then each finding with its cause and remedy."""
    findings = assertion.findings
    lines = [f"pool {expected.pool}: {_headline(assertion)}"]
    for finding in ordered([*findings.differences, *findings.unknown]):
        lines += ["", *_paragraph(finding)]
    if findings.notes:
        lines += ["", *(f"note: {note}" for note in findings.notes)]
    return "\n".join(map(line, lines))


def _headline(assertion: Assertion) -> str:
    findings = assertion.findings
    counted = f"after {assertion.looks} look{'' if assertion.looks == 1 else 's'}"
    if findings.verdict is Verdict.HOLDS:
        return f"the node is as declared ({assertion.looks} readings, the last two equal)"
    if findings.verdict is Verdict.DIFFERS:
        count = len(findings.differences)
        return f"{count} difference{'' if count == 1 else 's'} {counted}"
    return f"cannot tell whether the node is as declared, {counted}"


def _paragraph(finding: Finding) -> list[str]:
    lines = [f"- {finding.where}: {finding.field} is {shown(finding.observed)}, expected {shown(finding.expected)}"]
    if finding.detail:
        lines.append(f"    {finding.detail}")
    incidents = f" ({', '.join(finding.cause.incidents)})" if finding.cause.incidents else ""
    return [*lines, f"    likely cause: {finding.cause.text}{incidents}", f"    remedy: {finding.cause.remedy}"]


def termination_message(expected: Expectation, assertion: Assertion, most_bytes: int = MOST_TERMINATION_BYTES) -> str:
    """One line that fits where it is kept: which node, then each finding with the remedy first, last where to look for more.

    Args:
        expected: what was asserted.
        assertion: what came of it.
        most_bytes: how long the line may be.
    """
    findings, node = assertion.findings, assertion.observation.node
    said = line(f"pool {expected.pool}{f', node {node.name}' if node else ''}: {_headline(assertion)}")
    if findings.verdict is Verdict.HOLDS:
        return said
    look = line(f" | Look at: kubectl describe node {node.name}") if node else ""
    parts = [_sentence(finding) for finding in ordered(findings.differences or findings.unknown)]
    for index, part in enumerate(parts):
        more = f" [+{len(parts) - index} more]"
        if len(f"{said} | {part}{more}{look}".encode()) > most_bytes:
            return said + more + look
        said = f"{said} | {part}"
    return said + look


def _sentence(finding: Finding) -> str:
    detail = f" ({finding.detail})" if finding.detail else ""
    what = f"{finding.where}: {finding.field} is {shown(finding.observed)}, expected {shown(finding.expected)}"
    return line(" ".join(f"Remedy: {finding.cause.remedy} Likely cause: {finding.cause.text}; seen: {what}{detail}".split()))


def report(expected: Expectation, assertion: Assertion, *, at: str) -> dict[str, Any]:
    """For machines.

    Args:
        expected: the expectation.
        assertion: what came of it.
        at: when, RFC 3339.
    """
    findings = assertion.findings
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeReport",
        "pool": expected.pool,
        "time": at,
        "verdict": findings.verdict.text,
        "looks": assertion.looks,
        "seconds": round(assertion.seconds, 3),
        "differences": [finding_json(finding) for finding in ordered(findings.differences)],
        "cannotTell": [finding_json(finding) for finding in ordered(findings.unknown)],
        "notes": list(findings.notes),
        "observed": assertion.observation.as_json(),
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding for machines."""
    return {
        "subject": finding.where.subject,
        "gpu": finding.where.gpu,
        "uuid": finding.where.uuid,
        "field": finding.field,
        "expected": finding.expected,
        "observed": finding.observed,
        "detail": finding.detail,
        "cause": finding.cause.key,
        "rank": finding.cause.rank,
        "likelyCause": finding.cause.text,
        "remedy": finding.cause.remedy,
        "incidents": list(finding.cause.incidents),
    }
