"""The command `python -m sandbox.toolchain`: finds or makes all programs and prints where they are."""

from __future__ import annotations

if __name__ == "__main__":
    from gpu_pools.text.interrupts import end_at_once

    # Before the rest is loaded.
    end_at_once()

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.text.interrupts import answered
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain import plugins
from sandbox.toolchain.find import find_tools, put_engine
from sandbox.toolchain.tools import NODE_PROGRAMS, PLATFORM_TOOLS, RULES, table

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Find or make all tools and print where they are; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.toolchain", description="Find, download or build the programs.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--engine", type=Path, metavar="FOLDER", help="only put the pinned pulumi and kubelogin there")
    what.add_argument("--plugins", action="store_true", help="only have Pulumi install the real provider plugins")
    what.add_argument("--platform", action="store_true", help="what a stack needs first, without a table")
    asked = parser.parse_args(arguments)
    try:
        if asked.engine is not None:
            put_engine(asked.engine, Progress())
        elif asked.plugins:
            plugins.install(find_tools(Progress(), only={"pulumi"}).pulumi, Progress())
        elif asked.platform:
            _find_first(Progress())
        else:
            sys.stdout.write(table(find_tools(Progress())) + "\n")
    except SandboxError as error:
        sys.stderr.write(f"error: {error.message}\n{error.remedy}\n")
        return 1
    return 0


def _find_first(progress: Progress) -> None:
    """What bringing a stack up needs, with a GPU node's programs at once: then one build fills the gaps of another."""
    if os.environ.get(NODE_PROGRAMS) == RULES or shutil.which("gcc") is None:
        find_tools(progress, only=PLATFORM_TOOLS)
        return
    try:
        find_tools(progress)
    except SandboxError:
        # Where it is a GPU node's programs that cannot be made, `up` says so, and what may stand in for them.
        find_tools(progress, only=PLATFORM_TOOLS)


if __name__ == "__main__":
    sys.exit(answered(main))
