"""What a program prints is shown as it comes, but for the lines that would mislead."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from sandbox.system.screen import shown

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PROGRAM = """
import sys, time
for part in ("@ destr", "oying.", ".\\n", "Run `pulumi", " stack rm x`.\\n", "Run `make`.\\n", "Dur", "ation: 1s", "\\n", "Ru"):
    print(part, end="", flush=True)
    time.sleep(0.05)
"""


def test_lines_that_begin_so_are_left_out_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with shown(tmp_path / "logs" / "destroy.log", sys.stdout, ("Run `pulumi stack rm",)) as screen:
        subprocess.run([sys.executable, "-c", PROGRAM], stdout=screen, check=True)
    assert capsys.readouterr().out == "@ destroying..\nRun `make`.\nDuration: 1s\nRu"
    assert (tmp_path / "logs" / "destroy.log").stat().st_mode & 0o777 == 0o600


HOSTILE = """
import sys, time
parts = ("\\x1b[38;5;2m+ name \\x1b", "[0m \\x1b[3", "1mred\\x1b[0m ", "\\x1b]0;title\\x07\\u202e",
    "\\x1b[8mhidden", "\\x1b[2J\\x1b[")
for part in parts:
    sys.stdout.write(part)
    sys.stdout.flush()
    time.sleep(0.15)
"""


def test_attack_what_the_engine_shows_of_a_stack_has_its_colours_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tries to set the title, to turn and hide text and to clear the screen, by values that the engine shows."""
    with shown(tmp_path / "up.log", sys.stdout) as screen:
        subprocess.run([sys.executable, "-c", HOSTILE], stdout=screen, check=True)
    assert capsys.readouterr().out == (
        "\x1b[38;5;2m+ name \x1b[0m \x1b[31mred\x1b[0m \\x1b]0;title\\x07\\u202e\\x1b[8mhidden\\x1b[2J\\x1b["
    )
