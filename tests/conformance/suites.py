"""The table of suites (suites.yaml): read, run, and written as a table of docs/stand-ins/README.md."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = Path(__file__).with_name("suites.yaml")
RUNS: Final = Path(__file__).with_name("runs.yaml")
PAGE: Final = ROOT / "docs" / "stand-ins" / "README.md"
_MARK: Final = re.compile(r"(<!-- conformance -->\n).*?(<!-- /conformance -->)", re.DOTALL)


@dataclass(frozen=True)
class Run:
    """A run of a suite against the real one.

    Attributes:
        date: of its end.
        real: the versions of what it ran against.
        passed: how many tests.
        failed: how many, errors included.
        skipped: how many.
        note: what is to be known of it.
    """

    date: str
    real: str
    passed: int
    failed: int
    skipped: int
    note: str = ""

    def text(self) -> str:
        """For the table."""
        parts = [f"{self.passed} passed"]
        parts += [f"{count} {word}" for count, word in ((self.failed, "failed"), (self.skipped, "skipped")) if count]
        return ", ".join(parts) + (f"; {self.note}" if self.note else "")


@dataclass(frozen=True)
class Suite:
    """A row.

    Attributes:
        what: stands in.
        files: the stand-in.
        tests: arguments of pytest; none where there is no suite.
        needs: how a machine comes to have the real one.
        without: why there is no suite.
        limits: what it does not say.
        environment: variables with which the suite's tests are run, so that they find the real one.
        run: the last one against the real one; None where it never was.
    """

    what: str
    files: tuple[str, ...]
    tests: tuple[str, ...] = ()
    needs: str = ""
    without: str = ""
    limits: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    run: Run | None = None


def suites() -> dict[str, Suite]:
    """All of them, by name."""
    found = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    runs = yaml.safe_load(RUNS.read_text(encoding="utf-8")) or {}
    return {
        name: Suite(
            **{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()},
            run=Run(**runs[name]) if name in runs else None,
        )
        for name, row in found.items()
    }


def run(suite: Suite, real: str) -> Run:
    """Run a suite against the real one; its tests are shown as they go."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *suite.tests]
        subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, **suite.environment})
        counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
        for one in ET.parse(report).iter("testsuite"):  # noqa: S314 - pytest's own
            for key in counts:
                counts[key] += int(one.get(key, 0))
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    return Run(dt.datetime.now(dt.UTC).date().isoformat(), real, passed, failed, counts["skipped"])


def record(name: str, done: Run) -> None:
    """Write a run down, in the place of the one before."""
    runs: dict[str, Any] = yaml.safe_load(RUNS.read_text(encoding="utf-8")) or {}
    runs[name] = {key: value for key, value in asdict(done).items() if value not in ("", None)}
    RUNS.write_text(yaml.safe_dump(runs, sort_keys=True, width=120), encoding="utf-8")


def page() -> str:
    """The page with the table as it is now."""
    lines = ["| stand-in | suite | the real one is here by | last run against it | result |", "|---|---|---|---|---|"]
    for suite in suites().values():
        tests = ", ".join(f"`{test}`" for test in suite.tests if test.startswith("tests/"))
        last = suite.run
        when = f"{last.date}, {last.real}" if last else "never"
        told = last.text() if last else suite.without or "not yet"
        limits = f". {suite.limits[:1].upper()}{suite.limits[1:]}" if suite.limits else ""
        cells = (suite.what, tests or "none", suite.needs or ("-" if suite.without else "its programs"), when, told + limits)
        lines.append(f"| {' | '.join(cells)} |")
    return _MARK.sub(lambda mark: f"{mark[1]}{chr(10).join(lines)}\n{mark[2]}", PAGE.read_text(encoding="utf-8"))
