"""Builds several programs, two at a time: one build leaves a core idle while it loads, waits for a long file, and links.

Of each go.mod the program that takes longest is built first, by itself: what the others share with it is then compiled, and they
fill whatever is idle. When one fails, and at Ctrl-C, all end.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from sandbox.toolchain import build
from sandbox.toolchain.remaining import Remaining

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from sandbox.toolchain.meter import Meter
    from sandbox.toolchain.programs import Program

_LANES: Final = 2
_STOP_SECONDS: Final = 0.2
_LIBRARY: Final = "Go's own library"
_LIBRARY_SECONDS: Final = 34.0


class Builds:
    """Programs that are to be built, and what remains of that."""

    def __init__(self, programs: Sequence[Program], build_one: Callable[[Program, Meter], None]) -> None:
        """Begin nothing yet.

        Args:
            programs: at least one.
            build_one: builds one, and has it measured.
        """
        groups: dict[str, list[Program]] = {}
        for one in programs:
            groups.setdefault(one.graph, []).append(one)
        self._first = {graph: max(group, key=lambda one: one.seconds) for graph, group in groups.items()}
        seconds = {one.name: one.seconds + one.seconds_first * self._is_first(one) for one in programs}
        whole = {graph: sum(seconds[one.name] for one in group) for graph, group in groups.items()}
        self._waiting = sorted(
            programs, key=lambda one: (not self._is_first(one), -whole[one.graph] if self._is_first(one) else -one.seconds)
        )
        self._lanes = min(lanes(), max(len(groups), *(len(group) - 1 for group in groups.values())))
        self._build_one = build_one
        self._built: set[str] = set()
        self._changed = threading.Condition()
        self._over = threading.Event()
        library = {_LIBRARY: _LIBRARY_SECONDS} if self._lanes > 1 else {}
        self.remaining = Remaining({**library, **seconds})

    def run(self) -> None:
        """Build all.

        Raises:
            SandboxError: when one cannot be built.
        """
        if self._lanes > 1:
            build.build_standard_library(self._waiting[0], self.remaining.begin(_LIBRARY))
            self.remaining.end(_LIBRARY)
        with ThreadPoolExecutor(self._lanes) as pool:
            builds = [pool.submit(self._build_what_can_be) for _ in range(self._lanes)]
            try:
                for done in wait(builds, return_when=FIRST_EXCEPTION).done:
                    done.result()
            except BaseException:
                self._stop(builds)
                raise

    def _build_what_can_be(self) -> None:
        try:
            while (one := self._next()) is not None:
                self._build_one(one, self.remaining.begin(one.name))
                self.remaining.end(one.name)
                with self._changed:
                    self._built.add(one.name)
                    self._changed.notify_all()
        except BaseException:
            self._end()
            raise

    def _next(self) -> Program | None:
        """What can be built now, waited for; None when nothing is left, or nothing more is to be built."""
        with self._changed:
            while self._waiting and not self._over.is_set():
                for one in self._waiting:
                    if self._is_first(one) or self._first[one.graph].name in self._built:
                        self._waiting.remove(one)
                        return one
                self._changed.wait()
        return None

    def _is_first(self, one: Program) -> bool:
        return self._first[one.graph] is one

    def _end(self) -> None:
        with self._changed:
            self._over.set()
            self._changed.notify_all()

    def _stop(self, builds: Sequence[Future[None]]) -> None:
        self._end()
        # More than once: a build may be about to begin.
        while wait(builds, timeout=_STOP_SECONDS).not_done:
            build.stop_builds()


def lanes() -> int:
    """How many builds at a time this machine bears."""
    return _LANES if (os.cpu_count() or 1) > 1 and build.has_memory() else 1
