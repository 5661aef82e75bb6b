"""All bad and good programs of the rules, through the real engine with the pack: each bad one is stopped by the intended rule and
only it, no good one is stopped.

A preview costs a second or more, so programs that do not touch one another share one: each keeps its resources under names of its
own, and every finding of the engine is a resource's. Whether programs touch one another is asked of the rules themselves: two may
share a preview if they are judged together as they are judged alone.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.policies.kinds import CONFIG_MAP
from tests.engine.pack_preview import Preview
from tests.policies.programs import ALLOWED, BAD, GOOD, Program
from tests.policies.test_rules import verdicts_under
from tests.tiers import at_night

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_pools.policies.described import Resource
    from tests.engine.pack_preview import Finding, Previewed

pytestmark = [
    pytest.mark.engine,
    pytest.mark.programs,
    pytest.mark.sweep,
    at_night("the rules judge the same programs in seconds, and of each kind one is previewed by day"),
]

AT_ONCE: Final = 2
SUMS: Final = {"max-gpus", "max-cost"}


@dataclass(frozen=True)
class Case:
    """One program with resources of names of its own; `rule` is what stops it, or ``""``."""

    name: str
    rule: str
    resources: tuple[Resource, ...]
    limits: dict[str, dict[str, Any]]
    alone: Counter[tuple[str, str]]


def _case(number: int, name: str, rule: str, about: str, given: Program) -> Case:
    names = {one.urn: f"p{number}-{one.name}" for one in given.resources}
    urns = {urn: f"{urn.rpartition('::')[0]}::{own}" for urn, own in names.items()}
    resources = tuple(
        dataclasses.replace(
            one,
            inputs=_with_made_up_name(one, names[one.urn]),
            name=names[one.urn],
            urn=urns[one.urn],
            dependencies=frozenset(urns.get(urn, urn) for urn in one.dependencies),
            parent=urns.get(one.parent, one.parent),
        )
        for one in given.resources
    )
    limits = {about: given.limits} if given.limits else {}
    return Case(name, rule, resources, limits, _found(resources, limits))


def _with_made_up_name(one: Resource, name: str) -> dict[str, Any]:
    """The inputs; a name that the provider made up of the resource's is made up of its new one."""
    written = one.inputs.get("name")
    made_up = isinstance(written, str) and written.startswith(f"{one.name}-")
    return {**one.inputs, "name": f"{name}{written.removeprefix(one.name)}"} if made_up else dict(one.inputs)


def _cases() -> list[Case]:
    given = [(f"{rule}-{n}", rule, rule, one) for rule, programs in BAD.items() for n, one in enumerate(programs)]
    given += [(name, "", "", one) for name, one in GOOD.items()]
    given += [(f"allowed: {rule}", "", rule, one) for rule, one in ALLOWED.items()]
    return [_case(number, *one) for number, one in enumerate(given)]


def _owner(resource: str) -> str:
    """The program of a resource: which of its resources a rule names may depend on their order, which is the engine's."""
    return resource.partition("-")[0]


def _found(resources: tuple[Resource, ...], limits: dict[str, dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((one.rule, _owner(one.resource.name)) for one in verdicts_under(resources, limits))


def _order_is_nothing(resources: tuple[Resource, ...], limits: dict[str, dict[str, Any]]) -> bool:
    """Whether programs may lie together although the engine tells their resources in any order.

    Rules follow names to ConfigMaps, so those of one name must be equal; and sums are told once, of whichever pool comes first.
    """
    maps = [one.inputs for one in resources if one.type == CONFIG_MAP]
    by_name = {str(one["metadata"].get("name")): one for one in maps}
    alone = len({_owner(one.name) for one in resources}) == 1
    return alone or (all(by_name[str(one["metadata"].get("name"))] == one for one in maps) and not SUMS & set(limits))


class Group:
    """Programs that share a preview."""

    def __init__(self) -> None:
        self.resources: tuple[Resource, ...] = ()
        self.limits: dict[str, dict[str, Any]] = {}
        self.expected: Counter[tuple[str, str]] = Counter()

    def takes(self, case: Case) -> bool:
        """Add the program, unless it and those that are here touch one another."""
        if any(self.limits.get(rule, limits) != limits for rule, limits in case.limits.items()):
            return False
        resources, limits = (*self.resources, *case.resources), {**self.limits, **case.limits}
        expected = self.expected + case.alone
        if not _order_is_nothing(resources, limits) or _found(resources, limits) != expected:
            return False
        self.resources, self.limits, self.expected = resources, limits, expected
        return True


def _preview(folder: Path, groups: list[Group]) -> list[tuple[Group, Previewed]]:
    """One after the other, every rule being mandatory."""
    engine = Preview(folder)
    return [(group, engine.of(Program(group.resources), {"all": "mandatory", **group.limits})) for group in groups]


CASES: Final = _cases()


@pytest.fixture(scope="module")
def previews(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Group, Previewed]]:
    groups: list[Group] = []
    for case in CASES:
        if not any(group.takes(case) for group in groups):
            groups.append(Group())
            assert groups[-1].takes(case)
    folder = tmp_path_factory.mktemp("programs")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        lanes = pool.map(lambda lane: _preview(folder / str(lane), groups[lane::AT_ONCE]), range(AT_ONCE))
        return [one for lane in lanes for one in lane]


def test_there_are_at_least_120_programs() -> None:
    assert len(CASES) >= 120
    assert {case.rule for case in CASES} == {"", *BAD}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_program_is_stopped_by_the_intended_rule_or_by_none(case: Case, previews: list[tuple[Group, Previewed]]) -> None:
    mine = {one.name for one in case.resources}
    (done,) = [done for group, done in previews if mine <= {one.name for one in group.resources}] if mine else [None]
    findings: list[Finding] = [one for one in done.findings if one.resource in mine] if done else []
    assert {one.rule for one in findings} == ({case.rule} - {""}), done and done.text
    assert {one.level for one in findings} <= {"mandatory"}
    assert done is None or not case.rule or done.code != 0


def test_the_engine_finds_what_the_rules_find_and_stops_exactly_then(previews: list[tuple[Group, Previewed]]) -> None:
    for group, done in previews:
        found = Counter((one.rule, _owner(one.resource)) for one in done.findings)
        assert (found - group.expected, group.expected - found) == (Counter(), Counter()), done.text
        assert (done.code != 0) == bool(group.expected), done.text
