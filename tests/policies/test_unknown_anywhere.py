"""Whatever single value of a program is not known yet: no rule fails by accident, and none passes by accident.

Every leaf of every program is hidden in turn. A violation may then become "cannot be judged", or stay; it may not vanish, and
none may appear that was not there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.policies.described import Secret, Unknown
from gpu_pools.policies.judging import Undecided, Violation
from gpu_pools.policies.rules import RULES

from .programs import BAD, GOOD, Program
from .test_rules import verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpu_pools.policies.judging import Verdict


def _with_one_hidden(value: Any, hide: Callable[[Any], Any]) -> Iterator[Any]:
    """The value with each of its leaves hidden in turn."""
    if isinstance(value, dict) and value:
        for key, inside in value.items():
            for changed in _with_one_hidden(inside, hide):
                yield {**value, key: changed}
    elif isinstance(value, list) and value:
        for index, inside in enumerate(value):
            for changed in _with_one_hidden(inside, hide):
                yield [*value[:index], changed, *value[index + 1 :]]
    else:
        yield hide(value)


def _variants(given: Program, hide: Callable[[Any], Any]) -> Iterator[Program]:
    for index, one in enumerate(given.resources):
        for inputs in _with_one_hidden(dict(one.inputs), hide):
            changed = dataclasses.replace(one, inputs=inputs)
            yield Program((*given.resources[:index], changed, *given.resources[index + 1 :]), given.limits)


def _broken(found: list[Verdict]) -> Counter[tuple[str, str]]:
    return Counter((one.rule, one.resource.urn) for one in found if isinstance(one, Violation))


@pytest.mark.parametrize("name", BAD)
def test_a_rule_that_lacks_a_value_does_not_pass_by_accident(name: str) -> None:
    rules = tuple(rule for rule in RULES if rule.name == name)
    for given in BAD[name]:
        before = _broken(verdicts(given, name, rules))
        for hidden in _variants(given, lambda _: Unknown()):
            found = verdicts(hidden, name, rules)
            assert not _broken(found) - before
            assert _broken(found) == before or [one for one in found if isinstance(one, Undecided)]


@pytest.mark.parametrize("name", GOOD)
def test_no_rule_fails_by_accident(name: str) -> None:
    for hidden in _variants(GOOD[name], lambda _: Unknown()):
        assert not _broken(verdicts(hidden))


@pytest.mark.parametrize("name", BAD)
def test_a_secret_value_is_judged_like_any_other(name: str) -> None:
    rules = tuple(rule for rule in RULES if rule.name == name)
    for given in BAD[name]:
        before = _broken(verdicts(given, name, rules))
        for hidden in _variants(given, Secret):
            assert _broken(verdicts(hidden, name, rules)) == before
