"""Each stand-in has a row in the table of suites, and the docs say what the table says."""

from __future__ import annotations

import ast
import re

import pytest

from tests.conformance.suites import PAGE, ROOT, Run, page, suites

SUITES = suites()
#: How a module says that it stands in for something.
SAYS = re.compile(r"[Ss]tand-ins? for |^Stand-in[: ]|^A stand-in ", re.MULTILINE)
#: What real nodes find in their images: scripts and C, each of which says in its first lines what it is.
SCRIPTS = ("sandbox/real_node/operands", "sandbox/real_node/driver")
FIRST = 400


def said_to_stand_in() -> set[str]:
    modules = [path for path in (ROOT / "sandbox").rglob("*.py") if "programs" not in path.parts]
    said = {path: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "" for path in modules}
    scripts = [path for folder in SCRIPTS for path in (ROOT / folder).iterdir() if path.is_file()]
    said |= {path: path.read_text(encoding="utf-8")[:FIRST] for path in scripts}
    return {str(path.relative_to(ROOT)) for path, text in said.items() if SAYS.search(text)}


def test_every_module_that_stands_in_is_in_the_table() -> None:
    named = {file for suite in SUITES.values() for file in suite.files}
    said = {path for path in said_to_stand_in() if not {path, path.rpartition("/")[0]} & named}
    assert said == set(), "a row of tests/conformance/suites.yaml names it, or it stands in for nothing"


def test_scripts_that_stand_in_are_seen() -> None:
    assert {"sandbox/real_node/operands/nvidia-validator", "sandbox/clouds/azure_rest.py"} <= said_to_stand_in()


@pytest.mark.parametrize("name", SUITES)
def test_a_row_names_what_there_is(name: str) -> None:
    suite = SUITES[name]
    tests = [test for test in suite.tests if test.startswith("tests/")]
    assert [path for path in (*suite.files, *tests) if not (ROOT / path).exists()] == []
    assert bool(tests) != bool(suite.without), "either a suite, or why there is none"


@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if suite.run])
def test_a_run_says_against_what_and_how_it_ended(name: str) -> None:
    run = SUITES[name].run
    assert run is not None
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", run.date)
    assert run.real
    assert run.passed > 0


def test_the_page_says_what_the_table_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it: python -m tests.conformance --table"


def test_a_result_is_told_with_what_failed() -> None:
    assert Run("2026-11-25", "v1", 3, 1, 2, "why").text() == "3 passed, 1 failed, 2 skipped; why"
