"""A key in the stack file's words that a program has written in Python's: `vmSize`, written `vm_size`.

Components read both spellings and plan with the stack file's. Whoever misspells a key looks for what they have written, so
messages about unknown and missing keys, and what they suggest, are in that spelling.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable


class Spelled(str):
    """A key of the stack file; `written` is how the program has spelled it."""

    __slots__ = ("written",)

    written: str

    def __new__(cls, key: str, written: str) -> Self:
        """Be the key."""
        made = super().__new__(cls, key)
        made.written = written
        return made

    def __deepcopy__(self, _memo: object) -> Self:
        """Texts are never copied."""
        return self


def to_stack_key(written: str) -> str:
    """A key in the stack file's words; one that differs from what was written remembers that."""
    key = re.sub(r"_([a-z])", lambda match: match[1].upper(), written)
    return key if key == written else Spelled(key, written)


def written_key(key: str) -> str:
    """A key as it was written."""
    return key.written if isinstance(key, Spelled) else key


def in_spelling_of(key: str, beside: Iterable[str], known: str) -> str:
    """A known key in the spelling of another one.

    Args:
        key: the other one.
        beside: the keys that were written with it: of one word alone both spellings are the same.
        known: in the stack file's words.
    """
    one_word = key == written_key(key) and key == key.lower()
    return to_python_key(known) if isinstance(key, Spelled) or (one_word and _has_python(beside)) else known


def spelled_beside(beside: Iterable[str], known: str) -> str:
    """A key that is missing, in the spelling of those that were written.

    Args:
        beside: the keys that were written.
        known: in the stack file's words.
    """
    return to_python_key(known) if _has_python(beside) else known


def _has_python(keys: Iterable[str]) -> bool:
    """Whether one of these keys is written in Python's words."""
    return any(isinstance(key, Spelled) for key in keys)


def to_python_key(key: str) -> str:
    """A key of the stack file in Python's words."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match[1].lower()}", key)
