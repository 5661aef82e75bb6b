"""Stand-in for nvidia-cuda-mps-control, which needs a GPU: the control daemon of MPS and the program that talks to it.

NVIDIA's mps-control-daemon starts it with ``-d``, sets limits through it and ends it with ``quit``; the device plugin and the
verifier ask it. Whoever has the folder of CUDA_MPS_PIPE_DIRECTORY reaches its daemon, in whatever namespaces either runs.

What it answers was seen on an H100 and an H200 with driver 580: a percentage such as ``25.0``; a memory limit in whole GiB,
rounded down; nothing where no limit is set; without a daemon an error, and 1. Assumed: what a limit below one GiB looks like.
Not here: servers and clients, of which there are none without a GPU.

It runs by itself, with the standard library only: each call is a process, and starts as fast as Python can.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import sys

_USUAL_PIPES = "/tmp/nvidia-mps"  # noqa: S108 - NVIDIA's own default
_USUAL_LOGS = "/var/log/nvidia-mps"
_SOCKET, _LOCK, _LOG = "control", "control_lock", "control.log"
_NO_DAEMON = "Cannot find MPS control daemon process"
_SECOND = "An instance of this daemon is already running"
_MOST_BYTES = 1 << 16
_MIB_PER_GIB = 1024
_LIMIT = re.compile(r"(\d+)([MG])B?$")


class Control:
    """What the daemon knows."""

    def __init__(self) -> None:
        """Nothing is limited yet."""
        self.percentage = 100.0
        self.limits: dict[str, str] = {}

    def answer(self, line: str) -> str:
        """Carry out one command; returns what is printed."""
        match line.split():
            case ["get_default_active_thread_percentage"]:
                return f"{self.percentage:.1f}\n"
            case ["set_default_active_thread_percentage", percentage]:
                self.percentage = float(percentage)
                return ""
            case ["get_default_device_pinned_mem_limit", device]:
                return f"{self.limits[device]}\n" if device in self.limits else ""
            case ["set_default_device_pinned_mem_limit", device, limit]:
                self.limits[device] = _shown(limit)
                return ""
            case ["get_server_list"] | []:
                return ""
            case _:
                return f"The sandbox's stand-in does not know this command: {line}\n"


def _shown(limit: str) -> str:
    """A memory limit as it is printed.

    Raises:
        ValueError: for one that is written in another way.
    """
    match = _LIMIT.match(limit)
    if match is None:
        raise ValueError(limit)
    mib = int(match[1]) * (_MIB_PER_GIB if match[2] == "G" else 1)
    return f"{mib // _MIB_PER_GIB}G" if mib >= _MIB_PER_GIB else f"{mib}M"


def _start() -> int:
    """Start the daemon of the folder that this process is in; returns when it can be reached."""
    lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stdout.write(f"{_SECOND}\n")
        return 1
    # What a daemon left that was killed.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_SOCKET)  # noqa: PTH108 - pathlib takes longer to load than all the rest
    server = socket.socket(socket.AF_UNIX)
    server.bind(_SOCKET)
    os.chmod(_SOCKET, 0o777)  # noqa: PTH101, S103 - every user's clients reach a real one, too
    server.listen()
    logs = os.environ.get("CUDA_MPS_LOG_DIRECTORY") or _USUAL_LOGS
    log = os.open(os.path.join(logs, _LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)  # noqa: PTH118
    if os.fork():
        return 0
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    _serve(server, log)
    return 0


def _serve(server: socket.socket, log: int) -> None:
    """Answer until somebody says quit."""
    control = Control()
    os.write(log, b"Starting control daemon using socket control\n")
    while True:
        client, _ = server.accept()
        with client, contextlib.suppress(OSError):
            said = _all(client).decode()
            os.write(log, f"NEW UI: {said}\n".encode())
            if "quit" in said.split():
                # Whoever is answered may start another one at once.
                os.unlink(_SOCKET)  # noqa: PTH108
                os.unlink(_LOCK)  # noqa: PTH108
                return
            try:
                answers = "".join(control.answer(line) for line in said.splitlines())
            except ValueError:
                answers = f"The sandbox's stand-in does not understand: {said}\n"
            client.sendall(answers.encode())


def _ask() -> int:
    """Pass standard input on to the daemon of the folder that this process is in, and print what it answers."""
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(_SOCKET)
        client.sendall(sys.stdin.read().encode())
        client.shutdown(socket.SHUT_WR)
        sys.stdout.write(_all(client).decode())
    except OSError:
        sys.stdout.write(f"{_NO_DAEMON}\n")
        return 1
    return 0


def _all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(_MOST_BYTES):
        parts.append(part)
    return b"".join(parts)


def main(arguments: list[str]) -> int:
    """Start a daemon, or talk to one; returns the exit status."""
    try:
        # A path to a socket must be short; that of a folder may be long.
        os.chdir(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or _USUAL_PIPES)
    except OSError:
        sys.stdout.write(f"{_NO_DAEMON}\n")
        return 1
    return _start() if arguments[:1] == ["-d"] else _ask()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
