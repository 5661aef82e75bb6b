from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.hardware.models import model
from sandbox.nvml import from_tables, simulated, state
from sandbox.nvml.library import find_library, nvml_environment
from sandbox.system.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORKER = Path(__file__).with_name("worker.py")


class NvmlError(Exception):
    """An NVML error code that pynvml raised."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class Nvml:
    """pynvml in a process of its own, on a machine that a state file describes."""

    def __init__(self, library: Path, path: Path) -> None:
        self.path = path
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **nvml_environment(library, path)},
        )

    def __getattr__(self, function: str) -> Callable[..., Any]:
        return lambda *arguments: self.ask(function, *arguments)

    def ask(self, function: str, *arguments: Any) -> Any:
        self.send(function, *arguments)
        return self.receive()

    def send(self, function: str, *arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([function, arguments]) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise NvmlError(answer["error"], answer["text"])
        return answer["value"]

    def refusal(self, function: str, *arguments: Any) -> int | None:
        """The error code of a call, None where it is answered."""
        self.send(function, *arguments)
        return self.outcome()

    def outcome(self) -> int | None:
        """The error code of the call that was sent, None where it is answered."""
        try:
            self.receive()
        except NvmlError as error:
            return error.code
        return None

    def refuses(self, code: int, function: str, *arguments: Any) -> bool:
        """Whether the call is answered with that error; no other is allowed."""
        got = self.refusal(function, *arguments)
        assert got in {code, None}, (function, arguments)
        return got == code

    def has_answered(self) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def started(self) -> Nvml:
        self.nvmlInit()
        return self

    def gpu(self, index: int = 0) -> Any:
        return self.nvmlDeviceGetHandleByIndex(index)

    def change(self, how: Callable[[simulated.Machine], simulated.Machine]) -> simulated.Machine:
        return state.change(self.path, how)

    def stop(self) -> None:
        # It may be in a call that hangs; nothing of it is kept but the state file, which is always whole.
        self._process.kill()
        self._process.communicate()


class Bench:
    """Makes machines, and processes that look at them."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.library = library
        self.folder = folder
        self._running: list[Nvml] = []

    def put(self, machine: simulated.Machine) -> Path:
        path = self.folder / f"state-{len(list(self.folder.iterdir()))}"
        state.write(path, machine)
        return path

    def look(self, path: Path) -> Nvml:
        """A process that has not initialised NVML yet."""
        self._running.append(Nvml(self.library, path))
        return self._running[-1]

    def machine(self, key: str = "a100-80gb", gpus: int = 1, **options: Any) -> Nvml:
        """A process on a new machine, NVML initialised."""
        products = model(key).products
        product = products[0] if products else f"Simulated {key}"
        return self.look(self.put(from_tables.machine_state(key, product, gpus, **options))).started()

    def with_mig(self, key: str = "a100-80gb", gpus: int = 1) -> Nvml:
        """The same with MIG mode on, as after a reset where one is needed."""
        nvml = self.machine(key, gpus)
        for index in range(gpus):
            nvml.nvmlDeviceSetMigMode(nvml.gpu(index), 1)
        nvml.change(lambda machine: replace(machine, gpus=tuple(simulated.after_reset(gpu) for gpu in machine.gpus)))
        return nvml

    def stop(self) -> None:
        for nvml in self._running:
            nvml.stop()


@pytest.fixture(scope="session")
def library() -> Path:
    return find_library(Progress())


@pytest.fixture
def bench(library: Path, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(library, tmp_path)
    yield made
    made.stop()
