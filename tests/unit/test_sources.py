"""Every rule and every entry of a table has two sources that are independent of each other, or is marked as having one only.

How a data file says so is in gpu_pools/text/provenance.py; the incidents' sources are gpu_pools/text/incident_sources.yaml, and
the mark of those with one is in docs/reference/rules.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.text.provenance import PROVENANCE, without_provenance
from gpu_pools.text.yaml_text import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]
CORE: Final = ROOT / "gpu_pools"
RULES: Final = (ROOT / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
INCIDENTS: Final[Mapping[str, str]] = load_yaml((CORE / "text" / "incidents.yaml").read_text(encoding="utf-8"))
SOURCES: Final[Mapping[str, list[str]]] = load_yaml((CORE / "text" / "incident_sources.yaml").read_text(encoding="utf-8"))
MARK: Final = "one source only"
#: Data file -> its tables; `*`: the file is one table. What is a single value counts as a table with one entry.
TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "bench/published.yaml": ("*",),
    "platforms/aks/properties.yaml": ("AgentPool", "ManagedCluster"),
    "platforms/magnum/labels.yaml": ("heat", "magnum-cluster-api", "capi-helm"),
    "drift/own_changes.yaml": ("rules", "listed"),
    "existing/device_plugin_config.yaml": ("mappings", "commandLineOnly", "replicas", "changedDefaults", "environment"),
    "hardware/azure_sizes.yaml": ("sizes", "retired"),
    "hardware/chart_images.yaml": ("repositories", "pullSecrets"),
    "hardware/dcgm_fields.yaml": ("fields", "perPod"),
    "hardware/gpu_models.yaml": ("*",),
    "hardware/operands.yaml": ("charts", "kubernetes", "since"),
    "hardware/releases.yaml": ("order", "restartOnly", "steps"),
    "observing/xids.yaml": ("meanings",),
}
#: Where the entries of a table are, if not right below its name.
_INSIDE: Final[Mapping[str, str]] = {"heat": "labels", "magnum-cluster-api": "labels", "capi-helm": "labels"}
#: Not tables of facts: what ids stand for and where they were read (below); the keys of charts have their sources in their heads
#: (tests/unit/test_models.py).
_OTHERS: Final = {"text/incidents.yaml", "text/incident_sources.yaml"}


def read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = load_yaml((CORE / name).read_text(encoding="utf-8"))
    return data


def entries(data: Mapping[str, Any], table: str) -> list[tuple[str, object]]:
    """(name, entry) of each entry of a table."""
    found = without_provenance(data) if table == "*" else data[table]
    found = found[_INSIDE[table]] if table in _INSIDE else found
    if isinstance(found, dict):
        return [(str(name), entry) for name, entry in found.items()]
    return [(str(entry), entry) for entry in (found if isinstance(found, list) else [found])]


def named_sources(data: Mapping[str, Any], table: str, name: str, entry: object) -> list[str]:
    """The keys of the sources of an entry: its own, those of its name, or its table's."""
    if isinstance(entry, dict) and isinstance(entry.get("from"), list):
        return list(entry["from"])
    of = data.get("from", {})
    return list(of.get(f"{table}/{name}") or of.get(table) or [])


def faults(data: Mapping[str, Any], tables: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with what a data file says of its sources."""
    for table in tables:
        known = dict(entries(data, table))
        marked = data.get("one-source", {}).get(table, [])
        marked = list(known) if marked == "all" else marked
        yield from (f"{table}/{name} is marked and does not exist" for name in marked if name not in known)
        for name, entry in known.items():
            sources = named_sources(data, table, name, entry)
            yield from (f"{table}/{name}: there is no source {one}" for one in sources if one not in data.get("sources", {}))
            if not sources:
                yield f"{table}/{name} names no source"
            elif len(set(sources)) < 2 and name not in marked:
                yield f"{table}/{name} has one source and is not marked"
    for place in data.get("from", {}):
        table, _, name = place.partition("/")
        if table not in tables or (name and name not in dict(entries(data, table))):
            yield f"from: {place} does not exist"
    for table in data.get("one-source", {}):
        if table not in tables:
            yield f"one-source: {table} does not exist"


@pytest.mark.parametrize("name", TABLES)
def test_every_entry_names_two_sources_or_is_marked(name: str) -> None:
    assert list(faults(read(name), TABLES[name])) == []


def test_every_data_file_and_every_table_is_looked_at() -> None:
    files = {str(path.relative_to(CORE)) for path in CORE.rglob("*.yaml") if path.parent.name != "charts"}
    assert files == TABLES.keys() | _OTHERS
    #: The versions that are known are no facts of their own, and a source is no entry.
    plain = {"versions", "longestResourceName", "source"}
    for name, tables in TABLES.items():
        if tables != ("*",):
            assert read(name).keys() - PROVENANCE - plain == set(tables), name


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"t": {"a": {}}}, "t/a names no source"),
        ({"t": {"a": {}}, "sources": {"x": ""}, "from": {"t": ["x"]}}, "t/a has one source and is not marked"),
        ({"t": {"a": {}}, "sources": {"x": ""}, "from": {"t": ["x", "x"]}}, "t/a has one source and is not marked"),
        ({"t": ["a"], "sources": {"x": ""}, "from": {"t": ["x", "y"]}}, "t/a: there is no source y"),
        ({"t": {"a": {"from": ["x"]}}, "sources": {"x": ""}}, "t/a has one source and is not marked"),
        ({"t": {}, "sources": {}, "from": {}, "one-source": {"t": ["b"]}}, "t/b is marked and does not exist"),
        ({"t": {}, "sources": {"x": ""}, "from": {"t/a": ["x"]}}, "from: t/a does not exist"),
        ({"t": {}, "one-source": {"u": "all"}}, "one-source: u does not exist"),
    ],
)
def test_what_is_wrong_is_found(data: dict[str, Any], fault: str) -> None:
    assert list(faults(data, ("t",))) == [fault]


def test_an_entry_with_a_mark_may_have_one() -> None:
    data = {"t": {"a": {}}, "sources": {"x": ""}, "from": {"t": ["x"]}, "one-source": {"t": "all"}}
    assert list(faults(data, ("t",))) == []


def _marked() -> dict[str, bool]:
    rows = re.findall(r"^\| (?:<a id=\"\w+\"></a>)+((?:[A-Z]\d\d)(?:, [A-Z]\d\d)*) \|(.*)$", RULES, re.MULTILINE)
    return {one: MARK in text for ids, text in rows for one in ids.split(", ")}


def test_every_incident_has_its_sources() -> None:
    assert SOURCES.keys() == INCIDENTS.keys(), "add the sources of each id to gpu_pools/text/incident_sources.yaml"
    assert [one for one, sources in SOURCES.items() if len(sources) != len(set(sources)) or not all(sources)] == []


def test_an_incident_with_one_source_is_marked_in_the_table_of_rules_and_no_other() -> None:
    marked = _marked()
    one = {incident for incident, sources in SOURCES.items() if len(sources) == 1}
    assert {incident for incident in one if not marked[incident]} == set(), f"write `{MARK}` in its row"
    rows = re.findall(r"^\| (?:<a id=\"\w+\"></a>)+((?:[A-Z]\d\d)(?:, [A-Z]\d\d)*) \|(.*)$", RULES, re.MULTILINE)
    assert [ids for ids, text in rows if MARK in text and not one & set(ids.split(", "))] == []


@pytest.mark.parametrize("folder", ["sandbox/clouds/data", "sandbox/nvml"])
def test_data_of_the_sandbox_says_where_it_is_from(folder: str) -> None:
    for path in (ROOT / folder).glob("*.yaml"):
        head = "".join(line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.startswith("#"))
        assert re.search(r"Sources?: |as people show them|seen: an issue", head), path.name
