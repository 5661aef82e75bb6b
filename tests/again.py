"""Runs pytest; where at most five tests failed, runs exactly those once more, alone. ``python -m tests.again OPTIONS OF PYTEST``

A test that fails once and passes then is a defect, too: it is named, loudly, and to be mended. But it does not stop what has
nothing to do with it (decision 128). Red stays: more failures than five, a second one, a file that cannot be collected, a worker
that crashed, a run in which no test was selected.

Tests that share what they work on run in the order they are written, so one of them cannot run alone: there its whole file is run
again, and all of it must pass.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

MOST: Final = 5
#: Where the names of the flaky are also left, a line each, for whoever prints them at the very end.
FLAKY: Final = "FLAKY"
_FAILED: Final = 1
_SHARED: Final = re.compile(r"\bshared_sandbox\b|scope=\"(module|package|session)\"")
_CRASHED: Final = "again/crashed"


def main(options: list[str]) -> int:
    """Run with these options, which name no files; returns the exit code, 0 where all tests passed at last."""
    code = _pytest("--cache-clear", "-p", "tests.again", *options)
    failed = _remembered("cache/lastfailed")
    # What has no test in its name is a file that could not be collected.
    if code != _FAILED or not 0 < len(failed) <= MOST or not all("::" in one for one in failed) or _remembered(_CRASHED):
        return code
    print(f"\n{len(failed)} failed; once more, alone: {' '.join(failed)}", flush=True)
    again = _pytest(*options, "-n", "0", *_together(failed))
    if again == 0:
        _name(failed)
    return again


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, sched: Any) -> None:
    """A worker died in a test: to pytest-xdist that is a failure of the test."""
    sched.config.cache.set(_CRASHED, [crashitem])


def _remembered(name: str) -> list[str]:
    """What pytest keeps in its cache under a name."""
    file = Path(".pytest_cache/v") / name
    return sorted(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else []


def _together(failed: list[str]) -> list[str]:
    """The tests to run; the whole file where it shares something among its tests."""
    chosen = []
    for one in failed:
        file = one.partition("::")[0]
        chosen.append(file if _SHARED.search(Path(file).read_text(encoding="utf-8")) else one)
    return list(dict.fromkeys(chosen))


def _name(failed: list[str]) -> None:
    lines = "".join(f"FLAKY: {one}\n" for one in failed)
    print(f"\n{lines}", end="", flush=True)
    if os.environ.get(FLAKY):
        with Path(os.environ[FLAKY]).open("a", encoding="utf-8") as file:
            file.write(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
