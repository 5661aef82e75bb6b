"""`gpu-pools usage` against a real Prometheus that has two hours of recorded series whose truth is known."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from gpu_pools.cli.main import main
from gpu_pools.observing import rules, shares
from gpu_pools.observing.series import DECLARED_GPUS
from gpu_pools.plan.planned import share_of_node
from gpu_pools.plan.planning import plan_config
from tests.observing.history import History, blocks
from tests.observing.prometheus import prometheus
from tests.tiers import at_night

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_pools.plan.planned import Plan

pytestmark = [pytest.mark.programs, pytest.mark.sweep, at_night("programs are built for it alone, which takes minutes")]
MINUTES: Final = 120
PRICE: Final = 3.0
SIZE: Final = "Standard_NC24ads_A100_v4"
STACK: Final[dict[str, Any]] = {
    "gpu-pools:cluster": {
        "platform": "aks",
        "name": "gpu-dev",
        "location": "westeurope",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
    },
    "gpu-pools:sharing": {
        "turns": {"timeSlicing": {"replicas": 4}},
        "parts": {"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}},
        "served": {"mps": {"replicas": 8}},
    },
    "gpu-pools:pools": [{"name": name, "vmSize": SIZE, "count": 1, "sharing": name} for name in ("turns", "parts", "served")]
    + [{"name": "away", "vmSize": SIZE, "nodes": {"min": 0, "max": 2}, "sharing": "turns"}],
    "gpu-pools:observability": {},
}


@dataclass
class Truth:
    """Hours by what."""

    of: dict[tuple[str, ...], float] = field(default_factory=dict)

    def add(self, minutes: float, *key: str) -> None:
        self.of[key] = self.of.get(key, 0) + minutes / 60


ALL: Final = range(-10, MINUTES + 20)


def steady(value: float) -> dict[int, float]:
    return dict.fromkeys(ALL, value)


def history(plan: Plan, draw: Random, truth: Truth, leave_out: frozenset[str]) -> History:
    made = History(int(time.time()) // 60 * 60)

    def put(name: str, labels: dict[str, str], values: dict[int, float]) -> None:
        if name not in leave_out:
            made.put(name, labels, values)

    for pool in plan.pools:
        put(DECLARED_GPUS, {"gpu_pool": pool.name}, steady(1))
        if pool.name == "away":
            continue
        node = {"instance": f"{pool.name}-0", "gpu_pool": pool.name}
        gpu = {**node, "gpu": "0", "UUID": f"GPU-{pool.name}"}
        put(shares.NODE_POOL, node, steady(1))
        put(rules.NODE_GPUS, node, steady(1))
        put(rules.GPU_ACTIVE, gpu, steady(0.25))
        for resource, count in pool.advertises.items():
            held = dict.fromkeys(ALL, 0.0)
            for number in range(count):
                first = draw.randint(20, MINUTES - 10)
                last = draw.randint(10, first - 5)
                idle = draw.randint(0, first - last + 1)
                during = range(last, first + 1)
                pod = {**node, "namespace": "team", "pod": f"{resource[11:]}-{number}"}
                put(shares.POD_ALLOCATED, {**pod, "resource": resource}, dict.fromkeys(during, 1.0))
                held = {ago: value + (ago in during) for ago, value in held.items()}
                truth.add(len(during), "allocated", pool.name, pod["pod"])
                if pool.name == "served":
                    truth.add(len(during), "unmeasured", pool.name, pod["pod"])
                    continue
                uses = {ago: 0.0 if ago < last + idle else 0.5 for ago in during}
                where = {**gpu, **({"GPU_I_ID": str(number), "GPU_I_PROFILE": "x"} if pool.name == "parts" else {})}
                own = {**where, **pod}
                put(rules.POD_ACTIVE, own, uses)
                put(rules.POD_IDLE, own, {ago: float(use < rules.IDLE_BELOW) for ago, use in uses.items()})
                truth.add(idle, "idle", pool.name, pod["pod"])
                truth.add(len(during) - idle, "used", pool.name, pod["pod"])
                cost = share_of_node(pool)[resource] * PRICE * idle
                truth.add(cost, "idle_cost", pool.name, pod["pod"])
            put(shares.NODE_ALLOCATABLE, {**node, "resource": resource}, steady(count))
            put(shares.NODE_ALLOCATED, {**node, "resource": resource}, held)
            truth.add(count * MINUTES, "offered", pool.name)
    return made


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_config(STACK)


@pytest.fixture
def stack(tmp_path: Path) -> str:
    path = tmp_path / "Pulumi.usage.yaml"
    path.write_text(yaml.safe_dump({"config": STACK}))
    (tmp_path / "prices.yaml").write_text(yaml.safe_dump({"currency": "EUR", "perHour": {SIZE: PRICE}}))
    return str(path)


@pytest.fixture
def asked(plan: Plan, stack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def ask(seed: int, *without: str, more: tuple[str, ...] = ("--json",)) -> tuple[int, Any, Truth]:
        truth = Truth()
        blocks(history(plan, Random(seed), truth, frozenset(without)), tmp_path)  # noqa: S311 the same every time
        # A sample counts for its own minute alone, as marks of the end would have it.
        with prometheus(tmp_path, {}, "--query.lookback-delta=1m") as running:
            code = main(
                ["usage", stack, "--prometheus", running.url, "--over", "2h", "--prices", str(tmp_path / "prices.yaml"), *more]
            )
        shown = capsys.readouterr()
        return code, json.loads(shown.out) if more == ("--json",) and code != 2 else shown.out + shown.err, truth

    return ask


def test_hours_and_costs_are_the_truth(asked: Any) -> None:
    code, found, truth = asked(1)
    assert code == 0
    assert (found["hours"], found["covered"], found["currency"]) == (2, 2, "EUR")
    told = {
        (what, pod["pool"], pod["pod"]): pod[what]
        for pod in found["pods"]
        for what in ("allocated", "used", "idle", "unmeasured")
    }
    told |= {("idle_cost", pod["pool"], pod["pod"]): pod["idle_cost"] for pod in found["pods"] if pod["pool"] != "served"}
    wanted = {key: value for key, value in truth.of.items() if len(key) == 3}
    assert {key: value for key, value in told.items() if value or key in wanted} == pytest.approx(
        {key: value for key, value in wanted.items() if value or key in told}
    )
    for pool in found["pools"]:
        if pool["pool"] == "away":
            assert (pool["nodes"], pool["allocated"], pool["cost"]) == (0, None, None)
            continue
        assert (pool["nodes"], pool["gpus"], pool["active"]) == pytest.approx((2, 2, 0.25))
        assert pool["offered"] == pytest.approx(truth.of["offered", pool["pool"]])
        assert pool["allocated"] == pytest.approx(sum(v for key, v in truth.of.items() if key[:2] == ("allocated", pool["pool"])))
        # What nodes cost is what shares cost: held by pods, or by nobody.
        assert pool["cost"] == pytest.approx(2 * PRICE)
        held = sum(pod["cost"] for pod in found["pods"] if pod["pool"] == pool["pool"])
        assert held + pool["free_cost"] == pytest.approx(pool["cost"])


@pytest.mark.parametrize(
    ("without", "unknown"),
    [
        ((shares.NODE_ALLOCATED, shares.POD_ALLOCATED), "kube-state-metrics is not scraped"),
        ((rules.GPU_ACTIVE,), "no exporter has told it"),
    ],
)
def test_what_a_prometheus_lacks_is_unknown(asked: Any, without: tuple[str, ...], unknown: str) -> None:
    code, shown, _ = asked(2, *without, more=())
    assert code == 3
    assert unknown in shown
    assert "?" in shown


def test_without_recorded_series_it_cannot_tell(asked: Any) -> None:
    code, shown, _ = asked(3, DECLARED_GPUS)
    assert code == 2
    assert "has no gpu_pools:declared_gpus:node" in shown


def test_the_table(asked: Any) -> None:
    code, shown, _ = asked(1, more=())
    assert code == 0
    lines = shown.splitlines()
    assert lines[0] == "The last 2.0 hours, of which 2.0 are recorded; all in hours."
    assert "COST EUR" in lines[2]
    assert "Pods, most idle first" in lines
    assert "Of away no node was seen" in lines[-1]
