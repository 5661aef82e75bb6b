"""Records what a command prints, and when, as asciicast v2: a line of facts, then lines of [seconds, "o", text]."""

from __future__ import annotations

import codecs
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_WIDTH, _HEIGHT = 160, 50
_PIECE: Final = 1 << 16


def record(command: Sequence[str], file: Path) -> int:
    """Run a command, show what it prints, and write it down; returns its exit status.

    It prints to a pipe, so without colour. A Ctrl-C reaches it as it reaches everything in the foreground.

    Raises:
        OSError: the file cannot be written.
    """
    begun = time.monotonic()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with file.open("w", encoding="utf-8") as cast:
        cast.write(json.dumps({"version": 2, "width": _WIDTH, "height": _HEIGHT, "timestamp": int(time.time())}) + "\n")
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as process:
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)
            assert process.stdout is not None  # noqa: S101
            try:
                while piece := os.read(process.stdout.fileno(), _PIECE):
                    text = decoder.decode(piece)
                    cast.write(json.dumps([round(time.monotonic() - begun, 3), "o", text.replace("\n", "\r\n")]) + "\n")
                    cast.flush()
                    sys.stdout.write(text)
                    sys.stdout.flush()
            finally:
                signal.signal(signal.SIGINT, before)
    return process.returncode
