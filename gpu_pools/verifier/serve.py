"""The process that reads NVML, from the inside. What it answers is JSON, and gpu_pools/verifier/child.py makes a Reading of it.

Nothing is imported here or in gpu_pools/verifier/nvml.py but what a reading needs: loading takes longer than reading does.
"""

from __future__ import annotations

import json
import os

from .nvml import read_nvml


def serve() -> None:
    """For each byte on standard input read NVML, and write the reading as a line; before each call its name on a line."""
    while os.read(0, 1):
        _tell(json.dumps(read_nvml(_tell)))
    # There is nothing to tidy up, and somebody waits.
    os._exit(0)


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())
