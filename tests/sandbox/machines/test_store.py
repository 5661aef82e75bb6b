"""The store's one promise that no test with a real API server can hold: who is woken wakes up, however late it comes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

from sandbox.machines.store import Store

if TYPE_CHECKING:
    from sandbox.cluster.api import Api


class _JustAfter(threading.Event):
    """An event that is set as soon as somebody has waited for it in vain."""

    def wait(self, timeout: float | None = None) -> bool:
        seen = super().wait(timeout)
        self.set()
        return seen


def test_a_change_that_comes_as_the_wait_ends_is_seen_by_the_next_one() -> None:
    """On a busy machine a thread may lose its turn just there; the daemon would see the change with its next heartbeat only."""
    store = Store(cast("Api", None))
    store._changed = _JustAfter()
    assert not store.wait(0.0)
    assert store.wait(0.0)
