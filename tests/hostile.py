"""Hostile texts, and how to see that one got through; shared by the tests of all that shows something."""

from __future__ import annotations

import re
from typing import Final

from hypothesis import strategies as st
from markdown_it import MarkdownIt

#: What a terminal acts on: controls but for the line break, and turns of direction.
ACTED_ON: Final = frozenset(
    [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if code != ord("\n")]
    + [chr(code) for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
)
#: What a forge makes live in text that is no code.
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
