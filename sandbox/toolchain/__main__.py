"""The command `python -m sandbox.toolchain`: finds or makes all programs and prints where they are."""

from __future__ import annotations

if __name__ == "__main__":
    from gpu_pools.text.interrupts import end_at_once

    # Before the rest is loaded.
    end_at_once()

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_pools.text.interrupts import answered
from sandbox.system.errors import SandboxError
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools, put_engine
from sandbox.toolchain.tools import PLATFORM_TOOLS, table

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Find or make all tools and print where they are; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.toolchain", description="Find, download or build the programs.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--engine", type=Path, metavar="FOLDER", help="only put the pinned pulumi and kubelogin there")
    what.add_argument("--platform", action="store_true", help="only what every stack needs, without a table")
    asked = parser.parse_args(arguments)
    try:
        if asked.engine is not None:
            put_engine(asked.engine, Progress())
        elif asked.platform:
            find_tools(Progress(), only=PLATFORM_TOOLS)
        else:
            sys.stdout.write(table(find_tools(Progress())) + "\n")
    except SandboxError as error:
        sys.stderr.write(f"error: {error.message}\n{error.remedy}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(answered(main))
