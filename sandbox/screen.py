"""Shows what a program prints, without the lines that would mislead here.

By way of a file, not of a pipe: an engine whose command was killed goes on to its end, and would die of a pipe that nobody reads.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import IO, TYPE_CHECKING, Final

from sandbox.files import explained, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_POLL_SECONDS: Final = 0.1


@contextlib.contextmanager
def shown_without(beginnings: Sequence[str], file: Path) -> Iterator[IO[str]]:
    """A file for a program's output, which appears on the standard output, too.

    Args:
        beginnings: of lines that are left out.
        file: where the output is kept.
    """
    make_folder(file.parent)
    with explained(file, "write"):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    over = threading.Event()
    with os.fdopen(descriptor, "w") as writing, file.open(encoding="utf-8", errors="replace", newline="") as reading:
        copying = threading.Thread(target=_copy, args=(reading, over, beginnings))
        copying.start()
        try:
            yield writing
        finally:
            over.set()
            copying.join()


def _copy(reading: IO[str], over: threading.Event, beginnings: Sequence[str]) -> None:
    line = ""
    while True:
        last = over.wait(_POLL_SECONDS)
        for part in reading.read().splitlines(keepends=True):
            held = _may_be_left_out(line, beginnings)
            line += part
            if not _may_be_left_out(line, beginnings):
                sys.stdout.write(line if held else part)
            if line.endswith("\n"):
                line = ""
        if last and _may_be_left_out(line, beginnings) and not line.startswith(tuple(beginnings)):
            sys.stdout.write(line)
        sys.stdout.flush()
        if last:
            return


def _may_be_left_out(line: str, beginnings: Sequence[str]) -> bool:
    """Whether a line, or the part of it that is there, is one that is left out."""
    return any(line.startswith(beginning) or (line and beginning.startswith(line)) for beginning in beginnings)
