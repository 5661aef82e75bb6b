"""The pages of the documentation that messages name: where they are, what they say, and how a message names them.

A checkout has them in docs/. A wheel has the few that messages name (`SHIPPED`), and `gpu-pools docs PAGE` prints them. So a
message names a page in the way that works where it is printed.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

#: In the wheel; pyproject.toml has the same list.
SHIPPED: Final = (
    "mps-signal.yaml",
    "reference/policies.md",
    "reference/rules.md",
    "reference/verification.md",
    "runbooks/alerts.md",
    "runbooks/stuck-mig-change.md",
)
_HEADING: Final = re.compile(r"^(#+) (.*)$")


def name_page(page: str, section: str = "") -> str:
    """How a message names a page: as a file of a checkout, or as the command that prints it.

    Args:
        page: one of SHIPPED.
        section: the id of a part of it; empty for the whole page.
    """
    place = f"{page}#{section}" if section else page
    return f"docs/{place}" if _packaged() is None else f"gpu-pools docs {place}"


def apply_command(manifest: str) -> str:
    """The command that applies a manifest among the pages."""
    if _packaged() is None:
        return f"kubectl apply -f docs/{manifest}"
    return f"gpu-pools docs {manifest} | kubectl apply -f -"


def read_page(page: str) -> str:
    """What a page says.

    Raises:
        KeyError: if it is not one of SHIPPED.
    """
    if page not in SHIPPED:
        raise KeyError(page)
    folder = _packaged() or Path(__file__).resolve().parents[2] / "docs"
    return folder.joinpath(*page.split("/")).read_text(encoding="utf-8")


def find_section(text: str, section: str) -> str:
    """A part of a page: the heading with what is below it, the row of a table or the paragraph that has an id; else empty."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if f'<a id="{section}"></a>' in line and line.startswith("|"):
            return _row(lines, number)
        if line.startswith(f'<a id="{section}"></a>'):
            return _paragraph(lines[number:])
        heading = _HEADING.match(line)
        if heading and section in {_id_of(heading[2]), *re.findall(r'<a id="([^"]+)"', line)}:
            return _below(lines, number, len(heading[1]))
    return ""


def _packaged() -> Traversable | None:
    """The folder of pages in an installed package; None in a checkout."""
    folder = resources.files("gpu_pools") / "docs"
    return folder if folder.is_dir() else None


def _row(lines: list[str], number: int) -> str:
    """A row of a table, a line for each column."""
    first = number
    while first and lines[first - 1].startswith("|"):
        first -= 1
    cells = (_cells(lines[first]), _cells(lines[number]))
    return "".join(f"{column}: {re.sub('<a id=.*?</a>', '', cell)}\n" for column, cell in zip(*cells, strict=False))


def _paragraph(lines: list[str]) -> str:
    """The first paragraph of these lines."""
    end = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
    return re.sub("<a id=.*?</a>", "", "\n".join(lines[:end])) + "\n"


def _cells(line: str) -> list[str]:
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _below(lines: list[str], number: int, depth: int) -> str:
    """A heading with all that stands below it."""
    part = [lines[number]]
    for line in lines[number + 1 :]:
        heading = _HEADING.match(line)
        if heading and len(heading[1]) <= depth:
            break
        part.append(line)
    return "\n".join(part).rstrip() + "\n"


def _id_of(heading: str) -> str:
    """The id that forges give a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"<[^>]*>", "", heading).lower()).strip().replace(" ", "-")
