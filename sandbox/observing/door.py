"""The way to a Prometheus that has a network of its own: a port that takes connections of its own user, and passes them on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sandbox.system.private_network import carry

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from sandbox.system.peers import OwnersSocket


class Door:
    """Lets in as long as the process lives."""

    def __init__(self, listener: OwnersSocket, connected: Callable[[], socket.socket]) -> None:
        """Open it.

        Args:
            listener: says whose connections count.
            connected: a connection to what is behind it.
        """
        self._listener, self._connected = listener, connected
        threading.Thread(target=self._let_in, name="door", daemon=True).start()

    @property
    def port(self) -> int:
        """Where it is."""
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        """The address of what is behind it."""
        return f"http://127.0.0.1:{self.port}"

    def _let_in(self) -> None:
        while True:
            try:
                outer, _ = self._listener.accept()
            except BlockingIOError:
                continue
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(outer,), daemon=True).start()

    def _pass_on(self, outer: socket.socket) -> None:
        try:
            inner = self._connected()
        except OSError:
            outer.close()
            return
        inner.settimeout(None)
        carry(outer, inner)
