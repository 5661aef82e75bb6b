"""What verifiers say raises exactly its alert, by the real promtool; a healthy node and a planned change raise none."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from gpu_pools.observing import rules
from gpu_pools.observing.alerts import alerts
from gpu_pools.observing.objects import prometheus_rule_spec
from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.metrics import metrics
from gpu_pools.verifier.observation import Assertion, Observation
from tests.observing import fleets
from tests.observing.promtool import STEP, Case, hold, promtool, run
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gpu_pools.plan.planned import Plan
    from sandbox.observing.exporter import Node
    from tests.observing.promtool import Labels

pytestmark = [pytest.mark.programs, pytest.mark.sweep]
FIRING: Final = 'group by (alertname, instance) (ALERTS{alertstate="firing"})'
ANY: Final = "group by (alertname, instance) (ALERTS)"
#: Minutes between two assertions, as the section has it where nothing is said.
EVERY: Final = 5
HOLDS, DIFFERS, CANNOT_TELL, DOWN, ABSENT, STUCK = "holds", "differs", "cannot tell", "down", "absent", "stuck"
_SAMPLE: Final = re.compile(r"(\w+)\{(.*)\} (\S+)")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_config(fleets.stack(pools=("whole", "alike")) | {"gpu-pools:verification": {}})


@pytest.fixture(scope="module")
def fleet(plan: Plan) -> tuple[Node, ...]:
    found = fleets.fleet(plan, Random(3), busy=True)  # noqa: S311 the same every time
    first = {node.pool: node for node in reversed(found)}
    return tuple(replace(node, name=pool) for pool, node in first.items())


def exposed(node: nodes.Node, findings: Findings, at: float) -> str:
    assertion = Assertion(findings, Observation(node.nvml, node.mps, node.kubernetes), looks=2, seconds=0.2)
    return metrics(node.expected, assertion, finished=at, runs=1)


def told(plan: Plan, pool: str, state: str, at: float) -> dict[str, float]:
    """A scrape of the verifier of a pool's node: series -> value."""
    target = f'instance="{pool}", job="{VERIFIER_APP}", gpu_pool="{pool}"'
    if state in {DOWN, ABSENT}:
        return {f"up{{{target}}}": 0.0} if state == DOWN else {}
    pool_plan = next(one for one in plan.pools if one.name == pool)
    node = nodes.healthy(plan, pool_plan, pool)
    findings = Findings()
    if state == DIFFERS:
        findings.differs(Where("node"), "GPU count", 2, 1, "gpu-missing")
    if state == CANNOT_TELL:
        findings.cannot_tell(Where("pods"), "answer of the API", "200", "403", "api-permission")
    text = exposed(node, findings, at)
    samples = (_SAMPLE.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))
    return {f"up{{{target}}}": 1.0} | {f"{one[1]}{{{target}, {one[2]}}}": float(one[3]) for one in samples if one}


def course(plan: Plan, fleet: Sequence[Node], states: Sequence[tuple[int, str]]) -> Case:
    """The verifier of the first pool's node in these states, so many minutes each; that of the other is well."""

    def steps() -> Iterator[tuple[int, Sequence[Node], Mapping[str, float]]]:
        now, last = 0, 0.0
        for minutes, state in states:
            for begin in range(0, minutes, EVERY):
                last = last if state == STUCK else now * 60.0
                first, second = (one.pool for one in fleet)
                others = told(plan, first, state, last) | told(plan, second, HOLDS, now * 60.0)
                length = min(EVERY, minutes - begin)
                yield length * 60 // STEP, fleet, others
                now += length

    return Case(" ".join(f"{state} {minutes}" for minutes, state in states), list(steps()))


def firing(name: str, instance: str) -> dict[Labels, float]:
    return {(("alertname", name), ("instance", instance)): 1}


#: State -> its alert, and after how many minutes it is raised at the latest; before ten of these it is not.
FAULTS: Final[dict[str, tuple[str, int]]] = {
    DIFFERS: ("GpuNodeNotAsDeclared", 16),
    CANNOT_TELL: ("GpuNodeUnverified", 16),
    DOWN: ("GpuNodeUnverified", 16),
    # Three intervals and an assertion, then as the others.
    STUCK: ("GpuNodeUnverified", 38),
    # The deadline of the verification, and a quarter of an hour.
    ABSENT: ("GpuVerifierAbsent", 36),
}


@pytest.mark.parametrize("pool", ["whole", "alike"])
def test_prometheus_own_linter_finds_nothing_in_what_a_verifier_tells(plan: Plan, pool: str) -> None:
    findings = Findings()
    findings.differs(Where("node"), "GPU count", 2, 1, "gpu-missing")
    text = exposed(nodes.healthy(plan, next(one for one in plan.pools if one.name == pool), pool), findings, 1.5)
    assert promtool("check", "metrics", read=text).returncode == 0
    assert promtool("check", "metrics", read=text.replace("# HELP gpu_pools_verified", "# HELP other")).returncode != 0


def test_each_state_raises_its_alert_at_its_node_alone_and_it_goes_again(
    plan: Plan, fleet: tuple[Node, ...], tmp_path: Path
) -> None:
    cases = []
    for state, (alert, minutes) in FAULTS.items():
        case = course(plan, fleet, [(10, HOLDS), (minutes + 4, state), (10, HOLDS)])
        case.expected = [
            ((10 + minutes - 10) * 60, FIRING, {}),
            ((10 + minutes) * 60, FIRING, firing(alert, fleet[0].pool)),
            (case.seconds, ANY, {}),
        ]
        cases.append(case)
    hold(plan, cases, tmp_path)


def test_a_healthy_fleet_and_a_planned_change_raise_none(plan: Plan, fleet: tuple[Node, ...], tmp_path: Path) -> None:
    well = course(plan, fleet, [(90, HOLDS)])
    well.expected = [(minute * 60, ANY, {}) for minute in range(0, 90, 10)]
    # The node is told to be another one, its verifier starts anew and waits for it, and it is.
    changed = course(plan, fleet, [(10, HOLDS), (10, DIFFERS), (20, ABSENT), (30, HOLDS)])
    changed.expected = [(minute * 60, FIRING, {}) for minute in range(0, 70, 5)] + [(changed.seconds, ANY, {})]
    hold(plan, [well, changed], tmp_path)


def test_verdict_and_age_are_recorded_by_node(plan: Plan, fleet: tuple[Node, ...], tmp_path: Path) -> None:
    case = course(plan, fleet, [(20, DIFFERS)])
    nodes: list[Labels] = [(("gpu_pool", node.pool), ("instance", node.name)) for node in fleet]
    case.expected = [(case.seconds, f"{rules.NODE_VERIFIED} + 0", dict(zip(nodes, (0, 1), strict=True)))]
    # The last assertion ended with the last five minutes' begin.
    case.expected.append((case.seconds, f"{rules.NODE_REPORT_AGE} + 0", dict.fromkeys(nodes, case.seconds - 15 * 60)))
    hold(plan, [case], tmp_path)


def test_a_wrong_answer_is_noticed(plan: Plan, fleet: tuple[Node, ...], tmp_path: Path) -> None:
    case = course(plan, fleet, [(10, HOLDS), (20, DIFFERS)])
    case.expected = [(case.seconds, FIRING, {})]
    assert run(plan, [case], tmp_path).returncode != 0


def test_every_alert_on_verifiers_is_tried_and_there_are_none_without_them(plan: Plan) -> None:
    without = {one.name for one in alerts(None)}
    assert {one.name for one in alerts(plan.settings.verification)} - without == {alert for alert, _ in FAULTS.values()}
    of_none = prometheus_rule_spec(plan_config(fleets.stack(pools=("whole",))))
    assert not any(alert in str(of_none) for alert, _ in FAULTS.values())
