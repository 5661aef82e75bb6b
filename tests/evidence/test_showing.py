"""Table and page: whole, readable without colours, scripts or other files, and harmless whatever a cluster says."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.evidence.page import evidence_page
from gpu_pools.evidence.shared_text import plain
from gpu_pools.evidence.table import evidence_table
from gpu_pools.evidence.verdicts import Verdict
from gpu_pools.proof.verifier_rights import ANNOTATION
from gpu_pools.text.incidents import explained
from gpu_pools.text.terminal import Terminal
from gpu_pools.verifier.causes import cause
from gpu_pools.verifier.findings import Findings, Where
from tests.evidence.fleets import broken, fleet, put_report, reported, unanswered
from tests.examples import examples
from tests.pages import Page, check_harmless

if TYPE_CHECKING:
    from tests.evidence.fleets import Fleet

EVIL = '"><script>alert(1)</script><svg onload=x>\x1b[31m\x1b]0;t\x07\u202e\x00\x9b31m&amp;\r\n'


def page_of(seen: Fleet) -> Page:
    return Page(evidence_page(seen.judged()))


def spoiled() -> Fleet:
    """One of three MIG nodes differs, one MPS node cannot tell, one time-sliced node never reported."""
    seen = fleet(3)
    put_report(seen.node("mig", 1), *broken("mig", "mig-1"))
    put_report(seen.node("mps", 2), *unanswered("mps", "mps-2"))
    del seen.node("ts", 0)["metadata"]["annotations"]
    seen.node("ts", 0)["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return seen


def test_the_page_stands_alone_and_is_well_formed() -> None:
    for seen in (fleet(2), fleet(0), spoiled()):
        page = page_of(seen)
        check_harmless(page)
        assert page.of("html") == [{"lang": "en"}]
        assert {"charset": "utf-8"} in page.of("meta")
        assert len(page.of("main")) == len(page.of("h1")) == 1
        assert any(meta.get("content", "") == "default-src 'none'; style-src 'unsafe-inline'" for meta in page.of("meta"))
        (style,) = [data for tag, data in page.texts if tag == "style"]
        assert "prefers-color-scheme: dark" in style
        assert "@media print" in style
        assert all(head["scope"] in {"col", "row"} for head in page.of("th"))
        assert len(page.of("caption")) == len(page.of("table"))


def test_each_gpu_is_drawn_where_nvml_says_that_its_instances_are() -> None:
    page = page_of(fleet(2))
    pictures = [one for one in page.of("svg") if one["role"] == "img"]
    assert len(pictures) == 2 * (1 + 2 + 2)
    assert len([one for one in pictures if "whole" in str(one["aria-label"])]) == 6
    (words,) = {str(one["aria-label"]).partition(": ")[2] for one in pictures if "2g.20gb" in str(one["aria-label"])}
    cells = [one for one in page.of("rect") if one["class"] in {"s2", "s3"}]
    assert len(cells) == 4 * 3
    # An A100 has eight placement units of fifty pixels here: 3g.40gb covers four, 2g.20gb two.
    drawn = {(str(one["class"]), float(one["x"] or 0) / 50, float(one["width"] or 0) / 50) for one in cells}
    names = {"2g.20gb": ("s2", 2), "3g.40gb": ("s3", 4)}
    placed = [one.split(" at ") for one in words.split(", ")]
    assert drawn == {(names[profile][0], float(start), names[profile][1]) for profile, start in placed}
    covered = [unit for _, left, width in drawn for unit in range(int(left), int(left + width))]
    assert sorted(covered) == list(range(8))


def test_what_differs_stands_on_top_with_cause_and_remedy() -> None:
    text = page_of(spoiled()).text
    places = [
        text.index(words) for words in ("What differs", "Remedy:", "What could not be told", "What is not proven", "Nodes of mig")
    ]
    assert places == sorted(places)
    assert text.index("7x 1g.10gb") < text.index("What could not be told")
    assert "9 nodes: 6 proven, 1 not verified, 1 cannot tell, 1 differs" in text
    assert "NotReady" in text
    assert "✗ differs" in text


def test_a_page_without_troubles_has_no_sections_for_them() -> None:
    text = page_of(fleet()).text
    assert not [words for words in ("What differs", "could not be told", "not proven", "Remedy") if words in text]


def test_a_hostile_cluster_injects_nothing() -> None:
    seen = fleet()
    node = seen.node("mig")
    findings = Findings()
    findings.differs(Where(EVIL, 0, EVIL), EVIL, {EVIL: 1}, [EVIL, "\ud800"], "mig-layout", EVIL)
    findings.cannot_tell(Where(EVIL), EVIL, EVIL, None, "api-permission", EVIL)
    findings.note(EVIL)
    text, condition = reported("mig", EVIL, findings)

    document = json.loads(text)
    document["observed"]["driver"] = EVIL
    document["observed"]["setBy"] = {f"label {EVIL}": EVIL, f"taint {EVIL}": EVIL}
    for gpu in document["observed"]["gpus"]:
        gpu.update(uuid=EVIL, name=EVIL, mig=EVIL, instances=[[EVIL, 0, 1], ["7g" + EVIL, 1, 60]])
    for finding in document["differences"]:
        finding.update(likelyCause=EVIL, remedy=EVIL, incidents=[EVIL], cause=EVIL)
    put_report(node, json.dumps(document), condition)
    node["metadata"]["name"] = EVIL
    node["status"]["allocatable"]["nvidia.com/" + EVIL] = EVIL
    node["status"]["nodeInfo"]["kubeletVersion"] = EVIL
    judged = seen.judged()
    assert judged.verdict is Verdict.DIFFERS
    page = Page(evidence_page(judged))
    check_harmless(page)
    assert '"><script>alert(1)</script>' in page.text
    assert page_of(fleet()).elements[0] == page.elements[0]
    shown = evidence_table(judged, colour=False)
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "\\x1b[31m" in shown
    assert len(shown.splitlines()) < 30


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet=st.characters()))
def test_what_is_shown_of_any_text_is_printable_and_short(text: str) -> None:
    assert plain(text).isprintable()
    assert len(plain(text, 20)) <= 20
    plain(text).encode("utf-8")


def test_the_table_has_a_line_per_node_and_the_reasons_below() -> None:
    shown = evidence_table(spoiled().judged(), colour=False)
    lines = shown.splitlines()
    assert lines[0].split() == ["POOL", "NODE", "DECLARED", "OBSERVED", "REPORTED", "VERDICT"]
    assert len([line for line in lines[2:11] if line.startswith(("mig ", "mps ", "ts "))]) == 9
    assert "mig   mig-1            MIG 2x 2g.20gb + 3g.40gb" in shown
    assert "    mig/mig-1: GPU 0 (GPU-1): MIG instances is 2x 3g.40gb, expected 7x 1g.10gb (held by <b>)" in lines
    assert "not verified: ts/ts-0: no verifier has reported" in lines
    assert "ts-0 (NotReady)" in shown
    assert "\x1b" not in shown


def test_colour_is_for_verdicts_and_only_where_asked_for() -> None:
    judged = spoiled().judged()
    out = io.StringIO()
    Terminal(out).write(evidence_table(judged, colour=True))
    coloured = out.getvalue()
    assert "\x1b[32mproven\x1b[0m" in coloured
    assert "\x1b[31mdiffers\x1b[0m" in coloured
    for code in ("\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == evidence_table(judged, colour=False)


def test_each_incident_that_a_cause_names_is_explained_and_one_that_a_report_made_up_is_not() -> None:
    seen = fleet()
    text, condition = broken("mig", "mig-0")
    document = json.loads(text)
    named = document["differences"][0]["incidents"]
    document["differences"][0]["incidents"] = [*named, "Z99"]
    put_report(seen.node("mig"), json.dumps(document), condition)
    judged = seen.judged()
    told = explained(named)
    assert told
    for shown in (evidence_table(judged, colour=False), Page(evidence_page(judged)).text):
        assert all(shown.count(line) == 1 for line in told)
        assert "Z99:" not in shown


def test_many_nodes_with_one_cause_are_one_finding_and_the_table_stays_short() -> None:
    seen = fleet(60)
    for index in range(60):
        put_report(seen.node("mig", index), *broken("mig", f"mig-{index}"))
        seen.node("ts", index)["metadata"]["annotations"] = {}
    judged = seen.judged()
    shown = evidence_table(judged, colour=False)
    assert shown.count("remedy:") == 1
    assert "    and 50 more" in shown
    assert "\nand 30 more" in shown
    page = Page(evidence_page(judged))
    assert len(page.of("article")) == 1
    assert "On 60 nodes" in page.text


def test_what_a_report_had_no_room_for_is_told() -> None:
    seen = fleet()
    findings = Findings()
    for number in range(99):
        findings.differs(Where(f"GPU {number}"), "x" * 200, 1, 2, "mig-layout")
    put_report(seen.node("mig"), *reported("mig", "mig-0", findings))
    assert len(seen.node("mig")["metadata"]["annotations"][ANNOTATION]) > 15_000
    assert "its report had no room for" in evidence_table(seen.judged(), colour=False)
    assert "no room for" in page_of(seen).text


def test_gpus_that_could_not_be_read_are_told_in_their_place() -> None:
    seen = fleet()

    def change(document: dict[str, Any]) -> None:
        document["observed"].update(gpus=[], failure="NVML did not answer within 30 s")

    seen.report(seen.node("mig"), change)
    assert "NVML did not answer within 30 s" in page_of(seen).text


def test_the_page_says_by_which_way_labels_and_taints_came() -> None:
    seen = fleet()
    told = {"label a": "nfd", "label b": "nfd", "label c": "kubectl-label", "label d": "missing", "taint e": "others than nfd"}
    seen.report(seen.node("ts"), lambda document: document["observed"].update(setBy=told))
    text = Page(evidence_page(seen.judged())).text
    assert "labels: 1 by kubectl-label, 1 missing, 2 by nfd" in text
    assert "taints: 1 by others than nfd" in text


def test_what_explains_others_stands_before_them_on_however_few_nodes_it_is() -> None:
    seen = fleet(3)
    for index, whys in enumerate((["count-other", "config-wedged"], ["count-other"], ["count-other", "gfd-other"])):
        findings = Findings()
        for why in whys:
            findings.differs(Where("node"), "field", 1, 2, why)
        put_report(seen.node("ts", index), *reported("ts", f"ts-{index}", findings))
    shown = evidence_table(seen.judged(), colour=False)
    places = [shown.index(cause(why).text) for why in ("config-wedged", "count-other", "gfd-other")]
    assert places == sorted(places)


def test_what_follows_from_a_wrong_label_on_every_node_has_no_remedy_of_its_own() -> None:
    seen = fleet(2)

    def report(index: int, *whys: str) -> None:
        findings = Findings()
        for why in whys:
            findings.differs(Where("node"), "field", 1, 2, why)
        put_report(seen.node("ts", index), *reported("ts", f"ts-{index}", findings))

    report(0, "label-other", "count-other", "gfd-other")
    shown, page = evidence_table(seen.judged(), colour=False), page_of(seen).text
    assert shown.count("remedy:") == page.count("Remedy:") == 1
    assert shown.count(f"follows from: {cause('label-other').text}") == 2
    report(1, "count-other")
    shown = evidence_table(seen.judged(), colour=False)
    assert f"remedy: {cause('count-other').remedy}" in shown, "it stands for itself on one of the nodes"
    assert shown.count("follows from:") == 1
