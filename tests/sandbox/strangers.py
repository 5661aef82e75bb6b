"""What another user of this machine does, for the tests that are attacks: code that runs as `nobody` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


#: What is imported is imported before: the interpreter may lie where only we can read.
_BECOME = f"""
import encodings.idna, json, os, socket, ssl, sys
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
"""


def as_stranger(program: str, *arguments: str, given: str = "") -> Any:
    """What a Python program prints as JSON that runs as another user, with nothing of ours: no group, no environment."""
    command = [sys.executable, "-I", "-S", "-c", _BECOME + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env={}, cwd="/", input=given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


_OPEN = """
opened = []
for path in sys.stdin.read().split("\\n"):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        opened.append(path)
    except OSError:
        pass
print(json.dumps(opened))
"""


def opened(folder: Path) -> tuple[int, list[str]]:
    """How many files and folders there are below a folder, and which of them another user can open."""
    paths = [str(folder), *(str(path) for path in folder.rglob("*"))]
    return len(paths), as_stranger(_OPEN, given="\n".join(paths))
