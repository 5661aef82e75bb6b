"""No test changes the clock of the whole process."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.clock import set_clock

TESTS = Path(__file__).parents[1]
OF_ALL = re.compile(r"""setattr\(\s*(?:[\w.]*\btime,\s*["'](?:sleep|monotonic|time)|["']time\.)""")


def test_a_module_s_clock_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module, slept = ModuleType("module"), []
    module.time = time  # type: ignore[attr-defined] # as `import time` does
    set_clock(monkeypatch, module, sleep=slept.append)
    other = threading.Thread(target=time.sleep, args=(0.001,))
    other.start()
    other.join()
    module.time.sleep(5)
    assert slept == [5]
    assert module.time.monotonic() <= time.monotonic()


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_test_changes_the_clock_of_all(path: Path) -> None:
    assert path.name == Path(__file__).name or not OF_ALL.search(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "line", ['m.setattr(x.time, "sleep", f)', 'm.setattr("time.monotonic", f)', 'm.setattr(time, "time", f)']
)
def test_such_a_line_is_found(line: str) -> None:
    assert OF_ALL.search(line)
