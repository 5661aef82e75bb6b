"""tests/again.py on small projects: what is flaky is named, and everything else that is red stays red."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.patience import scaled

PROJECT = Path(__file__).resolve().parents[2]
#: Fails once: the first run leaves a file, the second finds it.
FLAKY = """
from pathlib import Path

def test_flaky():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first

def test_beside():
    Path("beside").open("a").write("once ")
"""
CHAINED = """
import pytest
from pathlib import Path

@pytest.fixture(scope="module")
def shared():
    return []

def test_begins(shared):
    shared.append(1)

def test_goes_on(shared):
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert shared
    assert not first
"""


def _again(folder: Path, text: str, *options: str) -> tuple[int, str]:
    folder.joinpath("test_it.py").write_text(dedent(text))
    folder.joinpath("pytest.ini").write_text("[pytest]\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**kept, "PYTHONPATH": str(PROJECT), "FLAKY": str(folder / "flaky")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.again", "-n", "1", "--dist", "loadfile", *options],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=scaled(120),
    )  # fmt: skip
    return done.returncode, done.stdout


def _named(folder: Path) -> str:
    return (folder / "flaky").read_text() if (folder / "flaky").exists() else ""


def test_one_that_fails_once_is_named_and_nothing_else_is_run_again(tmp_path: Path) -> None:
    code, said = _again(tmp_path, FLAKY)
    assert code == 0, said
    assert said.splitlines()[-1] == "FLAKY: test_it.py::test_flaky"
    assert _named(tmp_path) == "FLAKY: test_it.py::test_flaky\n"
    assert (tmp_path / "beside").read_text() == "once "


@pytest.mark.sweep
def test_a_file_whose_tests_share_something_is_run_again_as_a_whole(tmp_path: Path) -> None:
    code, said = _again(tmp_path, CHAINED)
    assert code == 0, said
    assert _named(tmp_path) == "FLAKY: test_it.py::test_goes_on\n"


@pytest.mark.sweep
def test_green_is_green_and_names_nothing(tmp_path: Path) -> None:
    code, said = _again(tmp_path, "def test_good(): pass")
    assert code == 0, said
    assert _named(tmp_path) == ""


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("def test_bad(): assert 0", (), "1 failed in"),
        ("import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_bad(n): assert 0", (), "6 failed in"),
        ("import nothing_of_this_name", (), "1 error in"),
        ("import os\ndef test_dies(): os._exit(1)", (), "crashed"),
        ("def test_good(): pass", ("-m", "nothing"), "no tests ran in"),
    ],
    ids=["twice", "too many", "not collected", "worker crashed", "none selected"],
)
def test_what_is_red_stays_red(text: str, options: tuple[str, ...], told: str, tmp_path: Path) -> None:
    code, said = _again(tmp_path, text, *options)
    assert code != 0, said
    assert told in said, said
    assert ("once more, alone" in said) == (told == "1 failed in")
    assert _named(tmp_path) == ""
