"""``gpu-pools COMMAND …``: the parser of all commands, and what holds for each: harmless output, exit codes, closed pipes.

Each command is a module beside this one, which adds its arguments and says what runs it. Where one takes a file, ``-`` is the
standard input. Exit codes that all share: 2 the command line or a file is wrong, 74 the output cannot be written, 130
interrupted, 141 the reader of the output went away. The others are said by each command.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools import __version__
from gpu_pools.cli import (
    adopt,
    bench,
    changes,
    completion,
    dashboards,
    docs,
    drift,
    evidence,
    existing,
    hardware,
    images,
    mig,
    plans,
    release,
    repair,
    usage,
)
from gpu_pools.text.terminal import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

#: As a program that SIGPIPE ended would answer in a shell.
_READER_GONE = 141
#: EX_IOERR of sysexits.h.
_UNWRITABLE = 74


@guarded()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    Args:
        arguments: of the command line; None: those of this process.
    """
    options = _parser().parse_args(arguments)
    code: int = options.run(options)
    return code


def run() -> int:
    """`main`, whatever the output is: quiet where the reader of a pipe has gone (``… | head``), short where a disk is full."""
    _make_writable()
    try:
        code = main()
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes once more at its end; give it somewhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return _READER_GONE
        print(f"the output cannot be written: {error}", file=sys.stderr)
        return _UNWRITABLE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpu-pools", description="GPU sharing per node pool: planned, changed, proven.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (
        plans,
        hardware,
        mig,
        images,
        existing,
        adopt,
        release,
        changes,
        drift,
        evidence,
        repair,
        usage,
        dashboards,
        bench,
        docs,
    ):
        module.add_commands(commands)
    completion.add_command(commands, parser)
    return parser


def _make_writable() -> None:
    """Streams that are closed swallow what is printed; letters that a terminal's encoding lacks are escaped."""
    nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
