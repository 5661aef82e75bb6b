"""Processor time of a command by part: the engine, its language host, the program, the policy pack, the servers that they ask.

The kernel's counters of each process (/proc) are read several times a second, for the processes that the command starts and for
those of a sandbox. What a process uses after its last reading is not seen. The kernel also counts the command's own processes
together once they have ended: the difference is shown as `not told apart`. Linux only.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAUSE_SECONDS: Final = 0.1
#: The program that a process runs, by its file name -> the part that it is.
_PROGRAMS: Final = {
    "pulumi": "engine",
    "pulumi-language-python": "language host",
    "kube-apiserver": "API server",
    "kube-controller-manager": "controllers",
    "kube-scheduler": "controllers",
    "etcd": "etcd",
    "kubectl": "kubectl",
    "helm": "helm",
}
#: A word of a Python's command line, or how it ends -> the part.
_PYTHONS: Final = {
    "pulumi-language-python-exec": "program",
    "pip": "pip, asked by the language host",
    "policies": "policy pack",
    "private_network.py": "ways between networks",
    "sandbox.providers": "provider stand-ins",
    "sandbox.machines": "nodes",
    "sandbox": "python -m sandbox",
}
_OTHER: Final = "others"


@dataclass(frozen=True)
class Measured:
    """What a command took.

    Attributes:
        seconds: by the clock.
        own: processor seconds of the command and of what it started and waited for, as the kernel counts them.
        parts: part -> processor seconds; servers are among them.
        unread: processor seconds of `own` that no reading has seen.
    """

    seconds: float
    own: float
    parts: Mapping[str, float]
    unread: float

    def table(self) -> str:
        """One line a part, the dearest first."""
        lines = [f"    {seconds:7.2f} s  {part}" for part, seconds in sorted(self.parts.items(), key=lambda one: -one[1])]
        return "\n".join([*lines, f"    {self.unread:7.2f} s  not told apart"])


@dataclass
class _ProcessUsage:
    """A process: what it had used when it was first and last read, and what it was by then."""

    first: float
    last: float
    part: str
    is_waited_for: bool


@dataclass
class _Readings:
    """What has been read of the processes of a command and of a sandbox."""

    root: int
    servers_of: str
    seen: dict[int, _ProcessUsage] = field(default_factory=dict)
    ignored: set[int] = field(default_factory=set)

    def read(self) -> None:
        """Read all of them once."""
        for entry in _PROC.iterdir():
            if entry.name.isdigit() and int(entry.name) not in self.ignored:
                self._read_one(int(entry.name))

    def _read_one(self, pid: int) -> None:
        try:
            text = (_PROC / str(pid) / "stat").read_text()
            words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return
        parent, _, session, *values = text.rpartition(")")[2].split()[1:]
        used = (int(values[7]) + int(values[8])) / _TICKS
        known = self.seen.get(pid)
        if known is None:
            is_started = pid == self.root or int(parent) in self.seen
            if not is_started and not (self.servers_of and any(self.servers_of in word for word in words)):
                self.ignored.add(pid)
                return
            # What is to outlive the command gets a session of its own: nobody waits for it, and the kernel does not add it up.
            is_waited_for = is_started and int(session) == os.getsid(0)
            known = self.seen[pid] = _ProcessUsage(0.0 if is_started else used, used, _OTHER, is_waited_for)
        known.last = used
        if words[0]:  # of one that has ended and is not waited for yet there are none
            known.part = _part(words)

    def by_part(self) -> dict[str, float]:
        """Part -> processor seconds while it was read."""
        found: defaultdict[str, float] = defaultdict(float)
        for one in self.seen.values():
            found[one.part] += one.last - one.first
        return {part: seconds for part, seconds in found.items() if seconds > 0}

    def of_waited_for(self) -> float:
        """Processor seconds of what the kernel adds up, as far as it was read."""
        return sum(one.last - one.first for one in self.seen.values() if one.is_waited_for)


def _part(words: Sequence[str]) -> str:
    """What part a process is, by its command line."""
    if part := _PROGRAMS.get(Path(words[0]).name):
        return part
    return next((_PYTHONS[name] for word in words[1:] if (name := Path(word).name) in _PYTHONS), _OTHER)


def measure(command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], servers_of: Path | None = None) -> Measured:
    """Run a command to its end and measure it; a failure of it ends this program.

    Args:
        command: the program and its arguments.
        cwd: where it runs.
        environment: its whole environment.
        servers_of: a folder that the command lines of servers name, whose time counts too.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with subprocess.Popen(
        command, cwd=cwd, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        readings = _Readings(process.pid, str(servers_of or ""))
        said, _ = _communicate(process, readings)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{said}")
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(seconds, own, readings.by_part(), own - readings.of_waited_for())


def _communicate(process: subprocess.Popen[str], readings: _Readings) -> tuple[str, str]:
    """Read the processes until the command has ended; returns what it has printed."""
    while True:
        readings.read()
        try:
            return process.communicate(timeout=_PAUSE_SECONDS)
        except subprocess.TimeoutExpired:
            continue
