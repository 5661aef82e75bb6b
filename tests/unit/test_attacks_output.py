"""Attacks by text: what others name, write or answer, shown on a terminal, in a comment, on a page, in SARIF."""

from __future__ import annotations

import html.parser
import io
import json
import sys
import unicodedata
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import assume, example, given, settings

from gpu_pools.changes import sarif
from gpu_pools.text import harmless
from gpu_pools.text.errors import Problem
from gpu_pools.text.markup import Html, Markdown
from gpu_pools.text.table import table
from gpu_pools.text.terminal import Terminal, coloured, guarded
from tests.hostile import ACTED_ON, LIVE, forge, harmful, texts

ROOT: Final = Path(__file__).parents[2]


@settings(deadline=None)
@given(texts())
def test_a_terminal_gets_no_escape_no_control_and_no_turn_of_direction(text: str) -> None:
    """Tries to move the cursor, to set the title, to turn lines around, to hide letters."""
    out = io.StringIO()
    Terminal(out).write(f"pool {text}\n")
    assert not harmful(out.getvalue())
    assert out.getvalue().count("\n") == text.count("\n") + 1


@pytest.mark.parametrize("name", ["größe", "пул", "プール", "池", "مجموعة", "תבנית", "a\u0301", "🙂", "τεστ-1"])
def test_names_in_other_scripts_stay_readable(name: str) -> None:
    assert harmless.line(name) == name
    assert harmless.markdown(name) == name
    assert Html.of("<b>{}</b>", name) == f"<b>{name}</b>"


@pytest.mark.parametrize("unseen", ["\u3164", "\u115f", "\u2800", "\ufe0f", "\u200b", "\u00ad", "\u034f", "\U000e0061", "\u00a0"])
def test_two_names_that_differ_by_what_nobody_sees_look_different(unseen: str) -> None:
    """Tries to pass one pool for another."""
    assert harmless.line(f"gpu{unseen}") != "gpu"
    assert harmless.line(f"gpu{unseen}").isascii()


def test_only_our_own_colours_reach_a_terminal() -> None:
    """Tries to paint a verdict green, as the program itself does."""
    out = io.StringIO()
    Terminal(out).write(f"{coloured('proven', 32)} \x1b[32mproven\x1b[0m")
    assert out.getvalue() == "\x1b[32mproven\x1b[0m \\x1b[32mproven\\x1b[0m"


def test_whatever_is_printed_meanwhile_goes_through_it_also_a_message_that_nobody_thought_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with guarded(), guarded():
        sys.stdout.write("\x1b[2J\n")
        sys.stderr.write("\u202e\n")
    sys.stdout.write("\x1b[0m\n")
    assert capsys.readouterr() == ("\\x1b[2J\n\x1b[0m\n", "\\u202e\n")


def test_closed_streams_stay_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with guarded():
        print("nobody hears it")  # noqa: T201 - it minds that there is no stream
        assert sys.stdout is None


def test_no_cell_and_no_problem_writes_a_line_of_its_own() -> None:
    """Tries to add a row that says ok to the table, and a remedy to a problem."""
    assert len(table(("POOL", "STATE"), [("a\nb  ok", "differs")]).splitlines()) == 3
    assert len(str(Problem("a\nb", "c\rd", "e\u2028f", "g\x85h\x0bi")).splitlines()) == 3


# --- Markdown -----------------------------------------------------------------------------------------------------------------


def _kinds(text: str) -> list[str]:
    return [token.type for token in forge().parse(text)]


@settings(deadline=None)
@given(texts())
@example("`")
@example("``` @all")
@example("](https://a.b) <img src=x>")
@example("x\n\n/merge\n\n# y")
@example("1. a")
@example("-")
@example("=")
def test_a_text_in_markdown_is_only_text(text: str) -> None:
    """Tries links, pictures, HTML, headings, lists, fences, other cells, other lines, mentions, references, formulas, actions."""
    assume(text.strip(" \t\r\n"))
    row = Markdown.of("| {} | {} |", text, Markdown.code(text))
    lines = (Markdown("| a | b |"), Markdown("|---|---|"), row, Markdown(), Markdown.of("- {}", text), Markdown.of("{}", text))
    shown = Markdown.all(lines, "\n")
    calm = str(shown.replace(row, "| x | x |")).split("\n")
    calm[4:] = ["- x", "x"]
    assert _kinds(shown) == _kinds("\n".join(calm))
    for token in forge().parse(shown):
        for inside in token.children or ():
            assert inside.type in {"text", "code_inline", "softbreak", "text_special"}
            if inside.type != "code_inline":
                assert not LIVE.search(inside.content)
    assert not harmful(shown)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("@everyone", "a mention"),
        ("me@example.com", "an address"),
        ("https://example.com", "a link"),
        ("www.example.com", "a link"),
        ("#12", "an issue"),
        ("owner/repository#12", "an issue elsewhere"),
        ("!7", "a merge request"),
        ("&3", "an epic"),
        ("~bug", "a label"),
        ("%v1", "a milestone"),
        ("$x^2$", "a formula"),
        ("GH-1", "an issue"),
        ("083b1ddf", "a commit"),
        (":white_check_mark:", "an emoji"),
        ("/merge", "an action of GitLab"),
    ],
)
def test_what_a_forge_would_bring_to_life_stands_there_as_code(word: str, why: str) -> None:
    assert harmless.markdown(f"see {word} there") == f"see `{word}` there", why
    assert harmless.markdown(word) == f"`{word}`"


def test_markup_put_together_otherwise_is_text_again() -> None:
    """A message that is made with an f-string cannot smuggle its parts in."""
    name: Any = "<b>"
    assert type(f"{Html('<i>')}{name}") is str
    assert Html.of("{}", f"{Html('<i>')}{name}") == "&lt;i&gt;&lt;b&gt;"
    assert Html.all([Html("<i>"), name]) == "<i>&lt;b&gt;"
    assert Html.of("{}", Markdown("<b>")) == "&lt;b&gt;"


# --- HTML, SARIF --------------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(texts())
def test_a_text_in_html_is_only_text_in_elements_and_attributes(text: str) -> None:
    """Tries to begin an element, an attribute, an entity."""
    found: list[Any] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            found.append((tag, attrs))

        def handle_data(self, data: str) -> None:
            found.append(data)

    Reader(convert_charrefs=True).feed(page := Html.of('<p title="{}">{}</p><br>', text, text))
    shown = harmless.line(text)
    assert found == [("p", [("title", shown)]), *([shown] if shown else []), ("br", [])]
    assert not harmful(page)


def test_a_message_of_sarif_has_no_placeholder_and_no_link() -> None:
    """Tries a link and a placeholder, which a viewer would fill."""
    assert harmless.sarif("{0} [here](https://a.b) \x1b") == "{{0}} [here] (https://a.b) \\x1b"


def test_the_list_of_what_terminals_act_on_is_whole() -> None:
    """The test's own list against Unicode's book: all controls, all turns of direction."""
    describe_rollout = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for code in range(0x110000):
        one = chr(code)
        if unicodedata.category(one) == "Cc" or unicodedata.bidirectional(one) in describe_rollout:
            assert one == "\n" or one in ACTED_ON
            assert harmless.line(one) != one


#: What prints no text of others: where programs lie, and what is handed to another program of ours.
_OWN_WORDS = {
    "gpu_pools/__main__.py",
    "gpu_pools/bench/client.py",
    "gpu_pools/verifier/hook_programs/cleanup_program.py",
    "gpu_pools/verifier/hook_programs/leave_program.py",
    "pipelines/release.py",
    "sandbox/gpu_node/mps_client.py",
    "sandbox/machines/mps_control.py",
    "sandbox/gpu_node/work.py",
    "sandbox/nvml/library.py",
    "sandbox/nvml/reset.py",
    "sandbox/openstack/catalogue.py",
    "sandbox/openstack/environment.py",
    "sandbox/openstack/host.py",
    "sandbox/real_node/keeper.py",
    "sandbox/cli/virtualenv.py",
    "sandbox/system/private_network.py",
    "sandbox/toolchain/__main__.py",
    "sandbox/toolchain/packages.py",
    "gpu_pools/verifier/archive.py",
}


def test_no_command_is_forgotten() -> None:
    """Each program writes through the one writer, or is known to print no text of others."""
    packages = ("gpu_pools", "pipelines", "policies", "sandbox")
    programs = {str(path.relative_to(ROOT)): path.read_text() for name in packages for path in (ROOT / name).rglob("*.py")}
    open_ones = {
        name
        for name, text in programs.items()
        if '__name__ == "__main__"' in text and "guarded()" not in text and "Plain(stream)" not in text
    }
    assert {name for name in open_ones if "/inside/" not in name} == _OWN_WORDS


def test_a_finding_with_half_a_pair_of_surrogates_has_a_fingerprint() -> None:
    """JSON can hold one, so a name in the engine's events can."""
    made = sarif._result("stack.yaml", "", "deletes", "warning", "a\ud800", "gone")
    assert json.loads(json.dumps(made)) == made
