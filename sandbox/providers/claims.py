"""Who works on which object: one call at a time, and the newest one ends the waiting of the one before.

An engine that is killed leaves its calls behind: a create that waits ten minutes for a DaemonSet goes on, though
nobody will read the answer. The next run's call for the same object must neither wait for it nor be undone by it.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator


class Claims:
    """The calls under way, by what they work on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[Hashable, threading.Event] = {}
        self._turns: dict[Hashable, threading.Lock] = {}

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[threading.Event]:
        """Work on something alone.

        Args:
            key: what is worked on.

        Yields:
            An event that is set when a newer call wants the same: the holder should stop, and must not claim success.
        """
        mine = threading.Event()
        with self._lock:
            previous = self._newest.get(key)
            self._newest[key] = mine
            turn = self._turns.setdefault(key, threading.Lock())
        if previous is not None:
            previous.set()
        with turn:
            try:
                yield mine
            finally:
                with self._lock:
                    if self._newest.get(key) is mine:
                        del self._newest[key], self._turns[key]
