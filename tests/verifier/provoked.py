"""Which test provokes which cause: provoked.json, written anew by ``python -m tests.verifier.provoked`` (two minutes).

What stands there is evidence, not a claim: conftest.py looks at each of these tests while it runs, and it fails where the
verifier did not come to that cause. Causes that only another process came to are not seen.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_pools.verifier import findings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.verifier.causes import Cause

HERE = Path(__file__).parent
#: What these draw differs from run to run, and what they come to with it.
_DRAWS = {"test_healthy.py", "test_fleet.py"}
LIST = HERE / "provoked.json"


def listed() -> dict[str, list[str]]:
    """Cause -> tests that provoke it, as ``file.py::test``: of each file the one that provokes the fewest others."""
    found: dict[str, list[str]] = json.loads(LIST.read_text(encoding="utf-8"))
    return found


def name_of(item: pytest.Item) -> str:
    """As the list has it."""
    return item.nodeid.rpartition("/")[2]


@contextlib.contextmanager
def watched() -> Iterator[set[str]]:
    """The causes that findings are given from now on."""
    given: set[str] = set()
    plain = findings._cause

    def seen(key: str) -> Cause:
        given.add(key)
        return plain(key)

    findings._cause = seen
    try:
        yield given
    finally:
        findings._cause = plain


class _Recorder:
    """Notes what each test that passes has provoked."""

    def __init__(self) -> None:
        self.by_test: dict[str, set[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with watched() as given:
            result = yield
        if item.path.name not in _DRAWS and not getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            self.by_test[name_of(item)] = given
        return result


def record() -> int:
    """Run the verifier's tests and write the list."""
    recorder = _Recorder()
    code = pytest.main(["-q", "-p", "no:xdist", str(HERE)], plugins=[recorder])
    by_cause: dict[str, dict[str, str]] = defaultdict(dict)
    for test, causes in sorted(recorder.by_test.items(), key=lambda one: (len(one[1]), one[0])):
        for cause in causes:
            by_cause[cause].setdefault(test.partition("::")[0], test)
    LIST.write_text(
        json.dumps({key: sorted(of.values()) for key, of in sorted(by_cause.items())}, indent=1) + "\n", encoding="utf-8"
    )
    return int(code)


if __name__ == "__main__":
    # Under the name by which conftest.py knows this module: there must be one list of hooks around findings only.
    from tests.verifier import provoked

    sys.exit(provoked.record())
