"""Every rule stops what it is for, and only that; what is right is left alone."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.plan.planning import plan_config
from gpu_pools.policies import kinds
from gpu_pools.policies.acknowledged import acknowledged_by
from gpu_pools.policies.described import Stack, Unknown
from gpu_pools.policies.judging import RuleSettings, Undecided, Violation, judge
from gpu_pools.policies.rules import RULES
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL
from gpu_pools.text.incidents import link
from tests.unit.golden import golden

from .programs import (
    ALLOWED,
    BAD,
    GOOD,
    OPERATOR,
    Program,
    acknowledging,
    by_rollout,
    made,
    operator,
    pod,
    pool,
    program,
    sharing,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.policies.described import Resource
    from gpu_pools.policies.judging import Verdict
    from gpu_pools.policies.rule import Rule

TODAY = dt.date(2027, 1, 1)
#: Rules that judge options, parents and dependencies of resources, which are always known.
BY_OPTIONS = {"clusters-protected", "pools-protected", "charts-as-releases", "node-groups-chained"}


def verdicts(given: Program, about: str = "", rules: tuple[Rule, ...] = RULES) -> list[Verdict]:
    """What all rules say of a program, the limits being those of the rule in question."""
    return verdicts_under(given.resources, {about: given.limits}, rules)


def verdicts_under(
    resources: tuple[Resource, ...], limits: Mapping[str, Mapping[str, Any]], rules: tuple[Rule, ...] = RULES
) -> list[Verdict]:
    """What all rules say of resources, with limits by rule."""
    found: list[Verdict] = []
    for rule in rules:
        settings = RuleSettings({limit.name: limit.default for limit in rule.limits} | dict(limits.get(rule.name, {})))
        if rule.whole:
            found += judge(rule, Stack(resources), settings, TODAY)
        else:
            for resource in resources:
                found += judge(rule, Stack((resource,)), settings, TODAY)
    return found


@pytest.mark.parametrize(("name", "index"), [(name, index) for name, programs in BAD.items() for index in range(len(programs))])
def test_a_bad_program_is_stopped_by_the_intended_rule_and_only_it(name: str, index: int) -> None:
    found = verdicts(BAD[name][index], name)
    assert {one.rule for one in found if isinstance(one, Violation)} == {name}
    assert not [one for one in found if isinstance(one, Undecided)]


def test_what_is_said_of_bad_programs_is_what_somebody_has_read() -> None:
    """After a wanted change: ``UPDATE_GOLDEN=1 venv/bin/pytest tests/policies/test_rules.py``, then read the difference."""
    told: list[str] = []
    for name, programs in BAD.items():
        texts = [one.text.splitlines() for given in programs for one in verdicts(given, name)]
        # Why, repair and see are the rule's own: once.
        told += [f"--- {name}", *texts[0][1:], *(f"- {text[0]}" for text in texts), ""]
    golden("policies.txt", "\n".join(told))


#: No plan lets both partition, and this rule looks at one resource alone (tests/unit/test_rollouts.py).
ONE_RESOURCE = {"one-mig-owner"}
OF_POOLS = [(name, index) for name, programs in BAD.items() for index, one in enumerate(programs) if by_rollout(one) != one]


@pytest.mark.parametrize(("name", "index"), [case for case in OF_POOLS if case[0] not in ONE_RESOURCE])
def test_with_a_rollout_a_bad_pool_is_stopped_as_without(name: str, index: int) -> None:
    found = verdicts(by_rollout(BAD[name][index]), name)
    assert {one.rule for one in found if isinstance(one, Violation)} == {name}
    assert not [one for one in found if isinstance(one, Undecided)]


@pytest.mark.parametrize("name", GOOD)
def test_with_a_rollout_a_good_program_is_left_alone(name: str) -> None:
    assert verdicts(by_rollout(GOOD[name])) == []


@pytest.mark.parametrize("name", ["own label", "in turn"])
def test_an_empty_pool_is_selected_by_no_label_that_nodes_get_in_their_turn(name: str) -> None:
    left: Any = {"options": {"ignore_changes": ("count",)}, "enableAutoScaling": True, "minCount": 0, "maxCount": 2}
    whole = {"nodeLabels": {kinds.CONFIG_LABEL: "whole"}}
    given = program(pool(**left, **whole), sharing(), pod(nodeSelector={kinds.CONFIG_LABEL: "whole"}))
    found = verdicts(given if name == "own label" else by_rollout(given))
    assert [one.rule for one in found if isinstance(one, Violation)] == (["selectable-from-zero"] if name == "in turn" else [])


@pytest.mark.parametrize("name", GOOD)
def test_a_good_program_is_left_alone(name: str) -> None:
    assert verdicts(GOOD[name]) == []


@pytest.mark.parametrize("name", ALLOWED)
def test_what_an_organisation_allows_is_left_alone(name: str) -> None:
    assert verdicts(ALLOWED[name], name) == []


def test_each_rule_has_a_program_that_only_it_stops() -> None:
    """So that removing any rule makes a test fail; a new rule needs its program."""
    assert [rule.name for rule in RULES] == list(dict.fromkeys(rule.name for rule in RULES))
    assert {rule.name for rule in RULES} == set(BAD)
    assert {rule.name for rule in RULES if rule.limits} >= set(ALLOWED)


def test_a_pool_that_is_known_to_be_verified_needs_no_other_verification() -> None:
    """An unknown pool of another one leaves it so; a pool that only that one may be of cannot be judged."""
    unknown = made(kinds.VERIFICATION, "other", {"pool": Unknown()})
    known = made(kinds.VERIFICATION, "known", {"pool": "a"})
    for name, places in (("a", []), ("b", [("pool",)])):
        given = program(operator(), pool(agentPoolName=name), unknown, known, required=True)
        found = verdicts(given, "nodes-verified", tuple(rule for rule in RULES if rule.name == "nodes-verified"))
        assert [one.places for one in found if isinstance(one, Undecided)] == places
        assert not [one for one in found if isinstance(one, Violation)]


def test_a_pool_that_is_replaced_is_known_by_its_label_and_not_by_azure_s_name() -> None:
    labels = {POOL_LABEL: "serving", REPLACEMENT_LABEL: "35f359"}
    replaced_by_surge = pool(agentPoolName="servin35f359", nodeLabels=labels)
    for verified, stopped in (("serving", False), ("servin35f359", True)):
        given = program(operator(), replaced_by_surge, made(kinds.VERIFICATION, "one", {"pool": verified}), required=True)
        found = verdicts(given, "nodes-verified", tuple(rule for rule in RULES if rule.name == "nodes-verified"))
        assert [isinstance(one, Violation) for one in found] == [True] * stopped


@pytest.mark.parametrize("name", BAD)
def test_without_the_rule_nothing_stops_its_programs(name: str) -> None:
    others = tuple(rule for rule in RULES if rule.name != name)
    for given in BAD[name]:
        assert not [one for one in verdicts(given, name, others) if isinstance(one, Violation)]


@pytest.mark.parametrize("name", BAD)
def test_messages_say_what_where_why_and_how_to_repair(name: str) -> None:
    rule = next(rule for rule in RULES if rule.name == name)
    (first, *_) = [one for one in verdicts(BAD[name][0], name) if isinstance(one, Violation)]
    what, why, repair, *see = first.text.splitlines()
    assert "".join(see) == (f"see:    {', '.join(map(link, rule.incidents))}" if rule.incidents else "")
    assert what.startswith(f"{first.resource.name}: ")
    assert why.startswith("why:    ")
    assert all(incident in why for incident in rule.incidents)
    assert repair.startswith("repair: ")


class TestAcknowledged:
    """What the stack's own configuration acknowledges needs no protection, and nothing else is let through."""

    def _pools(self, *entries: tuple[str, str], **inputs: Any) -> list[Verdict]:
        return self._of("pools-protected", pool("gpu-train-pool", agentPoolName="train", **inputs), *entries)

    def _of(self, name: str, one: Resource, *entries: tuple[str, str], **cluster: Any) -> list[Verdict]:
        (rule,) = [rule for rule in RULES if rule.name == name]
        known = acknowledged_by(acknowledging(*entries, **cluster))
        return list(judge(rule, Stack((one,), known), RuleSettings({"required": True}), TODAY))

    def test_a_pool_that_is_acknowledged_as_what_it_is_declared_to_be_passes(self) -> None:
        train, other = plan_config(acknowledging(), complete=False).pools
        assert self._pools(("train", train.change)) == []
        for entry in (("train", "c00000000"), ("other", other.change), ("other", train.change)):
            assert [type(one) for one in self._pools(entry)] == [Violation]

    def test_a_cluster_passes_by_its_own_acknowledgement_and_its_pools_with_it(self) -> None:
        change = plan_config(acknowledging(protect=True), complete=False).change
        whole = ("cluster", change)
        for name, found in (("prod", []), ("another", [Violation])):
            cluster = made(kinds.MANAGED_CLUSTER, "aks", {"resourceName": name})
            assert [type(one) for one in self._of("clusters-protected", cluster, whole, protect=True)] == found
        assert self._pools(whole) == []

    def test_a_pool_is_not_protected_for_sure_while_another_change_of_it_stands_there(self) -> None:
        """The engine keeps what is protected both in its state and in the program; in the state it may be no more."""
        protected = pool("gpu-train-pool", options={"protect": True}, agentPoolName="train")
        change = plan_config(acknowledging(), complete=False).pools[0].change
        (found,) = self._of("pools-protected", protected, ("train", "c00000000"))
        assert isinstance(found, Violation)
        assert "an acknowledgement of another change" in found.text
        for entries in ([], [("other", "c00000000")], [("train", "c00000000"), ("train", change)]):
            assert self._of("pools-protected", protected, *entries) == []

    def test_what_was_never_declared_as_protected_is_not_let_through(self) -> None:
        whole = ("cluster", plan_config(acknowledging(), complete=False).change)
        cluster = made(kinds.MANAGED_CLUSTER, "aks", {"resourceName": "prod"})
        assert [type(one) for one in self._of("clusters-protected", cluster, whole)] == [Violation]

    @pytest.mark.parametrize("unknown", ["agentPoolName", "vmSize"])
    def test_a_pool_that_cannot_be_told_is_neither_let_through_nor_stopped(self, unknown: str) -> None:
        entry = ("train", plan_config(acknowledging(), complete=False).pools[0].change)
        one = pool("gpu-train-pool", **{"agentPoolName": "train", unknown: Unknown()})
        assert [type(found) for found in self._of("pools-protected", one, entry)] == [Undecided]

    @pytest.mark.parametrize("config", [{}, {"gpu-pools:acknowledged": "all"}, {"gpu-pools:acknowledged": []}])
    def test_stacks_that_are_not_planned_here_acknowledge_nothing(self, config: dict[str, object]) -> None:
        assert acknowledged_by(config) == {}


class TestUnknownValues:
    """A rule that meets an unknown says so, and the others go on."""

    @pytest.mark.parametrize("name", sorted(set(BAD) - BY_OPTIONS))
    def test_with_nothing_known_a_rule_neither_passes_nor_fails(self, name: str) -> None:
        for given in BAD[name]:
            # That there is an operator is known by the type alone.
            if name == "nodes-verified" and {one.type for one in given.resources} & set(kinds.CLUSTER_POLICIES):
                continue
            hidden = tuple(_with_inputs(one, dict.fromkeys(one.inputs, Unknown())) for one in given.resources)
            found = [one for one in verdicts(Program(hidden, given.limits), name) if one.rule == name]
            assert {type(one) for one in found} == {Undecided}

    def test_an_unknown_size_is_not_taken_for_an_allowed_one(self) -> None:
        (found,) = [
            one for one in verdicts(program(pool(vmSize=Unknown()), sizes=[]), "allowed-sizes") if one.rule == "allowed-sizes"
        ]
        assert isinstance(found, Undecided)
        assert found.places == ("vmSize",)
        assert found.text == "gpu: cannot be judged, not known before the deploy: vmSize"

    def test_an_unknown_part_hides_nothing_in_the_others(self) -> None:
        two = pod()
        broken = {"name": "b", "resources": {"limits": {"nvidia.com/gpu.shared": "3"}}}
        inputs = {"spec": {"containers": [{"resources": {"limits": Unknown()}}, broken]}}
        found = [one for one in verdicts(program(_with_inputs(two, inputs))) if one.rule == "one-share-per-container"]
        assert [type(one) for one in found] == [Violation, Undecided]

    def test_what_is_known_is_judged_beside_what_is_not(self) -> None:
        values = {**OPERATOR["values"], "operator": {"cleanupCRD": True}, "driver": {"version": Unknown()}}  # type: ignore[dict-item]
        found = {one.rule: type(one) for one in verdicts(program(_values(values)))}
        assert found["crds-kept"] is Violation
        assert found["driver-upgrade-drains"] is Undecided
        assert "release-has-time" not in found

    def test_a_cluster_that_is_not_there_yet_hides_nothing_of_the_inputs(self) -> None:
        given = program(pool(resourceName=Unknown(), scaleSetPriority="Spot"), sharing())
        assert {one.rule for one in verdicts(given)} == {"spot-taint-written"}


def _with_inputs(resource: Any, inputs: dict[str, Any]) -> Any:
    return type(resource)(
        resource.type, resource.name, resource.urn, inputs, resource.dependencies, resource.parent, resource.protect
    )


def _values(values: dict[str, Any]) -> Any:
    return _with_inputs(operator(), {**operator().inputs, "values": values})


def test_the_order_of_resources_does_not_matter() -> None:
    """Engines list a program's resources in any order."""
    chained = GOOD["chained node groups"].resources
    assert verdicts(Program(chained[::-1])) == []
    two = BAD["node-groups-chained"][1].resources
    assert {one.rule for one in verdicts(Program(two[::-1]))} == {"node-groups-chained"}
