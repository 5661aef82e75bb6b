"""Text of others made harmless where it is written: what NVML, the node object and the API say may hold what a terminal acts on.

The project's own writer (gpu_pools/text/terminal.py) is not here: this program stands alone. It has no colours, and no letters of
its own that are not printable, so all that is not printable is written out. Loads nothing of Python's library: a node waits.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO


def plain(text: str) -> str:
    """A text with its line breaks, and nothing else in it that does more than to show."""
    return "\n".join(map(line, text.split("\n")))


def line(text: str) -> str:
    """The same as one line."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


class Plain:
    """A stream before another one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, harmless."""
        self._stream.write(plain(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream behind has
        return getattr(self._stream, name)
