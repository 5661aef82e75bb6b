"""What people read is in short sentences; what takes more is a list. Code in a sentence is one word, blocks are left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
#: Words of one sentence.
LONGEST: Final = 45
PAGES: Final = sorted(
    [
        *ROOT.glob("*.md"),
        *(path for folder in ("docs", "sandbox", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.md")),
    ]
)
_ITEM: Final = re.compile(r"^(?:[-*+]|\d+\.)\s+")
_LEFT_OUT: Final = re.compile(r"^```.*?^```|^---\n.*?^---$|<!--.*?-->", re.MULTILINE | re.DOTALL)
#: What a link leads to, what HTML says to the browser.
_UNREAD: Final = re.compile(r"\]\([^)]*\)|<[^>]+>")
_ABBREVIATION: Final = re.compile(r"\b(e\.g|i\.e|etc|vs)\.")
_END: Final = re.compile(r"(?<=[.!?])[*_)\"”]*\s+")


def _passages(text: str) -> Iterator[str]:
    """Paragraphs, items of lists, and cells of tables, a line each."""
    passage: list[str] = []
    for line in [*_LEFT_OUT.sub("", text).splitlines(), ""]:
        stripped = line.strip()
        if passage and (not stripped or stripped.startswith(("#", "|")) or _ITEM.match(stripped)):
            yield " ".join(passage)
            passage = []
        if stripped.startswith("|"):
            yield from re.split(r"(?<!\\)\|", stripped)
        elif stripped and not stripped.startswith("#"):
            passage.append(stripped)


def _sentences(text: str) -> Iterator[str]:
    for passage in _passages(text):
        plain = re.sub(r"`[^`]*`", "code", _UNREAD.sub("]", passage))
        yield from _END.split(_ABBREVIATION.sub(r"\1", _ITEM.sub("", plain, count=1)))


def _in_stack_keys(sentence: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def test_what_counts_as_a_sentence() -> None:
    prose = "# Not this\nOne two, `three four` e.g. [five](six seven).\nsix.\n\n"
    rest = "```\nseven\n```\n1. nine\n- ten | no cell\n\n| eleven | twelve |"
    assert [_in_stack_keys(sentence) for sentence in _sentences(prose + rest) if sentence.strip()] == [5, 1, 1, 3, 1, 1]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sentence_is_too_long_to_be_read_once(page: Path) -> None:
    long = [sentence for sentence in _sentences(page.read_text(encoding="utf-8")) if _in_stack_keys(sentence) > LONGEST]
    assert long == []
