"""Small tools for texts: problems, values in messages, files, tables, YAML. Attacks by text: test_attacks_output.py."""

from __future__ import annotations

import io
import os
import resource
import signal
import stat
from typing import TYPE_CHECKING

import pytest
import yaml

from gpu_pools.text import files, harmless, incidents, interrupts
from gpu_pools.text.errors import InvalidStackError, Problem, Problems, listed, show
from gpu_pools.text.markup import Html, Markdown
from gpu_pools.text.nested import at
from gpu_pools.text.plain_text import check_text
from gpu_pools.text.table import resources_text, table
from gpu_pools.text.terminal import ERASE_LINE, LINE_START, Terminal, as_coloured, coloured, harmless_to
from gpu_pools.text.yaml_text import DuplicateKeyError, load_yaml

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "nothing"),
        (True, "true"),
        (False, "false"),
        ("a", '"a"'),
        ("a \n b", '"a b"'),
        ({}, "a mapping with no keys"),
        ({"a": 1, 2: 3}, "a mapping with a, 2"),
        ([1, 2], "a list of 2"),
        (1.5, "1.5"),
        ("a" * 78, f'"{"a" * 78}"'),
        ("a" * 79, f'"{"a" * 79}…'),
    ],
)
def test_a_value_in_a_message(value: object, shown: str) -> None:
    assert show(value) == shown


def test_a_problem_is_three_lines_each_of_a_bounded_length() -> None:
    assert str(Problem("p", "m", "a", "r")) == "p: m\n    allowed: a\n    remedy:  r"
    assert str(Problem("p" * 2000, "m", "a", "r")).startswith("p" * 2000 + ": m")
    assert str(Problem("p" * 2001, "m", "a", "r")).startswith("p" * 2000 + "…: m")


@pytest.mark.parametrize(
    ("paths", "where"),
    [
        (["gpu-pools:pools"], "the stack file"),
        (["AksGpuNodePool(nb).sharing", "AksGpuNodePool(nb).vmSize"], "the arguments of AksGpuNodePool(nb)"),
        (["AksGpuNodePool(nb).sharing", "AksGpuNodePool(b).vmSize"], "the program"),
        (["AksGpuNodePool(nb).sharing", "gpu-pools:pools"], "the stack file"),
        ([], "the stack file"),
    ],
)
def test_where_problems_are(paths: list[str], where: str) -> None:
    error = InvalidStackError(Problem(path, "m", "a", "r") for path in paths)
    assert [problem.path for problem in error.problems] == paths
    assert f" in {where}; nothing was created or changed." in str(error)


def test_problems_are_counted_and_kept_once() -> None:
    problems = Problems()
    problems.raise_if_any()
    for message in ("m\nn", "m n", "o"):
        problems.add("p", message, allowed="a", remedy="r")
    assert (len(problems), problems.found) == (2, (Problem("p", "m n", "a", "r"), Problem("p", "o", "a", "r")))
    with pytest.raises(InvalidStackError) as caught:
        problems.raise_if_any()
    assert caught.value.problems == problems.found
    assert listed(problems.found[:1], "x", "done") == "1 problem in x; nothing was done.\n- " + str(problems.found[0])
    assert listed(problems.found, "x", "done").startswith("2 problems in x; nothing was done.\n- ")
    assert listed([], "x", "done") == "0 problems in x; nothing was done."


def test_a_file_is_read_up_to_its_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfabc")
    assert files.read_text(path, 6) == files.read_text(path) == "abc"
    with pytest.raises(OSError, match="larger than 5 bytes") as caught:
        files.read_text(str(path), 5)
    assert caught.value.filename == str(path)


def test_a_file_is_written_whole_with_the_rights_of_any_other(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "other"
    before = os.umask(0o022)
    try:
        for text in ("one", "two"):
            files.write_whole(path, text)
            assert path.read_text(encoding="utf-8") == text
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert os.umask(0o022) == 0o022
        other.write_text("kept", encoding="utf-8")
        path.unlink()
        path.symlink_to(other)
        files.write_whole(path, "three")
    finally:
        os.umask(before)
    assert not path.is_symlink()
    assert (path.read_text(encoding="utf-8"), other.read_text(encoding="utf-8")) == ("three", "kept")
    assert sorted(tmp_path.iterdir()) == [path, other]


def test_what_has_the_same_file_by_another_name_keeps_it(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "other"
    other.write_text("kept", encoding="utf-8")
    path.hardlink_to(other)
    files.write_whole(path, "new")
    assert (path.read_text(encoding="utf-8"), other.read_text(encoding="utf-8")) == ("new", "kept")


def test_a_file_for_which_there_is_no_room_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("kept", encoding="utf-8")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            files.write_whole(path, "x" * 11)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text(encoding="utf-8") == "kept"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write_whole(pipe, "some")
        assert os.read(reader, 9) == b"some"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_of_a_file_that_cannot_be_written_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    with pytest.raises(OSError, match="No such file"):
        files.write_whole(tmp_path / "none" / "a", "some")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        files.write_whole(tmp_path / "folder", "some")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


@pytest.mark.parametrize(
    ("of", "text", "line", "markdown", "html"),
    [
        ("a\nb", "a\nb", "a\\nb", "a b", "a\\nb"),
        ("a\tb", "a\\tb", "a\\tb", "a b", "a\\tb"),
        ("a\x1bb", "a\\x1bb", "a\\x1bb", "a\\\\x1bb", "a\\x1bb"),
        ("a\u3164", "a\\u3164", "a\\u3164", "a\\\\u3164", "a\\u3164"),
        ("<b> \"'", "<b> \"'", "<b> \"'", "\\<b\\> \"'", "&lt;b&gt; &quot;&#x27;"),
        ("1. one", "1. one", "1. one", "1\\. one", "1. one"),
        ("- one", "- one", "- one", "\\- one", "- one"),
        (" 1) one", " 1) one", " 1) one", " 1\\) one", " 1) one"),
        ("a_b #c", "a_b #c", "a_b #c", "a\\_b \\#c", "a_b #c"),
        ("1.5", "1.5", "1.5", "1.5", "1.5"),
        ("0ABCDEF1", "0ABCDEF1", "0ABCDEF1", "`0ABCDEF1`", "0ABCDEF1"),
        ("WWW.a", "WWW.a", "WWW.a", "`WWW.a`", "WWW.a"),
        (7, "7", "7", "7", "7"),
        ("", "", "", "", ""),
    ],
)
def test_a_text_for_each_place(of: object, text: str, line: str, markdown: str, html: str) -> None:
    assert harmless.text(of) == text
    assert harmless.line(of) == line
    assert harmless.markdown(of) == markdown
    assert harmless.html(of) == html
    assert (Markdown.of("{}", of), Html.of("{}", of)) == (markdown, html)


@pytest.mark.parametrize(("of", "code"), [("a`b|c\\d", "`a'b¦c\N{SET MINUS}d`"), ("", "` `"), ("a \n b", "`a b`")])
def test_a_text_as_code(of: str, code: str) -> None:
    assert harmless.code(of) == code
    assert Markdown.of("{}", Markdown.code(of)) == code


def test_tables() -> None:
    assert table(("POOL", "N"), [("a", "12"), ("longer", "")]) == "POOL    N\n------  --\na       12\nlonger"
    assert resources_text({}) == "nothing"
    assert resources_text({"nvidia.com/gpu": 8, "example.com/x": 1}) == "gpu 8, example.com/x 1"


def test_a_value_inside_others() -> None:
    values = {"a": {"b": 1, "c": None}}
    assert (at(values), at(values, "a", "b"), at(values, "a", "c")) == (values, 1, None)
    assert at(values, "a", "b", "c") is at(values, "x", "b") is at([], "a") is None


class _Stream(io.StringIO):
    encoding = "utf-8"
    flushed = 0

    def flush(self) -> None:
        self.flushed += 1

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 7


def test_a_terminal_is_what_it_stands_before() -> None:
    stream = _Stream()
    terminal = harmless_to(stream)
    assert harmless_to(terminal) is terminal
    assert harmless_to(None) is None
    assert isinstance(terminal, Terminal)
    assert (terminal.isatty(), terminal.fileno(), terminal.writable(), terminal.encoding) == (True, 7, True, "utf-8")
    assert not harmless_to(io.StringIO()).isatty()
    assert terminal.write("a\x07") == 2
    terminal.flush()
    assert (stream.getvalue(), stream.flushed) == ("a\\x07", 1)


def test_colours() -> None:
    stream = _Stream()
    Terminal(stream).write(coloured("red", 31))
    assert stream.getvalue() == "\x1b[31mred\x1b[0m"


def test_only_we_redraw_a_line() -> None:
    stream = _Stream()
    Terminal(stream).write(f"{LINE_START}{ERASE_LINE}ours\x1b[K\x1b[2K\x1b[G\r")
    assert stream.getvalue() == "\x1b[G\x1b[Kours\\x1b[K\\x1b[2K\\x1b[G\\r"


@pytest.mark.parametrize("plain", ["0", "1", "4", "31", "37", "91", "97", "38;5;1", "38;5;9", "38;5;15"])
def test_plain_colours_of_a_program_stay(plain: str) -> None:
    stream = _Stream()
    Terminal(stream).write(as_coloured(f"\x1b[{plain}mx"))
    assert stream.getvalue() == f"\x1b[{plain}mx"


@pytest.mark.parametrize("other", ["8", "30", "40", "90", "38;5;0", "38;5;16", "38;2;0;0;0", "5", "2"])
def test_what_hides_letters_does_not(other: str) -> None:
    stream = _Stream()
    Terminal(stream).write(as_coloured(f"\x1b[{other}mx"))
    assert stream.getvalue() == f"\\x1b[{other}mx"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"a": "x\n\ty\r\nz", "b": ["\u200e"]}, []),
        ({"a": "x\x07"}, [("a", "holds \\x07 at character 2")]),
        ({"a": "x\ry"}, [("a", "holds \\r at character 2")]),
        ({"a": {"b": ["c", {"d": "\u202e"}]}}, [("a.b[1].d", "holds \\u202e at character 1")]),
        ({"a": {"\x1b": "\x00"}}, [("a.\\x1b", "holds \\x1b at character 1"), ("a.\\x1b", "holds \\x00 at character 1")]),
        ({"a": "\ud800", "b": "\x7f", "c": "\x9f"}, [(key, None) for key in "abc"]),
        ({"a": ["\u2066"], "b": "\u2069"}, [("a[0]", None), ("b", None)]),
        ({"a": 7, "b": None}, []),
    ],
)
def test_characters_that_no_stack_needs(config: dict[str, object], told: list[tuple[str, str | None]]) -> None:
    problems = Problems()
    check_text(config, problems)
    assert [(harmless.line(one.path), one.message) for one in problems.found] == [
        (path, message or problem.message) for (path, message), problem in zip(told, problems.found, strict=True)
    ]


def test_a_text_that_is_there_twice_is_looked_at_once() -> None:
    problems = Problems()
    shared = ["\x07"]
    check_text({"a": shared, "b": shared}, problems)
    assert [one.path for one in problems.found] == ["a[0]"]


def test_a_number_may_be_so_long() -> None:
    assert load_yaml(f"a: 0x{'f' * 62}")["a"] == int("f" * 62, 16)
    with pytest.raises(yaml.YAMLError, match="a number of 65 digits"):
        load_yaml(f"a: 0x{'f' * 63}")


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("[" * 999 + "]" * 999, False),
        ("[" * 1001 + "]" * 1001, True),
        ("{a: " * 1001 + "}" * 1001, True),
        ("[[]" * 1001 + "]" * 1001, True),
        ("[{}" * 1001 + "]" * 1001, True),
        ("[[], " + "[" * 999 + "]" * 1000, False),
        ("a: []\nb: " + "[" * 1000 + "]" * 1000, False),
        ("[" + "[], " * 2000 + "]", False),
        ("[" + "{}, " * 2000 + "]", False),
        ("a: ']]]]]" + "[" * 1004 + "'", True),
        ("a:\n" + " " * 500 + "b: 1", False),
        ("a:\n" + " " * 501 + "b: 1", True),
        ("a:\n" + "-" * 501, True),
        ("? " * 251 + "a", True),
        ("a: |\n " + "x" + " " * 2000, False),
    ],
    ids=lambda text: str(text)[:12],
)
def test_how_deep_a_file_may_nest(text: str, deep: bool) -> None:  # noqa: FBT001
    try:
        load_yaml(text)
        told = ""
    except yaml.YAMLError as error:
        told = str(error)
    assert ("may be nested deeper than 1000 levels" in told) is deep


def test_a_key_that_is_given_twice_is_told_with_its_line() -> None:
    with pytest.raises(DuplicateKeyError, match="the key 'a' is given twice") as caught:
        load_yaml("b: 1\na: 1\nc: {a: 1}\na: 2\n")
    assert caught.value.problem_mark is not None
    assert caught.value.problem_mark.line == 3
    assert load_yaml("1: a\n2: b") == {1: "a", 2: "b"}
    with pytest.raises(DuplicateKeyError):
        load_yaml("a: 1\na: 2")
    for text in ("1: a\n1: b", "? [a]\n: b\n? [a]\n: c"):
        with pytest.raises(yaml.YAMLError):
            load_yaml(text)


def test_a_mapping_may_hold_itself() -> None:
    found = load_yaml("a: &a {b: *a}")["a"]
    assert found["b"] is found


def test_incidents_are_explained_once_in_the_order_of_their_names() -> None:
    assert incidents.named(["see W45 and C06", "W45", "A10, ZW45, X99"]) == ("W45", "C06")
    (line,) = incidents.explained(["(W45)"])
    assert line.startswith("W45: ")
    assert line.endswith(" (docs/reference/rules.md#w45)")


def test_an_interrupted_command_ends_as_one() -> None:
    before = signal.getsignal(signal.SIGINT)

    def interrupted() -> int:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        raise KeyboardInterrupt

    try:
        interrupts.end_at_once()
        assert interrupts.answered(interrupted) == 130
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        assert interrupts.answered(lambda: 3) == 3
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.signal(signal.SIGINT, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
