"""The table of incidents is what the causes say, and every cause is provoked by some test."""

from __future__ import annotations

from pathlib import Path

from verifier.causes import CAUSES

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "reference" / "verification.md"
TESTS = {path.name: path.read_text() for path in sorted(HERE.glob("test_*.py")) if path != Path(__file__)}


def _provoked_by(cause: str) -> list[str]:
    return [name.removesuffix(".py") for name, text in TESTS.items() if f'"{cause}"' in text]


def table() -> str:
    incidents = sorted({incident for cause in CAUSES.values() for incident in cause.incidents})
    rows = ["| id | seen as | tests |", "|---|---|---|"]
    for incident in incidents:
        causes = [cause.key for cause in CAUSES.values() if incident in cause.incidents]
        tests = sorted({name for cause in causes for name in _provoked_by(cause)})
        rows.append(f"| {incident} | {', '.join(causes)} | {', '.join(tests)} |")
    return "\n".join(rows) + "\n"


def test_every_cause_is_provoked_by_a_test() -> None:
    assert [key for key in CAUSES if not _provoked_by(key)] == []


def test_the_documentation_has_the_table_of_incidents() -> None:
    assert table() in DOCUMENT.read_text(), f"the table must be:\n{table()}"
