"""Which NodeFeatureRules set a label, whatever stands in them, and that a change which waits for NFD names them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.changer.change import Change, ChangeError, Manner
from gpu_pools.verifier.changer.living_node import LivingNode
from gpu_pools.verifier.changer.nfd_rules import names_of_setters, sets_label
from gpu_pools.verifier.changer.rollout_steps import LivingNodeState, Target
from gpu_pools.verifier.names import CONFIG_LABEL

KEY = "nvidia.com/mig.config"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["spec", "rules", "labels", "metadata"]), inner),
)


def rule(name: str, **entry: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"rules": [{"name": "x"}, entry]}}


@pytest.mark.parametrize(
    ("entry", "sets"),
    [
        ({"labels": {KEY: "a"}}, True),
        ({"labelsTemplate": "{{ range .pci }}\n  nvidia.com/mig.config=all-1g.10gb\n{{ end }}"}, True),
        ({"labels": {f"{KEY}.state": "a"}}, False),
        ({"labelsTemplate": "x=nvidia.com/mig.config=a\nnvidia.com/mig.config.state=b"}, False),
        ({"annotations": {KEY: "a"}}, False),
        ({"labels": None, "labelsTemplate": None}, False),
    ],
)
def test_a_rule_sets_a_label_by_its_key_or_by_a_line_of_its_template(entry: dict[str, Any], *, sets: bool) -> None:
    assert sets_label(rule("r", **entry), KEY) is sets


@given(JSON)
def test_no_object_of_a_cluster_ends_the_look(odd: object) -> None:
    assert sets_label(odd, KEY) is False
    assert names_of_setters([odd, rule("theirs", labels={KEY: "a"})], KEY) == ["theirs"]


class Api:
    """A cluster with these rules; None: they may not be listed."""

    def __init__(self, rules: list[dict[str, Any]] | None) -> None:
        self.rules = rules

    def get(self, path: str, **_: str) -> dict[str, Any]:
        if self.rules is None:
            raise ApiError(path, 403, "forbidden")
        return {"items": self.rules}


def test_rules_of_others_are_named_and_not_those_of_our_pools() -> None:
    rules = [rule("gpu-pools-other", labels={KEY: "a"}), rule("theirs", labels={KEY: "a"}), rule("harmless", labels={"x": "y"})]
    api: Any = Api(rules)
    assert LivingNode(api, "n", "gpu-operator").rules_setting(KEY) == ("theirs",)
    nobody: Any = Api(None)
    assert LivingNode(nobody, "n", "gpu-operator").rules_setting(KEY) == ()


class Node:
    """A node whose label NFD keeps, with the rules of others that set it."""

    def __init__(self, rules: tuple[str, ...]) -> None:
        self.rules = rules

    def read(self) -> dict[str, Any]:
        return {}

    def seen(self, _node: object, **_: object) -> LivingNodeState:
        return LivingNodeState(
            {}, frozenset({CONFIG_LABEL}), cordoned=False, mark=None, holders=(), has_slot=False, as_declared=False
        )

    def rules_setting(self, _key: str) -> tuple[str, ...]:
        return self.rules


@pytest.mark.parametrize(
    ("rules", "within", "words"),
    [(("theirs",), 100.0, "NodeFeatureRule theirs names it"), ((), 700.0, "a NodeFeatureRule names it, or NFD does not run")],
)
def test_a_change_that_waits_for_nfd_ends_early_where_a_rule_of_others_sets_the_label(
    rules: tuple[str, ...], within: float, words: str
) -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    node, slots = cast("Any", Node(rules)), cast("Any", SimpleNamespace(mine=lambda: False))
    target = Target({CONFIG_LABEL: "time-slicing-4-x"}, {})
    change = Change(target, node, slots, Manner(60, "stop", 600.0), lambda: False, now=lambda: clock[0], sleep=sleep)
    with pytest.raises(ChangeError, match=words):
        change.run()
    assert 60 < clock[0] < within
