"""The evidence as one HTML page: nothing to load, no script, what differs on top, each GPU drawn as it is.

Everything that comes from a cluster is text, and escaped by gpu_pools/text/markup.py, through which each element is written; a
policy in the page forbids scripts and foreign content all the same.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpu_pools.evidence.reports import Gpu
    from gpu_pools.evidence.shared_text import Group
    from gpu_pools.evidence.verdicts import Evidence, NodeEvidence, PoolEvidence

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_MPS: Final = {"activeThreadPercentage": "MPS threads {} %", "memoryLimits": "MPS memory {}", "failure": "MPS: {}"}
_CLASS: Final = {Verdict.PROVEN: "proven", Verdict.DIFFERS: "differs"}


def evidence_page(evidence: Evidence) -> str:
    """The whole page."""
    sections = (section for pool in evidence.pools for section in _pool(evidence, pool))
    style = Html(resources.files("gpu_pools.evidence").joinpath("page.css").read_text(encoding="utf-8") + gpu_style())
    return Html.all(
        [
            Html("<!DOCTYPE html>"),
            Html('<html lang="en">'),
            Html("<head>"),
            Html('<meta charset="utf-8">'),
            Html.of('<meta http-equiv="Content-Security-Policy" content="{}">', Html(_POLICY)),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html.of("<title>GPU sharing of {}: {}</title>", plain(evidence.stack), evidence.verdict.value),
            Html.of("<style>\n{}</style>", style),
            Html("</head>"),
            Html("<body>"),
            *_head(evidence),
            Html("<main>"),
            *_replaced(evidence),
            *_strayed(evidence),
            *_findings("What differs", "finding", differences(evidence)),
            *_findings("What could not be told", "finding question", questions(evidence)),
            *_unproven(evidence),
            *sections,
            Html("</main>"),
            Html("</body>"),
            Html("</html>\n"),
        ],
        "\n",
    )


def _head(evidence: Evidence) -> Iterator[Html]:
    yield Html("<header>")
    yield Html.of("<h1>GPU sharing of {}: {}</h1>", plain(evidence.stack), _verdict(evidence.verdict))
    yield Html.of("<p>{}</p>", plain(summary(evidence)))
    yield Html.of('<p class="soft">{}</p>', TRUST)
    yield Html("<dl>")
    yield Html.of("<dt>Collected</dt><dd>{}</dd>", _time(evidence.collected))
    yield Html.of("<dt>Reports come every</dt><dd>{}</dd>", duration_text(evidence.declared.interval_seconds))
    yield Html.of("<dt>Verifier</dt><dd><code>{}</code></dd>", plain(evidence.declared.digest))
    yield Html("</dl>")
    yield Html("</header>")


# --- what is wrong ------------------------------------------------------------------------------------------


def _replaced(evidence: Evidence) -> Iterator[Html]:
    if not evidence.replaced:
        return
    incident, cause, remedy = REPLACED
    yield Html("<section><h2>The program</h2>")
    yield Html.of('<article class="finding"><h3>{} <span class="soft">({})</span></h3>', cause, incident)
    yield Html.of("<p><strong>Remedy:</strong> {}</p>", remedy)
    yield from _explained([incident])
    yield Html.of("<p>{}: {}</p></article></section>", plain(evidence.declared.namespace), plain(evidence.replaced))


def _strayed(evidence: Evidence) -> Iterator[Html]:
    lines = strayed(evidence)
    if not lines:
        return
    incident, cause, remedy = STRAYED
    yield Html("<section><h2>Nodes in no pool</h2>")
    yield Html.of('<article class="finding"><h3>{} <span class="soft">({})</span></h3>', cause, incident)
    yield Html.of("<p><strong>Remedy:</strong> {}</p>", remedy)
    yield from _explained([incident])
    yield Html.of("<ul>{}</ul></article></section>", Html.all(Html.of("<li>{}</li>", line) for line in lines))


def _findings(title: str, kind: str, groups: list[Group]) -> Iterator[Html]:
    if not groups:
        return
    yield Html.of("<section><h2>{}</h2>", title)
    for group in groups:
        named = plain(", ".join(group.cause.incidents))
        incidents = Html.of(' <span class="soft">({})</span>', named) if named else Html()
        count = f"{group.nodes} node{'' if group.nodes == 1 else 's'}"
        yield Html.of('<article class="{}"><h3>{}{}</h3>', kind, plain(group.cause.likely_cause), incidents)
        word, words = ("Follows from", group.follows_from) if group.follows_from else ("Remedy", group.cause.remedy)
        yield Html.of("<p><strong>{}:</strong> {}</p>", word, plain(words))
        yield from _explained(group.cause.incidents)
        rows = (
            (
                pool.declared.name,
                node.name,
                finding.where,
                finding.field,
                value(finding.expected),
                value(finding.observed),
                finding.detail,
            )
            for pool, node, finding in group.places
        )
        yield from _table(f"On {count}", ("Pool", "Node", "Where", "What", "Expected", "Observed", "More"), rows)
        yield Html("</article>")
    yield Html("</section>")


def _explained(incidents: Iterable[str]) -> Iterator[Html]:
    """What the ids stand for; those that a report made up stand for nothing."""
    yield from (Html.of('<p class="soft">{}</p>', line) for line in explained(incidents))


def _unproven(evidence: Evidence) -> Iterator[Html]:
    found = unproven(evidence)
    if not found:
        return
    rows = (
        (pool.declared.name, node.name if node else "all", _verdict(node.verdict if node else pool.verdict), reason)
        for pool, node, reason in found
    )
    yield Html("<section><h2>What is not proven</h2>")
    yield from _table("Neither a difference nor a proof", ("Pool", "Node", "Verdict", "Why"), rows)
    yield Html("</section>")


# --- pools --------------------------------------------------------------------------------------------------


def _pool(evidence: Evidence, pool: PoolEvidence) -> Iterator[Html]:
    declared = pool.declared
    yield Html.of("<section><h2>{}: {}</h2>", plain(declared.name), _verdict(pool.verdict))
    yield Html("<dl>")
    yield Html.of("<dt>Declared</dt><dd>{}</dd>", plain(declared.declared))
    if pool.expectation:
        expected = pool.expectation["node"].get("allocatable")
        advertised = resources_text(expected) if isinstance(expected, dict) else ""
        yield Html.of("<dt>Each node advertises</dt><dd>{}</dd>", plain(advertised))
        yield Html.of("<dt>GPUs</dt><dd>{}x {}</dd>", *(plain(pool.expectation.get(key)) for key in ("count", "gpuModel")))
    yield Html.of(
        "<dt>Expectation</dt><dd><code>{}</code> in <code>{}</code></dd>", plain(declared.sha256), plain(declared.config_map)
    )
    pods, namespace = plain(declared.pod_selector), plain(evidence.declared.namespace)
    yield Html.of("<dt>Verifiers</dt><dd><code>{}</code> in <code>{}</code></dd>", pods, namespace)
    yield Html("</dl>")
    if pool.nodes:
        model = str(pool.expectation.get("gpuModel")) if pool.expectation else ""
        header = ("Node", "Verdict", "GPUs as NVML shows them", "Allocatable", "Versions", "Reported")
        yield from _table(f"Nodes of {declared.name}", header, (_node(evidence, node, model) for node in pool.nodes))
    else:
        yield Html.of("<p>{}</p>", plain(pool.reason))
    yield Html("</section>")


def _node(evidence: Evidence, node: NodeEvidence, model: str) -> tuple[str, ...]:
    state = Html() if node.ready else Html('<br><strong class="open">NotReady</strong>')
    why = _soft(node.reason) if node.reason else Html()
    rest = _soft(f"no room for {omitted(node)}") if omitted(node) else Html()
    return (
        Html.of("{}{}", plain(node.name), state),
        Html.all((_verdict(node.verdict), why, rest)),
        _gpus(node, model),
        resources_text(node.allocatable),
        Html.all((Html.of('<span class="keep">{}</span>', plain(one)) for one in _versions(node)), "<br>"),
        _reported(evidence, node),
    )


def _soft(text: str) -> Html:
    return Html.of('<br><span class="soft">{}</span>', plain(text))


def _gpus(node: NodeEvidence, model: str) -> Html:
    if node.report is None:
        return Html('<span class="soft">no report</span>')
    if not node.report.gpus:
        return Html.of('<span class="soft">{}</span>', plain(node.report.versions.get("failure", "none told")))
    return Html.of('<ul class="gpus">{}</ul>', Html.all(_gpu(gpu, model) for gpu in node.report.gpus))


def _gpu(gpu: Gpu, model: str) -> Html:
    words = plain(f"{gpu.index} · {gpu.name} · MIG {gpu.mig} · {gpu.compute_mode}")
    return Html.of("<li>{}<br><code>{}</code>{}</li>", words, plain(gpu.uuid), picture(gpu, model))


def _versions(node: NodeEvidence) -> Iterator[str]:
    if node.report:
        labels = {"driver": "driver", "cuda": "CUDA", "nvml": "NVML"}
        yield from (f"{words} {node.report.versions[key]}" for key, words in labels.items() if key in node.report.versions)
        yield from (_MPS[key].format(text) for key, text in node.report.mps.items() if key in _MPS)
        yield from set_by(node.report)
    if "kubeletVersion" in node.versions:
        yield f"kubelet {node.versions['kubeletVersion']}"


def _reported(evidence: Evidence, node: NodeEvidence) -> Html:
    if node.report is None:
        return Html("never")
    age = duration_text(max(0.0, (evidence.time - node.report.time).total_seconds()))
    notes = Html.all(map(_soft, node.report.notes))
    return Html.of("{}<br>{} before{}", _time(str(node.report.document["time"])), age, notes)


# --- parts --------------------------------------------------------------------------------------------------


def _table(caption: str, header: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[Html]:
    """A table; a cell is HTML or text."""
    yield Html.of('<div class="wide"><table><caption>{}</caption><thead><tr>', plain(caption))
    yield Html.all(Html.of('<th scope="col">{}</th>', name) for name in header)
    yield Html("</tr></thead><tbody>")
    for first, *rest in rows:
        cells = Html.all(Html.of("<td>{}</td>", _cell(cell)) for cell in rest)
        yield Html.of('<tr><th scope="row">{}</th>{}</tr>', _cell(first), cells)
    yield Html("</tbody></table></div>")


def _cell(of: object) -> Html:
    return of if isinstance(of, Html) else Html.of("{}", plain(of))


def _verdict(verdict: Verdict) -> Html:
    return Html.of('<span class="verdict {}">{} {}</span>', _CLASS.get(verdict, "open"), SIGNS[verdict], verdict.value)


def _time(text: str) -> Html:
    return Html.of('<time datetime="{}">{}</time>', plain(text), plain(text))
