"""The words of Kubernetes, NVIDIA, Azure and OpenStack, and plain English, where the project once had its own.

One concept has one word (docs/reference/glossary.md): a pool is replaced, and living nodes change in a rollout. The other words
that these had are out of names and texts, but where the word means something else or others read it already.
Not held to it: decisions, which quote.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from gpu_pools.evidence.verdicts import Verdict
from gpu_pools.sharing.modes import MODES

if TYPE_CHECKING:
    from collections.abc import Iterator

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
#: What goes to users and to their nodes.
PRODUCT: Final = ("gpu_pools", "components", "policies", "pipelines")
#: In the names of modules, classes and functions -> what the concept is called.
NAMES: Final = {
    r"exchang|rotat|generation": "replacement",
    r"(^|_)turns?(_|$)": "rollout, or rollout slot",
}
#: In texts -> the same.
TEXTS: Final = {
    r"\b[Ee]xchang\w*|\b[Rr]otat\w*": "replacement, replace",
    r"\b(whose|its|a) turn\b": "rollout, or rollout slot",
}
#: File -> what stays in its texts, and why.
STAYS: Final = {
    "components/arguments/stack.py": (
        r"rotation|rotated|nodes are exchanged",
        "keys of the cloud's, and a log; Azure's upgrades",
    ),
    "gpu_pools/changes/acknowledged.py": (r"\brotated\b", "an effect in the document of a change"),
    "gpu_pools/changes/markdown.py": (r"\brotated\b", "an effect in the document of a change"),
    "gpu_pools/changes/pools.py": (r"\brotate[d]?\b", "an effect in the document of a change"),
    "gpu_pools/changes/replacements.py": (r"\brotated\b", "an effect in the document of a change"),
    "gpu_pools/drift/judged.py": (r"nodes are exchanged", "a value in the document of the drift"),
    "gpu_pools/evidence/verdicts.py": (r"exchange the program", "somebody puts another program in its place"),
    "gpu_pools/hardware/models.py": (r"exchanged", "two characters"),
    "gpu_pools/images/placed.py": (r"exchange", "somebody puts another image in its place"),
    "gpu_pools/plan/operator_upgrade.py": (r"its turn", "the operator's own order of nodes, as a message has it"),
    "gpu_pools/platforms/aks/inputs.py": (r"rotation", "Azure's key"),
    "gpu_pools/platforms/aks/options.py": (
        r"rotation|exchanges no node images",
        "Azure's key; Azure's upgrades, as a problem has it",
    ),
    "gpu_pools/platforms/aks/pool_options.py": (r"rotated|node can be exchanged", "a log; Azure's upgrades, as a problem has it"),
    "gpu_pools/platforms/aks/properties.yaml": (r"rotated", "certificates"),
    "gpu_pools/reading/fields.py": (r"its turn", "the order in which fields are read"),
    "gpu_pools/stack/verification.py": (r"exchange", "somebody puts another image in its place"),
}
#: Constructors of components take what is planned as a keyword, and show it as an attribute, since their first release.
PLANNED_STAYS: Final = "components/"


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


def _product_modules() -> list[Path]:
    return [path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))]


def _in_words(name: str) -> str:
    """A name of a class or function with underscores between its words, and none around them."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")


def _names(path: Path) -> Iterator[str]:
    """The module's own name, and those of its classes and functions."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


@pytest.mark.parametrize(("banned", "instead"), NAMES.items(), ids=NAMES.values())
def test_one_concept_has_one_word_in_names(banned: str, instead: str) -> None:
    names = [(path, name) for path in _product_modules() for name in _names(path)]
    found = [f"{path.relative_to(ROOT)}: {name}" for path, name in names if re.search(banned, _in_words(name))]
    assert found == [], f"write instead: {instead}"


@pytest.mark.parametrize(("banned", "instead"), TEXTS.items(), ids=TEXTS.values())
def test_one_concept_has_one_word_in_texts(banned: str, instead: str) -> None:
    found = []
    for path in (one for folder in PRODUCT for kind in ("*.py", "*.yaml") for one in sorted((ROOT / folder).rglob(kind))):
        name = str(path.relative_to(ROOT))
        if name.startswith("gpu_pools/stack/charts/"):
            continue
        kept = STAYS.get(name, ("(?!)", ""))[0]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(banned, line) and not re.search(kept, line):
                found.append(f"{name}:{number}: {line.strip()}")
    assert found == [], f"write instead: {instead}"


@pytest.mark.parametrize("name", STAYS)
def test_where_a_word_stays_it_is_there(name: str) -> None:
    assert re.search(STAYS[name][0], (ROOT / name).read_text(encoding="utf-8"))


def test_no_class_is_named_after_having_been_seen() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in _product_modules()
        if re.search(r"^class _?Seen\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert found == [], "name it after what was seen"


def test_what_is_planned_is_called_after_what_it_is() -> None:
    found = []
    for path in _product_modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_argument = isinstance(node, ast.arg) and node.arg == "planned"
            is_attribute = isinstance(node, ast.Attribute) and node.attr == "planned" and isinstance(node.ctx, ast.Store)
            if is_argument or is_attribute:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert [one for one in found if not one.startswith(PLANNED_STAYS)] == [], "write instead: pool_plan, plan, settings, sharing"


def test_the_glossary_has_each_term_once_in_order_with_modes_and_verdicts() -> None:
    text = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    terms = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert terms == sorted(set(terms), key=lambda term: term.lower().replace("-", " "))
    assert {mode.title for mode in MODES.values()} <= set(terms)
    assert all(verdict.value in text for verdict in Verdict)
