"""What an assertion leaves on its node: true, bounded, the most important first."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.verifier import archive, commands
from gpu_pools.verifier.causes import CAUSES
from gpu_pools.verifier.claims import Device
from gpu_pools.verifier.evidence import MOST_BYTES, Origin, evidence, own_digest
from gpu_pools.verifier.expectation import parse_expectation
from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.node import ClaimsReading
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.options import Options
from gpu_pools.verifier.reading import GpuInstance, Hung, Mode, Unreadable, failed
from gpu_pools.verifier.sources import Reader
from tests.examples import examples
from tests.patience import scaled
from tests.verifier import nodes

if TYPE_CHECKING:
    from pathlib import Path

AT = "2026-03-04T05:06:07Z"
ORIGIN = Origin("e" * 64, "f" * 64, 300.0)
#: The causes of the most important and the least important finding.
MOST, *_, LEAST = sorted(CAUSES, key=lambda key: CAUSES[key].rank)
MIXED = {"mig": {"layout": {"3g.40gb": 1, "1g.10gb": 3}}}


def told(one: nodes.Node, findings: Findings | None = None, /, **seen: Any) -> dict[str, Any]:
    observation = replace(Observation(one.nvml, one.mps, one.kubernetes), **seen)
    text = evidence(one.expected, Assertion(findings or Findings(), observation, 2, 0.5), ORIGIN, node="gpu-1", at=AT)
    assert len(text.encode("ascii")) <= 16 * 1024
    document: dict[str, Any] = json.loads(text)
    return document


def findings_of(*words: str, field: str = "a", observed: object = 1) -> Findings:
    findings = Findings()
    for why in words:
        findings.differs(Where("node"), field, 2, observed, why)
    return findings


def test_a_pass_says_what_was_asserted_by_what_and_what_was_seen() -> None:
    node = nodes.healthy(*nodes.plan_and_pool(MIXED, count=2))
    document = told(node)
    assert {key: document[key] for key in ("kind", "node", "pool", "time", "verdict", "intervalSeconds")} == {
        "kind": "NodeEvidence",
        "node": "gpu-1",
        "pool": "gpu",
        "time": AT,
        "verdict": "holds",
        "intervalSeconds": 300.0,
    }
    assert (document["expectation"], document["program"]) == ("e" * 64, "f" * 64)
    assert (document["differences"], document["cannotTell"], "omitted" in document) == ([], [], False)
    seen = document["observed"]
    assert (seen["driver"], seen["cuda"], seen["mps"]) == (nodes.DRIVER, nodes.CUDA, None)
    assert seen["allocatable"] == {"nvidia.com/mig-1g.10gb": 6, "nvidia.com/mig-3g.40gb": 2}
    assert [gpu["index"] for gpu in seen["gpus"]] == [0, 1]
    for gpu in seen["gpus"]:
        assert gpu["uuid"].startswith("GPU-")
        assert gpu["mig"] == "enabled"
        assert sorted(name for name, _, _ in gpu["instances"]) == ["1g.10gb", "1g.10gb", "1g.10gb", "3g.40gb"]
        covered = [unit for _, start, size in gpu["instances"] for unit in range(start, start + size)]
        assert covered == sorted(set(covered))


def test_mps_and_modes_are_summed_up() -> None:
    node = nodes.healthy(*nodes.plan_and_pool({"mps": {"replicas": 4}}, count=2))
    seen = told(node)["observed"]
    assert seen["mps"] == {"activeThreadPercentage": "25.0", "memoryLimits": "20G"}
    assert {gpu["computeMode"] for gpu in seen["gpus"]} == {"EXCLUSIVE_PROCESS"}
    first = node.nvml.gpus[0]  # type: ignore[index]
    for mode, words in (
        (Mode(0, 1), "disabled, enabled pending"),
        (failed(3, "nvmlDeviceGetMigMode"), "unsupported"),
        (failed(15, "nvmlDeviceGetMigMode"), "GPU_IS_LOST (15) from nvmlDeviceGetMigMode"),
    ):
        changed = replace(node.nvml, gpus=(replace(first, mig=mode, instances=failed(3, "x")),))
        (gpu,) = told(node, nvml=changed)["observed"]["gpus"]
        assert (gpu["mig"], gpu["instances"]) == (words, [])


@pytest.mark.parametrize(
    ("nvml", "words"),
    [
        (Hung("nvmlInit_v2", 30.0, killable=True), "did not answer within 30 s"),
        (Unreadable("no library"), "no library"),
    ],
)
def test_gpus_that_could_not_be_read_are_none_and_it_says_why(nvml: object, words: str) -> None:
    seen = told(nodes.healthy(*nodes.plan_and_pool(MIXED)), nvml=nvml, node=None)["observed"]
    assert (seen["gpus"], seen["allocatable"]) == ([], {})
    assert words in seen["failure"]


def test_a_report_on_the_node_is_this_document() -> None:
    node = nodes.healthy(*nodes.plan_and_pool({"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 1}}}))
    findings = findings_of(MOST)
    findings.cannot_tell(Where("pods"), "answer", "200", "403", LEAST)
    findings.note("n")
    document = told(node, findings, node=replace(node.kubernetes, set_by={"label a": "nfd"}))
    uuid = node.machine.gpus[0].uuid

    def finding(key: str, **said: Any) -> dict[str, Any]:
        cause = CAUSES[key]
        blank = {"gpu": None, "uuid": None, "detail": "", "cause": key, "rank": cause.rank, "incidents": list(cause.incidents)}
        return {**blank, "likelyCause": cause.text, "remedy": cause.remedy, **said}

    assert document == {
        "apiVersion": "gpu-pools/v1",
        "kind": "NodeEvidence",
        "node": "gpu-1",
        "pool": "gpu",
        "time": AT,
        "verdict": "differs",
        "intervalSeconds": 300.0,
        "expectation": "e" * 64,
        "program": "f" * 64,
        "python": ".".join(map(str, sys.version_info[:3])),
        "differences": [finding(MOST, subject="node", field="a", expected=2, observed=1)],
        "cannotTell": [finding(LEAST, subject="pods", field="answer", expected="200", observed="403")],
        "observed": {
            "driver": nodes.DRIVER,
            "nvml": node.machine.nvml_version,
            "cuda": nodes.CUDA,
            "mps": None,
            "allocatable": dict(node.kubernetes.allocatable),
            "setBy": {"label a": "nfd"},
            "gpus": [
                {
                    "index": 0,
                    "uuid": uuid,
                    "name": node.machine.gpus[0].name,
                    "computeMode": "DEFAULT",
                    "mig": "enabled",
                    "instances": document["observed"]["gpus"][0]["instances"],
                }
            ],
        },
        "notes": ["n"],
    }
    instances = document["observed"]["gpus"][0]["instances"]
    assert [start for _, start, _ in instances] == sorted(start for _, start, _ in instances)
    assert {(name, size) for name, _, size in instances} == {("3g.40gb", 4), ("2g.20gb", 2)}


def test_what_nvml_said_in_place_of_an_answer_is_told() -> None:
    node = nodes.healthy(*nodes.plan_and_pool(MIXED))
    lost = failed(15, "nvmlDeviceGetCount")
    seen = told(node, nvml=replace(node.nvml, gpus=lost, driver=failed(3, "nvmlSystemGetDriverVersion")))["observed"]
    assert (seen["failure"], seen["gpus"]) == ("GPU_IS_LOST (15) from nvmlDeviceGetCount", [])
    assert seen["driver"] == "NOT_SUPPORTED (3) from nvmlSystemGetDriverVersion"
    missing = failed(9, "nvmlInit")
    seen = told(node, nvml=replace(node.nvml, failure=missing, gpus=()))["observed"]
    assert seen["failure"] == "DRIVER_NOT_LOADED (9) from nvmlInit"
    gpu = replace(node.nvml.gpus[0], profiles=failed(3, "x"))  # type: ignore[index]
    (told_gpu,) = told(node, nvml=replace(node.nvml, gpus=(gpu,)))["observed"]["gpus"]
    assert {name for name, _, _ in told_gpu["instances"]} == {f"profile {one.profile_id}" for one in gpu.instances}  # type: ignore[union-attr]
    made = tuple(GpuInstance(number, 9, start, size, ()) for number, start, size in ((1, 4, 1), (2, 0, 4), (3, 5, 2)))
    (told_gpu,) = told(node, nvml=replace(node.nvml, gpus=(replace(gpu, instances=made),)))["observed"]["gpus"]
    assert told_gpu["instances"] == [["profile 9", 0, 4], ["profile 9", 4, 1], ["profile 9", 5, 2]]
    for mode, words in ((Mode(1, 0), "enabled, disabled pending"), (Mode(0, 0), "disabled"), (Mode(7, 7), "7")):
        (told_gpu,) = told(node, nvml=replace(node.nvml, gpus=(replace(gpu, mig=mode),)))["observed"]["gpus"]
        assert told_gpu["mig"] == words


def test_what_the_mps_daemon_said_is_told_each_limit_once() -> None:
    node = nodes.healthy(*nodes.plan_and_pool({"mps": {"replicas": 4}}, count=2))
    assert node.mps
    mixed = replace(node.mps, memory_limits=("20G", "10G", "20G"))
    assert told(node, mps=mixed)["observed"]["mps"] == {"activeThreadPercentage": "25.0", "memoryLimits": "10G, 20G"}
    dead = replace(node.mps, failure="exit code 1")
    assert told(node, mps=dead)["observed"]["mps"] == {"failure": "exit code 1"}


@pytest.mark.parametrize(("length", "kept"), [(300, 300), (301, 300)])
def test_a_long_text_is_cut_at_three_hundred_characters(length: int, kept: int) -> None:
    findings = findings_of(MOST, field="x" * length)
    findings.note("y" * length)
    document = told(HEALTHY, findings)
    for text in (document["differences"][0]["field"], document["notes"][0]):
        assert (len(text), text.endswith("…")) == (kept, length > 300)
    named = replace(HEALTHY.nvml.gpus[0], name="n" * (length - 220))  # type: ignore[index]
    (gpu,) = told(HEALTHY, nvml=replace(HEALTHY.nvml, gpus=(named,)))["observed"]["gpus"]
    assert (len(gpu["name"]), gpu["name"].endswith("…")) == (80, length > 300)


@pytest.mark.parametrize(("length", "whole"), [(298, True), (299, False)])
def test_a_long_value_is_told_in_words_and_cut(length: int, whole: bool) -> None:  # noqa: FBT001
    document = told(HEALTHY, findings_of(MOST, observed="x" * length))
    assert document["differences"][0]["observed"] == "x" * length
    many = {"k" * 10: 1, "x" * (length - 19): 1}
    document = told(HEALTHY, findings_of(MOST, observed=many))
    observed = document["differences"][0]["observed"]
    assert (observed == many) is whole
    if not whole:
        assert observed.startswith("1x kkkkkkkkkk, 1x xxx")


def test_nothing_less_important_takes_the_place_of_what_did_not_fit() -> None:
    findings = findings_of(*[LEAST] * 60, field="z" * 290, observed="o" * 290)
    findings.note("short")
    document = told(HEALTHY, findings)
    assert document["omitted"]["differences"] > 0
    assert document["notes"] == []
    assert document["omitted"] | {"differences": 0} == {"differences": 0, "allocatable": 2, "gpus": 8, "notes": 1}
    room = MOST_BYTES - len(json.dumps(document, separators=(",", ":")))
    assert 0 <= room < 1500


def test_differences_come_first_and_the_most_important_of_them() -> None:
    findings = findings_of(LEAST, MOST, *[LEAST] * 80)
    findings.note("n")
    document = told(nodes.healthy(*nodes.plan_and_pool(MIXED, count=8)), findings)
    assert document["differences"][0]["cause"] == MOST
    assert document["differences"][0]["remedy"]
    kept, left = len(document["differences"]), document["omitted"]["differences"]
    assert kept + left == 82
    assert kept > 10
    assert (document["omitted"]["gpus"], document["omitted"]["notes"]) == (8, 1)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=2000), st.dictionaries(st.text(max_size=9), st.integers(), max_size=300)), max_size=30),
    st.lists(st.text(max_size=900), max_size=50),
)
def test_whatever_was_found_it_fits_and_everything_is_told_or_counted(found: list[tuple[str, Any]], notes: list[str]) -> None:
    findings = Findings()
    for field, observed in found:
        findings.differs(Where(field), field, None, observed, LEAST, field)
    for note in notes:
        findings.note(note)
    document = told(HEALTHY, findings)
    omitted = document.get("omitted", {})
    assert len(document["differences"]) + omitted.get("differences", 0) == len(findings.differences)
    assert len(document["notes"]) + omitted.get("notes", 0) == len(findings.notes)
    assert document["verdict"] == ("differs" if found else "holds")


HEALTHY = nodes.healthy(*nodes.plan_and_pool(MIXED, count=8))


def test_a_healthy_node_of_eight_gpus_in_seven_parts_takes_a_fifth_of_the_room() -> None:
    node = nodes.healthy(*nodes.plan_and_pool({"mig": {"layout": {"1g.10gb": 7}}}, count=8))
    assert len(json.dumps(told(node), separators=(",", ":"))) < MOST_BYTES / 5


class Clock:
    """Time that passes by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("every", "waits", "writes"), [(60, 1000, 4), (5, 299, 1), (400, 1200, 4)])
def test_a_verdict_that_stays_is_written_again_so_that_nobody_takes_it_for_one_of_the_past(
    every: float, waits: float, writes: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written: list[float] = []
    clock = Clock()
    found = Assertion(findings_of(MOST), Observation(Unreadable("x"), None, None), 2, 0.5)

    def hold(*_: object) -> Assertion:
        return found

    def mark(*_: object) -> None:
        written.append(clock.now)

    monkeypatch.setattr(commands, "time", clock)
    monkeypatch.setattr("gpu_pools.verifier.evidence.mark", mark)
    monkeypatch.setattr(commands, "node_reader", lambda _: object())
    monkeypatch.setattr(commands.Observer, "hold", hold)
    expect = tmp_path / "e.json"
    expect.write_text("{}")
    options = Options("assert")
    options.mark, options.expect, options.processes = True, str(expect), str(tmp_path)
    options.pause, options.wait, options.every = 0, waits, every
    assert commands._hold(options, Reader(), HEALTHY.expected, b"{}") is found
    assert len(written) == writes


def test_the_program_knows_its_own_digest_from_its_file_and_from_sources_none(tmp_path: Path) -> None:
    path = tmp_path / "verifier.pyz"
    archive.main([str(path)])
    assert own_digest(path) == archive.digest()
    assert own_digest(tmp_path) is None
    asked = f"import sys; sys.path.insert(0, {str(path)!r}); from verifier.evidence import own_digest; print(own_digest())"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", asked], capture_output=True, text=True, check=True, timeout=scaled(60)
    )
    assert ran.stdout.strip() == archive.digest()


def test_devices_of_claims_are_told_by_the_resources_that_pods_ask_for() -> None:
    plan, pool = nodes.plan_and_pool({"timeSlicing": {"replicas": 4}}, key="h100-80gb", count=2, allocation="dra")
    one = nodes.healthy(*nodes.plan_and_pool({"exclusive": {}}, key="h100-80gb", count=2))
    expected = parse_expectation(node_expectation(plan, pool))
    devices = tuple(Device(f"gpu-{index}", "gpu", None, f"GPU-{index}", f"GPU-{index}", 4) for index in range(2))
    odd = Device("gpu-9", "vfio", None, "GPU-9", "GPU-9", None)
    seen = replace(one.kubernetes, claims=ClaimsReading((*devices, odd), ()))
    document = told(replace(one, expected=expected), node=seen)
    assert document["observed"]["devices"] == {"device vfio": 1, "nvidia.com/gpu": 8}
    # As reports were before, where there are no claims.
    assert "devices" not in told(one)["observed"]
