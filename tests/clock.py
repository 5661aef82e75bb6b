"""A clock of one module's own, for tests.

To patch `time.sleep` or `time.monotonic` themselves patches them for every thread of the process. A thread that an earlier test
has left then moves the clock, or reads it, and on a busy machine a test fails for it.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    import pytest


def set_clock(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **functions: Callable[..., Any]) -> None:
    """Give a module that says `import time` other functions of this library; whatever else uses it has its own.

    Args:
        monkeypatch: takes it back after the test.
        module: whose clock it is.
        functions: by their names in `time`.
    """
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), **functions}))
