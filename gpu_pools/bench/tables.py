"""Measurements as tables: what sharing costs, in the shape in which others have published it, and what clients do to each other.

Only rows of text; how they are drawn is for whoever shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from gpu_pools.bench.statistics import loss
from gpu_pools.text.provenance import without_provenance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_pools.bench.document import Bystander, Document, Row

_PUBLISHED = Path(__file__).with_name("published.yaml")
#: What a client of one kind has to do, for seconds that can be compared with those of others.
_OPERATIONS = 1000


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: what it is about.
        header: of the columns.
        rows: as long as the header, each.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def throughput(document: Document) -> Table:
    """How much is done by so many clients, what of it is lost, how fair it is, how long one waits."""
    header = ("KIND", "CLIENTS", "PER SECOND", "WINDOWS", "LOST", "FAIRNESS", "p50", "p90", "p99", "EACH USES")
    rows: list[tuple[str, ...]] = []
    for row in document.rows:
        if row.errors and not row.rate:
            rows.append((row.kind, str(row.clients), "-", "-", "-", "-", "-", "-", "-", row.errors[0]))
            continue
        rows.append(
            (
                row.kind,
                str(row.clients),
                f"{row.rate:,.0f}",
                f"{row.lowest:,.0f} to {row.highest:,.0f}",
                percent(document.lost(row)),
                f"{row.fairness:.2f}",
                *(seconds(row.latency.get(key)) for key in ("50", "90", "99")),
                "-" if row.used_mib is None else f"{row.used_mib // row.clients} MiB",
            )
        )
    return Table("Throughput of all clients together, and the time of one operation", header, tuple(rows))


def as_published(document: Document, kind: str = "compute") -> Table:
    """Time of a fixed amount of work, alone and shared, in the columns of CERN's talk: loss is actual against expected."""
    header = ("CLIENTS", "ALONE", "EXPECTED (ALONE x CLIENTS)", "ACTUAL", "LOSS")
    alone = document.alone(kind)
    rows = []
    for row in document.rows:
        if row.kind != kind or row.clients == 1 or not row.rate or alone is None or document.limits:
            continue
        one, actual = _OPERATIONS / alone.rate, _OPERATIONS * row.clients / row.rate
        expected = one * row.clients
        rows.append((str(row.clients), f"{one:.2f} s", f"{expected:.2f} s", f"{actual:.2f} s", percent(actual / expected - 1)))
    return Table(f"{_OPERATIONS:,} operations of `{kind}` by each client", header, tuple(rows))


def published() -> tuple[Table, ...]:
    """What others have measured, in the same columns; their sources are in published.yaml."""
    header = ("WORK", "CLIENTS", "ALONE", "EXPECTED (ALONE x CLIENTS)", "ACTUAL", "LOSS")
    made = []
    for entry in without_provenance(yaml.safe_load(_PUBLISHED.read_text(encoding="utf-8"))).values():
        rows = [
            (
                row["amount"],
                str(row["clients"]),
                *(f"{row[key]:.2f} s" for key in ("alone", "expected", "actual")),
                f"{row['loss']:.0f} %",
            )
            for row in entry["rows"]
        ]
        made.append(
            Table(f"{entry['work'].capitalize()}, on {entry['hardware']}; source: {entry['source']}", header, tuple(rows))
        )
    return tuple(made)


def side_by_side(documents: Sequence[Document]) -> Table:
    """Throughput of all clients together under each measurement; what one client does alone in the first of them is 100 %."""
    header = ("KIND", "CLIENTS", *(document.title.partition(", ")[2].upper() for document in documents))
    first = documents[0]
    found = [{(row.kind, row.clients): row for row in document.rows} for document in documents]
    rows = []
    for kind, clients in dict.fromkeys(key for rows_of in found for key in rows_of):
        alone = first.alone(kind)
        cells = [
            percent(row.rate / alone.rate) if alone and alone.rate and row and row.rate else "-"
            for row in (rows_of.get((kind, clients)) for rows_of in found)
        ]
        rows.append((kind, str(clients), *cells))
    return Table("Throughput of all clients together, of one that has the GPU to itself", header, tuple(rows))


def neighbours(document: Document) -> Table:
    """What becomes of a quiet client beside others that flood the GPU."""
    header = ("FLOODS", "REQUESTS PER SECOND", "p50", "p90", "p99", "LONGEST", "FLOODS PER SECOND")
    rows = [
        (
            str(one.floods),
            f"{one.rate:,.1f}",
            *(seconds(one.latency.get(key)) for key in ("50", "90", "99")),
            seconds(one.longest),
            f"{one.flood_rate:.2f}" if one.floods else "-",
        )
        for one in document.neighbours
    ]
    return Table("A quiet client (inference) beside clients that fill the GPU's queue", header, tuple(rows))


def faults(document: Document) -> Table:
    """What becomes of others where one fails."""
    crash = "fails an assertion on the GPU" if document.backend.startswith("torch") else "writes to an address that is none"
    words = {"memory": "takes all memory that is left", "crash": crash, "kill": "is killed as it works"}
    header = ("ONE CLIENT", "ITS OWN ERROR", "THE OTHERS", "LONGEST GAP", "ONE THAT COMES AFTER IT")
    rows = [
        (
            words[one.what],
            one.error or "none",
            "; ".join(f"{other.kind}: {_went_on(other)}" for other in one.others),
            seconds(max((other.longest_gap for other in one.others), default=None)),
            one.newcomer or "works",
        )
        for one in document.faults
    ]
    return Table("What happens to the others when one client fails", header, tuple(rows))


def compared(now: Document, earlier: Document) -> Table:
    """Throughput against an earlier measurement, where both have the same kind and number of clients."""
    before = {(row.kind, row.clients): row for row in earlier.rows}
    header = ("KIND", "CLIENTS", "EARLIER", "NOW", "CHANGE", "p99 EARLIER", "p99 NOW")
    rows = [
        (
            row.kind,
            str(row.clients),
            f"{then.rate:,.0f}",
            f"{row.rate:,.0f}",
            _signed(row, then),
            seconds(then.latency.get("99")),
            seconds(row.latency.get("99")),
        )
        for row in now.rows
        if (then := before.get((row.kind, row.clients))) is not None
    ]
    return Table(f"Against {earlier.title}, {earlier.date[:10]}", header, tuple(rows))


def of(document: Document) -> tuple[Table, ...]:
    """Every table of a document that has rows."""
    made = (throughput(document), as_published(document), neighbours(document), faults(document))
    return tuple(table for table in made if table.rows)


def markdown(table: Table) -> str:
    """A table as Markdown, its title before it."""
    lines = [
        f"| {' | '.join(_cell(cell) for cell in row)} |" for row in (tuple(h.capitalize() for h in table.header), *table.rows)
    ]
    lines.insert(1, "|" + "---|" * len(table.header))
    return "\n".join([f"{table.title}:", "", *lines])


def seconds(value: float | None) -> str:
    """Seconds for people: `1.24 ms`; `-` for none."""
    if value is None:
        return "-"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.0f} ms" if value >= 0.1 else f"{value * 1000:.2f} ms"  # noqa: PLR2004


def percent(part: float | None) -> str:
    """A part for people: `12 %`; `-` for none."""
    text = "-" if part is None else f"{part * 100:.0f} %"
    return "0 %" if text == "-0 %" else text


def _signed(row: Row, then: Row) -> str:
    change = loss(then.rate, row.rate)
    return "-" if change is None else f"{-change * 100:+.0f} %".replace("-0 %", "+0 %")


def _went_on(other: Bystander) -> str:
    if other.error is not None:
        return f"ended, {other.error}"
    return f"{other.before:,.0f} to {other.after:,.0f} per second"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def titles(documents: Sequence[Document]) -> list[str]:
    """Of each, for people."""
    return [f"{one.title} ({one.backend}, {one.date[:10]})" for one in documents]
