"""Reads NVML in a child process with a time limit: a driver that hangs must not hang the verifier.

The child ends after each reading, so nothing holds the GPU between two of them. A process that waits inside the kernel
cannot be killed; it is then left alone, and no other one is started beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from verifier.documents import DocumentError, as_json, read
from verifier.reading import Hung, Reading, Unreadable

DEFAULT_SECONDS: Final = 30.0
_KILL_SECONDS: Final = 2.0
_CHUNK: Final = 65536
_STDERR_SHOWN: Final = 400
#: The archive, or the folder of the sources: where Python finds this package again.
_ROOT: Final = str(Path(__file__).resolve().parents[1])
_PROGRAM: Final = "import sys; sys.path.insert(0, sys.argv[1]); from verifier.child import tell; tell()"


class Reader:
    """Reads NVML, one child at a time.

    Args:
        seconds: how long a reading may take.
    """

    def __init__(self, seconds: float = DEFAULT_SECONDS) -> None:
        self._seconds = seconds
        self._stuck: subprocess.Popen[bytes] | None = None
        self._stuck_in: str | None = None

    def read(self) -> Reading | Hung | Unreadable:
        """What NVML says now."""
        if self._stuck is not None and self._stuck.poll() is None:
            return Hung(self._stuck_in, self._seconds, killable=False)
        self._stuck = None
        # -I: nothing in the container's environment or working directory decides what is imported.
        command = [sys.executable, "-I", "-c", _PROGRAM, _ROOT]
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            lines, complaint, ended = _listen(child, time.monotonic() + self._seconds)
        finally:
            gone = _end(child)
        if not ended:
            function = _last_call(lines)
            if not gone:
                self._stuck, self._stuck_in = child, function
            return Hung(function, self._seconds, killable=gone)
        return _result(lines, complaint, child.returncode)


def tell() -> None:
    """The child: read NVML and write the reading as JSON; before each call its name on a line of its own."""
    from verifier.nvml import read_nvml  # noqa: PLC0415 - the parent never loads NVML

    def announce(call: str) -> None:
        os.write(1, f"{call}\n".encode())

    reading = read_nvml(announce)
    sys.stdout.write(json.dumps(as_json(reading)) + "\n")
    sys.stdout.flush()


def _listen(child: subprocess.Popen[bytes], deadline: float) -> tuple[list[str], str, bool]:
    """(what it wrote, what it complained of, whether it ended in time)."""
    assert child.stdout is not None  # noqa: S101 - for the type checker
    assert child.stderr is not None  # noqa: S101
    texts = {child.stdout.fileno(): b"", child.stderr.fileno(): b""}
    out, err = texts
    open_ends = set(texts)
    while open_ends and (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select(sorted(open_ends), [], [], left)
        for end in ready:
            chunk = os.read(end, _CHUNK)
            texts[end] += chunk
            if not chunk:
                open_ends.remove(end)
    ended = not open_ends and _has_ended(child, deadline)
    return texts[out].decode(errors="replace").splitlines(), texts[err].decode(errors="replace").strip(), ended


def _has_ended(child: subprocess.Popen[bytes], deadline: float) -> bool:
    """Whether it also came back from its end: closing the driver's files may hang too."""
    try:
        child.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(child: subprocess.Popen[bytes]) -> bool:
    """See that the child is gone; False where not even SIGKILL ends it."""
    child.kill()
    try:
        child.wait(_KILL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    finally:
        for pipe in (child.stdout, child.stderr):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
    return True


def _last_call(lines: list[str]) -> str | None:
    return lines[-1] if lines else None


def _result(lines: list[str], complaint: str, code: int) -> Reading | Unreadable:
    if code == 0 and lines:
        with contextlib.suppress(ValueError, DocumentError):
            return read(Reading, json.loads(lines[-1]))
    last = _last_call(lines)
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    at = f" in {last}" if code < 0 and last else ""
    said = f": {complaint[-_STDERR_SHOWN:]}" if complaint else ""
    return Unreadable(f"the process that reads NVML ended with {how}{at}{said}")
