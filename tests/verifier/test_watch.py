"""When a result is too old to count, and which changes of a node are looked at: without an API server, without waiting."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.verifier import watch
from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.reading import Unreadable
from tests.clock import set_clock
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL, NVML_SECONDS = 600.0, 30.0
#: Two whole rounds, in which two calls of NVML may take all their time, and five minutes for the rest.
COUNTS_FOR = 2 * 600 + 2 * 30 + 300


class _Observer:
    """Finds the node as declared, or not."""

    def __init__(self, *, differs: bool) -> None:
        self._differs = differs

    def hold(self, _: object) -> Assertion:
        findings = Findings()
        if self._differs:
            findings.differs(Where("node"), "allocatable", 4, 1, "gpu-missing")
        return Assertion(findings, Observation(Unreadable("not looked at"), None, None), 2, 0.5)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    set_clock(monkeypatch, watch, monotonic=lambda: now[0])
    return now


def watcher(*, differs: bool = False) -> watch.Watcher:
    observer: Any = _Observer(differs=differs)
    expected = nodes.healthy(*nodes.plan_and_pool({"exclusive": {}})).expected
    return watch.Watcher(expected, observer, INTERVAL, NVML_SECONDS)


def test_a_result_counts_for_two_rounds_and_what_they_may_take(clock: list[float]) -> None:
    watched = watcher()
    clock[0] += 100
    watched.assert_once()
    clock[0] += COUNTS_FOR - 0.5
    assert watched.alive
    assert watched.ready
    clock[0] += 0.5
    assert not watched.alive
    assert not watched.ready


def test_before_the_first_result_the_time_runs_from_the_start_and_nothing_is_ready(clock: list[float]) -> None:
    watched = watcher()
    clock[0] += COUNTS_FOR - 0.5
    assert watched.alive
    assert not watched.ready
    clock[0] += 0.5
    assert not watched.alive


def test_a_node_that_differs_is_alive_and_not_ready(clock: list[float]) -> None:
    watched = watcher(differs=True)
    watched.assert_once()
    clock[0] += 1
    assert watched.alive
    assert not watched.ready


def test_results_are_counted_and_what_goes_wrong_with_telling_them_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    watched = watcher()
    watched.tell, watched.untaint = lambda _, __: "cannot be told", lambda _: "cannot be untainted"
    watched.keep = lambda _: "is put back"
    assert [watched.assert_once().runs for _ in range(3)] == [1, 2, 3]
    said = [record.getMessage() for record in caplog.records]
    assert (said.count("cannot be told"), said.count("cannot be untainted"), said.count("is put back")) == (3, 3, 3)


NODE: dict[str, Any] = {
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"a": "1"}, "annotations": {"x": "1"}},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"nvidia.com/gpu": "4"},
        "capacity": {"nvidia.com/gpu": "4"},
        "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "1"},
        ],
    },
}


def _seen(change: Callable[[dict[str, Any]], object], kind: str = "MODIFIED") -> object:
    changed = deepcopy(NODE)
    change(changed)
    return watch._compared({"type": kind, "object": changed})


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node["metadata"]["labels"].update(a="2"),
        lambda node: node["metadata"].pop("labels"),
        lambda node: node["spec"].update(taints=[]),
        lambda node: node.pop("spec"),
        lambda node: node["status"]["allocatable"].update({"nvidia.com/gpu": "3"}),
        lambda node: node["status"]["capacity"].update({"nvidia.com/gpu": "3"}),
        lambda node: node["status"]["conditions"][1].update(status="False"),
        lambda node: node["status"].pop("conditions"),
        lambda node: node.pop("status"),
    ],
)
def test_what_is_compared_of_a_node_is_a_change_of_it(change: Callable[[dict[str, Any]], object]) -> None:
    assert _seen(change) not in (_seen(lambda _: None), None)


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node["metadata"]["annotations"].update(x="2"),
        lambda node: node["status"]["conditions"][0].update(status="True"),
        lambda node: node["status"]["conditions"][1].update(lastHeartbeatTime="2"),
    ],
)
def test_what_is_not_compared_wakes_nobody(change: Callable[[dict[str, Any]], object]) -> None:
    assert _seen(change) == _seen(lambda _: None)
    assert _seen(lambda _: None, "ADDED") == _seen(lambda _: None)


@pytest.mark.parametrize("kind", ["DELETED", "BOOKMARK", "ERROR"])
def test_other_events_say_nothing_of_the_node(kind: str) -> None:
    assert _seen(lambda _: None, kind) is None
    assert _seen(lambda node: node.update(kind="Status")) is None
    for event in ({}, {"type": "ADDED"}, {"type": "ADDED", "object": None}, {"type": "ADDED", "object": {}}):
        assert watch._compared(event) is None


# --- what probes are answered -----------------------------------------------------------------------------


def test_probes_are_told_what_the_last_assertion_said_and_how_old_it_is(clock: list[float]) -> None:
    watched = watcher()
    assert watch.answer(watched, "/healthz")[0] == 200
    assert watch.answer(watched, "/readyz")[::2] == (503, "no assertion has ended yet\n")
    assert watch.answer(watched, "/metrics")[::2] == (503, "no assertion has ended yet\n")
    watched.assert_once()
    assert watch.answer(watched, "/healthz")[::2] == (200, "ok\n")
    assert watch.answer(watched, "/readyz")[::2] == (200, "ok\n")
    status, kind, text = watch.answer(watched, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert text.startswith("#")
    assert watch.answer(watched, "/report")[::2] == (404, "known are /healthz, /readyz and /metrics\n")
    clock[0] += COUNTS_FOR
    assert watch.answer(watched, "/healthz")[::2] == (503, "no assertion has ended for too long\n")
    assert watch.answer(watched, "/readyz")[::2] == (503, "the last assertion is too old\n")
    differing = watcher(differs=True)
    differing.assert_once()
    why = "the last assertion did not hold: the node's condition GpuSharingVerified says why\n"
    assert watch.answer(differing, "/readyz")[::2] == (503, why)


def test_only_another_verdict_or_other_findings_are_told_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    watched = watcher()
    for _ in range(2):
        watched.assert_once()
    assert len(caplog.records) == 1
    watched._observer = _Observer(differs=True)  # type: ignore[assignment]
    for _ in range(2):
        watched.assert_once()
    assert len(caplog.records) == 2
    assert "allocatable" in caplog.records[1].getMessage()
