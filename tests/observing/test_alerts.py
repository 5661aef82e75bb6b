"""Each fault raises exactly its alert, which goes after the repair; healthy fleets and planned changes raise none."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.observing.alerts import alerts
from gpu_pools.observing.xids import meanings
from sandbox.observing.exporter import Pod, Unit
from tests.observing import fleets, test_shares
from tests.observing.promtool import STEP, Case, hold, run
from tests.tiers import these

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from sandbox.observing.exporter import Node
    from tests.observing.promtool import Labels

pytestmark = [pytest.mark.programs, pytest.mark.sweep]
FIRING: Final = 'group by (alertname) (ALERTS{alertstate="firing"})'
#: Also those that would fire if it went on.
ANY: Final = "group by (alertname) (ALERTS)"
MINUTE: Final = 60 // STEP
Fleet = tuple["Node", ...]


def firing(*names: str) -> dict[Labels, float]:
    return {(("alertname", name),): 1 for name in names}


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


def only(nodes: Fleet, pools: set[str]) -> Fleet:
    return tuple(node for node in nodes if node.pool in pools)


def changed_pools(nodes: Fleet, changed: Fleet) -> set[str]:
    return {after.pool for before, after in zip(nodes, changed, strict=True) if before != after}


def course(name: str, nodes: Fleet, broken: Fleet, minutes: int, stays: int, alert: str) -> Case:
    """Well, broken, and well again; of the pool that breaks, and one more."""
    pools = changed_pools(nodes, broken) | {"whole"}
    well, ill, quiet = only(nodes, pools), only(broken, pools), {UPGRADES: 0.0}
    case = Case(name, [(10 * MINUTE, well, quiet), (minutes * MINUTE, ill, quiet), ((stays + 2) * MINUTE, well, quiet)])
    end = (10 + minutes) * 60
    case.expected = [(10 * 60 - STEP, ANY, {}), (end - STEP, FIRING, firing(alert)), (case.seconds, ANY, {})]
    return case


@pytest.fixture(scope="module")
def plan() -> Plan:
    return fleets.plan_of()


def test_every_alert_has_a_fault_here() -> None:
    # That of the upgrade has a test of its own; those of kube-state-metrics are in test_shares.py.
    others = {"GpuDriverUpgradeFailed"} | {alert for alert, *_ in test_shares.FAULTS.values()}
    assert {one.name for one in alerts(None)} == {alert for alert, *_ in FAULTS.values()} | others


@pytest.mark.parametrize(
    "fault",
    these(FAULTS, ["a GPU answers no more", "double bit errors", "it is too hot", "time-sliced memory is full", "Xid 79"]),
)
def test_a_fault_raises_exactly_its_alert_and_it_goes_after_the_repair(plan: Plan, fault: str, tmp_path: Path) -> None:
    alert, breaks, minutes, stays = FAULTS[fault]
    nodes = healthy(plan, 7)
    hold(plan, [course(fault, nodes, breaks(nodes), minutes, stays, alert)], tmp_path)


def test_a_failed_upgrade_of_the_driver_raises_its_alert(plan: Plan, tmp_path: Path) -> None:
    nodes = only(healthy(plan, 8), {"whole"})
    case = Case("upgrade", [(10, nodes, {UPGRADES: 0}), (20, nodes, {UPGRADES: 2}), (10, nodes, {UPGRADES: 0})])
    case.expected = [(9 * STEP, ANY, {}), (29 * STEP, FIRING, firing("GpuDriverUpgradeFailed")), (39 * STEP, ANY, {})]
    hold(plan, [case], tmp_path)


def test_what_is_no_fault_of_the_platform_raises_nothing(plan: Plan, tmp_path: Path) -> None:
    """Not even as what would fire later."""
    nodes, cases = healthy(plan, 9), []
    for name, breaks in NO_FAULTS.items():
        changed = breaks(nodes)
        pools = changed_pools(nodes, changed)
        assert pools, name
        case = Case(name, [(3, only(nodes, pools), {}), (4, only(changed, pools), {})])
        case.expected = [(case.seconds, ANY, {})]
        cases.append(case)
    hold(plan, cases, tmp_path)


def test_an_alert_that_is_missing_is_noticed(plan: Plan, tmp_path: Path) -> None:
    nodes = only(healthy(plan, 7), {"whole"})
    case = Case("nothing", [(5, nodes, {})])
    case.expected = [(4 * STEP, FIRING, firing("GpuLost"))]
    assert run(plan, [case], tmp_path).returncode != 0


@pytest.mark.parametrize("seed", these(range(100), [0], by_day=20))
def test_healthy_fleets_raise_nothing(seed: int, tmp_path: Path) -> None:
    """Ten each: a thousand. Pods come and go in them, and each GPU is in use."""
    version = (fleets.NEWEST, fleets.OLD)[seed % 2]
    plan = fleets.plan_of(version=version)
    cases = []
    for number in range(seed * 10, (seed + 1) * 10):
        before, after = healthy(plan, number), healthy(plan, number + 100_000)
        # One that would fire after hours is there at once, as pending.
        case = Case(f"fleet {number}", [(2, before, {}), (2, after, {})])
        case.expected = [(seconds, ANY, {}) for seconds in (STEP, 3 * STEP)]
        cases.append(case)
    hold(plan, cases, tmp_path)


def without(nodes: Fleet, gone: set[str]) -> Fleet:
    """While its partitions or its driver change a node's exporter is away, and no target."""
    return tuple(node for node in nodes if node.name not in gone)


def starting(nodes: Fleet, new: set[str]) -> Fleet:
    """An exporter that runs and has not collected yet does not answer, for a minute or two."""
    return tuple(replace(node, up=node.name not in new) for node in nodes)


def bare(nodes: Fleet, pool: str) -> Fleet:
    """MIG is on, and no instance is there yet."""
    return tuple(
        replace(node, gpus=tuple(replace(gpu, units=(Unit(memory=81920),)) for gpu in node.gpus)) if node.pool == pool else node
        for node in nodes
    )


@pytest.mark.parametrize("seed", these(range(40), [0], by_day=10))
def test_planned_changes_raise_nothing(seed: int, tmp_path: Path) -> None:
    """Five each, 200: another layout, another driver, nodes more and less, other pods."""
    draw = Random(seed)  # noqa: S311
    plan = fleets.plan_of()
    cases = []
    for number in range(5):
        parted = draw.choice(["alike", "mixed"])
        pools = {*draw.sample([*fleets.SHARING], k=2), parted}
        nodes, other = (only(healthy(plan, more + seed * 5 + number), pools) for more in (0, 100_000))
        gone, minutes = set(draw.sample([node.name for node in nodes], k=draw.randint(1, len(nodes)))), draw.randint(2, 30)
        times = [
            (3, nodes, {}),
            (minutes * MINUTE, without(nodes, gone), {}),
            (2, starting(nodes, gone), {}),
            (3 * MINUTE, bare(nodes, parted), {}),
            (5, other, {}),
        ]
        case = Case(f"change {seed}.{number}", times)
        case.expected = [(seconds, FIRING, {}) for seconds in range(2 * STEP, case.seconds + 1, STEP)]
        case.expected.append((case.seconds, ANY, {}))
        cases.append(case)
    hold(plan, cases, tmp_path)
