"""The tables of incidents are what the causes say, every cause is provoked by some test, and no incident is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

from gpu_pools.verifier.causes import CAUSES
from tests.engine.faults import FAULTS, OF_THE_CLUSTER, UNHEARD
from tests.verifier import provoked

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "reference" / "verification.md"
PROVOKED = provoked.listed()
#: Name of a fault that is provoked on a living fleet -> the causes that are told there.
LIVING = {name: fault.causes for name, fault in {**FAULTS, **UNHEARD}.items()} | OF_THE_CLUSTER
RULES = DOCUMENT.parent / "rules.md"
#: The incidents that are known, by letter of their group; of the letter W those that rules.md leaves to the verifier.
KNOWN = {"D": 19, "C": 15, "I": 13, "R": 16, "O": 6, "T": 6, "P": 10}


def _provoked_by(cause: str) -> list[str]:
    return [test.partition(".py::")[0] for test in PROVOKED.get(cause, [])]


def table() -> str:
    incidents = sorted({incident for cause in CAUSES.values() for incident in cause.incidents})
    rows = ["| id | seen as | tests | in the sandbox |", "|---|---|---|---|"]
    for incident in incidents:
        causes = [cause.key for cause in CAUSES.values() if incident in cause.incidents]
        tests = sorted({name for cause in causes for name in _provoked_by(cause)})
        living = [name for name, told in LIVING.items() if set(told) & set(causes)]
        rows.append(f"| {incident} | {', '.join(causes)} | {', '.join(tests)} | {'; '.join(living)} |")
    return "\n".join(rows) + "\n"


def test_every_cause_is_provoked_by_a_test_that_is_there() -> None:
    """That it provokes it is looked at while it runs (conftest.py)."""
    assert [key for key in CAUSES if not _provoked_by(key)] == []
    for test in {test for tests in PROVOKED.values() for test in tests}:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (HERE / file).read_text(encoding="utf-8"), test


def test_the_documentation_has_the_table_of_incidents() -> None:
    assert table() in DOCUMENT.read_text(), f"the table must be:\n{table()}"


def test_each_known_incident_has_one_row_either_of_how_it_is_seen_or_of_why_it_is_not() -> None:
    rows = re.findall(r"^\| ([A-Z]\d\d(?:, [A-Z]\d\d)*) \|", DOCUMENT.read_text(), re.MULTILINE)
    listed = [incident for row in rows for incident in row.split(", ")]
    left = set(re.findall(r"^\| (?:<a [^>]*></a>)?([EW]\d\d) \|.*verifier.* \|$", RULES.read_text(), re.MULTILINE))
    known = {f"{letter}{number:02}" for letter, count in KNOWN.items() for number in range(1, count + 1)}
    assert sorted(one for one in listed if not one.startswith(("E", "W"))) == sorted(known)
    assert left == {one for one in listed if one.startswith(("E", "W"))}
