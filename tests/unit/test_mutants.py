"""The mutation runner (tests/mutants): what it changes, what it counts, and that its list is of mutants that exist."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mutants import accounts, suite
from tests.mutants.__main__ import chosen_files, ordered
from tests.mutants.accounts import Accounts
from tests.mutants.covering import Covering, remembered_lines
from tests.mutants.mutations import Mutant, mutants
from tests.mutants.swapping import Functions
from tests.mutants.trial import Ended
from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

ROOT = Path(__file__).parents[2]


def changes(source: str) -> list[tuple[str, str]]:
    return [(one.was, one.now) for one in mutants("a.py", source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", ["x = (a <= b)", "x = (a >= b)"]),
        ("x = a == b", ["x = (a != b)"]),
        ("x = a not in b", ["x = (a in b)"]),
        ("x = a and b and c", ["x = (b and c)", "x = (a and c)", "x = (a and b)"]),
        ("x = not a", ["x = (a)"]),
        ("x = a + b", ["x = (a - b)"]),
        ("x = f'{a}' + b", []),
        ("x = 7", ["x = 8"]),
        ("x = True", ["x = False"]),
        ("x = 'key'", ["x = 'key~'"]),
        ("x = 'some prose'", []),
        ("x: list['int'] = None", []),
        ("'docstring'", []),
        ("@cached(3)\ndef f(a: 'str') -> 'int': ...", []),
        ("from a import b", []),
        ("if TYPE_CHECKING:\n    x = 1", []),
        ("x = cast('int', y)", []),
        ("if ready:\n    ...", ["(not ready)"]),
        ("x = [a for a in b if a]", ["x = ([a for a in b])", "x = [a for a in b if (not a)]"]),
        ("x = any(a)", ["x = (all(a))"]),
        ("x = sorted(a, key=b)", ["x = (list(a))"]),
        ("x = a.startswith(b)", ["x = (a.endswith(b))"]),
        ("x = left | right", ["x = (left)", "x = (right)"]),
        ("x = isinstance(a, Left | Right)", []),
        ("match a:\n    case 'b': ...", ["'b~'"]),
    ],
)
def test_what_is_changed(source: str, expected: list[str]) -> None:
    assert [now for _, now in changes(source)] == expected


def test_statements_are_left_out() -> None:
    source = "def f():\n    a()\n    yield b\n    for c in d:\n        e += g\n        continue\n    raise h\n"
    assert [now for _, now in changes(source)] == ["pass", "yield from ()", "pass", "pass", "pass"]
    assert changes("def f():\n    return a") == [("return a", "return None")]


def test_equal_spots_of_a_place_are_told_apart_and_a_line_more_changes_no_identity() -> None:
    source = "def f():\n    a = 1\n    a = 1\n"
    found = [one.identity for one in mutants("a.py", source)]
    assert found == [("a.py", "f", "a = 1", "a = 2", 0), ("a.py", "f", "a = 1", "a = 2", 1)]
    assert [one.identity for one in mutants("a.py", f"import os\n\n{source}")] == found


def test_every_mutant_of_the_project_is_a_program_and_has_a_name_of_its_own() -> None:
    files = chosen_files(["gpu_pools/verifier/marks.py", "gpu_pools/reading/section.py", "gpu_pools/changes/sarif.py"])
    every = ordered(files, "0", "1/1")
    assert len({one.identity for one in every}) == len(every) > 100
    for one in every:
        ast.parse(one.source)


def test_shards_are_parts_and_a_seed_is_an_order() -> None:
    files = ["gpu_pools/verifier/marks.py"]
    whole = [one.identity for one in ordered(files, "0", "1/1")]
    parts = [one.identity for part in ("1/3", "2/3", "3/3") for one in ordered(files, "0", part)]
    assert sorted(whole) == sorted(parts)
    assert [one.identity for one in ordered(files, "0", "1/1")] == whole != [one.identity for one in ordered(files, "1", "1/1")]


def test_tests_of_a_line_come_quickest_first_and_of_one_that_few_run_all_of_the_file_and_of_a_table_those_beside() -> None:
    slow, quick, middle, other = (f"tests/a/test_a.py::{name}" for name in ("slow", "quick", "middle", "other"))
    beside, elsewhere = "tests/a/test_page.py::x", "tests/b/test_b.py::x"
    seconds = {slow: 9.0, quick: 0.1, middle: 1.0, other: 0.5, beside: 0.01, elsewhere: 0.01}
    covering = Covering(seconds, {"a.py": {1: [slow, quick, middle], 2: [slow], 3: [other]}}, {"a.py": {3}}, [])
    assert covering.tests_of("a.py", 1) == [quick, middle, slow]
    assert covering.tests_of("a.py", 2) == [slow, quick, other, middle]
    assert covering.tests_of("a.py", 3) == [other, quick, middle, slow, beside]
    assert covering.tests_of("b.py", 1) == []
    assert covering.tests_of("a.py", 1, remembered=True) == [quick, middle, slow, other]


def test_what_a_function_remembers_is_in_its_lines_and_in_no_others() -> None:
    source = """import functools
@functools.lru_cache(maxsize=1)
def outer():
    def inner():
        return 1
    return inner()
@cache
def short(): return 2
@staticmethod
def other():
    return 3
"""
    assert remembered_lines(source) == {3, 4, 5, 6, 8}


def _mutant(name: str) -> Mutant:
    return Mutant("gpu_pools/plan/a.py", "f", name, "", 0, 1, "")


def test_a_miss_that_is_not_listed_is_red_in_a_file_that_is_whole_and_counts_everywhere() -> None:
    known = {_mutant("same").identity: "equivalent: never zero", _mutant("minor").identity: "not worth it: a log line"}
    found = Accounts(known, {"gpu_pools/plan/a.py"}, {"gpu_pools/plan/a.py": accounts.Counter()})
    for number in range(95):
        assert found.add(_mutant(f"noticed {number}"), Ended.NOTICED) is None
    assert found.add(_mutant("same"), Ended.MISSED) is None
    assert found.add(_mutant("minor"), Ended.MISSED) is None
    assert found.problems() == []
    told = found.add(_mutant("new"), Ended.UNTESTED)
    assert told
    assert "untested: gpu_pools/plan/a.py:1" in told
    assert found.problems() == ["gpu_pools/plan/a.py:1: missed, and not in survivors/"]
    assert "| gpu_pools/plan/a.py | 98 | 95 | 1 | 1 | 1 | 97.9 |" in found.table(98)
    for number in range(4):
        found.add(_mutant(f"missed {number}"), Ended.MISSED)
    assert found.problems()[0] == "gpu_pools/plan/: fewer than 95 of 100 noticed"


def test_a_listed_survivor_that_is_noticed_is_told() -> None:
    found = Accounts({_mutant("same").identity: "equivalent: x"}, set(), {"gpu_pools/plan/a.py": accounts.Counter()})
    assert found.add(_mutant("same"), Ended.NOTICED) == "gpu_pools/plan/a.py:1 is noticed, but listed: same"


def _package(file: str) -> str:
    return file.removeprefix("gpu_pools/").partition("/")[0]


def test_every_listed_survivor_is_a_mutant_of_the_file_as_it_is_and_has_a_reason() -> None:
    for file, entries in accounts.listed().items():
        assert (accounts.LISTS / f"{_package(file)}.yaml").read_text().count(f"  {file}:") == 1
        existing = {one.identity for one in mutants(file, (ROOT / file).read_text(encoding="utf-8"))}
        for entry in entries:
            assert accounts.identity(file, entry) in existing, (file, entry)
            assert entry["why"].startswith(("equivalent: ", "not worth it: "))
    assert set(accounts.whole_files()) <= {str(path.relative_to(ROOT)) for path in ROOT.glob("*/**/*.py")}


KINDS = """
from functools import cache

def made(extra):
    def inner(count):
        return count + extra + 1
    return inner

ready = made(10)

@cache
def remembered(count):
    return count + 2

def several(counts):
    return [count + 3 for count in counts]

class Kind:
    limit = 4

    @property
    def one(self):
        return self.limit + 5

def defaulting(count=6):
    return count
"""


@pytest.mark.parametrize(
    ("was", "now", "asked", "value"),
    [
        ("extra + 1", "extra + 2", lambda kinds: kinds.ready(0), 12),
        ("count + 2", "count + 3", lambda kinds: kinds.remembered(0), 3),
        ("count + 3", "count + 4", lambda kinds: kinds.several([0]), [4]),
        ("limit + 5", "limit + 6", lambda kinds: kinds.Kind().one, 10),
        ("limit = 4", "limit = 5", lambda kinds: kinds.Kind().limit, None),
        ("count=6", "count=7", lambda kinds: kinds.defaulting(), None),
        ("made(10)", "made(11)", lambda kinds: kinds.ready(0), None),
        ("return self.limit + 5", "return __class__", lambda kinds: kinds.Kind().one, None),
    ],
)
def test_a_mutant_is_put_into_a_loaded_function_unless_it_runs_as_the_module_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: str, now: str, asked: Callable[[ModuleType], object], value: object
) -> None:
    (tmp_path / "kinds.py").write_text(KINDS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "kinds", raising=False)
    module = importlib.import_module("kinds")
    functions = Functions(tmp_path)
    before = asked(module)
    module.remembered.cache_clear()
    assert functions.put("kinds.py", KINDS, KINDS.replace(was, now)) is (value is not None)
    assert asked(module) == (before if value is None else value)
    monkeypatch.delitem(sys.modules, "kinds")


#: As the runner's own process does it: this one may have threads, and does not fork.
TRIED = """
import sys
from pathlib import Path
from tests.mutants import suite
from tests.mutants.covering import measure, read
from tests.mutants.loaded import Loaded
from tests.mutants.mutations import mutants
from tests.mutants.trial import Trials

tree = Path(sys.argv[1])
covering = read(measure(tree, ["small.py"], ["test_small.py"], 60))
trials = Trials(tree, covering, Loaded(tree, ["test_small.py"]), 20)

def exhausted():
    raise MemoryError

assert suite.forked(20, suite.scratch(tree), exhausted) == suite.EXHAUSTED
assert suite.forked(20, suite.scratch(tree), lambda: 1 // 0) == suite.BROKEN
for one in mutants("small.py", (tree / "small.py").read_text()):
    print(one.now, "|", trials.ended(one).value)
"""
#: A machine that is busy where a file says so: then a test waits in vain, whatever the mutant.
BUSY = """
import time
from pathlib import Path
import pytest
from busy import twice

def test_twice():
    busy = Path("busy.txt")
    if (left := int(busy.read_text())) > 0:
        busy.write_text(str(left - 1))
        time.sleep(0.06)
        pytest.fail("it took too long")
    assert twice(2) == 4
"""
#: What a test of this runs has replaced is what pytest reports with.
REPLACED = """
import ast
from busy import twice

def test_twice(monkeypatch):
    monkeypatch.setattr(ast, "parse", None)
    assert twice(2) == 4
"""
BUSILY = """
import sys
from pathlib import Path
from tests.mutants import suite, trial
from tests.mutants.covering import measure, read
from tests.mutants.loaded import Loaded
from tests.mutants.mutations import mutants

tree, busy = Path(sys.argv[1]), Path(sys.argv[1]) / "busy.txt"
busy.write_text("0")
covering = read(measure(tree, ["busy.py"], ["test_busy.py"], 60))
covering.seconds.update(dict.fromkeys(covering.seconds, 0.0))
trial._SOON_SECONDS = 0.05
trials = trial.Trials(tree, covering, Loaded(tree, ["test_busy.py"]), 20)
for times in sys.argv[2:]:
    for one in mutants("busy.py", (tree / "busy.py").read_text()):
        busy.write_text(times)
        print(one.now, "|", times, "|", trials.ended(one).value, flush=True)
"""
SMALL = """
LIMIT = 3

def few(count):
    return count <= LIMIT

def unused(count):
    return count > 5
"""
TESTS = """
from small import few

def test_few():
    assert few(2)
    assert not few(4)
"""


def tried(tree: Path, program: str, sources: Mapping[str, str], *arguments: str) -> list[list[str]]:
    """What a program tells of the mutants of a project that is as small as can be."""
    ini = "[pytest]\npythonpath = .\nmarkers =\n    programs\n    engine\n"
    for name, text in {**sources, "pytest.ini": ini}.items():
        (tree / name).write_text(text)
    command = [sys.executable, "-c", program, str(tree), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=scaled(120))
    return [line.split(" | ") for line in done.stdout.splitlines()]


def test_what_fails_because_the_machine_is_busy_is_asked_again_and_not_claimed(tmp_path: Path) -> None:
    sources = {"busy.py": "def twice(count):\n    return count * 2\n", "test_busy.py": BUSY}
    found = tried(tmp_path, BUSILY, sources, "0", "2", "99")
    assert {how for _, busy, how in found if busy != "99"} == {"noticed"}
    # As long as the tests fail without a mutant, too, none of them is noticed.
    assert {how for _, busy, how in found if busy == "99"} == {"missed"}


def test_a_mutant_that_fails_a_test_where_pytest_cannot_report_it_is_noticed(tmp_path: Path) -> None:
    found = tried(tmp_path, BUSILY, {"busy.py": "def twice(count):\n    return count * 2\n", "test_busy.py": REPLACED}, "0")
    assert {how for _, _, how in found} == {"noticed"}


def test_a_mutant_is_noticed_missed_or_never_run(tmp_path: Path) -> None:
    found = dict(tried(tmp_path, TRIED, {"small.py": SMALL, "test_small.py": TESTS}))
    assert found == {
        # Nobody asks about three itself.
        "LIMIT = 4": "noticed",
        "return (count < LIMIT)": "missed",
        "return (count > LIMIT)": "noticed",
        # The last one, of what no test runs.
        "return None": "missed",
        "return (count >= 5)": "missed",
        "return (count <= 5)": "missed",
        "return count > 6": "missed",
    }
    assert (tmp_path / "small.py").read_text() == SMALL


def test_the_copy_has_the_packages_that_are_links_to_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, target = tmp_path / "project", tmp_path / "copy"
    for file in ("core/__init__.py", "parts/__init__.py"):
        (project / file).parent.mkdir(parents=True)
        (project / file).write_text("VALUE = 1\n", encoding="utf-8")
    (project / "core" / "parts").symlink_to("../parts")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    monkeypatch.setattr(suite, "ROOT", project)
    monkeypatch.setattr(suite, "_OURS", ("core",))
    assert suite.copied(target) == target
    # A link that led back to the project would have tests read what is no mutant.
    assert (target / "core" / "parts" / "__init__.py").resolve() == (target / "parts" / "__init__.py").resolve()
