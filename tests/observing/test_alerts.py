"""Each fault raises exactly its alert, which goes after the repair; healthy fleets and planned changes raise none."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.observing.alerts import alerts
from gpu_pools.observing.xids import meanings
from tests.observing import fleets
from tests.observing.exporter import Pod, Unit
from tests.observing.promtool import STEP, Case, hold, run
from tests.tiers import these

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from tests.observing.exporter import Node
    from tests.observing.promtool import Labels

pytestmark = pytest.mark.programs
FIRING: Final = 'count by (alertname) (ALERTS{alertstate="firing"})'
MINUTE: Final = 60 // STEP
HOUR: Final = 60 * MINUTE
Fleet = tuple["Node", ...]


def firing(*names: str) -> dict[Labels, float]:
    return {(("alertname", name),): 1 for name in names}


def names_only(case: Case) -> Case:
    """How many of an alert there are depends on the fleet; which alerts there are does not."""
    case.expected = [(seconds, f"group by (alertname) ({FIRING})", answer) for seconds, _, answer in case.expected]
    return case


def healthy(plan: Plan, seed: int) -> Fleet:
    return fleets.fleet(plan, Random(seed), busy=True)  # noqa: S311 the same every time


def full(nodes: Fleet, pool: str) -> Fleet:
    """The first GPU's memory is nearly all in use."""
    first = next(node for node in nodes if node.pool == pool).gpus[0].units[0]
    pods = (Pod("greedy", 40, first.memory * 97 // 100), Pod("other", 40, first.memory // 100))
    return fleets.with_gpu(nodes, pool, units=(replace(first, pods=pods),))


def idle(nodes: Fleet, pool: str) -> Fleet:
    node = next(node for node in nodes if node.pool == pool)
    first, *others = node.gpus[0].units
    pods = (replace(first.pods[0], use=0), *first.pods[1:])
    return fleets.with_gpu(nodes, pool, units=(replace(first, pods=pods), *others))


def exporter_down(nodes: Fleet) -> Fleet:
    return tuple(replace(node, up=node.name != "whole-0") for node in nodes)


UPGRADES: Final = 'gpu_operator_nodes_upgrades_failed{job="gpu-operator"}'
#: Fault -> alert, what it does to the fleet, how long it lasts, how long its alert stays afterwards; in minutes.
FAULTS: Final[dict[str, tuple[str, Any, int, int]]] = {
    "the exporter does not answer": ("GpuExporterDown", exporter_down, 20, 1),
    "a GPU answers no more": ("GpuLost", lambda nodes: fleets.with_gpu(nodes, "turns", lost=True), 10, 1),
    "the only GPU answers no more": ("GpuLost", lambda nodes: fleets.with_gpu(nodes, "small", lost=True), 10, 1),
    "double bit errors": (
        "GpuMemoryError",
        lambda nodes: fleets.with_gpu(nodes, "alike", double_bit_errors=3, xids={48: 1, 94: 2}),
        10,
        50,
    ),
    "a row waits for a reset": (
        "GpuRowRemapPending",
        lambda nodes: fleets.with_gpu(nodes, "mixed", rows_pending=1, xids={63: 1}),
        5,
        1,
    ),
    "a row cannot be remapped": (
        "GpuRowRemapFailed",
        lambda nodes: fleets.with_gpu(nodes, "cut", rows_failed=1, xids={64: 1}),
        5,
        40,
    ),
    "it is too hot": (
        "GpuThrottled",
        lambda nodes: fleets.with_gpu(nodes, "served", clock_events={"sw_thermal": 7, "gpu_idle": 3, "power_cap": 4}),
        15,
        1,
    ),
    "time-sliced memory is full": ("GpuSharedMemoryNearlyFull", lambda nodes: full(nodes, "turns"), 15, 1),
    "memory of a time-sliced MIG instance is full": (
        "GpuSharedMemoryNearlyFull",
        lambda nodes: fleets.with_gpu(nodes, "cut", units=full(nodes, "cut")[_first(nodes, "cut")].gpus[0].units),
        15,
        1,
    ),
    "a whole GPU idles": ("GpuShareIdle", lambda nodes: idle(nodes, "whole"), 130, 1),
    "a MIG instance idles": ("GpuShareIdle", lambda nodes: idle(nodes, "mixed"), 130, 1),
    "one of the pods on a time-sliced GPU idles": ("GpuShareIdle", lambda nodes: idle(nodes, "turns"), 130, 1),
    **{
        f"Xid {number}": (one.alert, lambda nodes, n=number: fleets.with_gpu(nodes, "some", xids={n: 1}), 5, 40)
        for one in meanings()
        if one.alert
        for number in one.numbers
    },
}
#: What is no fault of the platform, although metrics show it.
NO_FAULTS: Final[dict[str, Any]] = {
    **{
        f"Xid {number}": lambda nodes, n=number: fleets.with_gpu(nodes, "some", xids={n: 1})
        for one in meanings()
        if not one.alert
        for number in one.numbers
    },
    "an Xid that nobody knows": lambda nodes: fleets.with_gpu(nodes, "some", xids={999: 1}),
    "a whole GPU's memory is full": lambda nodes: full(nodes, "whole"),
    "memory is full under MPS, which limits each client": lambda nodes: full(nodes, "served"),
    "an MPS client idles, which nobody can see": lambda nodes: idle(nodes, "served"),
    "a pod idles on a MIG instance that others use": lambda nodes: idle(nodes, "cut"),
    "power is capped": lambda nodes: fleets.with_gpu(nodes, "turns", clock_events={"power_cap": 10}),
    "no profiling fields": lambda nodes: fleets.with_gpu(nodes, "whole", profiling=False),
}


def _first(nodes: Fleet, pool: str) -> int:
    return next(index for index, node in enumerate(nodes) if node.pool == pool)


def course(name: str, nodes: Fleet, broken: Fleet, minutes: int, stays: int, alert: str | None) -> Case:
    """Well, broken, and well again."""
    upgraded: Mapping[str, float] = {UPGRADES: 0}
    case = Case(
        name, [(20 * MINUTE, nodes, upgraded), (minutes * MINUTE, broken, upgraded), ((stays + 20) * MINUTE, nodes, upgraded)]
    )
    begin, end = 20 * 60, (20 + minutes) * 60
    case.expected = [
        (begin - STEP, "", {}),
        (end - STEP, "", firing(alert) if alert else {}),
        (end + (stays + 15) * 60, "", {}),
    ]
    return names_only(case)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return fleets.plan_of()


def test_every_alert_has_a_fault_here() -> None:
    # That of the upgrade has a test of its own.
    assert {one.name for one in alerts()} == {alert for alert, *_ in FAULTS.values()} | {"GpuDriverUpgradeFailed"}


@pytest.mark.parametrize(
    "fault",
    these(FAULTS, ["a GPU answers no more", "double bit errors", "it is too hot", "time-sliced memory is full", "Xid 79"]),
)
def test_a_fault_raises_exactly_its_alert_and_it_goes_after_the_repair(plan: Plan, fault: str, tmp_path: Path) -> None:
    alert, breaks, minutes, stays = FAULTS[fault]
    nodes = healthy(plan, 7)
    hold(plan, [course(fault, nodes, breaks(nodes), minutes, stays, alert)], tmp_path)


def test_a_failed_upgrade_of_the_driver_raises_its_alert(plan: Plan, tmp_path: Path) -> None:
    nodes = healthy(plan, 8)
    case = Case("upgrade", [(10, nodes, {UPGRADES: 0}), (20, nodes, {UPGRADES: 2}), (10, nodes, {UPGRADES: 0})])
    case.expected = [(9 * STEP, "", {}), (29 * STEP, "", firing("GpuDriverUpgradeFailed")), (39 * STEP, "", {})]
    hold(plan, [names_only(case)], tmp_path)


def test_what_is_no_fault_of_the_platform_raises_nothing(plan: Plan, tmp_path: Path) -> None:
    nodes = healthy(plan, 9)
    hold(plan, [course(name, nodes, breaks(nodes), 130, 1, None) for name, breaks in NO_FAULTS.items()], tmp_path)


def test_an_alert_that_is_missing_is_noticed(plan: Plan, tmp_path: Path) -> None:
    nodes = healthy(plan, 7)
    done = run(plan, [course("nothing", nodes, nodes, 10, 1, "GpuLost")], tmp_path)
    assert done.returncode != 0


@pytest.mark.parametrize("seed", these(range(40), [0]))
def test_healthy_fleets_raise_nothing(seed: int, tmp_path: Path) -> None:
    """Twenty-five each: a thousand. Pods come and go among them, and each GPU is in use."""
    version = (fleets.NEWEST, fleets.OLD)[seed % 2]
    plan = fleets.plan_of(version=version)
    cases = []
    for number in range(seed * 25, (seed + 1) * 25):
        before, after = healthy(plan, number), healthy(plan, number + 100_000)
        case = Case(f"fleet {number}", [(60, before, {UPGRADES: 0}), (60, after, {UPGRADES: 0})])
        case.expected = [(seconds, "", {}) for seconds in (59 * STEP, 119 * STEP)]
        cases.append(names_only(case))
    hold(plan, cases, tmp_path)


def without(nodes: Fleet, gone: set[str]) -> Fleet:
    """While its partitions or its driver change a node's exporter is away, and no target."""
    return tuple(node for node in nodes if node.name not in gone)


def starting(nodes: Fleet, new: set[str]) -> Fleet:
    """An exporter that runs and has not collected yet does not answer, for less than a minute."""
    return tuple(replace(node, up=node.name not in new) for node in nodes)


def relaid(nodes: Fleet, pool: str) -> Fleet:
    """Another layout; the mode is on, and no instance is there yet, in `bare`."""
    return tuple(
        replace(node, gpus=tuple(replace(gpu, units=(Unit(memory=81920),)) for gpu in node.gpus)) if node.pool == pool else node
        for node in nodes
    )


@pytest.mark.parametrize("seed", these(range(20), [0]))
def test_planned_changes_raise_nothing(seed: int, tmp_path: Path) -> None:
    """Ten each, 200: a new layout, another driver, a node more and less, another number of replicas."""
    draw = Random(seed)  # noqa: S311
    plan = fleets.plan_of()
    cases = []
    for number in range(10):
        nodes = healthy(plan, seed * 10 + number)
        chosen = draw.sample([node.name for node in nodes], k=draw.randint(1, len(nodes)))
        gone, minutes = set(chosen), draw.randint(2, 60)
        other = fleets.fleet(plan, Random(number), busy=True)  # noqa: S311
        course_ = [
            (20, nodes, {UPGRADES: 0}),
            (minutes * MINUTE, without(nodes, gone), {UPGRADES: 0}),
            (2, starting(nodes, gone), {UPGRADES: 0}),
            (3 * MINUTE, relaid(nodes, draw.choice(["alike", "mixed"])), {UPGRADES: 0}),
            (40, other, {UPGRADES: 0}),
        ]
        case = Case(f"change {seed}.{number}", course_)
        case.expected = [(seconds, "", {}) for seconds in range(19 * STEP, case.seconds, 5 * 60)]
        cases.append(names_only(case))
    hold(plan, cases, tmp_path)
