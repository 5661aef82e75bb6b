"""Shows what a program prints: harmless but for its colours, without the lines that would mislead here.

By way of a file, not of a pipe: an engine whose command was killed goes on to its end, and would die of a pipe that nobody reads.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from typing import IO, TYPE_CHECKING, Final, TextIO

from gpu_pools.text.terminal import as_coloured, harmless_to
from sandbox.system.files import explained, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_POLL_SECONDS: Final = 0.1
_BEGUN: Final = re.compile(r"\x1b(\[[\d;]*)?$")


@contextlib.contextmanager
def shown(file: Path, stream: TextIO, without: Sequence[str] = ()) -> Iterator[IO[str]]:
    """A file for a program's output, which appears on a stream, too.

    Args:
        file: where the output is kept.
        stream: where it appears.
        without: beginnings of lines that are left out.
    """
    make_folder(file.parent)
    with explained(file, "write"):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    over = threading.Event()
    with os.fdopen(descriptor, "w") as writing, file.open(encoding="utf-8", errors="replace", newline="") as reading:
        copying = threading.Thread(target=_copy, args=(reading, over, _Screen(stream), without))
        copying.start()
        try:
            yield writing
        finally:
            over.set()
            copying.join()


class _Screen:
    """Writes to a stream; holds back the beginning of a colour until the rest of it is there."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = harmless_to(stream)
        self._held = ""

    def write(self, text: str, *, last: bool = False) -> None:
        text = self._held + text
        begun = None if last else _BEGUN.search(text)
        self._held = begun[0] if begun else ""
        self._stream.write(as_coloured(text.removesuffix(self._held)))
        self._stream.flush()


def _copy(reading: IO[str], over: threading.Event, screen: _Screen, beginnings: Sequence[str]) -> None:
    line = ""
    while True:
        last = over.wait(_POLL_SECONDS)
        for part in reading.read().splitlines(keepends=True):
            held = _may_be_left_out(line, beginnings)
            line += part
            if not _may_be_left_out(line, beginnings):
                screen.write(line if held else part)
            if line.endswith("\n"):
                line = ""
        if last and _may_be_left_out(line, beginnings) and not line.startswith(tuple(beginnings)):
            screen.write(line)
        if last:
            screen.write("", last=True)
            return


def _may_be_left_out(line: str, beginnings: Sequence[str]) -> bool:
    """Whether a line, or the part of it that is there, is one that is left out."""
    return any(line.startswith(beginning) or (line and beginning.startswith(line)) for beginning in beginnings)
