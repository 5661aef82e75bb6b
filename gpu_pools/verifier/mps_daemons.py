"""Finds MPS control daemons among the processes of the node, and says whose they are. Asks none of them anything.

A daemon leaves no trace in NVML until a client comes, and then only for who shares its PID namespace (both seen on an H200,
driver 580). So the node's list of processes is read: names, control groups and mounts, no more. A daemon in a PID namespace of
its own serves every process that reaches its pipes (seen there, too), so what tells a tenant's own daemon from one of the node
is whether its pod has a folder for pipes that is the node's.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .findings import Where

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from .expectation import Expectation
    from .findings import Findings
    from .reading import Process

_CONTROL: Final = "nvidia-cuda-mps-control"
_SERVER: Final = "nvidia-cuda-mps-server"
#: Without one of these the program is a client that asks the daemon something, as the device plugin does all the time.
_DAEMON_FLAGS: Final = frozenset({"-d", "-f"})
#: Process 2 of Linux, whatever runs on it: no container has it in a PID namespace of its own.
_KERNEL_PROCESS: Final = ("2", "kthreadd")
#: Of a path of control groups; systemd's driver writes underscores.
_POD: Final = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_PIPES: Final = "mps"
_DAEMON: Final = Where("MPS daemon")


@dataclass(frozen=True)
class MpsDaemon:
    """A daemon, or a server that outlived it.

    Attributes:
        pid: as the list of processes has it.
        pod: uid of its pod; empty where it runs in none.
        shared: whether others than its pod can reach it.
    """

    pid: int
    pod: str
    shared: bool


@dataclass(frozen=True)
class NodeProcesses:
    """What the list of processes said.

    Attributes:
        complete: whether it is the node's; else it shows this container only.
        daemons: by process id.
    """

    complete: bool
    daemons: tuple[MpsDaemon, ...]


#: Where nobody looked.
UNSEEN: Final = NodeProcesses(complete=False, daemons=())


def read_processes(folder: Path) -> NodeProcesses:
    """Look through a list of processes.

    Args:
        folder: a mounted proc file system.
    """
    pid, name = _KERNEL_PROCESS
    complete = _text(folder / pid / "comm").strip() == name
    return NodeProcesses(complete, tuple(sorted(_daemons(folder), key=lambda one: one.pid)))


def _daemons(folder: Path) -> Iterator[MpsDaemon]:
    try:
        found = [entry for entry in os.listdir(folder) if entry.isdecimal()]  # noqa: PTH208 - thousands of them, many times
    except OSError:
        return
    for entry in found:
        program, *arguments = _text(folder / entry / "cmdline").split("\0")
        name = program.rpartition("/")[2]
        if name == _SERVER or (name == _CONTROL and not _DAEMON_FLAGS.isdisjoint(arguments)):
            match = _POD.search(_text(folder / entry / "cgroup"))
            pod = match[1].replace("_", "-") if match else ""
            yield MpsDaemon(int(entry), pod, shared=not pod or _shares_pipes(_text(folder / entry / "mountinfo"), pod))


def _shares_pipes(mounts: str, pod: str) -> bool:
    """Whether a folder for pipes is the node's; also where the mounts are not to be had."""
    # proc_pid_mountinfo(5): the fourth field is what of the file system is mounted, the fifth where.
    places = [line.split()[3:5] for line in mounts.splitlines()]
    return not places or any(_PIPES in point and root != "/" and pod not in root for root, point in places)


def _text(path: Path) -> str:
    """Empty where the process has ended meanwhile."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - see above
            return file.read()
    except OSError:
        return ""


def compare_daemons(
    expected: Expectation, found: NodeProcesses, operators: frozenset[str] | None, on_gpus: Iterable[Process], findings: Findings
) -> None:
    """Add each daemon that the declaration has no place for.

    Args:
        expected: the expectation.
        found: the node's processes.
        operators: uids of the pods of the operator's own daemon; None where nobody says.
        on_gpus: what NVML lists.
        findings: where to add.
    """
    own = [one for one in found.daemons if one.pod in (operators or ())]
    for daemon in found.daemons:
        place = f"process {daemon.pid} {f'of pod {daemon.pod}' if daemon.pod else 'outside of every pod'}"
        if not daemon.shared:
            findings.note(f"an MPS control daemon serves the pod that it runs in alone ({place})")
        elif expected.mps is None:
            findings.differs(_DAEMON, "control daemons", "none", place, "mps-undeclared")
        elif own and daemon not in own:
            # Where the operator's is not seen, this may be it; whether it answers is asked in any case.
            findings.differs(_DAEMON, "control daemons", "the operator's alone", place, "mps-second")
    clients = [f"{one.pid} {one.name or '(unnamed)'}" for one in on_gpus if one.kind == "mps" or one.name == _SERVER]
    if not found.complete:
        findings.note("the node's processes cannot be seen from here: whether an MPS control daemon runs was not checked")
    if expected.mps is None and clients and not found.complete:
        findings.differs(_DAEMON, "clients on the GPUs", "none", ", ".join(clients), "mps-undeclared")
