"""Whose the other end of a TCP connection is: servers of the sandbox take connections of their own user (and of root) only.

A port of 127.0.0.1 is open to everybody on the machine, and TCP knows no peer credentials. But both ends of such a connection
are sockets of this kernel, and its table says whose each one is. What is not found there is refused: a connection from another
network namespace, or one that its other end has closed already, whose owner the kernel no longer tells.

The same holds the other way round: when a server ends, any user may listen on its port. So whoever dials a server of the sandbox
checks who has accepted the connection (`connect`) before the first byte is sent.

Not here: whether the user may do what he asks for. The standard library alone, since it is used in Magnum's environment, too.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

_ROOT: Final = 0
_ESTABLISHED: Final = 1
#: Of the calling thread's network namespace. A client's socket may be one for IPv6 that has connected to an address of IPv4.
_TABLES: Final = ("/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6")
_MAPPED: Final = bytes(10) + b"\xff\xff"
_WORD: Final = 4
#: How long a server may take to accept a connection. On a busy machine that is seconds.
_ACCEPT_SECONDS: Final = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


def is_own(connection: socket.socket) -> bool:
    """Whether the other end of an accepted connection is a socket of this user, or of root."""
    return _other_end(connection) in {_ROOT, os.geteuid()}


def is_served_by_own(connection: socket.socket, seconds: float = _ACCEPT_SECONDS) -> bool:
    """Whether the server that a connection was made to is of this user, or of root.

    Until a program has accepted the connection, the kernel does not say whose it is. So this waits for that.

    Args:
        connection: made to a port of this machine; nothing was sent yet.
        seconds: how long the server may take to accept it.
    """
    end, pause = time.monotonic() + seconds, _FIRST_PAUSE
    while time.monotonic() < end:
        owner = _other_end(connection)
        if owner is not None:
            return owner in {_ROOT, os.geteuid()}
        if not _is_established(connection):
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return False


def connect(port: int, seconds: float | None = None) -> socket.socket:
    """A connection to a server of this user, or of root, at 127.0.0.1.

    Args:
        port: of the server.
        seconds: how long connecting may take, and later each read and write; None for no limit.

    Raises:
        ConnectionRefusedError: the server is of another user, or nobody listens.
        OSError: it cannot be reached.
    """
    connection = socket.create_connection(("127.0.0.1", port), seconds)
    try:
        require_own_server(connection)
    except OSError:
        connection.close()
        raise
    return connection


def require_own_server(connection: socket.socket) -> None:
    """See that nothing is sent to a server of another user.

    Raises:
        ConnectionRefusedError: the server is of another user.
    """
    if not is_served_by_own(connection):
        message = f"port {connection.getpeername()[1]} is not served by a program of this user"
        raise ConnectionRefusedError(errno.ECONNREFUSED, message)


class OwnersSocket(socket.socket):
    """A listening socket to which connections of other users do not count: they are closed, as if nobody had come."""

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection.

        Raises:
            BlockingIOError: where the one that came was another user's.
        """
        connection, address = super().accept()
        if not is_own(connection):
            connection.close()
            raise BlockingIOError(errno.EAGAIN, "a connection of another user was closed")
        return connection, address


def listening(port: int) -> OwnersSocket:
    """A socket that listens on a port of 127.0.0.1; 0 for a free one.

    Raises:
        OSError: when the port is taken.
    """
    listener = OwnersSocket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def _other_end(connection: socket.socket) -> int | None:
    """The user who holds the other end; None where the kernel does not say, or the connection has ended."""
    try:
        owner = _owner(_place(*connection.getpeername()[:2]), _place(*connection.getsockname()[:2]))
    except OSError:
        return None
    # Were it closed meanwhile, its addresses could be another connection's by now.
    return owner if _is_established(connection) else None


def _is_established(connection: socket.socket) -> bool:
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED
    except OSError:
        return False


def _owner(peer: str, own: str) -> int | None:
    """The user whose socket is at a place and connected with another place; None where there is no such living socket."""
    for table in _TABLES:
        for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
            _, local, remote, state, _, _, _, uid, _, inode, *_ = line.split()
            # A socket that nobody holds any more has no inode, and is said to be root's whoever made it.
            if (_short(local), _short(remote)) == (peer, own) and int(state, 16) == _ESTABLISHED and inode != "0":
                return int(uid)
    return None


def _place(host: str, port: int) -> str:
    """An address as the kernel's table has it, IPv4 without the prefix that it has in the table of IPv6."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return _short(f"{_hexadecimal(socket.inet_pton(family, host))}:{port:04X}")


def _short(place: str) -> str:
    return place.removeprefix(_hexadecimal(_MAPPED))


def _hexadecimal(address: bytes) -> str:
    """In words of four bytes, each as a number of this machine."""
    words = (address[start : start + _WORD] for start in range(0, len(address), _WORD))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
