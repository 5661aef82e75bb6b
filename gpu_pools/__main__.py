"""``gpu-pools``, and ``python -m gpu_pools``: the way into the command lines, which are in gpu_pools/cli.

Ctrl-C is answered before anything else is loaded.
"""

from __future__ import annotations

import sys

from gpu_pools.text.interrupts import end_at_once


def run() -> int:
    """Run the command line of this process; returns the exit code."""
    end_at_once()
    from gpu_pools.cli.main import run as run_commands  # noqa: PLC0415 - loading takes a third of a second

    return run_commands()


if __name__ == "__main__":
    sys.exit(run())
