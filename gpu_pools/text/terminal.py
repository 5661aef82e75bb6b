"""What a command prints, made harmless where it is written, so that no message can forget it.

`guarded` puts a `Terminal` before standard output and standard error. It lets line breaks, colours of our own and our redrawing
of a line through, and writes everything else out that a terminal would act on. What is our own is marked with what nobody can
guess, so that a text of others cannot bring its own. Programs that are started inherit the descriptors behind it: the code that
starts one has to make its output harmless.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Of this process alone.
_MARK: Final = f"\x1b<{os.urandom(16).hex()}>"
_CONTROL: Final = re.compile(rf"({_MARK}\[(?:[\d;]+m|[GK]))")
#: What programs colour their output with: bold, underlined, and letters that are neither black nor hidden.
_PLAIN_COLOUR: Final = re.compile(r"\x1b(\[(?:[014]|3[1-7]|9[1-7]|38;5;(?:[1-9]|1[0-5]))m)")
_RESET: Final = 0
#: Moves the cursor to the start of its line (ECMA-48: CHA).
LINE_START: Final = f"{_MARK}[G"
#: Erases the line from the cursor on (ECMA-48: EL).
ERASE_LINE: Final = f"{_MARK}[K"


def coloured(text: str, colour: int) -> str:
    """A text in a colour (its SGR code), for a `Terminal` to write; whether colour is wanted is for the caller to know."""
    return f"{_MARK}[{colour}m{text}{_MARK}[{_RESET}m"


def as_coloured(output: str) -> str:
    """What a program has printed that we started, for a `Terminal` to write: its colours stay. Others may have written some."""
    return _PLAIN_COLOUR.sub(rf"{_MARK}\1", output)


class Terminal(io.TextIOBase):
    """A stream before another one."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - whatever stands in for a text stream
        """Write to a stream."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, harmless."""
        parts = _CONTROL.split(text)
        parts[::2] = map(harmless.text, parts[::2])
        parts[1::2] = (f"\x1b{part.removeprefix(_MARK)}" for part in parts[1::2])
        self._stream.write("".join(parts))
        return len(text)

    def flush(self) -> None:
        """Hand on what is held back."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Whether somebody looks at it."""
        return bool(self._stream.isatty())

    def fileno(self) -> int:
        """Of the stream behind."""
        return int(self._stream.fileno())

    def writable(self) -> bool:
        """It is there to be written to."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Of the stream behind."""
        return str(self._stream.encoding)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Everything that is printed meanwhile is harmless."""
    with contextlib.redirect_stdout(harmless_to(sys.stdout)), contextlib.redirect_stderr(harmless_to(sys.stderr)):
        yield


def harmless_to(stream: Any) -> Any:  # noqa: ANN401 - None where the stream is closed
    """The stream, with a `Terminal` before it unless there is one."""
    return stream if stream is None or isinstance(stream, Terminal) else Terminal(stream)
