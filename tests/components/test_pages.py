"""The pages of the components: one for each, whose programs run as they are written, and whose tables are the schema's.

The Python programs run against recorded mocks. Those in YAML are held against the schema, as Pulumi's own language host does it;
tests/engine/test_packages.py runs one by the real engine.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pulumi.runtime import config as runtime_config

from tools.generate.component_pages import pages
from tools.generate.files import COMPONENT_PAGES
from tools.generate.files import SCHEMA as SCHEMA_FILE

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from .conftest import Recorder

    Run = Callable[[Callable[[], Any]], Recorder]

SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
PAGES = sorted(path for path in COMPONENT_PAGES.glob("*.md") if path.stem != "types")
NAMES = [path.stem for path in PAGES]
AGAIN = "write it anew: python -m tools.generate"


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_each_component_has_a_page() -> None:
    assert sorted(f"gpu-pools:index:{name}" for name in NAMES) == sorted(SCHEMA["resources"])


def test_the_tables_are_those_of_the_schema() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in pages()} == {
        path.name: text for path, text in pages().items()
    }, AGAIN


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_the_program_runs_and_makes_the_component(run: Run, path: Path) -> None:
    (program,) = blocks(path, "python")
    code = compile(program, str(path), "exec")
    runtime_config.set_all_config({"project:kubeconfig": KUBECONFIG, "gpu-pools:kubeconfig": KUBECONFIG}, [])
    try:
        recorded = run(lambda: exec(code, {}))  # noqa: S102 - of this repository
    finally:
        runtime_config.set_all_config({}, [])
    assert f"gpu-pools:index:{path.stem}" in {one.type for one in recorded.resources}


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_a_program_in_yaml_says_what_the_schema_has(path: Path) -> None:
    for program in blocks(path, "yaml"):
        resources = yaml.safe_load(program)["resources"]
        assert f"gpu-pools:index:{path.stem}" in {one["type"] for one in resources.values()}
        for name, one in resources.items():
            known = SCHEMA["resources"][one["type"]]
            assert [*_wrong(one["properties"], known["inputProperties"], known.get("requiredInputs", ()), name)] == []


def test_what_the_schema_lacks_is_found() -> None:
    known = SCHEMA["resources"]["gpu-pools:index:AksPool"]
    pool = {"name": "nb", "vmsize": "x", "sharing": {"timeSlicing": {"replica": 4}}, "count": "two"}
    assert [*_wrong(pool, known["inputProperties"], known["requiredInputs"], "p")] == [
        "p.vmSize is missing",
        "p.vmsize is unknown",
        "p.sharing.timeSlicing.replicas is missing",
        "p.sharing.timeSlicing.replica is unknown",
        "p.count is no integer",
    ]


def _wrong(given: Mapping[str, Any], known: Mapping[str, Any], needed: Any, where: str) -> Iterator[str]:
    yield from (f"{where}.{key} is missing" for key in needed if key not in given)
    for key, value in given.items():
        if key not in known:
            yield f"{where}.{key} is unknown"
        else:
            yield from _unfit(value, known[key], f"{where}.{key}")


def _unfit(value: Any, kind: Mapping[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("${"):
        return
    if "$ref" in kind:
        if not kind["$ref"].endswith("/Any"):
            inner = SCHEMA["types"][kind["$ref"].removeprefix("#/types/")]
            yield from _wrong(value, inner.get("properties", {}), inner.get("required", ()), where)
        return
    types = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
    if not isinstance(value, types[kind["type"]]):
        yield f"{where} is no {kind['type']}"
        return
    for key, one in [*enumerate(value)] if isinstance(value, list) else [*value.items()] if isinstance(value, dict) else []:
        yield from _unfit(one, kind["items"] if isinstance(value, list) else kind["additionalProperties"], f"{where}.{key}")
