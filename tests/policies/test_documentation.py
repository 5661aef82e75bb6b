"""docs/reference/policies.md is held to the code: every incident has a row, every row is true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpu_pools.policies import kinds
from gpu_pools.policies.judging import read_settings
from gpu_pools.policies.rules import RULES

from .programs import ALLOWED, BAD, GOOD

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")
LAST = {"D": 19, "C": 15, "I": 13, "R": 16, "O": 6, "T": 6, "P": 10}
#: Of resource claims the one that a rule judges.
IDS = [*(f"{group}{number:02}" for group, last in LAST.items() for number in range(1, last + 1)), "E07"]
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.splitlines()
    if re.match(r"\| [A-Z]\d\d \|", line)
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}
VERIFICATION = (ROOT / "docs" / "reference" / "verification.md").read_text(encoding="utf-8").partition("\n## Incidents")[2]
LEVELS = sorted((ROOT / "policies" / "levels").glob("*.json"))
LONGEST_NOTHING = 10


def test_all_incidents_have_a_row() -> None:
    assert list(ROWS) == IDS
    assert len(IDS) == 86


@pytest.mark.parametrize("incident", IDS)
def test_a_row_names_the_rules_of_its_incident_with_their_levels(incident: str) -> None:
    _, caught, by, tests = ROWS[incident]
    rules = [f"`{rule.name}` ({rule.level})" for rule in RULES if incident in rule.incidents]
    ways = caught.split(", ")
    assert ("policy" in ways) == bool(rules)
    assert set(ways) <= {"types", "plan", "policy", "not before a deploy"}
    if ways == ["not before a deploy"]:
        assert re.search(rf"^\| (\w+, )*{incident}(, \w+)* \|", VERIFICATION, re.MULTILINE), "the verifier's table must name it"
        assert len(by) > LONGEST_NOTHING, "a reason is needed"
        assert tests == "-"
    else:
        assert by == ("; ".join(rules) or "-")
        assert ("::" in tests) == bool({"types", "plan"} & set(ways))


@pytest.mark.parametrize(("file", "name"), sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE))))
def test_the_tests_that_rows_name_are_there(file: str, name: str) -> None:
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_rules_name_known_incidents_and_limits_are_listed() -> None:
    assert {incident for rule in RULES for incident in rule.incidents} <= set(IDS)
    listed = re.findall(r"^\| `([a-z-]+)` \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert listed == [(rule.name, limit.name) for rule in RULES for limit in rule.limits]
    assert f"a pack of {len(RULES)} rules" in PAGE
    assert f"policy pack of {len(RULES)} rules" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_counts_the_programs() -> None:
    bad, good = sum(map(len, BAD.values())), len(GOOD) + len(ALLOWED)
    assert f"{bad + good} programs: {bad} break one rule each, {good} break none." in PAGE


def test_the_page_names_the_rules_about_an_operator_of_another_owner() -> None:
    adopted = kinds.CLUSTER_POLICIES[1]
    rules = {name for name, programs in BAD.items() for one in programs if adopted in {made.type for made in one.resources}}
    section = PAGE.split("## An operator of another owner")[1].split("\n## ")[0]
    assert set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", section)) == rules


@pytest.mark.parametrize("path", LEVELS, ids=lambda path: path.stem)
def test_the_example_levels_are_of_rules_that_there_are(path: Path) -> None:
    written = json.loads(path.read_text(encoding="utf-8"))
    rules = {rule.name: rule for rule in RULES}
    for name, settings in written.items():
        level = settings.get("enforcementLevel") if isinstance(settings, dict) else settings
        assert level in {"advisory", "mandatory", "disabled"}
        if isinstance(settings, dict):
            read_settings(rules[name], settings)
        assert name == "all" or name in rules
