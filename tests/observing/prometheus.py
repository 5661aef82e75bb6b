"""The real Prometheus with a configuration of the test: a folder of its own, a free port of 127.0.0.1, asked by its HTTP API.

What is not its own (targets, rules, what it sends alerts to) is the caller's. It ends with the `with` block, whatever happens.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from sandbox.system import processes
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_built

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SECONDS = 60
Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Prometheus:
    """One that runs.

    Attributes:
        url: where its HTTP API is.
    """

    url: str

    def query(self, expression: str, *, at: float | None = None) -> dict[Labels, float]:
        """Labels -> value of an instant query; `at`: seconds since the epoch, now by default."""
        found = self._asked("query", {"query": expression, **({} if at is None else {"time": at})})
        if found["resultType"] == "scalar":
            return {frozenset(): float(found["result"][1])}
        return {frozenset(one["metric"].items()): float(one["value"][1]) for one in found["result"]}

    def query_range(self, expression: str, start: float, end: float, step: float) -> dict[Labels, list[tuple[float, float]]]:
        """Labels -> (time, value) at each step at which there is one."""
        found = self._asked("query_range", {"query": expression, "start": start, "end": end, "step": step})
        return {
            frozenset(one["metric"].items()): [(float(time), float(value)) for time, value in one["values"]]
            for one in found["result"]
        }

    def targets(self) -> list[dict[str, Any]]:
        """The targets that it scrapes."""
        found: list[dict[str, Any]] = self._asked("targets", {"state": "active"})["activeTargets"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """The groups of its rules, with how each was evaluated last."""
        found: list[dict[str, Any]] = self._asked("rules", {})["groups"]
        return found

    def _asked(self, what: str, parameters: dict[str, Any]) -> Any:
        address = f"{self.url}/api/v1/{what}?{urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=_SECONDS) as answer:  # noqa: S310 our own address
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            # What is wrong with the expression is in the answer.
            message = f"{what} {parameters}: {error.code} {error.read().decode(errors='replace')}"
            raise AssertionError(message) from error


@contextmanager
def prometheus(folder: Path, configuration: dict[str, Any], *flags: str) -> Iterator[Prometheus]:
    """Run one.

    Args:
        folder: for its data, its configuration and its log; paths in the configuration may be relative to it.
        configuration: as prometheus.yml has it.
        flags: more arguments of the program, as --enable-feature=….
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "prometheus.yml"
    written.write_text(json.dumps(configuration), encoding="utf-8")
    (port,) = processes.free_ports(1)
    address = f"127.0.0.1:{port}"
    own = (f"--config.file={written}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}")
    with running(folder, "prometheus", [*own, *flags], f"http://{address}"):
        yield Prometheus(f"http://{address}")


@contextmanager
def running(folder: Path, name: str, flags: list[str], url: str) -> Iterator[None]:
    """Run one of Prometheus' programs, which all say at /-/ready when they are."""
    program = find_built(name, Progress()) / name
    processes.spawn(folder, name, [str(program), *flags])

    def ready() -> bool:
        assert name in processes.running(folder), processes.log_tail(folder, name)
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=_SECONDS):  # noqa: S310
                return True
        except (urllib.error.URLError, ConnectionError):
            return False

    try:
        processes.wait_until(ready, timeout=_SECONDS, what=name)
        yield
    finally:
        processes.stop(folder)
