"""``python -m gpu_pools plan STACKFILE [--json]``: what a stack file means, with no cloud, no engine and no cluster.

``expect STACKFILE [POOL]`` prints what the verifier of a pool compares nodes with, so that it can be run by hand.

``models`` and ``sizes`` are in gpu_pools/cli/hardware.py, ``layouts`` and ``change`` in gpu_pools/cli/mig.py; ``check`` and
``import``, which read files that exist already, in gpu_pools/cli/existing.py; ``images`` is in gpu_pools/cli/images.py.

Where a command takes a file, ``-`` is the standard input. Exit codes: 0 the stack can be planned, 2 it cannot (or the command
line is wrong), 74 the output cannot be written, 130 interrupted, 141 the reader of the output went away.
"""

from __future__ import annotations

if __name__ == "__main__":
    from gpu_pools.text.interrupts import end_at_once

    # Before the rest is loaded.
    end_at_once()

import argparse
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.cli import existing as existing_commands
from gpu_pools.cli import hardware as hardware_commands
from gpu_pools.cli import images as image_commands
from gpu_pools.cli import mig as mig_commands
from gpu_pools.plan.planning import plan_config, problems_json
from gpu_pools.plan.tables import plan_table
from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.stack.stack_file import read_stack_file
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.text.terminal import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_pools.plan.planning import Plan

_INVALID = 2
#: As a program that SIGPIPE ended would answer in a shell.
_READER_GONE = 141
#: EX_IOERR of sysexits.h.
_UNWRITABLE = 74


@guarded()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    code: int = options.run(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gpu_pools", description="Plan GPU sharing without any cloud.")
    commands = parser.add_subparsers(dest="command", required=True)
    plan = commands.add_parser("plan", help="show what every node of a stack will advertise")
    plan.add_argument("stackfile", help="a stack file, e.g. stacks/Pulumi.aks-dev.yaml; - for the standard input")
    plan.add_argument("--json", action="store_true", help="print JSON for machines")
    plan.set_defaults(run=_plan)
    expect = commands.add_parser("expect", help="print the expectation document of a pool, for the verifier")
    expect.add_argument("stackfile", help="a stack file, e.g. stacks/Pulumi.aks-dev.yaml; - for the standard input")
    expect.add_argument("pool", nargs="?", help="the pool; may be left out where there is only one")
    expect.add_argument("--json", action="store_true", help="print problems as JSON too; the document always is")
    expect.set_defaults(run=_expect)
    hardware_commands.add_commands(commands)
    mig_commands.add_commands(commands)
    image_commands.add_commands(commands)
    existing_commands.add_commands(commands)
    return parser


def _planned(options: argparse.Namespace) -> Plan | None:
    """The plan of the stack file; None, and its problems printed, where it cannot be planned."""
    try:
        return plan_config(read_stack_file(options.stackfile), complete=False)
    except InvalidStackError as error:
        if options.json:
            print(json.dumps(problems_json(error.problems), indent=2))
        else:
            print(error, file=sys.stderr)
        return None


def _plan(options: argparse.Namespace) -> int:
    planned = _planned(options)
    if planned is None:
        return _INVALID
    print(json.dumps(planned.as_json(), indent=2) if options.json else plan_table(planned))
    return 0


def _expect(options: argparse.Namespace) -> int:
    planned = _planned(options)
    if planned is None:
        return _INVALID
    pools = {pool.name: pool for pool in planned.pools}
    name = options.pool or (next(iter(pools)) if len(pools) == 1 else None)
    if name not in pools:
        said = f'there is no pool "{name}"' if name else "name one of the pools"
        print(f"error: {said}; the stack has {', '.join(pools)}.", file=sys.stderr)
        return _INVALID
    print(json.dumps(node_expectation(planned, pools[name]), indent=2))
    return 0


def _run() -> int:
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


def _make_writable() -> None:
    """Streams that are closed swallow what is printed; letters that a terminal's encoding lacks are escaped."""
    nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(_run())
