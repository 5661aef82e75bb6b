"""Reads NVML in a child process with a time limit: a driver that hangs must not hang the verifier.

One child serves the looks of one assertion, opens NVML for each reading anew, and ends with the assertion: nothing holds the
GPU between two assertions, where it would stand in the way of a reset. A process that waits inside the kernel cannot be
killed; it is then left alone, and no other one is started beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import IO, Final

from verifier.documents import DocumentError, as_json, read
from verifier.reading import Hung, Reading, Unreadable

DEFAULT_SECONDS: Final = 30.0
_KILL_SECONDS: Final = 2.0
_CHUNK: Final = 65536
_STDERR_SHOWN: Final = 400
#: The archive, or the folder of the sources: where Python finds this package again. Symbolic links stay, since those of a
#: ConfigMap's volume move.
_ROOT: Final = str(Path(__file__).absolute().parents[1])
_PROGRAM: Final = "import sys; sys.path.insert(0, sys.argv[1]); from verifier.child import serve; serve()"
#: What a reading begins with; the lines before it name calls.
_READING: Final = b"{"


class Reader:
    """Reads NVML, one child at a time.

    Args:
        seconds: how long one call into the driver may take, and the child's start.
    """

    def __init__(self, seconds: float = DEFAULT_SECONDS) -> None:
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._stuck: Hung | None = None

    def start(self) -> subprocess.Popen[bytes]:
        """Start the child, unless it runs: it gets ready to read while others do something else."""
        if self._child is None:
            # -I: nothing in the container's environment or working directory decides what is imported.
            command = [sys.executable, "-I", "-c", _PROGRAM, _ROOT]
            pipe = subprocess.PIPE
            self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        return self._child

    def read(self) -> Reading | Hung | Unreadable:
        """What NVML says now."""
        if self._stuck is not None:
            if self._child is not None and self._child.poll() is None:
                return self._stuck
            self._stuck, self._child = None, None
        child = self.start()
        # A child that has died does not read; what it left says why.
        with contextlib.suppress(OSError):
            _file(child.stdin).write(b"\n")
            _file(child.stdin).flush()
        lines, in_time = _listen(child, self._seconds)
        if not in_time:
            return self._hung(child, lines)
        answer = _answer(lines)
        if answer is not None:
            return answer
        if not _has_ended(child, _KILL_SECONDS):
            return self._hung(child, lines)
        self._child = None
        return _unreadable(child, lines)

    def release(self) -> None:
        """End the child, so that nothing of this process holds a GPU."""
        child = self._child
        if child is None or self._stuck is not None:
            return
        _file(child.stdin).close()
        if _has_ended(child, _KILL_SECONDS):
            _close(child)
            self._child = None
        else:
            self._hung(child, ["the end of the process that read NVML"])

    def _hung(self, child: subprocess.Popen[bytes], lines: list[str]) -> Hung:
        child.kill()
        gone = _has_ended(child, _KILL_SECONDS)
        hung = Hung(lines[-1] if lines else None, self._seconds, killable=gone)
        if gone:
            _close(child)
            self._child = None
        else:
            self._stuck = hung
        return hung


def serve() -> None:
    """The child: for each line read NVML, and write the reading as a line of JSON; before each call its name on a line."""
    from verifier.nvml import read_nvml  # noqa: PLC0415 - the parent never loads NVML

    def announce(call: str) -> None:
        os.write(1, f"{call}\n".encode())

    for _ in sys.stdin:
        sys.stdout.write(json.dumps(as_json(read_nvml(announce))) + "\n")
        sys.stdout.flush()


def _listen(child: subprocess.Popen[bytes], seconds: float) -> tuple[list[str], bool]:
    """(the lines up to a reading or the child's end, whether each came in time)."""
    end = _file(child.stdout).fileno()
    text = b""
    while select.select([end], [], [], seconds)[0]:
        chunk = os.read(end, _CHUNK)
        text += chunk
        # A reading is the last line of what is sent; its own line break ends it.
        if not chunk or (chunk.endswith(b"\n") and text.splitlines()[-1].startswith(_READING)):
            return text.decode(errors="replace").splitlines(), True
    return text.decode(errors="replace").splitlines(), False


def _answer(lines: list[str]) -> Reading | None:
    if lines and lines[-1].startswith(_READING.decode()):
        with contextlib.suppress(ValueError, DocumentError):
            return read(Reading, json.loads(lines[-1]))
    return None


def _unreadable(child: subprocess.Popen[bytes], lines: list[str]) -> Unreadable:
    """Why the child ended without a reading."""
    said = _file(child.stderr).read().decode(errors="replace").strip()
    code = child.returncode
    _close(child)
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    at = f" in {lines[-1]}" if lines else ""
    return Unreadable(f"the process that reads NVML ended with {how}{at}" + (f": {said[-_STDERR_SHOWN:]}" if said else ""))


def _has_ended(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _close(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout, child.stderr):
        with contextlib.suppress(OSError):
            _file(pipe).close()


def _file(pipe: IO[bytes] | None) -> IO[bytes]:
    """One of the pipes that the child was started with."""
    assert pipe is not None  # noqa: S101 - for the type checker
    return pipe
