"""Writes picture and tables of docs/what-sharing-costs.md: ``python -m tests.bench.measured``; a test holds them to it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final

from gpu_pools.bench import tables
from gpu_pools.bench.document import Document, read
from gpu_pools.bench.plot import drawn

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "what-sharing-costs.md"
PICTURE: Final = ROOT / "docs" / "pictures" / "what-sharing-costs.svg"
#: What stands side by side, and is drawn.
FILES: Final = ("h200-time-slicing", "h200-mps", "h200-mps-8-replicas")
#: What has tables of its own besides.
MORE: Final = ("h200-time-slicing-pods", "h200-mps-8-replicas-faults", "h200-mps-cuda-faults")
#: What is named on the page, and has none.
NAMED: Final = (
    "h200-time-slicing-full", "h200-time-slicing-full-faults", "h200-mps-full", "h200-time-slicing-processes",
)  # fmt: skip


def written(page: str) -> str:
    """The page with its tables as the measurements have them."""
    documents = _documents()
    parts = {name: tables.of(document) for name, document in zip(FILES, documents, strict=True)}
    parts |= {name: tables.of(_document(name)) for name in MORE}
    parts |= {"pods beside processes": (tables.side_by_side([_document(MORE[0]), _document(NAMED[-1])]),)}
    parts |= {"side by side": (tables.side_by_side(documents),), "published": tables.published()}
    for name, made in parts.items():
        text = "\n\n".join(map(tables.markdown, made))
        page, count = re.subn(rf"(<!-- {name} -->\n).*?(<!-- end -->)", partial(_between, text), page, flags=re.DOTALL)
        assert count == 1, name
    return page


def _documents() -> list[Document]:
    return [_document(name) for name in FILES]


def _document(name: str) -> Document:
    return read((ROOT / "docs" / "measured" / f"{name}.json").read_text("utf-8"), name)


def _between(text: str, found: re.Match[str]) -> str:
    return f"{found[1]}{text}\n{found[2]}"


if __name__ == "__main__":
    PICTURE.write_text(drawn(_documents()), encoding="utf-8")
    PAGE.write_text(written(PAGE.read_text("utf-8")), encoding="utf-8")
