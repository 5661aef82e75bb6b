"""What the commands work on: the expectation, NVML's readings and the node's objects; and where last words go.

NVML is read in a child process with a time limit: a driver that hangs must not hang the verifier. One child serves the looks of
one assertion, opens NVML for each reading anew, and ends with the assertion: nothing holds the GPU between two assertions,
where it would stand in the way of a reset. A process that waits inside the kernel cannot be killed; it is then left alone, and
no other one is started beside it.

What only some need is imported where they need it: loading takes most of the time of an assertion.
"""

from __future__ import annotations

import os
import sys

from .documents import DocumentError, parse_json, read
from .expectation import read_expectation
from .process import ANSWER, Process
from .reading import Hung, Reading, Unreadable

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from typing import Final

    from .expectation import Expectation
    from .node import NodeReader
    from .options import Options

# --- the expectation, the node, and where last words go -----------------------------------------------------------


class UsageError(Exception):
    """Something that the caller has to change; its text says what."""


def node_reader(options: Options) -> NodeReader | None:
    """Reads the node's objects; None where Kubernetes is left out.

    Raises:
        UsageError: outside a pod, or where the node's name is unknown.
    """
    if options.only:
        return None
    from pathlib import Path  # noqa: PLC0415 - HTTP and TLS take longest of all

    from .api import in_cluster  # noqa: PLC0415
    from .node import NodeReader  # noqa: PLC0415

    api = in_cluster(os.environ, Path(options.account))
    if api is None or not options.node:
        missing = "NODE_NAME is not set" if api else "this is not a pod: KUBERNETES_SERVICE_HOST is not set"
        message = f"{missing}, so the node object cannot be read; --only nvml leaves Kubernetes out."
        raise UsageError(message)
    return NodeReader(api, options.node)


def expectation_of(options: Options) -> tuple[Expectation, bytes]:
    """(the expectation, its document as it was read).

    Raises:
        UsageError: where it cannot be used.
    """
    try:
        expected, document = read_expectation(options.expect, options.expect_sha256)
    except DocumentError as error:
        message = f"the expectation cannot be used: {error}"
        raise UsageError(message) from None
    if expected.node is None and not options.only:
        message = "the expectation says nothing of the node object; --only nvml leaves Kubernetes out."
        raise UsageError(message)
    return expected, document


def terminate(path: str | None, message: str) -> None:
    """Where the kubelet looks for the reason of a pod's end."""
    if path is None:
        return
    try:
        with open(path, "w", encoding="utf-8") as log:  # noqa: PTH123 - pathlib takes time to load
            log.write(message)
    except OSError as error:
        print(f"{path}: cannot be written: {error.strerror}", file=sys.stderr)


# --- NVML ---------------------------------------------------------------------------------------------------------

DEFAULT_SECONDS: Final = 30.0
_KILL_SECONDS: Final = 2.0
_STDERR_SHOWN: Final = 400


class Reader:
    """Reads NVML, one child at a time.

    Args:
        seconds: how long one call into the driver may take, and the child's start.
        child: one that has been started, and perhaps asked, already.
    """

    def __init__(self, seconds: float = DEFAULT_SECONDS, child: Process | None = None) -> None:
        self._seconds = seconds
        self._child = child
        self._stuck: Hung | None = None

    def ask(self) -> None:
        """Have a child begin to read, where none hangs; `read` takes the answer."""
        if self._stuck is None:
            self._child = self._child or Process()
            self._child.ask()

    def read(self, *, again: bool = False) -> Reading | Hung | Unreadable:
        """What NVML says now.

        Args:
            again: that the next reading begins at once, while this one is looked at.
        """
        if self._stuck is not None:
            if self._child is not None and not self._child.ends(0):
                return self._stuck
            self._stuck, self._child = None, None
        child = self._child = self._child or Process()
        child.ask()
        lines, in_time = child.listen(self._seconds)
        if not in_time:
            return self._hung(child, lines)
        if lines and lines[-1].startswith(ANSWER.decode()):
            if again:
                child.ask()
            return _reading(lines[-1])
        if not child.ends(_KILL_SECONDS):
            return self._hung(child, lines)
        self._child = None
        return _unreadable(child, lines)

    def release(self) -> None:
        """End the child, so that nothing of this process holds a GPU."""
        child = self._child
        if child is None or self._stuck is not None:
            return
        child.finish()
        if child.ends(_KILL_SECONDS):
            child.close()
            self._child = None
        else:
            self._hung(child, ["the end of the process that read NVML"])

    def _hung(self, child: Process, lines: list[str]) -> Hung:
        child.kill()
        gone = child.ends(_KILL_SECONDS)
        hung = Hung(lines[-1] if lines else None, self._seconds, killable=gone)
        if gone:
            child.close()
            self._child = None
        else:
            self._stuck = hung
        return hung


def _reading(answer: str) -> Reading | Unreadable:
    try:
        return read(Reading, parse_json(answer))
    except (ValueError, DocumentError) as error:
        return Unreadable(f"the process that reads NVML gave no reading: {error}")


def _unreadable(child: Process, lines: list[str]) -> Unreadable:
    """Why the child ended without a reading."""
    said, code = child.complaint(), child.code or 0
    child.close()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    at = f" in {lines[-1]}" if lines else ""
    return Unreadable(f"the process that reads NVML ended with {how}{at}" + (f": {said[-_STDERR_SHOWN:]}" if said else ""))
