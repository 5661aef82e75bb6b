"""Reads HTML pages of ours, and sees that they are well formed, load nothing and run nothing."""

from __future__ import annotations

import html.parser

VOID = {"meta", "br"}
#: Whatever would load something, run something, or begin an element where none belongs.
FORBIDDEN = {"use", "script", "link", "img", "iframe", "object", "embed", "form", "base", "image", "foreignobject", "a"}


class Page(html.parser.HTMLParser):
    """Reads a page and sees that each element is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((self.open[-1], data))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return "".join(data for tag, data in self.texts if tag not in {"style", "title"})


def check_harmless(page: Page) -> None:
    """Nothing in it loads or runs anything, and no text does something to who looks at it."""
    for tag, attributes in page.elements:
        assert tag not in FORBIDDEN
        for name in attributes:
            assert not name.startswith("on")
            assert name not in {"src", "srcset", "style", "href", "xlink:href", "action"}
    (style,) = [data for tag, data in page.texts if tag == "style"]
    assert "url(" not in style
    assert "@import" not in style
    assert all(char.isprintable() or char == "\n" for char in page.text)
