"""What another user of this machine does, for the tests that are attacks: code that runs as `nobody` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


#: What is imported is imported before: the interpreter may lie where only we can read.
_BECOME = f"""
import encodings.idna, json, os, socket, ssl, sys
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
"""


def as_stranger(program: str, *arguments: str) -> Any:
    """What a Python program prints as JSON that runs as another user, with nothing of ours: no group, no environment."""
    command = [sys.executable, "-I", "-S", "-c", _BECOME + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env={}, cwd="/")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
