"""Which tests run which lines, and how long each takes: only these are asked whether they notice a mutant."""

from __future__ import annotations

import ast
import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import coverage
import pytest

from tests.mutants import suite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: A line that so few tests run may be one whose result is remembered, or that a program runs which a test starts: there all tests
#: of the file are asked. If it runs while a module loads, as tables do, those beside them are, too: they may read what it made.
_FEW = 3
_REMEMBERS = {"cache", "lru_cache", "cached_property"}


@dataclass(frozen=True)
class Covering:
    """What a run of all the tests told.

    Attributes:
        seconds: per test.
        lines: file -> line -> tests that run it.
        loading: file -> lines that run while a module loads, the tests' own included.
        modules: what else was loaded.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]
    loading: dict[str, set[int]]
    modules: list[str]

    def tests_of(self, file: str, line: int, *, remembered: bool = False) -> list[str]:
        """The tests that may notice a change of that line, the quickest first.

        Args:
            file: below the root of the project.
            line: its number.
            remembered: that its result is: whoever asked first has run it, others read it, too.
        """
        near = self.lines.get(file, {})
        chosen = self._quickest(near.get(line, []))
        if remembered or len(chosen) < _FEW:
            own = {name for one in near.values() for name in one}
            chosen += self._quickest(own - set(chosen))
            if line in self.loading.get(file, ()):
                folders = {_folder(name) for name in own}
                chosen += self._quickest({name for name in self.seconds if _folder(name) in folders} - set(chosen))
        return chosen

    def _quickest(self, names: Any) -> list[str]:
        return sorted(set(names), key=lambda name: (self.seconds[name], name))


def remembered_lines(source: str) -> set[int]:
    """The lines of functions that compute once and remember it."""
    return {
        line
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.FunctionDef) and any(_name(decorator) in _REMEMBERS for decorator in one.decorator_list)
        for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)
    }


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]


def _folder(name: str) -> str:
    return name.partition("::")[0].rpartition("/")[0]


class _Told:
    """Tells the measurement which test runs."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._measured.switch_context(item.nodeid)
        began = time.perf_counter()
        yield
        self.seconds[item.nodeid] = time.perf_counter() - began
        self._measured.switch_context("")


def measure(tree: Path, files: Sequence[str], paths: Sequence[str], seconds: float) -> Path:
    """Run the tests once in that copy of the project; where what they told is written.

    Raises:
        RuntimeError: if they do not pass there as they are.
    """
    code = suite.forked(seconds, suite.scratch(tree), lambda: _measured(tree, files, paths))
    if code != 0:
        ended = "no end" if code is None else f"exit code {code}"
        log = (tree / "covering.log").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"the tests do not pass without a mutant: {ended}\n{_what_failed(log)}")
    return tree / "covering.json"


def _what_failed(log: str) -> str:
    """Where pytest tells of failures; what the interpreter says at its end comes after that, and may be much."""
    began = max(log.find(f"= {title} =") for title in ("FAILURES", "ERRORS"))
    return log[began:][:4000] if began >= 0 else log[-4000:]


def read(measured: Path) -> Covering:
    """What was written there."""
    found = json.loads(measured.read_text(encoding="utf-8"))
    tests = list(found["seconds"])
    lines = {
        file: {int(line): [tests[number] for number in numbers] for line, numbers in of.items()}
        for file, of in found["lines"].items()
    }
    loading = {file: set(numbers) for file, numbers in found["loading"].items()}
    return Covering(found["seconds"], lines, loading, found["modules"])


def _measured(tree: Path, files: Sequence[str], paths: Sequence[str]) -> int:
    measured = coverage.Coverage(data_file=None, config_file=False, include=[str(tree / file) for file in files])
    told = _Told(measured)
    measured.start()
    with (tree / "covering.log").open("w") as log:
        code = suite.run_there(tree, paths, told, output=log.fileno())
    measured.stop()
    data = measured.get_data()
    contexts = {file: data.contexts_by_lineno(str(tree / file)) for file in files}
    # By number: a name at each line that its test runs would be a hundred megabytes.
    numbers = {name: number for number, name in enumerate(told.seconds)}
    lines = {
        file: {line: sorted(numbers[name] for name in names if name) for line, names in of.items()}
        for file, of in contexts.items()
    }
    loading = {file: [line for line, names in of.items() if "" in names] for file, of in contexts.items()}
    modules = [
        name for name, module in sys.modules.items() if not str(getattr(module, "__file__", None) or tree).startswith(str(tree))
    ]
    (tree / "covering.json").write_text(
        json.dumps({"seconds": told.seconds, "lines": lines, "loading": loading, "modules": modules}), encoding="utf-8"
    )
    return code
