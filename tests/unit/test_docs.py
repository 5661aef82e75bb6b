"""The documentation's examples are what is really printed.

A ``console`` block holds commands and what they print on both streams; a ``yaml`` block that begins with ``# name.yaml`` is that
file from there on.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.patience import scaled

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
PROMPT: Final = "$ venv/bin/python -m gpu_pools "
#: The command of this checkout.
HERE: Final = (sys.executable, "-m", "gpu_pools")
PAGES = sorted(
    page for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")) if PROMPT in page.read_text(encoding="utf-8")
)


def _printed(arguments: list[str], folder: Path, command: Sequence[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
    if command != HERE:
        environment.pop("PYTHONPATH")
    ran = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        encoding="utf-8",
        check=False,
        timeout=scaled(60),
        capture_output=True,
    )
    return ran.stdout + (ran.stderr if ran.returncode else "")


def _as_printed(page: Path, folder: Path, command: Sequence[str] = HERE) -> str:
    """The page, with each command followed by what it prints.

    Args:
        page: a page of the documentation.
        folder: where the commands run.
        command: what is run for `python -m gpu_pools`: that of this checkout, or of an installed wheel.
    """
    (folder / "stacks").symlink_to(ROOT / "stacks")

    def block(match: re.Match[str]) -> str:
        kind, body = match.groups()
        name = re.match(r"# (\S+\.yaml)\n", body)
        if kind == "yaml" and name:
            (folder / name[1]).write_text(body, encoding="utf-8")
        if kind != "console":
            return match[0]
        commands = [line for line in body.splitlines() if line.startswith(PROMPT)]
        return (
            "```console\n"
            + "".join(f"{line}\n{_printed(line.removeprefix(PROMPT).split(), folder, command)}" for line in commands)
            + "```"
        )

    return re.sub(r"```(\w+)\n(.*?)```", block, page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_are_what_is_printed(page: Path, tmp_path: Path) -> None:
    assert page.read_text(encoding="utf-8") == _as_printed(page, tmp_path)


def test_every_command_has_an_example() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for command in ("plan", "expect", "images", "models", "sizes", "layouts", "change", "check", "import"):
        assert f"{PROMPT}{command} " in text


def test_each_test_that_the_security_page_names_is_there() -> None:
    """It claims nothing without one."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    files = {name for name in re.findall(r"`(tests/[\w/]+\.py)", page) if not (ROOT / name).is_file()}
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"\b(?:test_\w+|Test\w+)\b(?!\.py)", page)
    assert named
    assert (files, [name for name in named if f"def {name}(" not in text and f"class {name}:" not in text]) == (set(), [])
