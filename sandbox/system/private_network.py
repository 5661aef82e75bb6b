"""Runs a program in a network of its own: nobody outside reaches its ports, and it reaches outside only what it is given.

Pulumi's engine, its language host and the program that it runs talk to each other over ports of 127.0.0.1 without any
credentials (sdk/go/common/util/rpcutil/serve.go): whoever reaches the language host's has a program run as its user. None of them
can be told otherwise. So they get a network namespace, in which 127.0.0.1 is theirs alone.

What they need of the sandbox is found in its records: each port that one of them names can be reached inside under its number. A
process in the namespace listens there (the opener) and hands each connection to one outside of it (the carrier), which dials the
port and passes on what comes. Both end when the last process of the namespace does. The carrier passes nothing on to a server of
another user: when a stand-in ends, anybody may take its port, and the engine would send it the cluster's kubeconfig.

    python -m sandbox.system.private_network <folder of the sandbox> [port...] -- <program> [arguments]

becomes the program: its process id, its terminal and its signals are what they would be without. Linux only; as root, or where
users may make namespaces: elsewhere the program runs as it would without, and says so. Not here: the way to the internet, which
there is none of inside.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if __name__ == "__main__":
    # Started without the project in its path (-I).
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sandbox.system import peers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_RECORDS: Final = ("providers.json", "openstack/openstack.json", "clusters/*/cluster.json")
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_LOOK_SECONDS: Final = 0.1
#: How long a process may take to begin and to end.
_DIAL_SECONDS: Final = 10.0
_OPEN: Final = (
    "note: {} gets no network of its own ({}): its ports, which want no credentials, are open to all users of this machine "
    "while it runs. On a machine that you share, run as root, or where users may make namespaces.\n"
)
_CHUNK: Final = 1 << 16
_WAITING: Final = 128
#: Dials, and hands the connection to whoever started it: address, port, seconds, descriptor.
_DIAL: Final = """
import socket, sys
address, port, seconds, descriptor = sys.argv[1:]
connection = socket.create_connection((address, int(port)), float(seconds))
socket.send_fds(socket.socket(fileno=int(descriptor)), [b"."], [connection.fileno()])
"""
_PORT: Final = struct.Struct("=H")


def command(folder: Path, ports: Iterable[int], argv: Sequence[str]) -> list[str]:
    """The command line of a program in a network of its own.

    Args:
        folder: of the sandbox; what its records name can be reached.
        ports: what else can be reached.
        argv: the program and its arguments.
    """
    return [sys.executable, "-I", "-S", __file__, str(folder), *map(str, ports), "--", *argv]


def connected(pid: int, address: str, port: int, seconds: float) -> socket.socket:
    """A connection to a port in the network of a process.

    Root's thread goes there and comes back. Nobody else's may; but who made the user namespace that the network belongs to may
    send a process there.

    Args:
        pid: the process.
        address: of the port.
        port: its number.
        seconds: how long each step may take.

    Raises:
        OSError: nobody listens, or the process is gone.
    """
    try:
        with _entered(pid):
            return socket.create_connection((address, port), seconds)
    except PermissionError:
        return _connected_by_another(pid, address, port, seconds)


def listening(pid: int, address: str, port: int) -> socket.socket:
    """A socket that listens in the network of a process; who accepts from it stays in his own. Root's alone.

    Args:
        pid: the process.
        address: to listen at.
        port: its number.

    Raises:
        OSError: somebody listens there, the process is gone, or this is not root.
    """
    with _entered(pid):
        return socket.create_server((address, port), backlog=_WAITING)


def _connected_by_another(pid: int, address: str, port: int, seconds: float) -> socket.socket:
    ours, its = socket.socketpair()
    with ours, its:
        enter = ["nsenter", "--target", str(pid), "--user", "--preserve-credentials", "--net", "--"]
        dial = [sys.executable, "-I", "-S", "-c", _DIAL, address, str(port), str(seconds), str(its.fileno())]
        try:
            done = subprocess.run(
                [*enter, *dial],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds + _DIAL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(str(error)) from error
        if done.returncode != 0:
            raise ConnectionRefusedError(done.stderr.strip())
        connection = socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
    connection.settimeout(seconds)
    return connection


@contextmanager
def _entered(pid: int) -> Iterator[None]:
    """Have what the calling thread connects be in the network of a process.

    Raises:
        PermissionError: that is not allowed.
        OSError: the process is gone.
    """
    with Path("/proc/thread-self/ns/net").open("rb") as own, Path(f"/proc/{pid}/ns/net").open("rb") as other:
        _set_network(other.fileno())
        try:
            yield
        finally:
            _set_network(own.fileno())


def main(arguments: Sequence[str]) -> NoReturn:
    """Become the program."""
    given = list(arguments)
    end = given.index("--")
    folder, ports, argv = Path(given[0]), {int(port) for port in given[1:end]}, given[end + 1 :]
    # Open as long as a process of the namespace lives: whatever the program starts inherits it.
    waiting, held = os.pipe()
    os.set_inheritable(held, True)  # noqa: FBT003
    inside, outside = socket.socketpair()
    if _fork() == 0:
        os.close(held)
        inside.close()
        _carry_all(outside)
    outside.close()
    if refused := _enter():
        inside.close()
        os.set_inheritable(held, False)  # noqa: FBT003
        sys.stderr.write(_OPEN.format(Path(argv[0]).name, refused))
        sys.stderr.flush()
    elif _fork() == 0:
        os.close(held)
        _open_all(folder, ports, inside, waiting)
    os.execvp(argv[0], argv)  # noqa: S606


def _fork() -> int:
    """A process of ours; it is not part of the terminal's group, whose interrupts are the program's."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # Whoever reads what the program says waits for its end only.
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
    return pid


def _enter() -> str:
    """Make the namespace and its 127.0.0.1; who is not root gets one of users around it, in which he is himself.

    Returns:
        Why that is not allowed; empty where it is.
    """
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK | (_NEW_USER if user else 0)) != 0:
        return f"unshare(2): {os.strerror(ctypes.get_errno())}"
    if user:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, _GET_FLAGS, request))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))
    return ""


def _set_network(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


# --- the opener, inside -----------------------------------------------------------------------------------


def _open_all(folder: Path, ports: set[int], outside: socket.socket, waiting: int) -> NoReturn:
    """Listen on every port that is named, and hand over who comes, until nobody is left inside."""
    listeners: dict[int, socket.socket] = {}
    while True:
        for port in (ports | _recorded(folder)) - listeners.keys():
            # One that a program inside has taken for itself is its own.
            with contextlib.suppress(OSError):
                listeners[port] = socket.create_server(("127.0.0.1", port))
        known = {listener.fileno(): port for port, listener in listeners.items()}
        # Not select(), which takes no file number above 1023: whoever started the sandbox may have that many files open.
        poller = select.poll()
        for descriptor in (waiting, *known):
            poller.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poller.poll(_LOOK_SECONDS * 1000)]
        if waiting in ready:
            os._exit(0)
        for descriptor in ready:
            port = known[descriptor]
            with contextlib.suppress(OSError), listeners[port].accept()[0] as connection:
                socket.send_fds(outside, [_PORT.pack(port)], [connection.fileno()])


def _recorded(folder: Path) -> set[int]:
    """The ports that a sandbox has written down."""
    found: set[int] = set()
    for pattern in _RECORDS:
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                found |= set((json.loads(path.read_text(encoding="utf-8")).get("ports") or {}).values())
    return found


# --- the carrier, outside ---------------------------------------------------------------------------------


def _carry_all(inside: socket.socket) -> NoReturn:
    """Dial for each connection that is handed over, until nobody is left inside."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(inside, _PORT.size, 1)
        if not message:
            os._exit(0)
        connection = socket.socket(fileno=descriptors[0])
        threading.Thread(target=_carry, args=(connection, _PORT.unpack(message)[0]), daemon=True).start()


def _carry(inner: socket.socket, port: int) -> None:
    with inner:
        try:
            outer = peers.connect(port)
        except OSError:
            return
        carry(inner, outer)


def carry(first: socket.socket, second: socket.socket) -> None:
    """Pass on what comes from either of two connections to the other one until both have ended; then close them."""
    with first, second:
        back = threading.Thread(target=_copy, args=(second, first), daemon=True)
        back.start()
        _copy(first, second)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes from one side until it ends; the end is passed on, too."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for end, direction in ((source, socket.SHUT_RD), (target, socket.SHUT_WR)):
        with contextlib.suppress(OSError):
            end.shutdown(direction)


if __name__ == "__main__":
    main(sys.argv[1:])
