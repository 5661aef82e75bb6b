"""Text of others made harmless, for each place where text is shown: a terminal, Markdown, HTML, SARIF.

Others are whoever wrote a stack file, named something in a cluster or cloud, sent an engine event or answered through NVML.
Control characters, turns of direction and what is invisible are written out (ESC as backslash x1b); letters of all scripts stay
as they are. JSON needs none of it: Python writes it in ASCII, and what reads it gets the very text.

Texts are made everywhere and written in few places. Those call this module: gpu_pools/text/terminal.py for whatever a command
prints, gpu_pools/text/markup.py for Markdown and HTML, gpu_pools/changes/sarif.py.
"""

from __future__ import annotations

import html as _html
import re
from typing import Final

#: Letters, marks and signs by Unicode's book, but nothing can be seen of them: fillers, joiners, variation selectors, blanks.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_BLANKS: Final = re.compile(r"[ \t\r\n]+")
_MEANT: Final = re.compile(r"([\\`*_{}\[\]<>|#~&])")
#: At its beginning a line is a list, a heading's underline or, on GitLab, an action.
_BEGINS: Final = re.compile(r"^( ?\d*)([-+=]|(?<=\d)[.)](?= |$))")
#: What forges turn into a link, a mention, a reference, a picture or an action although no character of it is markup.
_LIVE: Final = re.compile(
    r"""
    @ | :// | \b(?:www\.|mailto:|xmpp:)     # mentions, addresses, links
    | [#!&]\d | [%~^][\w"] | \$             # issues, merge requests, epics; milestones, labels, alerts; snippets, formulas
    | \b[A-Za-z][A-Za-z0-9_]+-\d+\b         # GH-1, and tickets of trackers that are linked
    | \b[0-9a-f]{7,40}\b                    # commits
    | :[\w+-]+:                             # emoji
    | ^/                                    # GitLab's quick actions
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: Nothing can be escaped in code: what would end it, or its cell, becomes what is like it.
_LIKE: Final = str.maketrans("`|\\", "'¦\N{SET MINUS}")
_PLACEHOLDER: Final = str.maketrans({"{": "{{", "}": "}}"})


def text(of: object) -> str:
    """For a terminal, with the line breaks that are in it."""
    return "\n".join(map(line, str(of).split("\n")))


def line(of: object) -> str:
    """For a terminal, as one line: a break would let others write lines of their own."""
    whole = str(of)
    if whole.isprintable() and not _UNSEEN.search(whole):
        return whole
    return "".join(one if one.isprintable() and not _UNSEEN.match(one) else _written_out(one) for one in whole)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode()


def markdown(of: object) -> str:
    """For a comment on a forge: one line that is only text. A word that a forge would bring to life stands there as code."""
    words = line(_BLANKS.sub(" ", str(of))).split(" ")
    shown = " ".join(code(word) if _LIVE.search(word) else _MEANT.sub(r"\\\1", word) for word in words)
    return _BEGINS.sub(r"\1\\\2", shown)


def code(of: object) -> str:
    """For a comment, as code."""
    return f"`{line(_BLANKS.sub(' ', str(of))).translate(_LIKE) or ' '}`"


def html(of: object) -> str:
    """For a page, in elements and in attributes that are quoted."""
    return _html.escape(line(of))


def sarif(of: object) -> str:
    """For a message of SARIF 2.1.0, which knows placeholders (3.11.5) and embedded links (3.11.6)."""
    return text(of).translate(_PLACEHOLDER).replace("](", "] (")
