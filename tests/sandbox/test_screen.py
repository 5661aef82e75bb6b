"""What a program prints is shown as it comes, but for the lines that would mislead."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from sandbox.screen import shown_without

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
    with shown_without(("Run `pulumi stack rm",), tmp_path / "logs" / "destroy.log") as screen:
        subprocess.run([sys.executable, "-c", PROGRAM], stdout=screen, check=True)
    assert capsys.readouterr().out == "@ destroying..\nRun `make`.\nDuration: 1s\nRu"
    assert (tmp_path / "logs" / "destroy.log").stat().st_mode & 0o777 == 0o600
