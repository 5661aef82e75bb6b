"""A client of the GPU: does the work of one kind, when it is told to, and says when each operation ended. A program of its own.

It is started as a file, by any Python, so it needs nothing of this project: PyTorch for `torch`, nothing for `sleeper`, which
waits instead and stands in for a GPU in tests of the conductor. `client.cu` speaks the same:

    reads  {"do": "join"}                         takes its memory on the GPU and warms up
           {"do": "run", "start": s, "end": s}    works between two moments of CLOCK_MONOTONIC; "fault": memory or crash, "at": s
           {"do": "clock"}                        says what time it is there
    writes {"is": "ready"}; {"is": "clock", "now": s}; {"is": "joined", "mib": n};
           {"is": "done", "operations": [[ended, took], …], "error": null or text}

It ends with the end of its input. Not here: what is measured, and when.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

THINK_SECONDS = 0.005
_MIB = 1 << 20
_PIECE = 256 * _MIB
_WARM_UPS = 3


class Work(Protocol):
    """The work of one kind on one GPU."""

    def join(self) -> int:
        """Take what it needs; returns the MiB that it holds, as its own allocator says."""

    def operation(self) -> None:
        """Do one operation, to its end."""

    def fault(self, what: str) -> None:
        """Do what harms others: `memory` takes all that is left, `crash` breaks the context."""


class Sleeper:
    """No GPU: an operation is a wait."""

    def __init__(self, kind: str) -> None:
        self._seconds = {"flood": 0.05, "inference": 0.001}.get(kind, 0.002)

    def join(self) -> int:
        """Hold nothing."""
        return 0

    def operation(self) -> None:
        """Wait."""
        time.sleep(self._seconds)

    def fault(self, what: str) -> None:
        """Fail as a GPU would."""
        raise MemoryError("out of memory") if what == "memory" else RuntimeError("an illegal memory access was encountered")


class Torch:
    """PyTorch, on the first GPU that it sees."""

    def __init__(self, kind: str) -> None:
        # Nowhere else: the other kind of client has none.
        import torch  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

        self._torch = torch
        self._kind = kind
        self._held: list[Any] = []

    def join(self) -> int:
        """Make the context and what the kind works on."""
        torch = self._torch
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch sees no GPU")
        half = {"device": "cuda", "dtype": torch.float16}
        if self._kind in ("compute", "flood"):
            side = 8192 if self._kind == "flood" else 4096
            self._a, self._b = torch.randn(side, side, **half), torch.randn(side, side, **half)
            self._out = torch.empty(side, side, **half)
        elif self._kind == "memory":
            self._a = torch.zeros(512 * _MIB, device="cuda", dtype=torch.uint8)
            self._b = torch.empty_like(self._a)
        elif self._kind == "launches":
            self._a = torch.zeros(1024, device="cuda")
        else:
            width, batch = (2048, 8) if self._kind == "inference" else (4096, 2048)
            layers = [part for _ in range(6) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
            self._network = torch.nn.Sequential(*layers).to(**half)
            self._input = torch.randn(batch, width, **half)
            self._optimizer = torch.optim.SGD(self._network.parameters(), lr=1e-6)
        for _ in range(_WARM_UPS):
            self.operation()
        return int(torch.cuda.memory_reserved() // _MIB)

    def operation(self) -> None:
        """Do one, and wait for the GPU."""
        torch = self._torch
        if self._kind in ("compute", "flood"):
            for _ in range(10 if self._kind == "compute" else 200):
                torch.mm(self._a, self._b, out=self._out)
        elif self._kind == "memory":
            for _ in range(4):
                self._b.copy_(self._a)
        elif self._kind == "launches":
            for _ in range(500):
                self._a.add_(1.0)
        elif self._kind == "inference":
            with torch.inference_mode():
                self._network(self._input)
        else:
            self._optimizer.zero_grad(set_to_none=True)
            self._network(self._input).float().pow(2).mean().backward()
            self._optimizer.step()
        torch.cuda.synchronize()

    def fault(self, what: str) -> None:
        """Take memory until there is none, or have a kernel fail an assertion, which ends the context."""
        torch = self._torch
        if what == "memory":
            while True:
                self._held.append(torch.empty(_PIECE, device="cuda", dtype=torch.uint8))
        torch.zeros(8, device="cuda")[torch.full((8,), 1 << 30, device="cuda", dtype=torch.int64)].sum().item()
        raise RuntimeError("the GPU took an index that does not exist")


BACKENDS: dict[str, Callable[[str], Work]] = {"torch": Torch, "sleeper": Sleeper}


def main(arguments: list[str]) -> int:
    """Serve one conductor: BACKEND KIND."""
    backend, kind = arguments
    try:
        work = BACKENDS[backend](kind)
    except ImportError as error:
        return _fail(f"{backend} cannot be loaded: {error}")
    _say({"is": "ready"})
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "join":
            try:
                _say({"is": "joined", "mib": work.join()})
            except (RuntimeError, MemoryError) as error:
                return _fail(_short(error))
        elif asked["do"] == "clock":
            _say({"is": "clock", "now": time.monotonic()})
        else:
            _say(_run(work, kind, asked))
    return 0


def _run(work: Work, kind: str, asked: dict[str, Any]) -> dict[str, Any]:
    operations: list[tuple[float, float]] = []
    think = THINK_SECONDS if kind == "inference" else 0.0
    at = asked["at"] if "fault" in asked else asked["end"]
    error, failed = None, None
    time.sleep(max(asked["start"] - time.monotonic(), 0))
    try:
        while (began := time.monotonic()) < asked["end"]:
            if began >= at:
                work.fault(asked["fault"])
            work.operation()
            ended = time.monotonic()
            operations.append((round(ended, 6), round(ended - began, 6)))
            if think:
                time.sleep(think)
    except (RuntimeError, MemoryError) as raised:
        error, failed = _short(raised), time.monotonic()
        # What it took stays taken, as in a program that catches the error and goes on.
        time.sleep(max(asked["end"] - time.monotonic(), 0))
    return {"is": "done", "operations": operations, "error": error, "failed": failed}


def _short(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


def _fail(text: str) -> int:
    _say({"is": "failed", "error": text})
    return 1


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
