"""Writes Markdown and HTML: the marks are ours, whatever stands between them is text of others and made harmless.

A document is put together from templates, `Markdown.of("- {}: {}", name, reason)`: each part is escaped, unless it is such markup
itself. Every other way to put strings together (an f-string, ``+``) gives a plain ``str``, which is text again: the types say so
where it is written, and at the next template it is escaped like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from gpu_pools.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Markup(str):
    """Markup in one language."""

    __slots__ = ()

    @classmethod
    def of(cls, template: str, *parts: object) -> Self:
        """Fill a template, which is a literal in our code, with parts of others."""
        return cls(template.format(*map(cls.escaped, parts)))

    @classmethod
    def all(cls, parts: Iterable[object], between: str = "") -> Self:
        """Parts in a row; what stands between them is ours."""
        return cls(between.join(map(cls.escaped, parts)))

    @classmethod
    def escaped(cls, part: object) -> Self:
        """A part as it may stand there: markup as it is, anything else as text."""
        return part if isinstance(part, cls) else cls(cls._text(part))

    @staticmethod
    def _text(part: object) -> str:
        raise NotImplementedError


class Markdown(_Markup):
    """Markdown as forges read it."""

    __slots__ = ()

    @classmethod
    def code(cls, part: object) -> Self:
        """A text as code."""
        return cls(harmless.code(part))

    @staticmethod
    def _text(part: object) -> str:
        return harmless.markdown(part)


class Html(_Markup):
    """HTML, in elements and in attributes that are quoted."""

    __slots__ = ()

    def __html__(self) -> Self:
        """Say to a template that it is markup (gpu_pools/text/templates.py)."""
        return self

    @staticmethod
    def _text(part: object) -> str:
        return harmless.html(part)
