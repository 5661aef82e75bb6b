"""The same findings four ways: for people, for machines, for a termination message, for Prometheus. Decides nothing."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from .findings import Verdict, ordered
from .plain import line

if TYPE_CHECKING:
    from .expectation import Expectation
    from .findings import Finding
    from .observation import Assertion

API_VERSION: Final = "gpu-pools/v1"
#: The kubelet cuts a termination message there.
MOST_TERMINATION_BYTES: Final = 4096
_VERDICTS: Final = tuple(Verdict)


def moment(seconds: float | None = None) -> str:
    """A moment as Kubernetes writes it (RFC 3339, UTC).

    Args:
        seconds: since the epoch; None for now.
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


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
        "verdict": findings.verdict.words,
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


def metrics(expected: Expectation, assertion: Assertion, *, finished: float, runs: int) -> str:
    """For Prometheus, text format 0.0.4.

    Args:
        expected: the expectation.
        assertion: the last one.
        finished: when it ended, seconds since the epoch.
        runs: how many assertions there were.
    """
    pool = _labels(pool=expected.pool)
    verdict = assertion.findings.verdict
    causes = sorted({finding.cause.key for finding in assertion.findings.differences})
    lines = [
        "# HELP gpu_pools_verified Whether the node is as its pool declares.",
        "# TYPE gpu_pools_verified gauge",
        f"gpu_pools_verified{pool} {int(verdict is Verdict.HOLDS)}",
        "# HELP gpu_pools_verdict The verdict of the last assertion.",
        "# TYPE gpu_pools_verdict gauge",
        *(f"gpu_pools_verdict{_labels(pool=expected.pool, verdict=one.words)} {int(one is verdict)}" for one in _VERDICTS),
        "# HELP gpu_pools_differences Differences by likely cause.",
        "# TYPE gpu_pools_differences gauge",
    ]
    for cause in causes:
        count = sum(finding.cause.key == cause for finding in assertion.findings.differences)
        lines.append(f"gpu_pools_differences{_labels(pool=expected.pool, cause=cause)} {count}")
    lines += [
        "# HELP gpu_pools_last_assertion_timestamp_seconds When the last assertion ended.",
        "# TYPE gpu_pools_last_assertion_timestamp_seconds gauge",
        f"gpu_pools_last_assertion_timestamp_seconds{pool} {finished:.3f}",
        "# HELP gpu_pools_assertion_seconds How long the last assertion took.",
        "# TYPE gpu_pools_assertion_seconds gauge",
        f"gpu_pools_assertion_seconds{pool} {assertion.seconds:.3f}",
        "# HELP gpu_pools_assertions_total How many assertions there were.",
        "# TYPE gpu_pools_assertions_total counter",
        f"gpu_pools_assertions_total{pool} {runs}",
    ]
    return "\n".join(lines) + "\n"


def _labels(**labels: str) -> str:
    # JSON escapes quotes, backslashes and line breaks as the text format does.
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items()) + "}"
