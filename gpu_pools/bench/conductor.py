"""Starts clients, has them work in the same window of time, and ends them. Each is a process, as each pod would be.

A client that fails, hangs or dies is a finding, not an error: what became of it stands beside what it did. Whatever happens
here, no client is left.
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from gpu_pools.bench.statistics import Operation, measured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from gpu_pools.bench.statistics import Measured
    from gpu_pools.bench.workloads import Effort

_READY_SECONDS: Final = 120.0
_JOIN_SECONDS: Final = 30.0
#: What a client may take to answer once its window is over: an operation may be under way.
_ANSWER_SECONDS: Final = 10.0
#: Between telling clients to begin and the moment at which they do.
_LEAD_SECONDS: Final = 0.3
#: A process that is killed amid work on the GPU ends when the driver lets it.
_END_SECONDS: Final = 10.0


class ClientFailed(Exception):  # noqa: N818 - what became of a client
    """A client did not do what it was told; the text is its own, or says how it ended."""


@dataclass(frozen=True)
class Start:
    """How a client is started.

    Attributes:
        command: but for its kind.
        environment: all of it.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """What a client did when it was told to work.

    Attributes:
        operations: (when it ended, seconds it took) of each.
        error: what ended it early; None where nothing did.
        failed: when, on the same clock; None where it was not, or nobody knows.
    """

    operations: tuple[Operation, ...] = ()
    error: str | None = None
    failed: float | None = None


@dataclass
class Client:
    """A client that runs."""

    process: subprocess.Popen[str]
    kind: str
    mib: int = 0
    ahead: float = 0.0
    answers: queue.Queue[str | None] = field(default_factory=queue.Queue)

    @classmethod
    def start(cls, how: Start, kind: str) -> Client:
        """Start one; it is not on the GPU before it joins."""
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([*how.command, kind], text=True, env=how.environment, **streams)
        client = cls(process, kind)
        threading.Thread(target=client._read, daemon=True).start()
        return client

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                self.answers.put(line)
        self.answers.put(None)

    def tell(self, **what: Any) -> None:  # noqa: ANN401 - numbers and words, as JSON
        """Send it one thing to do."""
        assert self.process.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()

    def hear(self, what: str, seconds: float) -> dict[str, Any]:
        """Wait for its answer.

        Raises:
            ClientFailed: when it says that it failed, ends, or says nothing in time.
        """
        try:
            line = self.answers.get(timeout=max(seconds, 0))
        except queue.Empty:
            message = f"said nothing for {seconds:.0f} s"
            raise ClientFailed(message) from None
        if line is None:
            code = self._code()
            message = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
            raise ClientFailed(message)
        heard: dict[str, Any] = json.loads(line)
        if heard["is"] != what:
            raise ClientFailed(str(heard.get("error") or line.strip()))
        return heard

    def _code(self) -> int:
        try:
            return self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL

    def join(self) -> None:
        """Have it take its place on the GPU, and see how far its clock is ahead of ours: it may be on another machine.

        Raises:
            ClientFailed: when it cannot.
        """
        self.tell(do="join")
        self.mib = int(self.hear("joined", _JOIN_SECONDS)["mib"])
        asked = time.monotonic()
        self.tell(do="clock")
        now = float(self.hear("clock", _JOIN_SECONDS)["now"])
        heard = time.monotonic()
        # On this machine the clock is one, and its answer came between question and answer.
        self.ahead = 0.0 if asked <= now <= heard else now - (asked + heard) / 2

    def outcome(self, seconds: float) -> Outcome:
        """What it did, once it says so."""
        try:
            heard = self.hear("done", seconds)
        except ClientFailed as error:
            return Outcome(error=str(error))
        operations = tuple((float(ended) - self.ahead, float(took)) for ended, took in heard["operations"])
        return Outcome(operations, heard["error"], None if heard["failed"] is None else float(heard["failed"]) - self.ahead)

    def stop(self) -> None:
        """End it; one that the driver holds is left to the driver."""
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class Group:
    """Clients that share one GPU. A context manager: none of them is left after it."""

    def __init__(self, starts: Sequence[Start]) -> None:
        """Begin with nobody.

        Args:
            starts: of the clients, in turn: more than one where each has a MIG device or a pod of its own.
        """
        self._starts = starts
        self.clients: list[Client] = []
        self._waiting: list[Client] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        for client in (*self.clients, *self._waiting):
            client.stop()

    def prepare(self, kinds: Sequence[str]) -> None:
        """Start clients that have loaded what they need, but are not on the GPU yet.

        Raises:
            ClientFailed: when one cannot be.
        """
        first = len(self.clients) + len(self._waiting)
        started = [Client.start(self._starts[(first + index) % len(self._starts)], kind) for index, kind in enumerate(kinds)]
        self._waiting += started
        for client in started:
            client.hear("ready", _READY_SECONDS)

    def join(self, count: int) -> None:
        """Have the next clients that are prepared take their place on the GPU, one after the other.

        Raises:
            ClientFailed: when one cannot; the others stay.
        """
        for _ in range(count):
            client = self._waiting.pop(0)
            try:
                client.join()
            except ClientFailed:
                client.stop()
                raise
            self.clients.append(client)

    def measure(self, effort: Effort) -> tuple[Measured, list[str]]:
        """Have all of them work, and see what they do; also what became of those that failed."""
        start, seconds = time.monotonic() + _LEAD_SECONDS, effort.warm_up + effort.window * effort.windows
        outcomes = self.work(start, start + seconds)
        figures = measured([one.operations for one in outcomes], start + effort.warm_up, effort.window, effort.windows)
        return figures, [one.error for one in outcomes if one.error]

    def work(self, start: float, end: float, fault: tuple[int, str, float] | None = None) -> list[Outcome]:
        """Have all of them work between two moments of the common clock.

        Args:
            start: seconds of CLOCK_MONOTONIC.
            end: the same.
            fault: (which client, `memory`, `crash` or `kill`, when).
        """
        which, what, at = fault or (-1, "", end)
        for index, client in enumerate(self.clients):
            harm = {"fault": what, "at": at + client.ahead} if index == which and what != "kill" else {}
            client.tell(do="run", start=start + client.ahead, end=end + client.ahead, **harm)
        if what == "kill":
            time.sleep(max(at - time.monotonic(), 0))
            self.clients[which].process.kill()
        limit = end + _ANSWER_SECONDS
        return [client.outcome(limit - time.monotonic()) for client in self.clients]
