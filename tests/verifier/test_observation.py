"""How an observer looks: until two looks in a row are equal, and what it hands on; test_nvml.py has the reading itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.verifier import observation
from gpu_pools.verifier.findings import Verdict
from gpu_pools.verifier.mps import MpsReading
from gpu_pools.verifier.mps_daemons import MpsDaemon, NodeProcesses
from gpu_pools.verifier.observation import Observation, Observer
from gpu_pools.verifier.reading import Hung, Process, Unreadable, failed
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

PLAN, POOL = nodes.plan_and_pool({"exclusive": {}}, count=2)
HEALTHY = nodes.healthy(PLAN, POOL)
SHARED = nodes.healthy(*nodes.plan_and_pool({"mps": {"replicas": 4}}, count=2))
SICK = replace(HEALTHY.nvml, gpus=HEALTHY.nvml.gpus[1:])  # type: ignore[index]
HUNG = Hung("nvmlInit_v2", 30, killable=True)


class _Reader:
    """Says one reading after the other, the last one for ever."""

    def __init__(self, *readings: Any) -> None:
        self._readings = list(readings)
        self.reads = self.released = self.asked = 0

    def ask(self) -> None:
        self.asked += 1

    def read(self, *, again: bool = False) -> Any:
        assert not again
        self.reads += 1
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]

    def release(self) -> None:
        self.released += 1


class _Node:
    """Says the same, and remembers what it was asked for."""

    def __init__(self, *, kubernetes: Any = HEALTHY.kubernetes) -> None:
        self._kubernetes = kubernetes
        self.asked: list[Any] = []

    def read(self, expected: Any) -> Any:
        self.asked.append(expected)
        return self._kubernetes


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses; each takes its time by the clock that the observer sees, and so does nothing else."""
    pauses: list[float] = []
    # Of that module alone: threads that another test has left behind sleep, too.
    clock = SimpleNamespace(sleep=pauses.append, monotonic=lambda: 1000.0 + sum(pauses))
    monkeypatch.setattr(observation, "time", clock)
    return pauses


def observer(reader: Any, node: Any = None, tmp_path: Path = Path("/nowhere")) -> Observer:
    return Observer(reader, node, 1.5, tmp_path)


def busy(pids: Sequence[int]) -> Any:
    """The healthy reading with other jobs on the first GPU."""
    gpus: Any = HEALTHY.nvml.gpus
    return replace(
        HEALTHY.nvml, gpus=(replace(gpus[0], processes=tuple(Process(pid, "compute", None) for pid in pids)), *gpus[1:])
    )


def test_two_equal_looks_are_enough_with_one_pause_between_them(slept: list[float]) -> None:
    reader = _Reader(HEALTHY.nvml)
    found = observer(reader).hold(HEALTHY.expected)
    assert (found.findings.verdict, found.looks, found.seconds, slept) == (Verdict.HOLDS, 2, 1.5, [1.5])
    assert found.observation == Observation(HEALTHY.nvml, None, None)
    assert (reader.reads, reader.released) == (2, 1)


def test_without_a_pause_the_second_reading_begins_while_the_first_is_looked_at(tmp_path: Path) -> None:
    class Asked(_Reader):
        def __init__(self, *readings: Any) -> None:
            super().__init__(*readings)
            self.again: list[bool] = []

        def read(self, *, again: bool = False) -> Any:
            self.again.append(again)
            return super().read()

    reader = Asked(HEALTHY.nvml)
    watching = Observer(reader, None, 0, tmp_path)  # type: ignore[arg-type]
    watching.hold(HEALTHY.expected)
    assert reader.again == [True, False], "nobody listens to a third one"
    watching.hold(HEALTHY.expected)
    assert reader.again == [True, False, False]


def test_the_last_look_of_the_assertion_before_counts_as_the_first_and_needs_no_pause(slept: list[float]) -> None:
    reader = _Reader(HEALTHY.nvml)
    watching = observer(reader)
    watching.hold(HEALTHY.expected)
    slept.clear()
    again = watching.hold(HEALTHY.expected)
    assert (again.findings.verdict, again.looks, slept, reader.reads) == (Verdict.HOLDS, 2, [], 3)


def test_after_a_change_there_are_pauses_again(slept: list[float]) -> None:
    watching = observer(_Reader(HEALTHY.nvml, HEALTHY.nvml, SICK))
    watching.hold(HEALTHY.expected)
    slept.clear()
    changed = watching.hold(HEALTHY.expected)
    assert (changed.findings.verdict, changed.looks, slept) == (Verdict.DIFFERS, 3, [1.5])
    assert changed.observation.nvml == SICK


def test_what_is_unsteady_for_six_looks_is_told_so_with_what_the_last_one_showed(slept: list[float]) -> None:
    found = observer(_Reader(*[SICK, HEALTHY.nvml] * 4)).hold(HEALTHY.expected)
    assert (found.looks, len(slept), found.seconds) == (6, 5, 7.5)
    assert found.findings.differences == []
    told = [(str(one.where), one.field, one.expected, one.observed, one.cause.key) for one in found.findings.unknown]
    assert told == [("node", "readings", "two equal ones", "6 different ones", "unsteady")]


def test_jobs_that_come_and_go_are_no_unsteadiness(slept: list[float]) -> None:
    assert observer(_Reader(busy([1]), busy([2, 3]))).hold(HEALTHY.expected).looks == 2
    assert slept == [1.5]


def test_a_hung_driver_is_looked_at_once_and_anew_in_the_next_assertion(slept: list[float]) -> None:
    reader = _Reader(HUNG, HUNG, HEALTHY.nvml)
    watching = observer(reader)
    for _ in range(2):
        found = watching.hold(HEALTHY.expected)
        assert ([one.cause.key for one in found.findings.differences], found.looks, slept) == (["nvml-hang"], 1, [])
    assert watching.hold(HEALTHY.expected).findings.verdict is Verdict.HOLDS
    assert (slept, reader.released) == ([1.5], 3)


def test_the_reader_is_released_whatever_happens() -> None:
    class Broken(_Reader):
        def read(self, *, again: bool = False) -> Any:
            del again
            raise OSError

    for act in (lambda one: one.look(None), lambda one: one.hold(HEALTHY.expected)):
        reader = Broken(None)
        with pytest.raises(OSError):  # noqa: PT011 - raised bare
            act(observer(reader))
        assert reader.released == 1


def test_one_look_hands_on_what_everybody_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    said = MpsReading(None, asked=True, percentage="25.0", memory_limits=(), faulty_servers=())
    monkeypatch.setattr("gpu_pools.verifier.mps.read_mps", lambda gpus: asked.append(gpus) or said)
    node, reader = _Node(), _Reader(SHARED.nvml)
    found = observer(reader, node, tmp_path).look(SHARED.expected)
    assert (found.nvml, found.mps, found.node, found.processes) == (
        SHARED.nvml,
        said,
        HEALTHY.kubernetes,
        NodeProcesses(complete=False, daemons=()),
    )
    assert (asked, node.asked, reader.released) == ([2], [SHARED.expected.node], 1)
    assert set(found.as_json()) == {"nvml", "mps", "node", "processes"}
    assert found.as_json()["mps"]["percentage"] == "25.0"
    for silent in (failed(3, "f"), None):
        reading = Unreadable("x") if silent is None else replace(SHARED.nvml, gpus=silent)
        observer(_Reader(reading), None, tmp_path).look(SHARED.expected)
    assert asked == [2, 0, 0]


def test_mps_is_asked_only_where_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_pools.verifier.mps.read_mps", lambda _: pytest.fail("asked"))
    node = _Node()
    assert observer(_Reader(HEALTHY.nvml), node).look(HEALTHY.expected).mps is None
    assert observer(_Reader(HEALTHY.nvml), node).look(None).mps is None
    assert node.asked == [HEALTHY.expected.node, None]


def _causes(healthy: nodes.Node, **changes: Any) -> list[str]:
    processes = NodeProcesses(complete=True, daemons=())
    seen = replace(Observation(healthy.nvml, healthy.mps, healthy.kubernetes, processes), **changes)
    return sorted({one.cause.key for one in observation._compared(healthy.expected, seen).differences})


def test_everything_that_was_read_is_compared() -> None:
    unready = replace(HEALTHY.kubernetes, ready=False)
    assert _causes(HEALTHY) == []
    assert "gpu-missing" in _causes(HEALTHY, nvml=SICK)
    assert _causes(HEALTHY, node=None) == []
    assert _causes(HEALTHY, node=unready) == ["node-not-ready"]
    assert _causes(replace(HEALTHY, expected=replace(HEALTHY.expected, node=None)), node=unready) == []
    assert _causes(HEALTHY, mps=replace(SHARED.mps, percentage="99.0")) == []  # type: ignore[type-var]
    assert set(_causes(SHARED, mps=replace(SHARED.mps, percentage="99.0"))) > set(_causes(SHARED))  # type: ignore[type-var]
    assert set(_causes(SHARED, mps=None)) <= set(_causes(SHARED))


def test_a_daemon_is_the_operators_if_its_pod_is() -> None:
    processes = NodeProcesses(complete=True, daemons=(MpsDaemon(4711, "pod-1", shared=True),))
    daemon = replace(HEALTHY.kubernetes.pods[0], app="nvidia-device-plugin-mps-control-daemon", uid="pod-1")  # type: ignore[index]
    other = replace(daemon, app="somebody-s")
    for pods, found in (((daemon, replace(other, uid="pod-2")), {"pod-1"}), ((other,), set()), ((), set())):
        seen = Observation(HEALTHY.nvml, None, replace(HEALTHY.kubernetes, pods=pods), processes)
        assert observation._operators(seen) == found
    assert observation._operators(Observation(HEALTHY.nvml, None, None)) is None
    assert _causes(HEALTHY, processes=processes, node=None) != []


def test_what_runs_on_the_gpus_is_handed_on_as_far_as_it_is_told() -> None:
    jobs = busy([7, 8])
    assert [one.pid for one in observation._on_gpus(Observation(jobs, None, None))] == [7, 8]
    partly = replace(jobs, gpus=(jobs.gpus[0], replace(jobs.gpus[1], processes=failed(3, "f"))))
    assert [one.pid for one in observation._on_gpus(Observation(partly, None, None))] == [7, 8]
    assert observation._on_gpus(Observation(replace(jobs, gpus=failed(3, "f")), None, None)) == []
    assert observation._on_gpus(Observation(HUNG, None, None)) == []
