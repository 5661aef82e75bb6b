"""Runs another program to its end, and keeps what it says; what its answer means is for whoever asked.

It gets no shell, and no input but what is given. Not for programs of which an answer is awaited piece by piece.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class AbsentError(Exception):
    """There is no such program on PATH."""


class SilentError(Exception):
    """It could not be run, or did not end in time; the text says which."""


@dataclass(frozen=True)
class Said:
    """What a program has said.

    Attributes:
        code: with which it ended.
        out: its standard output.
        errors: its standard error, as one line.
    """

    code: int
    out: bytes
    errors: str

    @property
    def text(self) -> str:
        """The output as text."""
        return self.out.decode(errors="replace")


def run(command: Sequence[str], seconds: float, given: bytes = b"", **environment: str) -> Said:
    """Run it.

    Args:
        command: the program and its arguments.
        seconds: how long it may take.
        given: its standard input.
        environment: what it finds in its environment beside what this process has.

    Raises:
        AbsentError: there is none.
        SilentError: there is no answer.
    """
    around = {**os.environ, **environment}
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=seconds, input=given, env=around)
    except FileNotFoundError as error:
        raise AbsentError(command[0]) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SilentError(str(error)) from error
    return Said(done.returncode, done.stdout, " ".join(done.stderr.decode(errors="replace").split()))
