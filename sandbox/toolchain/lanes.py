"""Builds several programs, two at a time: one build leaves a core idle while it loads, waits for a long file, and links.

Programs of one go.mod are built one after the other, so that what they share is compiled once. When one fails, and at
Ctrl-C, all end.
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

    from sandbox.toolchain.programs import Program

_LANES: Final = 2
_STOP_SECONDS: Final = 0.2
_LIBRARY: Final = "Go's own library"
_LIBRARY_SECONDS: Final = 20.0


class Builds:
    """Programs that are to be built, and what remains of that."""

    def __init__(self, programs: Sequence[Program], build_one: Callable[[Program], None]) -> None:
        """Begin nothing yet.

        Args:
            programs: at least one.
            build_one: builds one.
        """
        groups: dict[str, list[Program]] = {}
        for one in programs:
            groups.setdefault(one.graph, []).append(one)
        seconds = {one.name: one.seconds + one.seconds_first * (group[0] is one) for group in groups.values() for one in group}
        self._longest_first = sorted(groups.values(), key=lambda group: -sum(seconds[one.name] for one in group))
        self._lanes = min(lanes(), len(groups))
        self._build_one = build_one
        self._over = threading.Event()
        library = {_LIBRARY: _LIBRARY_SECONDS} if self._lanes > 1 else {}
        self.remaining = Remaining({**library, **seconds})

    def run(self) -> None:
        """Build all.

        Raises:
            SandboxError: when one cannot be built.
        """
        if self._lanes > 1:
            self.remaining.begin(_LIBRARY, 1)
            build.build_standard_library(self._longest_first[0][0])
            self.remaining.end(_LIBRARY)
        with ThreadPoolExecutor(self._lanes) as pool:
            builds = [pool.submit(self._build_group, group) for group in self._longest_first]
            try:
                for done in wait(builds, return_when=FIRST_EXCEPTION).done:
                    done.result()
            except BaseException:
                self._stop(builds)
                raise

    def _build_group(self, group: Sequence[Program]) -> None:
        try:
            for one in group:
                if self._over.is_set():
                    return
                self.remaining.begin(one.name, self._lanes)
                self._build_one(one)
                self.remaining.end(one.name)
        except BaseException:
            # Before this thread goes on to the group that waits.
            self._over.set()
            raise

    def _stop(self, builds: Sequence[Future[None]]) -> None:
        self._over.set()
        # More than once: a build may be about to begin.
        while wait(builds, timeout=_STOP_SECONDS).not_done:
            build.stop_builds()


def lanes() -> int:
    """How many builds at a time this machine bears."""
    return _LANES if (os.cpu_count() or 1) > 1 and build.has_memory() else 1
