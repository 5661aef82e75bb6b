"""Every id in code, data or messages has a row of its own to read about, and messages say where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_pools.plan.document import plan_table
from gpu_pools.text.incidents import explained, named
from gpu_pools.text.yaml_text import load_yaml
from tests.unit.stacks import aks, plan_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
LINES = load_yaml((ROOT / "gpu_pools" / "text" / "incidents.yaml").read_text(encoding="utf-8"))
LAST = {"D": 19, "C": 15, "I": 13, "R": 16, "O": 6, "T": 6, "P": 10}
INCIDENTS = {f"{group}{number:02}" for group, last in LAST.items() for number in range(1, last + 1)}
#: What names ids in messages; the evidence page, the verifier and the sandbox link them.
CORE = [f"gpu_pools/{path.name}" for path in (ROOT / "gpu_pools").iterdir() if path.name not in {"evidence", "verifier"}]
#: An id as code writes it: in quotes, or in brackets, alone or in a list. Words such as A30 or V100 are GPUs.
_WRITTEN = re.compile(r"[\"(]((?:[CDIORTPW]\d\d)(?:, [CDIORTPW]\d\d| to [CDIORTPW]\d\d)*)[\")]")


def _rows() -> dict[str, str]:
    rows = re.findall(r"^\| ((?:<a id=\"\w+\"></a>)+)((?:[A-Z]\d\d)(?:, [A-Z]\d\d)*) \| (.*?) \|", PAGE, re.MULTILINE)
    found = {one: text.replace("`", "") for _, ids, text in rows for one in ids.split(", ")}
    anchors = {anchor.upper() for marks, _, _ in rows for anchor in re.findall(r'"(\w+)"', marks)}
    assert anchors == found.keys(), "each id of a row needs its anchor, or the links of messages lead nowhere"
    return found


def _used(*folders: str) -> set[str]:
    files = [path for folder in folders for kind in ("*.py", "*.yaml") for path in (ROOT / folder).rglob(kind)]
    texts = [match for path in files for match in _WRITTEN.findall(path.read_text(encoding="utf-8"))]
    return {one for text in texts for one in re.findall(r"[A-Z]\d\d", text)}


def test_all_incidents_and_every_id_that_is_used_have_a_row() -> None:
    used = _used("gpu_pools", "components", "policies", "sandbox")
    assert used | INCIDENTS <= _rows().keys(), "add a row with an anchor to docs/reference/rules.md"


def test_messages_can_say_what_their_ids_stand_for_in_the_words_of_the_page() -> None:
    assert _used(*CORE, "components", "policies") <= LINES.keys(), "add a line to gpu_pools/text/incidents.yaml"
    rows = _rows()
    assert {one: rows.get(one) for one in LINES} == LINES


@pytest.mark.parametrize(
    ("text", "ids"),
    [("too early (C06): set it", ("C06",)), ("(R14) and (R01)", ("R14", "R01")), ("a Tesla P40, NVIDIA A30 or T40", ())],
)
def test_what_a_text_names(text: str, ids: tuple[str, ...]) -> None:
    assert named([text, text]) == ids


def test_a_plan_ends_with_what_its_ids_stand_for() -> None:
    pool = {"count": ..., "nodes": {"min": 0, "max": 2}}
    table = plan_table(plan_of(aks(pool, sharing={"cut": {"mig": {"layout": {"1g.10gb": 7}}}}))).splitlines()
    assert [line.partition(":")[0] for line in table[table.index("", len(table) - 5) + 1 :]] == ["C03", "C06", "R03"]
    assert table[-2] == "C06: pods start on a whole GPU before MIG is applied (docs/reference/rules.md#c06)"
    assert explained(["nothing"]) == ()
