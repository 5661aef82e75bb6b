"""Measurements as files, tables and a picture, by those that the repository has."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.bench import tables
from gpu_pools.bench.document import Document, NoDocument, as_text, read
from gpu_pools.bench.plot import drawn
from tests.bench.measured import FILES, MORE, NAMED, PAGE, PICTURE, ROOT, written

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return [read((ROOT / "docs" / "measured" / f"{name}.json").read_text("utf-8"), name) for name in FILES]


@pytest.mark.parametrize("name", [*FILES, *MORE, *NAMED])
def test_a_measurement_is_read_as_it_was_written(name: str) -> None:
    text = (ROOT / "docs" / "measured" / f"{name}.json").read_text("utf-8")
    assert as_text(read(text, name)) == text


def test_every_measurement_that_is_kept_is_named_on_the_page() -> None:
    kept = {path.stem for path in (ROOT / "docs" / "measured").glob("h200-*.json")}
    assert kept == {*FILES, *MORE, *NAMED}
    assert all(f"measured/{name}.json" in PAGE.read_text("utf-8") for name in (*MORE, *NAMED))


@pytest.mark.parametrize("name", [*FILES, *MORE, *NAMED])
def test_what_was_measured_changed_no_setting(name: str) -> None:
    for document in [read((ROOT / "docs" / "measured" / f"{name}.json").read_text("utf-8"), name)]:
        assert document.changed == {}
        assert document.settings["compute_mode"] == "Default"
        assert document.settings["mig.mode.current"] == "Disabled"


def test_the_page_has_the_tables_and_the_picture_of_the_measurements(documents: list[Document]) -> None:
    page = PAGE.read_text("utf-8")
    assert written(page) == page, "run python -m tests.bench.measured"
    assert PICTURE.read_text("utf-8") == drawn(documents), "run python -m tests.bench.measured"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda raw: raw.update(version="gpu-pools/bench/v0"),
            "version is 'gpu-pools/bench/v0'; only 'gpu-pools/bench/v1' is known",
        ),
        (lambda raw: raw.update(strategy="turns"), "strategy is 'turns'; there are exclusive, timeSlicing, mps, mig"),
        (lambda raw: raw.pop("rows"), "is not whole: 'rows'"),
        (lambda raw: raw["rows"][0].pop("rate"), "is not whole: .*rate"),
        (lambda raw: raw["faults"][0].update(more=1), "is not whole: .*more"),
    ],
)
def test_a_file_that_is_none_is_refused(change: Callable[[dict[str, Any]], object], told: str) -> None:
    raw = json.loads((ROOT / "docs" / "measured" / f"{FILES[0]}.json").read_text("utf-8"))
    change(raw)
    with pytest.raises(NoDocument, match=told):
        read(json.dumps(raw), "some.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "nothing"])
def test_what_is_no_measurement_is_refused(text: str) -> None:
    with pytest.raises(NoDocument, match=r"^some\.json: "):
        read(text, "some.json")


def test_loss_is_against_one_that_is_alone_and_not_told_under_limits(documents: list[Document]) -> None:
    sliced, _, limited = documents
    eight = next(row for row in sliced.rows if (row.kind, row.clients) == ("memory", 8))
    alone = sliced.alone("memory")
    assert alone is not None
    assert sliced.lost(eight) == pytest.approx(1 - eight.rate / alone.rate)
    assert [limited.lost(row) for row in limited.rows] == [None] * len(limited.rows)
    assert not tables.as_published(limited).rows
    assert sliced.lost(replace(eight, kind="another")) is None


def test_a_comparison_has_what_both_measured(documents: list[Document]) -> None:
    sliced, mps, _ = documents
    table = tables.compared(mps, sliced)
    assert len(table.rows) == len({(row.kind, row.clients) for row in mps.rows})
    assert ("memory", "8", "854", "992", "+16 %", "9.39 ms", "9.06 ms") in table.rows
    assert {row[4] for row in tables.compared(mps, mps).rows} == {"+0 %"}


def test_a_client_that_never_worked_has_its_error_in_the_table(documents: list[Document]) -> None:
    row = replace(documents[0].rows[0], rate=0, errors=("no | GPU",))
    made = tables.throughput(replace(documents[0], rows=(row,)))
    assert made.rows == (("compute", "1", *["-"] * 7, "no | GPU"),)
    assert r"no \| GPU" in tables.markdown(made)


def test_the_picture_has_a_line_for_each_measurement_of_a_kind(documents: list[Document]) -> None:
    lines = [one.get("stroke") for one in ET.fromstring(drawn(documents)).iter("{http://www.w3.org/2000/svg}path")]  # noqa: S314 - ours
    assert lines.count("#0b6e99") == 5
    assert lines.count("#c2410c") == 4
    assert lines.count("#4d7c0f") == 2


def test_what_others_published_loses_what_they_say() -> None:
    for table in tables.published():
        for row in table.rows:
            alone, expected, actual = (float(cell.removesuffix(" s")) for cell in row[2:5])
            assert expected == pytest.approx(alone * int(row[1]), rel=1e-3)
            assert (actual / expected - 1) * 100 == pytest.approx(float(row[5].removesuffix(" %")), abs=0.7)
