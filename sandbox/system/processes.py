"""Background processes of a folder: started detached, remembered, found again, stopped.

A process is known by its pid and its kernel start time together, so that a pid that the kernel has given to
another program is never signalled. Each process leads a session of its own: it outlives the command that
started it, and stopping it stops its children. Nothing here restarts what died; whoever started it decides
that.

Each carries its folder and name in its environment, too: what was started by someone who was killed before he
could write it down is found by that, and ended before another of its name is started.

Linux only: what runs is read from /proc.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.system.errors import SandboxError
from sandbox.system.files import explained, locked, make_folder, read_json, write_json
from sandbox.system.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_RECORD = "processes.json"
# Below the kernel's default range for outgoing connections, so that a stopped process finds its port free
# again.
_PORTS = range(20000, 32000)
_PORT_TRIES = 200
_KILL_SECONDS = 10.0
# What it writes is for its own user.
_UMASK = 0o077
_MARK = "GPU_POOLS_PROCESS"
#: What ENOSPC is called by strerror(3), and by Go in lower case.
_NO_SPACE = "no space left on device"
_LINE_LENGTH = 300
_MIB = 1 << 20


@dataclass(frozen=True)
class Process:
    """A process that was started here.

    Attributes:
        name: its name within the folder.
        pid: its process id; also the id of its session and process group.
        started: its start, in seconds since the machine booted.
        log_start: where in its log its own output begins, in bytes; before that is what earlier ones of its name have written.
    """

    name: str
    pid: int
    started: float
    log_start: int = 0


@dataclass(frozen=True)
class _Row:
    """What the kernel says about a process."""

    group: int
    started: float
    zombie: bool


def spawn(
    folder: Path,
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Process:
    """Start a program in the background and remember it.

    Args:
        folder: the folder that the process belongs to; its output goes to logs/<name>.log there.
        name: a name that is unique within the folder.
        argv: the program and its arguments; never secrets, everyone on the machine can read them.
        env: the whole environment; None passes on this process's own.
        cwd: the working folder; None keeps the current one.

    Returns:
        The process, which may still fail: see log_tail.

    Raises:
        SandboxError: when a process of that name runs, or the program cannot be started.
    """
    log = _log(folder, name)
    make_folder(log.parent)
    record = folder / _RECORD
    with locked(record):
        known = _alive(folder)
        if name in known:
            message = f"{folder}: {name} runs already (pid {known[name].pid})."
            raise SandboxError(message, "Stop it first: make down.")
        _end_unrecorded(folder, [name])
        log_start = log.stat().st_size if log.exists() else 0
        child = _start(log, argv, {**(os.environ if env is None else env), _MARK: f"{folder.resolve()}/{name}"}, cwd)
        row = _row(child.pid)
        process = Process(name, child.pid, row.started if row else 0.0, log_start)
        write_json(record, _as_json([*known.values(), process]))
    return process


def own_mark() -> dict[str, str]:
    """The environment variable by which what this process starts is found and ended, whoever lives to record it.

    Children inherit it; those that are given another environment need it in that one, too.
    """
    return {_MARK: os.environ[_MARK]} if _MARK in os.environ else {}


def running(folder: Path) -> dict[str, Process]:
    """Return the processes of a folder that are really alive, by name, in the order they were started."""
    return _alive(folder)


def died(folder: Path) -> list[str]:
    """Return the names of what was started for a folder, was not stopped, and does not run any more."""
    alive = _alive(folder)
    return [name for name in read_json(folder / _RECORD).get("processes", {}) if name not in alive]


def stop(folder: Path, names: Iterable[str] | None = None, *, grace: float = 5.0) -> None:
    """Stop processes and all their children, the last started first, and forget them.

    Args:
        folder: the folder that they belong to.
        names: which to stop; None for all.
        grace: seconds that each gets to end by itself before it is killed.
    """
    if not folder.exists():
        return
    wanted = None if names is None else set(names)
    for process in reversed(_alive(folder).values()):
        if wanted is None or process.name in wanted:
            _end(process, grace)
    with locked(folder / _RECORD):
        if (folder / _RECORD).exists():
            write_json(folder / _RECORD, _as_json(_alive(folder).values()))
        _end_unrecorded(folder, wanted)


def carrying(variable: str, value: str) -> dict[int, str]:
    """Return the processes whose environment was started with a variable: pid -> path of the program.

    This process is left out, and so are those whose environment is not for us to read.
    """
    entry = f"{variable}={value}"
    return {pid: program for pid, program, environment in _environments() if entry in environment}


def describe_end(folder: Path, name: str) -> str:
    """Return what a process that has ended printed last, after the line that says so where the disk was full.

    Go programs print hundreds of lines of stacks after that line.
    """
    full = full_disk(folder, [name])
    return f"{full}\n{log_tail(folder, name)}" if full else log_tail(folder, name)


def full_disk(folder: Path, names: Iterable[str]) -> str:
    """Say that processes have ended, or may, since the disk is full; empty where none of them has said so.

    Args:
        folder: the folder that they belong to.
        names: which processes.
    """
    starts = {process.name: process.log_start for process in _recorded(read_json(folder / _RECORD))}
    for name in names:
        line = _line_with(_log(folder, name), _NO_SPACE, starts.get(name, 0))
        if line:
            free = shutil.disk_usage(folder).free // _MIB
            return f"The disk is full ({folder}: {free} MiB are free); {name} has written: {line}"
    return ""


def _line_with(path: Path, text: str, start: int) -> str:
    """The first line of a file that has a text, from a place on; empty where there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(start)
            lines = (line.decode(errors="replace").strip() for line in stream)
            return next((line[:_LINE_LENGTH] for line in lines if text in line.lower()), "")
    except FileNotFoundError:
        return ""


def log_tail(folder: Path, name: str, lines: int = 15) -> str:
    """Return the last lines that a process has printed; empty when it printed nothing."""
    try:
        text = _log(folder, name).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def free_ports(count: int) -> list[int]:
    """Return different TCP ports that nobody listens on at 127.0.0.1.

    Raises:
        SandboxError: when that many cannot be found.
    """
    chooser = random.SystemRandom()
    found: list[int] = []
    for port in chooser.sample(_PORTS, k=_PORT_TRIES):
        if len(found) == count:
            break
        if port_is_free(port):
            found.append(port)
    if len(found) < count:
        message = f"Only {len(found)} of {count} free ports found on 127.0.0.1 ({_PORT_TRIES} were tried)."
        raise SandboxError(message, "Stop programs that listen on many ports, then try again.")
    return found


def port_is_free(port: int) -> bool:
    """Say whether a server could listen on a TCP port of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port whose last connections are still winding down is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_until(probe: Callable[[], bool], *, timeout: float, what: str) -> None:
    """Wait until a probe says yes.

    Args:
        probe: asked again and again; may raise to give up early.
        timeout: seconds until giving up on an idle machine; longer on a busy one (sandbox/system/patience.py).
        what: what is waited for, as the subject of a sentence.

    Raises:
        SandboxError: when the time is over.
    """
    patience = Patience(timeout)
    pause = 0.02
    while not probe():
        if patience.is_over():
            message = f"{what}: not reached within {patience.waited:.3g} s."
            remedy = "Read the logs in the sandbox's logs folders; on a busy machine, try again."
            raise SandboxError(message, remedy)
        time.sleep(pause)
        pause = min(pause * 1.3, 0.2)


def _start(log: Path, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, its output going to the log."""
    with explained(log, "write"):
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            umask=_UMASK,
        )
    except OSError as error:
        message = f"{argv[0]}: cannot start it: {error.strerror}."
        remedy = "Check that the program is there and can be run; make tools finds or builds all of them."
        raise SandboxError(message, remedy) from error
    finally:
        os.close(output)
    _wait_for_environment(child)
    # Collects the exit status whenever it comes, so that no zombie stays while this process lives.
    threading.Thread(target=child.wait, name=f"wait for {child.pid}", daemon=True).start()
    return child


def _wait_for_environment(child: subprocess.Popen[bytes]) -> None:
    """Wait until the mark of a process that was just started can be read.

    Popen returns when the kernel has closed the old program's files, and only then does the kernel set up the new environment:
    for this moment, which is long on a busy machine, nobody could find the process by its mark.
    """
    end = time.monotonic() + _KILL_SECONDS
    with contextlib.suppress(OSError):
        while not (_PROC / str(child.pid) / "environ").read_bytes() and time.monotonic() < end and child.poll() is None:
            time.sleep(0.001)


def _end(process: Process, grace: float) -> None:
    """End the group of a process: ask, wait, kill."""
    for sign, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, _KILL_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        end = time.monotonic() + seconds
        pause = 0.005
        while time.monotonic() < end:
            if not _group_lives(process.pid):
                return
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
    if _group_lives(process.pid):
        message = f"{process.name} (pid {process.pid}): still there {_KILL_SECONDS:g} s after it was killed."
        raise SandboxError(message, f"Look at what it waits for: cat /proc/{process.pid}/stack (as root).")


def _end_unrecorded(folder: Path, names: Iterable[str] | None) -> None:
    """Kill what carries the mark of a folder and is not in its record; of all names where none are given."""
    start = f"{_MARK}={folder.resolve()}/"
    recorded = {process.pid for process in _alive(folder).values()}
    for pid, _, environment in _environments():
        marks = [entry.removeprefix(start) for entry in environment if entry.startswith(start)]
        # A longer rest is the mark of a folder inside this one.
        if marks and "/" not in marks[0] and (names is None or marks[0] in names) and not _belongs_to(pid, recorded):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _belongs_to(pid: int, recorded: set[int]) -> bool:
    """Say whether a process is in the group of a recorded one, or gone."""
    row = _row(pid)
    return row is None or row.group in recorded


def _group_lives(group: int) -> bool:
    """Say whether a process group has a member that is not a zombie."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A zombie answers the signal too; only /proc tells it from a living process.
    return any(row.group == group and not row.zombie for row in _rows())


def _alive(folder: Path) -> dict[str, Process]:
    """Return the recorded processes that are the ones that were started."""
    record = read_json(folder / _RECORD)
    if record.get("boot") != _boot_id():
        return {}
    return {process.name: process for process in _recorded(record) if _is_alive(process)}


def _recorded(record: Mapping[str, Any]) -> list[Process]:
    """The processes of a record, whether they live or not."""
    entries = record.get("processes", {}).items()
    return [Process(name, int(p["pid"]), float(p["started"]), int(p.get("log", 0))) for name, p in entries]


def _is_alive(process: Process) -> bool:
    row = _row(process.pid)
    return row is not None and not row.zombie and row.started == process.started


def _as_json(processes: Iterable[Process]) -> dict[str, object]:
    listed = {process.name: {"pid": process.pid, "started": process.started, "log": process.log_start} for process in processes}
    return {"boot": _boot_id(), "processes": listed}


def _log(folder: Path, name: str) -> Path:
    return folder / "logs" / f"{name}.log"


def _boot_id() -> str:
    """Return the id of the machine's current run: pids and start times mean nothing in another one."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError as error:
        message = f"{_PROC}: cannot read which processes run: {error.strerror}."
        remedy = "The sandbox needs Linux: use a Linux machine, container or WSL."
        raise SandboxError(message, remedy) from error


def _rows() -> Iterator[_Row]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            row = _row(int(entry.name))
            if row is not None:
                yield row


def _environments() -> Iterator[tuple[int, str, list[str]]]:
    """Yield (pid, program, environment) of the other processes, as far as they may be looked into."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            # A process that ends meanwhile, a kernel thread, or another user's.
            with contextlib.suppress(OSError):
                environment = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                yield int(entry.name), str((entry / "exe").readlink()), environment


def _row(pid: int) -> _Row | None:
    """Return what the kernel says about a process; None when there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ESRCH}:
            return None
        raise
    # The command's name, in parentheses, may hold spaces and parentheses itself. See proc(5) for the fields.
    fields = text.rpartition(")")[2].split()
    # The first thread of a dying process may be a zombie while others still hold its ports.
    zombie = fields[0] in {"Z", "X"} and int(fields[17]) <= 1
    return _Row(group=int(fields[2]), started=int(fields[19]) / _TICKS, zombie=zombie)
