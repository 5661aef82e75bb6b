"""The first process of a real node: makes its namespaces, furnishes them, and keeps containerd and the kubelet running.

    python -m sandbox.real_node.keeper <cluster's folder> <node>

It lives as long as its standard input is open, which only the warden holds: whoever ends the warden, however, ends the node,
and the kernel takes processes, mounts and network away. Of two processes one stays outside of the process namespace and waits.
It says on its standard output which process is the node's first (`pid 123`), and when the node is furnished (`ready`), or what is
in the way (`failed: ...`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from sandbox.real_node import kernel
from sandbox.real_node.furnish import furnish
from sandbox.real_node.place import IMAGES, LOGS, NODE_ADDRESS, PROGRAMS, SERVICE_ADDRESS, Place, read
from sandbox.real_node.settings import CONTAINERD, SOCKET, kubelet_arguments
from sandbox.system import cgroups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sandbox.real_node.place import Record

_SET_ADDRESS, _SET_MASK, _SET_FLAGS, _UP = 0x8916, 0x891C, 0x8914, 0x41
_LOOK_SECONDS: Final = 0.2
_AGAIN_SECONDS: Final = 1.0
_START_SECONDS: Final = 60.0


def main(arguments: Sequence[str]) -> int:
    """Make the node; ends when it has ended."""
    place = Place(Path(arguments[0]), arguments[1])
    record = read(place)
    try:
        for group in cgroups.groups(place.group):
            cgroups.enter(group)
        kernel.unshare(kernel.NEW_CGROUPS)
        if cgroups.unified():
            # What has processes in it hands no controllers down. To the node its group is the top.
            cgroups.enter_leaf(cgroups.groups(place.group)[0])
        kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_PROCESSES | kernel.NEW_NETWORK | kernel.NEW_IPC | kernel.NEW_NAMES)
    except OSError as error:
        _say(f"failed: {error.strerror}")
        return 1
    first = os.fork()
    if first == 0:
        kernel.die_with_parent(signal.SIGKILL)
        _be_first(place, record)
    _say(f"pid {first}")
    return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])


def _be_first(place: Place, record: Record) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        # Whoever started it keeps its files to itself; a node's folders are for all users in it.
        os.umask(0o022)
        socket.sethostname(place.node)
        furnish(place.root, place.logs, record)
        open_loopback((SERVICE_ADDRESS, NODE_ADDRESS))
        _say("ready")
        _keep(place, record)
    except OSError as error:
        _say(f"failed: {error}")
    except Exception:  # noqa: BLE001 a bug of ours: nobody above would show it
        traceback.print_exc()
    finally:
        # All others in the namespaces end with this one.
        os._exit(1)


def _keep(place: Place, record: Record) -> None:
    """Run the programs, again where one ends, until nobody holds the standard input."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    bins = [f"{PROGRAMS}/{name}" for name in record.programs]
    environment = {
        "PATH": ":".join([*bins, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]),
        "HOME": "/root",
    }
    node = _Programs(environment)
    node.start("containerd", ["containerd", f"--config={CONTAINERD}"])
    _await_socket(node)
    _import_images(environment)
    node.start("kubelet", ["kubelet", *kubelet_arguments(place.node, NODE_ADDRESS), *record.arguments])
    while not _ended():
        node.look()


class _Programs:
    """What runs on the node beside its containers."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._commands: dict[str, Sequence[str]] = {}
        self._running: dict[int, str] = {}
        self._due: dict[str, float] = {}

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a program; from now on it is started again when it ends."""
        self._commands[name] = command
        self._start(name)

    def look(self) -> None:
        """Reap what has ended, and start again what should run."""
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                if name := self._running.pop(pid, ""):
                    self._due[name] = time.monotonic() + _AGAIN_SECONDS
        for name in [name for name, due in self._due.items() if due <= time.monotonic()]:
            del self._due[name]
            self._start(name)

    def _start(self, name: str) -> None:
        with Path(f"{LOGS}/{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self._commands[name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd="/",
                start_new_session=True,
            )
        self._running[process.pid] = name
        # Its end is seen in look(), by its number.
        process.returncode = 0


def _await_socket(node: _Programs) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(SOCKET) == 0:
                return
        if time.monotonic() > until:
            message = f"containerd does not answer within {_START_SECONDS:g} s; its log: {LOGS}/containerd.log in the node's root"
            raise OSError(message)
        if _ended():
            os._exit(0)
        node.look()


def _import_images(environment: Mapping[str, str]) -> None:
    for archive in sorted(Path(IMAGES).glob("*.tar")):
        command = ["ctr", "-n", "k8s.io", "images", "import", "--local", str(archive)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            message = f"{archive.name}: containerd does not take the image: {done.stderr.strip()}"
            raise OSError(message)
        archive.unlink()


def _ended() -> bool:
    """Whether nobody holds the standard input any more; waits a moment."""
    ready, _, _ = select.select([0], [], [], _LOOK_SECONDS)
    return bool(ready) and not os.read(0, 1)


def open_loopback(addresses: Sequence[str]) -> None:
    """Bring lo up and give it further addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:

        def ask(name: str, request: int, address: str) -> None:
            packed = struct.pack("16sH2s4s8s", name.encode(), socket.AF_INET, b"", socket.inet_aton(address), b"")
            fcntl.ioctl(any_socket, request, packed)

        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))
        for number, address in enumerate(addresses, 1):
            ask(f"lo:{number}", _SET_ADDRESS, address)
            ask(f"lo:{number}", _SET_MASK, "255.255.255.255")


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
