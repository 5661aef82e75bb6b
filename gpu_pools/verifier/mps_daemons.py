"""Finds MPS control daemons among the processes of the node, and says whose they are. Asks none of them anything.

A daemon leaves no trace in NVML until a client comes, and then only for who shares its PID namespace (both seen on an H200,
driver 580). So the node's list of processes is read: names, control groups and mounts, no more. A daemon in a PID namespace of
its own serves every process that reaches its pipes (seen there, too), so what tells a tenant's own daemon from one of the node
is whether its pod has a folder for pipes that is the node's.

A process chooses its arguments, and whoever writes a pod chooses where its own volumes are mounted. So a name is no proof: the
kernel's name of the program has to fit, and a mount is the node's only where the node's own list of mounts has its device, with a
path outside of the pod's volumes. Where only the name speaks, that is noted, and is no difference.
"""

from __future__ import annotations

import os

from .documents import Record
from .findings import Where

TYPE_CHECKING = False  # typing takes time to load
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike
    from typing import Final

    from .expectation import Expectation
    from .findings import Findings
    from .reading import Process

_CONTROL: Final = "nvidia-cuda-mps-control"
_SERVER: Final = "nvidia-cuda-mps-server"
#: What both begin with.
_NAMES: Final = b"nvidia-cuda-mps-"
#: Without one of these the program is a client that asks the daemon something, as the device plugin does all the time.
_DAEMON_FLAGS: Final = frozenset({"-d", "-f"})
#: Process 2 of Linux, whatever runs on it: no container has it in a PID namespace of its own.
_KERNEL_PROCESS: Final = ("2", "kthreadd")
#: Lengths of the parts of a uid, and what they are made of.
_UID: Final = [8, 4, 4, 4, 12]
_HEXADECIMAL: Final = frozenset("0123456789abcdef")
_PIPES: Final = "mps"
#: Of the name of a program that the kernel keeps (TASK_COMM_LEN), and of a line of mountinfo that are read.
_COMM_CHARACTERS, _MOUNT_FIELDS = 15, 5
_CHUNK: Final = 65536
_DAEMON: Final = Where("MPS daemon")


class MpsDaemon(Record):
    """A daemon, or a server that outlived it.

    Attributes:
        pid: as the list of processes has it.
        pod: uid of its pod; empty where it runs in none.
        shared: whether others than its pod can reach it; None where nobody could see that.
    """

    pid: int
    pod: str
    shared: bool | None


class NodeProcesses(Record):
    """What the list of processes said.

    Attributes:
        complete: whether it is the node's; else it shows this container only.
        daemons: by process id.
    """

    complete: bool
    daemons: tuple[MpsDaemon, ...]


#: Where nobody looked.
UNSEEN: Final = NodeProcesses(complete=False, daemons=())


class _Mount(Record):
    """A mount as proc_pid_mountinfo(5) has it.

    Attributes:
        device: its numbers, such as ``8:1``.
        root: what of the file system is mounted.
        point: where.
    """

    device: str
    root: str
    point: str


def read_processes(folder: str | PathLike[str]) -> NodeProcesses:
    """Look through a list of processes.

    Args:
        folder: a mounted proc file system.
    """
    place = os.fspath(folder)
    pid, name = _KERNEL_PROCESS
    complete = _text(f"{place}/{pid}/comm").strip() == name
    # The kernel lets everybody read it (fs/proc/base.c, 0444; fs/proc_namespace.c asks for no right).
    node = _mounts(_text(f"{place}/1/mountinfo")) if complete else []
    return NodeProcesses(complete, tuple(sorted(_daemons(place, node), key=lambda one: one.pid)))


def _daemons(folder: str, node: list[_Mount]) -> Iterator[MpsDaemon]:
    try:
        found = [entry for entry in os.listdir(folder) if entry.isdecimal()]  # noqa: PTH208 - thousands of them, many times
    except OSError:
        return
    for entry in found:
        process = f"{folder}/{entry}"
        # Most of a node's processes are something else, and many are the kernel's own, which have no command line.
        line = _bytes(f"{process}/cmdline")
        if _NAMES not in line:
            continue
        program, *arguments = line.decode(errors="replace").split("\0")
        name = program.rpartition("/")[2]
        if name == _SERVER or (name == _CONTROL and not _DAEMON_FLAGS.isdisjoint(arguments)):
            cgroup = _text(f"{process}/cgroup")
            # One that has ended meanwhile has no control group, which does not say that it was in no pod.
            if not _is_called(process, name) or not (cgroup or _text(f"{process}/cmdline")):
                continue
            pod = _pod_of(cgroup)
            shared = _shares_pipes(_mounts(_text(f"{process}/mountinfo")), node, pod) if pod else True
            yield MpsDaemon(int(entry), pod, shared)


def _pod_of(cgroup: str) -> str:
    """The uid of the pod in a path of control groups; empty where there is none. Systemd's driver writes underscores."""
    for behind in cgroup.split("pod")[1:]:
        uid = behind[: sum(_UID) + len(_UID) - 1].replace("_", "-")
        parts = uid.split("-")
        if [len(part) for part in parts] == _UID and _HEXADECIMAL.issuperset("".join(parts)):
            return uid
    return ""


def _is_called(process: str, name: str) -> bool:
    """Whether the kernel calls the program so, too: it keeps 15 characters, and takes the name from the file that was started."""
    return _text(f"{process}/comm").rstrip("\n") in {name[:_COMM_CHARACTERS], ""}


def _shares_pipes(mounts: list[_Mount], node: list[_Mount], pod: str) -> bool | None:
    """Whether a folder for pipes is the node's; None where the mounts are not to be had."""
    if not mounts or not node:
        return None
    return any(_is_of_the_node(mount, node, pod) for mount in mounts if _PIPES in mount.point)


def _is_of_the_node(mount: _Mount, node: list[_Mount], pod: str) -> bool:
    """Whether the node has what is mounted at a path that is not of the pod's own volumes."""
    own = f"/pods/{pod}/"
    return any(own not in f"{path}/" for path in _paths_on_the_node(mount, node))


def _paths_on_the_node(mount: _Mount, node: list[_Mount]) -> Iterator[str]:
    for one in node:
        root = one.root.rstrip("/")
        if one.device == mount.device and (mount.root == one.root or mount.root.startswith(f"{root}/")):
            yield one.point.rstrip("/") + mount.root[len(root) :]


def _mounts(text: str) -> list[_Mount]:
    """The mounts of a process; none where it has ended, or they are not to be had."""
    lines = (line.split() for line in text.splitlines())
    return [_Mount(*fields[2:5]) for fields in lines if len(fields) >= _MOUNT_FIELDS]


def _text(path: str) -> str:
    """Empty where the process has ended meanwhile."""
    return _bytes(path).decode(errors="replace")


def _bytes(path: str) -> bytes:
    """The same as bytes. Python's files take several times as long to open."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    content = b""
    try:
        while chunk := os.read(file, _CHUNK):
            content += chunk
    except OSError:
        return b""
    finally:
        os.close(file)
    return content


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
        if daemon.shared is None:
            findings.note(f"a process calls itself an MPS control daemon; who reaches it cannot be seen from here ({place})")
        elif not daemon.shared:
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
