"""Templates of HTML pages: whatever is put into one is text there, and jinja2 is loaded when a page is written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import pytest

from gpu_pools.text import templates
from gpu_pools.text.markup import Html, Markdown
from gpu_pools.text.templates import fill
from tests.hostile import WORST, harmful

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "gpu_pools").rglob("*.j2"))


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Fill a template that a test writes."""
    folder = tmp_path / f"pages_{tmp_path.name}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def filled(template: str, **values: object) -> str:
        (folder / "page.j2").write_text(template, encoding="utf-8")
        templates._environment.cache_clear()
        return fill(folder.name, "page.j2", **values)

    return filled


@pytest.mark.parametrize("text", WORST)
def test_a_value_is_text_as_it_is_without_a_template(page: Callable[..., str], text: str) -> None:
    written = page('<p title="{{ of }}">{{ of }}</p>', of=text)
    assert written == Html.of('<p title="{}">{}</p>', text, text)
    assert not harmful(written.replace("\n", ""))


def test_markup_of_ours_stays_markup_and_what_a_macro_writes_is_escaped_once(page: Callable[..., str]) -> None:
    bold = "{% macro bold(of) %}<b>{{ of }}</b>{% endmacro %}{{ bold(text) }}{{ mark }}"
    assert page(bold, text="<i>\u202e", mark=Html("<br>")) == "<b>&lt;i&gt;\\u202e</b><br>"


def test_markup_of_another_language_is_text(page: Callable[..., str]) -> None:
    assert page("{{ of }}", of=Markdown("<b>")) == "&lt;b&gt;"


def test_a_name_that_nobody_has_given_is_an_error(page: Callable[..., str]) -> None:
    with pytest.raises(jinja2.UndefinedError, match="'missing' is undefined"):
        page("{{ missing }}")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_turns_escaping_off_or_leaves_an_attribute_unquoted(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"\|\s*safe\b|\bautoescape\b|\bMarkup\b|~", text) == []
    assert re.findall(r"<[^<>{]*=\{\{", text) == []


def test_there_are_templates() -> None:
    assert {"page.html.j2", "live.html.j2", "boards.html.j2"} == {path.name for path in TEMPLATES}


def test_jinja2_is_loaded_by_the_first_page_and_by_no_command_before() -> None:
    modules = "gpu_pools.cli.main, gpu_pools.evidence.page, gpu_pools.dashboards.server, gpu_pools.cli.dashboards"
    program = f"import sys, {modules}; print([name for name in sys.modules if name.startswith(('jinja2', 'markupsafe'))])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
