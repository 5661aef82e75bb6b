"""Files that docstrings, comments and pages name are there: a reader who follows a name finds what it promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
READ: Final = ("gpu_pools", "components", "policies", "sandbox", "pipelines", "benchmarks", "docs", "tests/mutants")
#: What was decided stays as it was written.
LEFT_OUT: Final = ("docs/decisions", "docs/measured")
#: A reader takes a name that begins so for a file of this project: its folders, and the packages of the two that have most.
FOLDERS: Final = sorted(
    path.name
    for place in (ROOT, ROOT / "gpu_pools", ROOT / "sandbox")
    for path in place.iterdir()
    if path.is_dir() and not path.name.startswith((".", "_")) and path.name not in {"venv", "data", "text"}
)
NAMED: Final = re.compile(rf"(?<![\w/.@-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w\.(?:py|md|yaml|json|sh|c|h|cu))\b")
#: Names of a user's own files, of a stack's state, and those of another project that its source stands before.
EXAMPLES: Final = re.compile(r"stacks/Pulumi\..*|openstack/openstack\.json|docs/book/src/.*")


def _pages() -> list[Path]:
    found = [path for folder in READ for kind in ("*.py", "*.md") for path in (ROOT / folder).rglob(kind)]
    kept = [path for path in found if not str(path.relative_to(ROOT)).startswith(LEFT_OUT)]
    return [*ROOT.glob("*.md"), *kept]


def missing(text: str, folder: Path) -> list[str]:
    """The files that a text names and that are neither in the project nor beside whoever names them."""
    return [
        name
        for name in NAMED.findall(text)
        if not (ROOT / name).exists() and not (folder / name).exists() and not EXAMPLES.fullmatch(name)
    ]


@pytest.mark.parametrize(
    "text",
    ["(gpu_pools/mig.py)", "see `evidence/page.py`.", "sandbox/README2.md", "as tests/unit/test_none.py says"],
)
def test_a_file_that_is_not_there_is_found(text: str) -> None:
    assert missing(text, ROOT)


@pytest.mark.parametrize(
    "text", ["(gpu_pools/mig/geometry.py)", "mig-parted: internal/mig/none.py", "https://example.org/docs/none.md", "docs/"]
)
def test_a_file_that_is_there_or_is_of_others_is_not(text: str) -> None:
    assert missing(text, ROOT) == []


def test_files_that_are_named_are_there() -> None:
    found = {str(path.relative_to(ROOT)): missing(path.read_text(encoding="utf-8"), path.parent) for path in _pages()}
    assert {page: names for page, names in found.items() if names} == {}
