"""Nothing but a fresh report of the deployed verifier about the deployed expectation is a proof."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.evidence import pods
from gpu_pools.evidence.declared import declared
from gpu_pools.evidence.document import evidence_json, evidence_text
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.evidence.reports import MOST_BYTES, ReportError, parse_report
from gpu_pools.evidence.table import evidence_table
from gpu_pools.evidence.verdicts import Snapshot, Verdict, duration_text, judge, worst
from gpu_pools.proof.verifier_reports import no_reports
from gpu_pools.proof.verifier_rights import ANNOTATION, CONDITION
from tests.evidence.fleets import NOW, POOLS, Fleet, aged, broken, fleet, put_report, unanswered
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable


def name_of(node: dict[str, Any]) -> str:
    return str(node["metadata"]["name"])


def pool_of(node: dict[str, Any]) -> str:
    return str(node["metadata"]["labels"]["pool"])


def differ(_: Fleet, node: dict[str, Any]) -> None:
    put_report(node, *broken(pool_of(node), name_of(node)))


def not_tell(_: Fleet, node: dict[str, Any]) -> None:
    put_report(node, *unanswered(pool_of(node), name_of(node)))


def never_report(_: Fleet, node: dict[str, Any]) -> None:
    del node["metadata"]["annotations"]
    node["status"]["conditions"].pop()


def lose_annotation(_: Fleet, node: dict[str, Any]) -> None:
    node["metadata"]["annotations"] = {}


def lose_condition(_: Fleet, node: dict[str, Any]) -> None:
    node["status"]["conditions"].pop()


def grow_old(_: Fleet, node: dict[str, Any]) -> None:
    aged(node, 2 * 300 + 61)


def come_from_the_future(_: Fleet, node: dict[str, Any]) -> None:
    aged(node, -61)


def part_in_time(_: Fleet, node: dict[str, Any]) -> None:
    node["status"]["conditions"][-1]["lastHeartbeatTime"] = "2026-03-04T11:59:59Z"


def contradict(_: Fleet, node: dict[str, Any]) -> None:
    node["status"]["conditions"][-1]["status"] = "False"


def change_report(**values: object) -> Callable[[Fleet, dict[str, Any]], None]:
    def change(seen: Fleet, node: dict[str, Any]) -> None:
        seen.report(node, lambda document: document.update(values))

    return change


def be_not_ready(_: Fleet, node: dict[str, Any]) -> None:
    node["status"]["conditions"][0]["status"] = "Unknown"


def offer(resource: str, count: str) -> Callable[[Fleet, dict[str, Any]], None]:
    def change(_: Fleet, node: dict[str, Any]) -> None:
        node["status"]["allocatable"][resource] = count

    return change


def write(text: str) -> Callable[[Fleet, dict[str, Any]], None]:
    def change(_: Fleet, node: dict[str, Any]) -> None:
        node["metadata"]["annotations"][ANNOTATION] = text

    return change


#: What happens to one node -> what is said of it.
SPOILED: dict[str, tuple[Callable[[Fleet, dict[str, Any]], object], Verdict]] = {
    "its verifier found a difference": (differ, Verdict.DIFFERS),
    "its verifier cannot tell": (not_tell, Verdict.CANNOT_TELL),
    "no verifier has reported": (never_report, Verdict.NOT_VERIFIED),
    "only the condition is there": (lose_annotation, Verdict.CANNOT_TELL),
    "only the annotation is there": (lose_condition, Verdict.CANNOT_TELL),
    "its report is older than two intervals": (grow_old, Verdict.STALE),
    "its clock is ahead": (come_from_the_future, Verdict.STALE),
    "annotation and condition are of two times": (part_in_time, Verdict.STALE),
    "annotation and condition contradict each other": (contradict, Verdict.CANNOT_TELL),
    "another expectation was asserted": (change_report(expectation="0" * 64), Verdict.STALE),
    "another program asserted": (change_report(program="0" * 64), Verdict.STALE),
    "a program from sources asserted": (change_report(program=None), Verdict.STALE),
    "another pool was asserted": (change_report(pool="other"), Verdict.STALE),
    "the report is another node's": (change_report(node="other"), Verdict.STALE),
    "the report holds in spite of differences": (change_report(omitted={"differences": 1}), Verdict.CANNOT_TELL),
    "the node is not ready": (be_not_ready, Verdict.CANNOT_TELL),
    "the node offers more": (offer("nvidia.com/gpu", "9"), Verdict.STALE),
    "the node offers something else": (offer("nvidia.com/mig-1g.5gb", "1"), Verdict.STALE),
    "the node offers no number": (offer("nvidia.com/gpu", "many"), Verdict.STALE),
    "the report is not JSON": (write("{"), Verdict.CANNOT_TELL),
    "the report is too large": (write("x" * (MOST_BYTES + 1)), Verdict.CANNOT_TELL),
    "the report is too deep": (write("[" * MOST_BYTES), Verdict.CANNOT_TELL),
    "the report is empty": (write(""), Verdict.CANNOT_TELL),
    "the report is of another kind": (change_report(kind="NodeReport"), Verdict.CANNOT_TELL),
    "the report is of another version": (change_report(apiVersion="gpu-pools/v2"), Verdict.CANNOT_TELL),
    "the report has an unknown verdict": (change_report(verdict="fine"), Verdict.CANNOT_TELL),
    "the report has no time": (change_report(time="yesterday"), Verdict.CANNOT_TELL),
    "the report has a time without a zone": (change_report(time="2026-03-04T11:59:30"), Verdict.CANNOT_TELL),
}


def spoil(seen: Fleet, node: dict[str, Any], how: str) -> Verdict:
    change, verdict = SPOILED[how]
    change(seen, node)
    return verdict


def test_a_healthy_fleet_of_every_strategy_is_proven() -> None:
    seen = fleet(3).judged()
    assert {node.verdict for pool in seen.pools for node in pool.nodes} == {Verdict.PROVEN}
    assert [(pool.declared.name, pool.verdict, len(pool.nodes)) for pool in seen.pools] == [
        (name, Verdict.PROVEN, 3) for name in sorted(POOLS)
    ]
    assert (seen.verdict, seen.verdict.exit_code) == (Verdict.PROVEN, 0)


@pytest.mark.parametrize("how", SPOILED)
def test_each_way_not_to_be_a_proof(how: str) -> None:
    seen = fleet(2)
    node = seen.node("ts", 1)
    wanted = spoil(seen, node, how)
    judged = seen.judged()
    (pool,) = [one for one in judged.pools if one.declared.name == "ts"]
    assert [one.verdict for one in pool.nodes] == [Verdict.PROVEN, wanted]
    assert (pool.verdict, judged.verdict) == (wanted, wanted)
    assert judged.verdict.exit_code == (1 if wanted is Verdict.DIFFERS else 2)
    last = pool.nodes[1]
    assert last.reason or (last.report and (last.report.differences or last.report.cannot_tell))


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_a_fleet_is_as_bad_as_its_worst_node_and_never_better(data: st.DataObject) -> None:
    seen = fleet(data.draw(st.integers(0, 3)))
    wanted = [Verdict.PROVEN if seen.nodes[:-1] else Verdict.NOT_YET_PROVEN]
    for node in seen.nodes[:-1]:
        how = data.draw(st.sampled_from([None, None, *SPOILED]))
        if how:
            wanted.append(spoil(seen, node, how))
    judged = seen.judged()
    assert judged.verdict is worst(wanted)
    assert (judged.verdict.exit_code == 0) == (wanted == [Verdict.PROVEN])
    document = evidence_json(judged)
    assert document["exitCode"] == judged.verdict.exit_code
    assert sum(document["nodes"].values()) == len(seen.nodes) - 1
    assert evidence_table(judged, colour=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


def _places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything in a document."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [place for key, inner in items for place in _places(inner, (*path, key))]


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_no_change_of_a_report_that_is_no_proof_makes_one_of_it_or_falls_over(data: st.DataObject) -> None:
    seen = fleet()
    node = seen.node(data.draw(st.sampled_from(POOLS)))
    put_report(node, *data.draw(st.sampled_from([broken, unanswered]))(pool_of(node), name_of(node)))
    document = json.loads(node["metadata"]["annotations"][ANNOTATION])
    place = data.draw(st.sampled_from(_places(document)))
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = data.draw(JSON)
    node["metadata"]["annotations"][ANNOTATION] = json.dumps(document)
    judged = seen.judged()
    assert judged.verdict is not Verdict.PROVEN
    assert evidence_table(judged, colour=False)
    json.loads(evidence_text(judged))


@settings(max_examples=examples(200), deadline=None)
@given(st.text() | JSON.map(json.dumps))
def test_text_of_others_is_no_report(text: str) -> None:
    with pytest.raises(ReportError):
        parse_report(text)


# --- pools ------------------------------------------------------------------------------------------------


def test_a_pool_without_nodes_is_not_yet_proven() -> None:
    seen = fleet()
    seen.nodes.remove(seen.node("mig"))
    judged = seen.judged()
    assert {pool.declared.name: pool.verdict for pool in judged.pools}["mig"] is Verdict.NOT_YET_PROVEN
    assert judged.verdict.exit_code == 3
    assert "not yet proven: mig" in evidence_table(judged, colour=False)


def test_a_pool_that_lacks_nodes_is_not_yet_proven() -> None:
    seen = fleet(2)
    seen.outputs["verification"]["pools"]["mps"]["minNodes"] = 3
    judged = seen.judged()
    assert judged.verdict.exit_code == 3
    assert "2 of 3 nodes" in evidence_table(judged, colour=False)


def test_an_empty_fleet_proves_nothing() -> None:
    seen = fleet(0)
    assert seen.judged().verdict.exit_code == 3
    seen.outputs["verification"]["pools"] = {}
    assert seen.judged().verdict.exit_code == 3


@pytest.mark.parametrize("change", ["gone", "edited", "no document"])
@pytest.mark.parametrize("count", [0, 1])
def test_an_expectation_that_is_not_the_declared_one_proves_nothing(change: str, count: int) -> None:
    seen = fleet(count)
    name = seen.outputs["verification"]["pools"]["ts"]["expectation"]
    if change == "gone":
        del seen.config_maps[name]
    else:
        seen.config_maps[name] = {
            "expectation.json": "[]" if change == "no document" else seen.config_maps[name].popitem()[1] + " "
        }
    judged = seen.judged()
    assert judged.verdict is Verdict.CANNOT_TELL
    assert f"cannot tell: ts: the ConfigMap {name}" in evidence_table(judged, colour=False)


def test_a_cluster_that_does_not_answer_cannot_be_told_of() -> None:
    seen = fleet()
    wanted = declared(seen.outputs)
    for nodes, maps in (("no route", {}), (seen.nodes, "forbidden")):
        judged = judge("s", wanted, Snapshot(NOW, nodes, maps))
        assert judged.verdict.exit_code == 2
        shown = evidence_table(judged, colour=False)
        assert ("no route" if nodes == "no route" else "forbidden") in shown
        assert "no node yet" not in shown


def test_a_report_without_an_interval_is_fresh_for_as_long_as_an_assertion_repeats_it() -> None:
    seen = fleet()
    seen.outputs["verification"]["intervalSeconds"] = 10
    node = seen.node("ts")
    for each in seen.nodes[:-1]:
        aged(each, 79)
    assert seen.judged().verdict is Verdict.PROVEN
    aged(node, 82)
    assert seen.judged().verdict is Verdict.STALE
    seen.report(node, lambda document: document.update(intervalSeconds=None))
    assert seen.judged().verdict is Verdict.PROVEN
    aged(node, 661)
    assert seen.judged().verdict is Verdict.STALE


# --- the stack's outputs ------------------------------------------------------------------------------------


def test_a_stack_that_is_not_verified_says_so() -> None:
    with pytest.raises(EvidenceError, match="nothing is proven") as told:
        declared({"verification": no_reports()})
    assert "Add the section gpu-pools:verification" in told.value.remedy
    with pytest.raises(EvidenceError, match="gpu-pools:adoption is imported") as told:
        declared({"verification": no_reports(imported=True)})
    assert "Take gpu-pools:adoption out" in told.value.remedy


def test_outputs_of_before_a_remedy_was_in_them_are_understood() -> None:
    with pytest.raises(EvidenceError, match="the stack says so") as told:
        declared({"verification": {"enabled": False}})
    assert "gpu-pools:verification" in told.value.remedy


@pytest.mark.parametrize("outputs", [None, [], "x", {}, {"clusterName": "a"}, {"verification": None}, {"verification": [1]}])
def test_outputs_that_say_nothing_are_refused(outputs: object) -> None:
    with pytest.raises(EvidenceError):
        declared(outputs)


def test_everything_that_is_wrong_with_the_output_is_told_at_once() -> None:
    outputs = fleet().outputs
    outputs["verification"]["intervalSeconds"] = "often"
    outputs["verification"]["condition"] = ""
    outputs["verification"]["pools"]["ts"]["nodeSelector"] = {}
    del outputs["verification"]["pools"]["mig"]["sha256"]
    with pytest.raises(EvidenceError) as told:
        declared(outputs)
    for place in ("intervalSeconds", "condition", "pools.ts.nodeSelector", "pools.mig.sha256"):
        assert f"verification.{place} is " in told.value.message


# --- the JSON document --------------------------------------------------------------------------------------


def test_the_same_evidence_is_the_same_text_whatever_the_order_of_the_lists() -> None:
    seen = fleet(3)
    turned = copy.deepcopy(seen)
    turned.nodes.reverse()
    assert evidence_text(seen.judged()) == evidence_text(turned.judged())


def test_the_document_has_what_was_declared_seen_when_and_by_what() -> None:
    document = evidence_json(fleet().judged())
    assert (document["collected"], document["verdict"]) == ("2026-03-04T12:00:00Z", "proven")
    (pool,) = [one for one in document["pools"] if one["name"] == "mig"]
    assert pool["expectation"]["document"]["gpus"][0]["instances"] == {"3g.40gb": 1, "2g.20gb": 2}
    (node,) = pool["nodes"]
    assert node["report"]["expectation"] == pool["expectation"]["sha256"]
    assert node["report"]["observed"]["driver"]
    assert node["versions"]["kubeletVersion"] == "v1.36.3"
    assert evidence_text(fleet().judged()).isascii()


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (99, "99 s"), (300, "5 min"), (7200, "2 h"), (200_000, "2 d")])
def test_times_in_words(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words


def test_the_condition_that_is_read_is_the_one_that_is_declared() -> None:
    seen = fleet()
    seen.outputs["verification"]["condition"] = f"Other{CONDITION}"
    assert seen.judged().verdict is Verdict.CANNOT_TELL


@pytest.mark.parametrize("containers", [True, 7, "text", {"name": "x"}, None])
def test_a_pod_whose_containers_are_no_list_is_listed_without(containers: Any) -> None:
    listed = pods._short(
        {"metadata": {"name": "a"}, "spec": {"initContainers": containers, "containers": [None, {"resources": {}}]}}
    )
    assert listed["spec"]["initContainers"] == []
    assert listed["spec"]["containers"] == [{"resources": {}}]


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        (("time",), "2026-11-25T10:00:00", "$.time"),
        (("verdict",), "green", "$.verdict"),
        (("observed", "gpus", 0, "uuid"), 7, "$.observed.gpus[0].uuid"),
        (("observed", "gpus", 0, "instances"), [["1g.10gb", 0, 65]], "$.observed.gpus[0].instances[0]"),
        (("intervalSeconds",), True, "$.intervalSeconds"),
    ],
)
def test_what_is_wrong_with_a_report_is_named_by_its_place(place: tuple[Any, ...], value: Any, named: str) -> None:
    node = fleet().node("ts")
    document = json.loads(node["metadata"]["annotations"][ANNOTATION])
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ReportError, match=re.escape(named)):
        parse_report(json.dumps(document))


def test_half_a_character_in_a_report_is_no_report() -> None:
    node = fleet().node("ts")
    document = json.loads(node["metadata"]["annotations"][ANNOTATION])
    with pytest.raises(ReportError):
        parse_report(json.dumps({**document, "verdict": "\ud800"}))
    with pytest.raises(ReportError):
        parse_report(json.dumps({**document, "observed": {**document["observed"], "\ud800": 1}}))
