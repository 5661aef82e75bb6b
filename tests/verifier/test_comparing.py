"""Comparisons that need no library: versions, layouts, the expectation document, the MPS daemon's words."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.verifier import causes
from gpu_pools.verifier.causes import CAUSES
from gpu_pools.verifier.compare_gpus import compare_gpus
from gpu_pools.verifier.documents import DocumentError
from gpu_pools.verifier.expectation import Minimum, MpsExpectation, parse_expectation, read_expectation
from gpu_pools.verifier.findings import Findings, Verdict
from gpu_pools.verifier.mps import MpsReading, compare_mps, read_mps
from gpu_pools.verifier.reading import failed, why_illegal
from tests.unit.stacks import aks, plan_of
from tests.verifier import nodes

if TYPE_CHECKING:
    from gpu_pools.verifier.findings import Finding

DATA = Path(causes.__file__).with_name("causes.json")
SEVEN = {"mig": {"layout": {"1g.10gb": 7}}}


def document(sharing: dict[str, Any], **options: Any) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(node_expectation(*nodes.plan_and_pool(sharing, **options))))
    return copied


def _pairs_without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), f"a key stands there twice: {[key for key, _ in pairs]}"
    return dict(pairs)


def test_the_data_of_the_causes_is_in_groups_and_whole() -> None:
    groups = json.loads(DATA.read_text(encoding="utf-8"), object_pairs_hook=_pairs_without_repetition)
    rows = [(key, row) for group in groups.values() for key, row in group.items()]
    assert [key for key, _ in rows] == list(CAUSES)
    for key, row in rows:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", key)
        text, remedy, incidents = row
        for sentence in (text, remedy):
            assert sentence
            assert sentence == " ".join(sentence.split()), f"{key}: blanks that are too many"
        # Which ids there are, test_documentation.py knows.
        assert re.fullmatch(r"([A-Z]\d\d( [A-Z]\d\d)*)?", incidents), key


@pytest.mark.parametrize("row", [["text", "Remedy."], ["text", "Remedy.", "", ""], ["text", "Remedy.", None]])
def test_a_row_that_is_not_whole_is_no_cause(row: list[Any]) -> None:
    with pytest.raises((ValueError, AttributeError)):
        causes._read(json.dumps({"group": {"key": row}}).encode())


def test_the_causes_are_distinct_and_told_in_sentences() -> None:
    assert len({cause.text for cause in CAUSES.values()}) == len(CAUSES)
    for cause in CAUSES.values():
        assert cause.remedy.endswith(".")
        assert not cause.text.endswith(".")


# --- the expectation document -----------------------------------------------------------------------------


def problems(changed: Any) -> tuple[str, ...]:
    with pytest.raises(DocumentError) as caught:
        parse_expectation(changed)
    return caught.value.problems


def test_everything_wrong_in_a_document_is_told_at_once() -> None:
    wrong = document({"exclusive": {}})
    wrong |= {"count": "1", "extra": 1, "computeMode": None}
    del wrong["pool"]
    wrong["gpus"][0]["index"] = True
    told = " ".join(problems(wrong))
    for what in ("count is '1'", "extra is unknown", "computeMode is nothing", "pool is missing", "gpus[0].index is True"):
        assert what in told


@pytest.mark.parametrize("wrong", [None, [], "x", {}, {"apiVersion": "gpu-pools/v2", "kind": "NodeExpectation"}])
def test_what_is_no_expectation_is_refused(wrong: Any) -> None:
    assert problems(wrong)


def test_contradictions_are_refused() -> None:
    fewer = document({"exclusive": {}}, count=2)
    fewer["gpus"].pop()
    assert "count says 2" in problems(fewer)[0]
    branch = document({"exclusive": {}})
    branch["minimum"] = {"driver": "R525", "cuda": ""}
    assert len(problems(branch)) == 2
    mode = document({"exclusive": {}})
    mode["gpus"][0]["migMode"] = "on"
    assert "'on'" in problems(mode)[0]
    off = document(SEVEN)
    off["gpus"][0]["migMode"] = "disabled"
    assert "MIG mode disabled" in problems(off)[0]
    unknown = document(SEVEN)
    unknown["profiles"] = {}
    assert "1g.10gb is not described" in problems(unknown)[0]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"computeMode": "SHARED"},
            "computeMode is 'SHARED', not one of DEFAULT, EXCLUSIVE_THREAD, PROHIBITED, EXCLUSIVE_PROCESS",
        ),
        ({"driver": "R580"}, "driver is 'R580', not numbers with dots"),
        ({"driver": "580."}, "driver is '580.', not numbers with dots"),
        ({"minimum": {"driver": "R525", "cuda": None}}, "minimum.driver is 'R525', not numbers with dots"),
        ({"minimum": {"driver": None, "cuda": "12.x"}}, "minimum.cuda is '12.x', not numbers with dots"),
        ({"count": 0, "gpus": []}, "gpus has the indexes [], but count says 0"),
    ],
)
def test_each_contradiction_is_told_in_words(changes: dict[str, Any], told: str) -> None:
    assert problems(document({"exclusive": {}}) | changes) == (told,)


@pytest.mark.parametrize("driver", ["580", "580.95", "580.95.05"])
def test_a_driver_in_numbers_is_none(driver: str) -> None:
    assert parse_expectation(document({"exclusive": {}}) | {"driver": driver}).driver == driver


@pytest.mark.parametrize("mode", ["disabled", "unsupported"])
def test_each_mig_mode_without_instances_is_one(mode: str) -> None:
    written = document({"exclusive": {}})
    written["gpus"] = [{**gpu, "migMode": mode} for gpu in written["gpus"]]
    assert {gpu.mig_mode for gpu in parse_expectation(written).gpus} == {mode}


@pytest.mark.parametrize("wrong", [None, [], "x"])
def test_what_is_no_mapping_is_not_told_to_be_of_another_version(wrong: Any) -> None:
    assert not any("apiVersion and kind are" in problem for problem in problems(wrong))


def test_another_version_of_the_document_is_told_alone() -> None:
    assert problems(document({"exclusive": {}}) | {"kind": "Pod", "count": "x"}) == (
        "apiVersion and kind are ['gpu-pools/v1', 'Pod'], not ['gpu-pools/v1', 'NodeExpectation']",
    )


def test_a_file_is_held_to_its_sum_and_given_with_its_content(tmp_path: Path) -> None:
    path, content = tmp_path / "expectation", json.dumps(document({"exclusive": {}})).encode()
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    for sum_ in (None, digest):
        assert read_expectation(path, sum_) == (parse_expectation(json.loads(content)), content)
    other = "0" * 64
    with pytest.raises(DocumentError) as refused:
        read_expectation(path, other)
    assert refused.value.problems == (f"W90: {path}: is not the one that was deployed: its SHA-256 is {digest}, not {other}",)


def test_a_file_that_cannot_be_used_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("{")
    for name in ("missing", "broken"):
        with pytest.raises(DocumentError, match=name):
            read_expectation(tmp_path / name)


@pytest.mark.parametrize(
    ("values", "driver", "wanted"),
    [
        # That of the chart.
        ({}, "operator", "595.91.07"),
        ({"driver": {"version": "580.105.08"}}, "operator", "580.105.08"),
        ({"driver": {"version": "580"}}, "operator", "580"),
        ({"driver": {"version": "sha256:" + "a" * 64}}, "operator", None),
        ({"driver": {"version": "580.105.08"}}, "preinstalled", None),
    ],
)
def test_the_driver_that_the_operator_installs_is_expected(values: Any, driver: str, wanted: object) -> None:
    plan = plan_of(aks({"driver": driver}, operator={"values": values}))
    assert node_expectation(plan, plan.pools[0])["driver"] == wanted


def test_the_minimum_driver_is_that_of_the_newest_profile() -> None:
    assert document({"mig": {"layout": {"1g.10gb": 4}}}, key="a100-40gb")["minimum"]["driver"] == "525"
    assert document({"mig": {"layout": {"1g.5gb": 7}}}, key="a100-40gb")["minimum"]["driver"] is None
    assert document({"mig": {"layout": {"1g.23gb": 7}}}, key="b200-180gb")["minimum"]["driver"] == "570.133.20"
    assert document({"exclusive": {}}, key="b200-180gb")["minimum"]["driver"] is None


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [({"driver": "570.124.06", "cuda": "12.8"}, ("570.124.06", "12.8")), ({"driver": "470"}, ("525", None)), ({}, ("525", None))],
)
def test_the_minimum_is_the_newest_of_what_is_declared_and_what_the_profiles_need(declared: Any, wanted: object) -> None:
    plan = plan_of(aks({"minimum": declared}, sharing={"cut": {"mig": {"layout": {"1g.20gb": 4}}}}))
    minimum = parse_expectation(node_expectation(plan, plan.pools[0])).minimum
    assert (minimum.driver, minimum.cuda) == wanted


# --- versions, layouts ------------------------------------------------------------------------------------


def found(node: nodes.Node, **changes: Any) -> list[str]:
    findings = Findings()
    compare_gpus(replace(node.expected, **changes), node.nvml, findings)
    return [finding.field for finding in findings.differences]


@pytest.mark.parametrize(
    ("minimum", "wanted"),
    [
        (Minimum("580.95.05", "13.0"), []),
        (Minimum("580", None), []),
        (Minimum("525.60.13", "12.8"), []),
        (Minimum("580.95.06", None), ["version"]),
        (Minimum("590", "13.1"), ["version", "CUDA version"]),
        (Minimum("1000", None), ["version"]),
    ],
)
def test_versions_compare_as_numbers(minimum: Minimum, wanted: list[str]) -> None:
    node = nodes.healthy(*nodes.plan_and_pool({"exclusive": {}}))
    assert found(node, minimum=minimum) == wanted


def test_without_a_known_product_the_model_is_a_note() -> None:
    node = nodes.healthy(*nodes.plan_and_pool({"exclusive": {}}))
    findings = Findings()
    compare_gpus(replace(node.expected, products=()), node.nvml, findings)
    assert findings.verdict is Verdict.HOLDS
    assert "a100-80gb" in findings.notes[0]


def test_a_product_name_may_be_written_as_labels_write_it() -> None:
    node = nodes.healthy(*nodes.plan_and_pool({"exclusive": {}}))
    assert found(node, products=("a100-sxm4-80gb",)) == []


@pytest.mark.parametrize(
    ("layout", "word"),
    [
        ({"1g.5gb": 7}, "no profile 1g.5gb"),
        ({"3g.40gb": 3}, "at most 2"),
        ({"7g.80gb": 1, "1g.10gb": 1}, "8 compute slices"),
        ({"3g.40gb": 1, "2g.20gb": 2, "1g.10gb": 0, "1g.20gb": 1}, "8 compute slices"),
        ({"1g.20gb": 4, "1g.10gb": 1}, "do not fit"),
    ],
)
def test_an_illegal_layout_is_told_with_its_reason(layout: dict[str, int], word: str) -> None:
    plan, pool = nodes.plan_and_pool({"mig": {"layout": {"1g.10gb": 1}}})
    gpu = nodes.reading_of(nodes.machine_of(pool)).gpus[0]  # type: ignore[index]
    described = {name: parse_expectation(node_expectation(plan, pool)).profiles["1g.10gb"] for name in {*layout, "1g.10gb"}}
    reason = why_illegal(layout, gpu.profiles, described)  # type: ignore[arg-type]
    assert reason is not None
    assert word in reason


def test_a_missing_gpu_does_not_make_other_layouts_wrong() -> None:
    per_gpu = [{"index": 0, "layout": {"7g.80gb": 1}}, {"index": 1, "layout": {"1g.10gb": 7}}, {"index": 2, "layout": {}}]
    node = nodes.healthy(*nodes.plan_and_pool({"mig": {"gpus": per_gpu}}, count=3))
    shorter = replace(node.machine, gpus=node.machine.gpus[1:])
    assert found(replace(node, nvml=nodes.reading_of(shorter))) == ["GPU count"]


def test_the_order_of_findings_puts_what_explains_first() -> None:
    keys = list(CAUSES)
    for first, then in (
        ("driver-mismatch", "gpu-missing"),
        ("gpu-lost", "mig-layout"),
        ("mig-pending", "count-other"),
        ("label-missing", "sharing-off"),
        ("config-edited", "count-other"),
        ("count-other", "gfd-other"),
    ):
        assert keys.index(first) < keys.index(then)


# --- MPS --------------------------------------------------------------------------------------------------


def mps(sharing: dict[str, Any], reading: MpsReading) -> list[Finding]:
    expected = nodes.healthy(*nodes.plan_and_pool(sharing)).expected.mps
    assert expected
    findings = Findings()
    compare_mps(expected, reading, findings)
    return [*findings.differences, *findings.unknown]


def said(percentage: str, *limits: str) -> MpsReading:
    return MpsReading(None, asked=True, percentage=percentage, memory_limits=limits, faulty_servers=())


# The words are those of a real daemon on an H100: percentages with one decimal, limits in whole GiB rounded down.
@pytest.mark.parametrize(
    ("replicas", "reading", "wanted"),
    [
        (4, said("25.0", "20G"), []),
        (7, said("14.0", "11G"), []),
        (48, said("2.0", "1G"), []),
        (4, said("100.0", ""), ["active thread percentage", "MPS memory limit"]),
        (4, said("25.0", "10G"), ["MPS memory limit"]),
        (4, said("50.0", "20G"), ["active thread percentage"]),
        (4, said("25.0", "20480M", "20479M"), ["MPS memory limit"]),
        (4, said("", "20G"), ["active thread percentage"]),
        (4, said("Unknown command", "20G"), ["active thread percentage"]),
    ],
)
def test_the_split_of_the_daemon_is_compared(replicas: int, reading: MpsReading, wanted: list[str]) -> None:
    findings = mps({"mps": {"replicas": replicas}}, reading)
    assert [finding.field for finding in findings] == wanted
    assert {finding.cause.key for finding in findings} <= {"mps-split"}


@pytest.mark.parametrize(
    ("limit", "fits"),
    [
        ("20G", True),
        ("20GB", True),
        ("20479M", False),
        ("20480M", True),
        ("20480MB", True),
        ("20971520K", True),
        ("20971519K", False),
        ("21G", False),
        ("19G", False),
        ("20480", False),
        ("20 G", False),
        ("x20G", False),
    ],
)
def test_a_limit_is_read_in_its_own_unit(limit: str, fits: bool) -> None:  # noqa: FBT001
    expected = MpsExpectation(replicas=4, active_thread_percentage=25, pinned_memory_mib=20480)
    findings = Findings()
    compare_mps(expected, said("25.0", "20G", limit), findings)
    told = [(str(one.where), one.where.gpu, one.field, one.expected, one.observed) for one in findings.differences]
    assert told == ([] if fits else [("GPU 1", 1, "MPS memory limit", "20480 MiB", limit)])


def test_without_a_declared_limit_any_will_do() -> None:
    expected = MpsExpectation(replicas=4, active_thread_percentage=25, pinned_memory_mib=None)
    findings = Findings()
    compare_mps(expected, said("25", "", "1G", "nonsense"), findings)
    assert findings.verdict is Verdict.HOLDS


def test_what_differs_of_mps_is_told_in_these_words() -> None:
    def told(reading: MpsReading) -> list[tuple[str, str, Any, Any]]:
        return [(str(one.where), one.field, one.expected, one.observed) for one in mps({"mps": {"replicas": 4}}, reading)]

    split = replace(said("", "", ""), faulty_servers=("546", "547"))
    assert told(split) == [
        ("MPS server 546", "status", "no fault", "FAULT"),
        ("MPS server 547", "status", "no fault", "FAULT"),
        ("MPS daemon", "active thread percentage", 25.0, "none"),
        ("GPU 0", "MPS memory limit", "20480 MiB", "none"),
        ("GPU 1", "MPS memory limit", "20480 MiB", "none"),
    ]
    assert told(said("50.0x", "20G", "20G")) == [("MPS daemon", "active thread percentage", 25.0, "50.0x")]
    assert told(replace(split, failure="gone")) == [("MPS daemon", "answer", "answers", "gone")]


def test_a_server_that_a_client_s_fault_stopped_is_a_difference() -> None:
    (finding,) = mps({"mps": {"replicas": 4}}, replace(said("25.0", "20G"), faulty_servers=("547",)))
    assert (finding.cause.key, str(finding.where)) == ("mps-fault", "MPS server 547")


def test_a_dead_daemon_is_a_difference_and_one_that_cannot_be_asked_is_not() -> None:
    dead = MpsReading("exit code 1: Cannot find MPS control daemon process", True, "", (), ())  # noqa: FBT003
    assert [finding.cause.key for finding in mps({"mps": {"replicas": 4}}, dead)] == ["mps-dead"]
    (unasked,) = mps({"mps": {"replicas": 4}}, replace(dead, asked=False))
    assert unasked.cause.key == "mps-unasked"


def program(folder: Path, text: str) -> None:
    path = folder / "nvidia-cuda-mps-control"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_daemon_is_asked_for_its_split_and_for_each_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(
        tmp_path,
        """read command index
case $command in
get_default_active_thread_percentage) echo 25.0;;
get_default_device_pinned_mem_limit) echo "1${index}G";;
get_server_list) printf '546\\n547\\n';;
get_server_status) if [ "$index" = 546 ]; then echo ACTIVE; else echo FAULT; fi;;
esac""",
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = MpsReading(None, asked=True, percentage="25.0", memory_limits=("10G", "11G"), faulty_servers=("547",))
    assert read_mps(2) == expected


def test_what_the_daemon_s_program_says_on_its_end_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "echo Cannot find MPS control daemon process; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_mps(1).failure == "exit code 1: Cannot find MPS control daemon process"


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("exit 3", "exit code 3"),
        ("echo no daemon >&2; exit 1", "exit code 1: no daemon"),
        ("echo first; echo second >&2; exit 1", "exit code 1: first"),
        ("exec sleep 5", "no answer within 0.3 s"),
    ],
)
def test_why_the_daemon_gave_no_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, failure: str) -> None:
    program(tmp_path, text)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("gpu_pools.verifier.mps._SECONDS", 0.3)
    assert read_mps(1) == MpsReading(failure, asked=True, percentage="", memory_limits=(), faulty_servers=())


def test_a_program_that_cannot_be_run_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "")
    (tmp_path / "nvidia-cuda-mps-control").write_bytes(b"\x7fno program")
    monkeypatch.setenv("PATH", str(tmp_path))
    read = read_mps(1)
    assert read.asked
    assert read.failure
    assert "Exec format error" in read.failure


def test_without_the_program_the_daemon_was_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = "no nvidia-cuda-mps-control in this container"
    assert read_mps(1) == MpsReading(missing, asked=False, percentage="", memory_limits=(), faulty_servers=())


def test_an_unknown_error_keeps_its_number() -> None:
    assert str(failed(77, "nvmlDeviceGetName")) == "NVML error (77) from nvmlDeviceGetName"
