"""The process that reads NVML, from the inside. What it answers is JSON, and verifier/child.py makes a Reading of it.

Nothing is imported here or in verifier/nvml.py but what a reading needs: loading takes longer than reading does.
"""

from __future__ import annotations

import json
import os
import sys

from verifier.nvml import read_nvml


def serve() -> None:
    """For each line on standard input read NVML, and write the reading as a line; before each call its name on a line."""
    for _ in sys.stdin:
        reading = read_nvml(_announce)
        sys.stdout.write(json.dumps(reading) + "\n")
        sys.stdout.flush()
    # There is nothing to tidy up, and somebody waits.
    os._exit(0)


def _announce(call: str) -> None:
    os.write(1, f"{call}\n".encode())
