"""What the documentation shows works from an installed wheel, where there is no checkout: commands, programs and stack files.

What needs a cloud, a cluster or the engine is left out here: tests/engine/test_packages.py has the provider and the policy pack.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_pools.text import incidents, pages
from tests.patience import scaled
from tests.unit.test_docs import PAGES, _as_printed
from tests.wheels import PACKAGES, build_wheel, install_beside_the_tests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
COMPONENTS = ROOT / "docs" / "reference" / "components"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel, and finds what it depends on in that of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    return install_beside_the_tests(folder / "venv", build_wheel(folder))


def _ran(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=scaled(300))


@pytest.mark.sweep
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_print_what_the_pages_show(installed: Path, tmp_path: Path, page: Path) -> None:
    """But for the names of pages, which are commands there."""
    shown = page.read_text(encoding="utf-8")
    printed = _as_printed(page, tmp_path, (str(installed / "bin" / "gpu-pools"),))
    blocks = [re.findall(r"```console\n(.*?)```", text, re.DOTALL) for text in (shown, printed)]
    assert [re.sub(r"\bdocs/(?=reference|runbooks|mps)", "gpu-pools docs ", block) for block in blocks[0]] == blocks[1]


def test_programs_run_and_make_their_component(installed: Path, tmp_path: Path) -> None:
    documents = [ROOT / "README.md", ROOT / "docs" / "reference" / "components.md", *sorted(COMPONENTS.glob("[A-Z]*.md"))]
    done = _ran([installed / "bin" / "python", Path(__file__).with_name("run_snippets.py"), *documents], tmp_path)
    assert done.returncode == 0, done.stderr
    ran = json.loads(done.stdout)
    assert set(ran) == set(map(str, documents))
    for path in documents[2:]:
        assert f"gpu-pools:index:{path.stem}" in ran[str(path)][0]


def test_the_stack_that_the_readme_shows_is_planned(installed: Path, tmp_path: Path) -> None:
    (stack,) = re.findall(r"```yaml\n(config:\n.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "Pulumi.shown.yaml").write_text(stack, encoding="utf-8")
    done = _ran([installed / "bin" / "gpu-pools", "plan", "Pulumi.shown.yaml"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_policy_pack_is_found_as_its_page_says(installed: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"--policy-pack \"\$\(python -c '(.*?)'\)\"", page)
    done = _ran([installed / "bin" / "python", "-c", program], tmp_path)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.is_relative_to(installed)
    assert (folder / "PulumiPolicy.yaml").is_file()


def test_the_pages_that_messages_name_are_printed(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin" / "gpu-pools"
    assert _ran([command, "docs"], tmp_path).stdout.split() == list(pages.SHIPPED)
    for page in pages.SHIPPED:
        assert _ran([command, "docs", page], tmp_path).stdout == (ROOT / "docs" / page).read_text(encoding="utf-8")
    program = (
        "from gpu_pools.text import incidents, pages; print(incidents.link('C06')); print(pages.apply_command('mps-signal.yaml'))"
    )
    link, apply = _ran([installed / "bin" / "python", "-c", program], tmp_path).stdout.splitlines()
    assert apply == "gpu-pools docs mps-signal.yaml | kubectl apply -f -"
    assert "before MIG is applied" in _ran([command, *link.split()[1:]], tmp_path).stdout


def test_in_a_checkout_messages_name_files_that_are_there() -> None:
    for page in pages.SHIPPED:
        assert (ROOT / pages.name_page(page)).is_file()
    assert pages.apply_command("mps-signal.yaml") == "kubectl apply -f docs/mps-signal.yaml"


def test_each_part_that_a_message_names_is_there() -> None:
    rules = pages.read_page("reference/rules.md")
    missing = [one for one in incidents._lines() if not pages.find_section(rules, one.lower())]
    assert missing == []
    for _, page, section in _named_pages():
        assert page in pages.SHIPPED
        assert not section or pages.find_section(pages.read_page(page), section), (page, section)


def test_no_message_names_a_page_by_itself() -> None:
    """It would name a file that a wheel has not.

    An alert's annotation is the same whoever deploys it, so it names the page only; a settings row is documentation.
    """
    named = [
        (str(path.relative_to(ROOT)), node.value)
        for path in _sources()
        for node in _texts(ast.parse(path.read_text(encoding="utf-8")))
        if re.search(r"\bdocs/(reference|runbooks|mps-signal|operations|stand-ins)", node.value)
    ]
    allowed = {"gpu_pools/observing/alerts.py", "gpu_pools/stack/observability.py"}
    assert [one for one in named if one[0] not in allowed] == []


def _sources() -> Iterator[Path]:
    for folder in PACKAGES[:3]:
        yield from (ROOT / folder).rglob("*.py")


def _texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """The texts of a module that are no docstrings."""
    # What stands alone as a statement documents a module, a class, a function or a field.
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    yield from (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
    )


def _named_pages() -> Iterator[tuple[str, str, str]]:
    """(module, page, part) of each call that names a page with texts."""
    for path in _sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "name_page":
                given = [one.value for one in node.args if isinstance(one, ast.Constant)]
                if given:
                    yield str(path), str(given[0]), str(given[1]) if len(given) > 1 else ""
