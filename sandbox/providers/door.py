"""The port of a provider stand-in: it takes connections of its own user and passes them on to the gRPC server behind it.

The engine dials a port of 127.0.0.1 and nothing else (PULUMI_DEBUG_PROVIDERS; sdk/go/common/resource/plugin/plugin.go), without
any credentials. gRPC for Python lets nobody look at a connection before its calls are answered. So the server itself listens on a
socket in a folder that only its owner can enter, and this stands before it: what sandbox.system.peers refuses never reaches gRPC.

Each connection gets a name of its own on the way, by which the server tells the engine's provider instances apart.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import tempfile
import threading
from pathlib import Path

from sandbox.system import peers
from sandbox.system.private_network import carry


class Door:
    """Stands before a server until it is closed."""

    def __init__(self, port: int = 0) -> None:
        """Make the folder with the place for the server's socket; nobody is let in yet.

        Args:
            port: of 127.0.0.1; 0 for a free one.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-pools-door-")
        self._listener = peers.listening(port)
        self._numbers = itertools.count()
        self._open = True

    @property
    def target(self) -> str:
        """Where the server has to listen, as gRPC names it."""
        return f"unix:{self._socket}"

    @property
    def port(self) -> int:
        """Where the door is."""
        return int(self._listener.getsockname()[1])

    def open(self) -> None:
        """Let in; the server listens by now."""
        threading.Thread(target=self._let_in, name=f"door {self.port}", daemon=True).start()

    def close(self) -> None:
        """Let nobody in any more; who is in may stay."""
        self._open = False
        # Wakes whoever waits for a connection.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._folder.cleanup()

    @property
    def _socket(self) -> Path:
        return Path(self._folder.name) / "server"

    def _let_in(self) -> None:
        while self._open:
            try:
                outer, _ = self._listener.accept()
            except BlockingIOError:
                continue
            except OSError:
                return
            self._pass_on(outer)

    def _pass_on(self, outer: socket.socket) -> None:
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = self._socket.with_name(f"client-{next(self._numbers)}")
        try:
            inner.bind(str(name))
            inner.connect(str(self._socket))
        except OSError:
            outer.close()
            inner.close()
            return
        finally:
            name.unlink(missing_ok=True)
        threading.Thread(target=carry, args=(outer, inner), daemon=True).start()
