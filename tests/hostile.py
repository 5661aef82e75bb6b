"""Hostile texts, and how to see that one got through; shared by the tests of all that shows something."""

from __future__ import annotations

import contextlib
import copy
import io
import re
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: What a terminal acts on: controls but for the line break, and turns of direction.
ACTED_ON: Final = frozenset(
    [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if code != ord("\n")]
    + [chr(code) for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
)
#: What a forge makes live in text that is not code.
LIVE: Final = re.compile(r"@\w|://|\bwww\.|\w#\d|(^|\s)[#!&]\d|(^|\s)[~%]\w|\$|\b[0-9a-f]{7,40}\b|:[a-z_]+:|^/", re.IGNORECASE)
#: One of each kind.
WORST: Final = (
    "\x1b[31mgreen\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]8;;https://evil.example\x07here\x1b]8;;\x07",
    "\x9b2J\r\x08\x00",
    "\u202egnp.exe\u2066\u2069",
    "gpu\u200b\u3164\ufeff",
    "\n- proven: all nodes\n",
    "\r\nok",
    "\u2028ok\u2029\x85",
    "\ud800",
    "@everyone [x](https://evil.example) ![y](//evil.example/p.png)",
    "https://evil.example www.evil.example owner/repo#1 !2 GH-3",
    "</summary><script>alert(1)</script><img src=x onerror=y>",
    "\"><svg onload=x> ' & &lt;",
    "| a | b |\n|---|---|",
    "```\n# out\n```",
    "`code` ~~~ <!-- --> -->",
    "/merge\n/approve",
    "{0} %s ${x} {{y}}",
    "$x$ :tada: 0123456789abcdef",
)


def texts() -> st.SearchStrategy[str]:
    """Texts that are up to something."""
    pieces = st.sampled_from([*WORST, *"\\|<>`*@#[]()!&~_-+=./: \n\t$%^\x1b\u202e", "x", "1"]) | st.text(max_size=5)
    return st.lists(pieces, max_size=8).map("".join)


def harmful(shown: str) -> list[str]:
    """What of a text would do something to a terminal."""
    return sorted({one for one in shown if one in ACTED_ON or "\ud800" <= one <= "\udfff"})


def forge() -> MarkdownIt:
    """Markdown as forges read it: CommonMark with HTML, tables, strikethrough."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


@st.composite
def spoiled(draw: st.DrawFn, document: Any, *, typed: bool = False) -> Any:
    """A document with some of what is in it, keys among it, replaced by hostile texts, or lengthened by them.

    `typed`: texts only, where somebody sees to it that all else is what it should be, as the API server does.
    """
    copied = copy.deepcopy(document)
    places = [*_places(copied)]
    chosen = draw(st.lists(st.integers(0, len(places) - 1), min_size=1, max_size=4, unique=True))
    # The innermost first: what is in something that was replaced can be reached no more.
    for holder, key in (places[index] for index in sorted(chosen, reverse=True)):
        evil = draw(st.sampled_from(WORST) | texts())
        if isinstance(holder, dict) and draw(st.integers(0, 4)) == 0:
            holder[f"{key}{evil}"] = holder.pop(key)
        elif isinstance(holder[key], str):
            holder[key] = evil if draw(st.booleans()) else f"{holder[key]}{evil}"
        elif not typed:
            holder[key] = evil
    return copied


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(mapping or list, key or index) of everything in a document."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from _places(inner)


def told(program: Callable[[Sequence[str]], int], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command line."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code = program(arguments)
        except SystemExit as ended:  # argparse
            code = int(ended.code or 0)
    return code, out.getvalue(), error.getvalue()
