"""The words of Kubernetes, NVIDIA, Azure and OpenStack, and plain English, where the project once had its own.

Not held to it: decisions, which quote.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from gpu_pools.evidence.verdicts import Verdict
from gpu_pools.sharing.modes import MODES

ROOT = Path(__file__).parents[2]
#: What is not to be written -> what is.
INSTEAD: Final = {
    r"\b[Cc]ards?\b": "GPU",
    r"\b[Bb]orn\b|\bat birth\b": "registers with (a taint), new",
    r"(?<![Tt]here )(?<![Hh]ere )\bis no (list|mapping|key|version|tag|error|part|JSON|YAML|"
    r"state|address|placement|name|label|pod|object|library|node|count|folder|file|measurement|whole|property|plain|text)\b": (
        "is not a …"
    ),
    r"\b(?:the|a|no|pool|pools\') [Mm]arkers?\b": "labeller",
    r"\b\w+_words\b|def words\b|\bmeans\(": "text, message, keys, tainted_by",
    r"^ *told(: [\w\[\], ]+)? = ": "a name that says what it holds",
}
LEFT_OUT: Final = ("docs/decisions/",)
#: GitHub's comments are found again by one, and the API of Nova pages by one.
MARKERS: Final = ("pipelines/", "gpu_pools/changes/markdown.py", "sandbox/openstack/catalogue.py")
FOLDERS: Final = ("gpu_pools", "components", "policies", "pipelines", "sandbox", "docs", "stacks")


def _files() -> list[Path]:
    found = [
        path
        for folder in FOLDERS
        for kind in ("*.py", "*.md", "*.yaml", "*.j2", "causes.json")
        for path in (ROOT / folder).rglob(kind)
    ]
    return [ROOT / "README.md", *(path for path in found if not str(path.relative_to(ROOT)).startswith(LEFT_OUT))]


@pytest.mark.parametrize(("banned", "instead"), INSTEAD.items(), ids=INSTEAD.values())
def test_things_have_their_usual_names(banned: str, instead: str) -> None:
    pattern = re.compile(banned)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line) and not ("arker" in banned and str(path.relative_to(ROOT)).startswith(MARKERS))
    ]
    assert found == [], f"write instead: {instead}"


def test_the_glossary_has_each_term_once_in_order_with_modes_and_verdicts() -> None:
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    terms = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert terms == sorted(set(terms), key=lambda term: term.lower().replace("-", " "))
    assert {mode.title for mode in MODES.values()} <= set(terms)
    assert all(verdict.value in text for verdict in Verdict)
