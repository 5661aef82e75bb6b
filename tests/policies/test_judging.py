"""What happens between a predicate and its verdict: secrets, exceptions, settings."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.policies.described import Resource, Secret, Stack, Unknown
from gpu_pools.policies.exceptions import parse_exemptions
from gpu_pools.policies.judging import Excepted, RuleSettings, Undecided, Violation, judge, read_settings
from gpu_pools.policies.reading import Field, Trace, UnknownMetError
from gpu_pools.policies.rule import Case, Found, Limit, Rule
from gpu_pools.policies.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TODAY = dt.date(2027, 1, 1)


def _big(case: Case) -> Iterator[Found]:
    place = case.inputs.at("a", "size")
    if (place.number() or 0) > case.limits["most"]:
        yield Found(place.path, f"{place.value()} is too much")


RULE = Rule(
    name="small",
    title="Things are small",
    incidents=("X01",),
    types=("thing",),
    judge=_big,
    why="big things break",
    repair="Make it smaller.",
    limits=(Limit("most", {"type": "integer"}, 5),),
)


def thing(size: object, name: str = "one") -> Resource:
    return Resource("thing", name, f"urn::{name}", {"a": {"size": size}})


def verdicts(*things: Resource, **written: Any) -> list[Any]:
    return list(judge(RULE, Stack(things), read_settings(RULE, written), TODAY))


def exception(**changed: str) -> list[dict[str, str]]:
    return [{"resource": "one", "reason": "until the move is done", "until": "2027-01-01", **changed}]


class TestValues:
    """Known, unknown, secret, absent."""

    def test_a_known_value_is_judged_and_printed(self) -> None:
        (found,) = verdicts(thing(9))
        told = ("one: a.size: 9 is too much", "why:    big things break (X01)", "repair: Make it smaller.")
        assert found.text.splitlines() == [*told, "see:    docs/reference/rules.md#x01"]

    def test_an_unknown_value_is_neither_right_nor_wrong(self) -> None:
        (found,) = verdicts(thing(Unknown()))
        assert found == Undecided("small", thing(Unknown()), ("a.size",))

    def test_a_secret_value_is_judged_and_not_printed(self) -> None:
        (found,) = verdicts(thing(Secret(987654)))
        assert isinstance(found, Violation)
        assert "987654" not in found.text
        assert "secret" in found.text
        assert verdicts(thing(Secret(1))) == []

    def test_a_secret_around_the_value_hides_it_too(self) -> None:
        (found,) = verdicts(Resource("thing", "one", "urn::one", {"a": Secret({"size": 987654})}))
        assert "987654" not in found.text

    def test_an_unknown_inside_a_secret_stays_unknown(self) -> None:
        (found,) = verdicts(thing(Secret(Unknown())))
        assert isinstance(found, Undecided)

    def test_a_secret_is_never_shown_by_itself(self) -> None:
        assert "hidden" not in f"{Secret('hidden')} {thing(Secret('hidden'))}"

    def test_what_is_absent_is_no_unknown(self) -> None:
        assert verdicts(Resource("thing", "one", "urn::one", {})) == []

    @pytest.mark.parametrize(
        "inputs", [Unknown(), {"b": Unknown()}, {"b": [1, Unknown()]}, {"b": {"c": Unknown()}}, {"b": Secret([Unknown()])}]
    )
    def test_a_whole_value_is_known_only_if_everything_in_it_is(self, inputs: object) -> None:
        with pytest.raises(UnknownMetError, match="a"):
            Field.root(Resource("t", "n", "u", {"a": inputs}), Trace()).at("a").value()

    def test_places_read_like_the_program(self) -> None:
        root = Field.root(Resource("t", "n", "u", {"labels": {"nvidia.com/x": 1}, "l": [{"m": 1}]}), Trace())
        assert root.at("labels", "nvidia.com/x").path == 'labels["nvidia.com/x"]'
        assert [one.at("m").path for one in root.at("l").each()] == ["l[0].m"]

    def test_azure_s_api_versions_do_not_matter(self) -> None:
        versioned = Resource("azure-native:containerservice/v20250501:AgentPool", "n", "u", {})
        assert versioned.type == "azure-native:containerservice:AgentPool"


class TestSettings:
    """Limits and exceptions of a stack."""

    def test_limits_have_defaults_and_can_be_set(self) -> None:
        assert len(verdicts(thing(7))) == 1
        assert verdicts(thing(7), most=7) == []

    def test_a_setting_that_the_rule_lacks_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="small has no setting `moist`; it has most, exceptions"):
            read_settings(RULE, {"moist": 7})

    def test_the_engine_s_own_setting_is_left_to_it(self) -> None:
        assert read_settings(RULE, {"enforcementLevel": "advisory"}) == RuleSettings({"most": 5})

    def test_an_exception_holds_to_its_last_day(self) -> None:
        (found,) = verdicts(thing(9), exceptions=exception())
        assert isinstance(found, Excepted)
        assert found.exemption.reason == "until the move is done"

    def test_an_exception_that_ended_excepts_nothing_and_says_so(self) -> None:
        (found,) = verdicts(thing(9), exceptions=exception(until="2026-12-31"))
        assert isinstance(found, Violation)
        assert found.text.endswith('note:   an exception ("until the move is done") ended on 2026-12-31')

    def test_an_exception_is_for_the_resources_that_it_names(self) -> None:
        found = verdicts(thing(9), thing(9, "two"), thing(9, "old-1"), exceptions=exception(resource="old-*"))
        assert [type(one) for one in found] == [Violation, Violation, Excepted]

    def test_an_exception_does_not_make_an_unknown_right(self) -> None:
        (found,) = verdicts(thing(Unknown()), exceptions=exception())
        assert isinstance(found, Undecided)

    @pytest.mark.parametrize(
        ("written", "message"),
        [
            ("one", "must be a list"),
            ([{"resource": "one"}], "must have exactly"),
            (exception(resource="*"), "would except everything"),
            (exception(reason="because"), "at least 10 characters"),
            (exception(until="soon"), '"soon" is not a day'),
        ],
    )
    def test_a_broken_exception_is_an_error(self, written: object, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            parse_exemptions(written)


class TestPrices:
    """Prices come from the team's file."""

    def _read(self, folder: Path, text: str) -> Any:
        (folder / "prices.yaml").write_text(text)
        (rule,) = [rule for rule in RULES if rule.name == "max-cost"]
        return read_settings(rule, {"prices": str(folder / "prices.yaml")}).limits["prices"]

    def test_spot_nodes_cost_their_own_price_where_there_is_one(self, tmp_path: Path) -> None:
        prices = self._read(tmp_path, "currency: EUR\nperHour: {a: 3, b: 2}\nspotPerHour: {a: 1}\n")
        assert [prices.of(size, spot=True) for size in "abc"] == [1, 2, None]
        assert prices.of("a", spot=False) == 3

    @pytest.mark.parametrize("text", ["[", "currency: EUR", "perHour: {a: 1}", "currency: EUR\nperHour: {a: -1}", "- 1"])
    def test_a_file_of_another_shape_is_an_error(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(ValueError, match=r"prices|not a price"):
            self._read(tmp_path, text)


#: Inputs of providers that no section of a stack file has.
_PROVIDERS_OWN = (
    "maxCount",
    "minCount",
    "nodeLabels",
    "nodeTaints",
    "nodeInitializationTaint",
    "scaleSetPriority",
    "gpuProfile",
    "gpuInstanceProfile",
    "mergeLabels",
    "ignore_changes",
)
#: What a stack file cannot break, or the plan refuses first; the repair then is for resources that people write.
_NOT_OF_A_STACK = {
    "aks-mig-on-mig-size",
    "one-mig-owner",
    "no-mps-on-mig",
    "spot-taint-written",
    "autoscaled-count-left-alone",
    "one-driver-owner",
    "labels-through-pools",
    "node-group-labels-merged",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_stack_file_s_reader_is_told_a_stack_file_s_words(rule: Rule) -> None:
    spoken = [word for word in _PROVIDERS_OWN if word in (rule.stack_repair or rule.repair)]
    assert not spoken or (rule.name in _NOT_OF_A_STACK and not rule.stack_repair)


@pytest.mark.parametrize("made_by", ["gpu-pools:index:GpuPlatform$gpu-pools:index:AksGpuNodePool$", ""])
def test_the_repair_follows_who_declares_the_resource(made_by: str) -> None:
    (rule,) = [rule for rule in RULES if rule.name == "spot-where-allowed"]
    kind = rule.types[0]
    spot = Resource(
        kind, "gpu", f"urn:pulumi:a::b::{made_by}{kind}::gpu", {"vmSize": "Standard_NC4as_T4_v3", "scaleSetPriority": "Spot"}
    )
    (found,) = judge(rule, Stack((spot,)), RuleSettings({"allowed": False}), TODAY)
    assert isinstance(found, Violation)
    assert found.text.endswith("repair: Take spot out of the pool." if made_by else "repair: Remove scaleSetPriority.")
