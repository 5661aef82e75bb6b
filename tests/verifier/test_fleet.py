"""What verifiers cost the API, counted by the API server itself: a small fleet, as benchmarks/fleet.py has a large one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_pools.verifier.findings import Verdict
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.verifier.fleet import MOST_PER_HOUR, NODES, Fleet, most_per_hour

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from gpu_pools.verifier.observation import Assertion

pytestmark = pytest.mark.programs

COUNT = 12
#: What one node's verifier asks for: (verb, resource) -> times.
READING = {("GET", "nodes"): 1, ("LIST", "pods"): 2, ("GET", "configmaps"): 1}
MARK = {("GET", "nodes"): 1, ("PATCH", "nodes/status"): 1}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"), find_tools(Progress()), COUNT)
    yield made
    made.end()


def all_hold(assertions: list[Assertion]) -> None:
    assert len(assertions) == COUNT
    for one in assertions:
        found = [*one.findings.differences, *one.findings.unknown]
        assert one.findings.verdict is Verdict.HOLDS, [(finding.field, finding.observed) for finding in found]


def asked(before: Counter[tuple[str, str]], after: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """What verifiers ask for; the API server has some business of its own, with other things."""
    names = READING.keys() | MARK.keys() | {("WATCH", "nodes"), ("PATCH", "nodes"), ("LIST", "nodes")}
    return {name: after[name] - before[name] for name in names if after[name] != before[name]}


def times(*parts: tuple[dict[tuple[str, str], int], int]) -> dict[tuple[str, str], int]:
    """The sum over all nodes of so many times each part."""
    names = {name for part, _ in parts for name in part}
    return {name: COUNT * sum(part.get(name, 0) * number for part, number in parts) for name in names}


@pytest.mark.sweep
def test_a_first_assertion_reads_twice_and_each_later_one_of_an_undisturbed_node_once(fleet: Fleet) -> None:
    begin = fleet.requests()
    all_hold(fleet.assert_all())
    first = fleet.requests()
    assert asked(begin, first) == times((READING, 2), (MARK, 1))
    all_hold(fleet.assert_all())
    second = fleet.requests()
    assert asked(first, second) == times((READING, 1), (MARK, 1))
    per_assertion = sum(asked(first, second).values()) / COUNT
    assert most_per_hour(per_assertion) < MOST_PER_HOUR


def test_one_report_of_all_nodes_needs_two_lists(fleet: Fleet) -> None:
    all_hold(fleet.assert_all())
    before = fleet.requests()
    done, evidence = fleet.report()
    assert done.returncode == 0, done.stdout + done.stderr
    nodes = [node for pool in evidence["pools"] for node in pool["nodes"]]
    assert sorted(node["verdict"] for node in nodes) == ["proven"] * COUNT
    asked_for = {
        name: number for name, number in (fleet.requests() - before).items() if name[1] in {"nodes", "configmaps", "pods"}
    }
    assert asked_for == {("LIST", "nodes"): 1, ("LIST", "configmaps"): 1}


def test_a_mark_wakes_no_verifier_and_a_change_of_a_node_wakes_its_own_only(fleet: Fleet) -> None:
    fleet.follow_all()
    assert fleet.watches() == COUNT
    all_hold(fleet.assert_all())
    chosen = fleet.verifiers[3]
    fleet.admin.patch(f"{NODES}/{chosen.node}", {"metadata": {"labels": {"example.com/changed": "1"}}})
    fleet.wait_until(lambda: chosen.woken > 0, "The node's verifier is woken")
    # Events of a node come in order: that of the mark came before that of the label.
    assert [verifier.woken for verifier in fleet.verifiers] == [int(verifier is chosen) for verifier in fleet.verifiers]
    # What has changed is looked at twice.
    before = fleet.requests()
    assert chosen.assert_and_mark().findings.verdict is Verdict.HOLDS
    assert sum(asked(before, fleet.requests()).values()) == 2 * sum(READING.values()) + sum(MARK.values())
