"""The evidence as one HTML page: nothing to load, no script, what differs on top, each GPU drawn as it is.

Everything that comes from a cluster is written out harmlessly and escaped; a policy in the page forbids scripts and foreign
content all the same.
"""

from __future__ import annotations

import html
from importlib import resources
from typing import TYPE_CHECKING, Final

from evidence.picture import picture
from evidence.verdicts import Verdict, words_of
from evidence.words import SIGNS, differences, omitted, plain, questions, summary, unproven, value
from gpus.tables import resources_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from evidence.reports import Gpu
    from evidence.verdicts import Evidence, NodeEvidence, PoolEvidence
    from evidence.words import Group

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_MPS: Final = {"activeThreadPercentage": "MPS threads {} %", "memoryLimits": "MPS memory {}", "failure": "MPS: {}"}
_CLASS: Final = {Verdict.PROVEN: "proven", Verdict.DIFFERS: "differs"}


def evidence_page(evidence: Evidence) -> str:
    """The whole page."""
    sections = (section for pool in evidence.pools for section in _pool(evidence, pool))
    style = resources.files("evidence").joinpath("page.css").read_text(encoding="utf-8")
    title = f"GPU sharing of {_e(evidence.stack)}: {evidence.verdict.value}"
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>",
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            *_head(evidence),
            "<main>",
            *_findings("What differs", "finding", differences(evidence)),
            *_findings("What could not be told", "finding question", questions(evidence)),
            *_unproven(evidence),
            *sections,
            "</main>",
            "</body>",
            "</html>\n",
        ]
    )


def _head(evidence: Evidence) -> Iterator[str]:
    yield "<header>"
    yield f"<h1>GPU sharing of {_e(evidence.stack)}: {_verdict(evidence.verdict)}</h1>"
    yield f"<p>{_e(summary(evidence))}</p>"
    yield "<dl>"
    yield f"<dt>Collected</dt><dd>{_time(evidence.collected)}</dd>"
    yield f"<dt>Reports come every</dt><dd>{_e(words_of(evidence.declared.interval_seconds))}</dd>"
    yield f"<dt>Verifier</dt><dd><code>{_e(evidence.declared.digest)}</code></dd>"
    yield "</dl>"
    yield "</header>"


# --- what is wrong ------------------------------------------------------------------------------------------


def _findings(title: str, kind: str, groups: list[Group]) -> Iterator[str]:
    if not groups:
        return
    yield f"<section><h2>{title}</h2>"
    for group in groups:
        incidents = f' <span class="soft">({_e(", ".join(group.cause.incidents))})</span>' if group.cause.incidents else ""
        count = f"{group.nodes} node{'' if group.nodes == 1 else 's'}"
        yield f'<article class="{kind}"><h3>{_e(group.cause.likely_cause)}{incidents}</h3>'
        yield f"<p><strong>Remedy:</strong> {_e(group.cause.remedy)}</p>"
        rows = (
            (
                _e(pool.declared.name),
                _e(node.name),
                _e(finding.where),
                _e(finding.field),
                _e(value(finding.expected)),
                _e(value(finding.observed)),
                _e(finding.detail),
            )
            for pool, node, finding in group.places
        )
        yield from _table(f"On {count}", ("Pool", "Node", "Where", "What", "Expected", "Observed", "More"), rows)
        yield "</article>"
    yield "</section>"


def _unproven(evidence: Evidence) -> Iterator[str]:
    found = unproven(evidence)
    if not found:
        return
    rows = (
        (
            _e(pool.declared.name),
            _e(node.name) if node else "all",
            _verdict(node.verdict if node else pool.verdict),
            _e(reason),
        )
        for pool, node, reason in found
    )
    yield "<section><h2>What is not proven</h2>"
    yield from _table("Neither a difference nor a proof", ("Pool", "Node", "Verdict", "Why"), rows)
    yield "</section>"


# --- pools --------------------------------------------------------------------------------------------------


def _pool(evidence: Evidence, pool: PoolEvidence) -> Iterator[str]:
    declared = pool.declared
    yield f"<section><h2>{_e(declared.name)}: {_verdict(pool.verdict)}</h2>"
    yield "<dl>"
    yield f"<dt>Declared</dt><dd>{_e(declared.declared)}</dd>"
    if pool.expectation:
        expected = pool.expectation["node"].get("allocatable")
        advertised = resources_text(expected) if isinstance(expected, dict) else ""
        yield f"<dt>Each node advertises</dt><dd>{_e(advertised)}</dd>"
        yield f"<dt>GPUs</dt><dd>{_e(pool.expectation.get('count'))}x {_e(pool.expectation.get('gpuModel'))}</dd>"
    yield f"<dt>Expectation</dt><dd><code>{_e(declared.sha256)}</code> in <code>{_e(declared.config_map)}</code></dd>"
    yield f"<dt>Verifiers</dt><dd><code>{_e(declared.pod_selector)}</code> in <code>{_e(evidence.declared.namespace)}</code></dd>"
    yield "</dl>"
    if pool.nodes:
        model = str(pool.expectation.get("gpuModel")) if pool.expectation else ""
        header = ("Node", "Verdict", "GPUs as NVML shows them", "Allocatable", "Versions", "Reported")
        yield from _table(f"Nodes of {_e(declared.name)}", header, (_node(evidence, node, model) for node in pool.nodes))
    else:
        yield f"<p>{_e(pool.reason)}</p>"
    yield "</section>"


def _node(evidence: Evidence, node: NodeEvidence, model: str) -> tuple[str, ...]:
    state = "" if node.ready else '<br><strong class="open">NotReady</strong>'
    why = f'<br><span class="soft">{_e(node.reason)}</span>' if node.reason else ""
    rest = f'<br><span class="soft">no room for {_e(omitted(node))}</span>' if omitted(node) else ""
    return (
        f"{_e(node.name)}{state}",
        f"{_verdict(node.verdict)}{why}{rest}",
        _gpus(node, model),
        _e(resources_text(node.allocatable)),
        "<br>".join(f'<span class="keep">{one}</span>' for one in _versions(node)),
        _reported(evidence, node),
    )


def _gpus(node: NodeEvidence, model: str) -> str:
    if node.report is None:
        return '<span class="soft">no report</span>'
    if not node.report.gpus:
        return f'<span class="soft">{_e(node.report.versions.get("failure", "none told"))}</span>'
    return f'<ul class="gpus">{"".join(_gpu(gpu, model) for gpu in node.report.gpus)}</ul>'


def _gpu(gpu: Gpu, model: str) -> str:
    words = f"{gpu.index} · {gpu.name} · MIG {gpu.mig} · {gpu.compute_mode}"
    return f"<li>{_e(words)}<br><code>{_e(gpu.uuid)}</code>{picture(gpu, model)}</li>"


def _versions(node: NodeEvidence) -> Iterator[str]:
    if node.report:
        told = {"driver": "driver", "cuda": "CUDA", "nvml": "NVML"}
        yield from (f"{words} {_e(node.report.versions[key])}" for key, words in told.items() if key in node.report.versions)
        yield from (_e(_MPS[key].format(text)) for key, text in node.report.mps.items() if key in _MPS)
    if "kubeletVersion" in node.versions:
        yield f"kubelet {_e(node.versions['kubeletVersion'])}"


def _reported(evidence: Evidence, node: NodeEvidence) -> str:
    if node.report is None:
        return "never"
    age = words_of(max(0.0, (evidence.time - node.report.time).total_seconds()))
    notes = "".join(f'<br><span class="soft">{_e(note)}</span>' for note in node.report.notes)
    return f"{_time(str(node.report.document['time']))}<br>{_e(age)} before{notes}"


# --- parts --------------------------------------------------------------------------------------------------


def _table(caption: str, header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table; its cells and its caption are HTML already."""
    yield f'<div class="wide"><table><caption>{caption}</caption><thead><tr>'
    yield "".join(f'<th scope="col">{name}</th>' for name in header)
    yield "</tr></thead><tbody>"
    for first, *rest in rows:
        yield f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
    yield "</tbody></table></div>"


def _verdict(verdict: Verdict) -> str:
    return f'<span class="verdict {_CLASS.get(verdict, "open")}">{SIGNS[verdict]} {verdict.value}</span>'


def _time(text: str) -> str:
    return f'<time datetime="{_e(text)}">{_e(text)}</time>'


def _e(text: object) -> str:
    """Harmless and escaped, in elements and in attributes."""
    return html.escape(plain(text))
