"""What an assertion leaves on its node: true, bounded, the most important first."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.verifier import archive, commands
from gpu_pools.verifier.causes import CAUSES
from gpu_pools.verifier.child import Reader
from gpu_pools.verifier.evidence import MOST_BYTES, Origin, evidence
from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.program import own_digest
from gpu_pools.verifier.reading import Hung, Mode, Unreadable, failed
from tests.examples import examples
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
    assert len(text.encode("ascii")) <= MOST_BYTES
    document: dict[str, Any] = json.loads(text)
    return document


def findings_of(*words: str, field: str = "a", observed: object = 1) -> Findings:
    findings = Findings()
    for why in words:
        findings.differs(Where("node"), field, 2, observed, why)
    return findings


def test_a_pass_says_what_was_asserted_by_what_and_what_was_seen() -> None:
    node = nodes.healthy(*nodes.planned(MIXED, count=2))
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
    node = nodes.healthy(*nodes.planned({"mps": {"replicas": 4}}, count=2))
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
    seen = told(nodes.healthy(*nodes.planned(MIXED)), nvml=nvml, node=None)["observed"]
    assert (seen["gpus"], seen["allocatable"]) == ([], {})
    assert words in seen["failure"]


def test_differences_come_first_and_the_most_important_of_them() -> None:
    findings = findings_of(LEAST, MOST, *[LEAST] * 80)
    findings.note("n")
    document = told(nodes.healthy(*nodes.planned(MIXED, count=8)), findings)
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


HEALTHY = nodes.healthy(*nodes.planned(MIXED, count=8))


def test_a_healthy_node_of_eight_gpus_in_seven_parts_takes_a_fifth_of_the_room() -> None:
    node = nodes.healthy(*nodes.planned({"mig": {"layout": {"1g.10gb": 7}}}, count=8))
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
    monkeypatch.setattr("gpu_pools.verifier.mark.mark", mark)
    monkeypatch.setattr(commands, "_node_reader", lambda _: object())
    monkeypatch.setattr(commands.Observer, "hold", hold)
    expect = tmp_path / "e.json"
    expect.write_text("{}")
    options = argparse.Namespace(mark=True, untaint=None, expect=expect, pause=0, processes=tmp_path, wait=waits, every=every)
    assert commands._hold(options, Reader(), HEALTHY.expected, b"{}") is found
    assert len(written) == writes


def test_the_program_knows_its_own_digest_from_its_file_and_from_sources_none(tmp_path: Path) -> None:
    path = tmp_path / "verifier.pyz"
    archive.main([str(path)])
    assert own_digest(path) == archive.digest()
    assert own_digest(tmp_path) is None
    asked = f"import sys; sys.path.insert(0, {str(path)!r}); from verifier.program import own_digest; print(own_digest())"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", asked], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == archive.digest()
