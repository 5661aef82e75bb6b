"""Bounds a whole request in time: a time limit of a socket is for each read, and a server that sends a byte a second never ends.

Every connection that is made for the request is shut down when the time is over, from its first byte on: the tunnel of a proxy
and the handshake of TLS count. Standard library alone, since verifiers, components and pipelines need the same.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from types import TracebackType
    from typing import Self

#: What reading from a connection that was shut down raises: it looks like a server that has gone, or like an answer cut short.
_CUT_SHORT = (OSError, http.client.HTTPException, ValueError)


class Deadline:
    """A moment at which a request is over, as a context: what is still open then ends with TimeoutError."""

    def __init__(self, seconds: float) -> None:
        """Begin now.

        Args:
            seconds: for all of it.
        """
        self._seconds, self._ends = seconds, time.monotonic() + seconds
        self._watched: list[tuple[threading.Timer, socket.socket]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        """Stop watching.

        Raises:
            TimeoutError: the time is over, and what went wrong is what a connection that was shut down looks like.
        """
        for timer, line in self._watched:
            timer.cancel()
            timer.join()
            line.close()
        if isinstance(error, _CUT_SHORT) and not isinstance(error, urllib.error.HTTPError):
            self.check()

    def check(self) -> None:
        """Tell an answer that was cut short from a whole one, once it is read.

        Raises:
            TimeoutError: the time is over.
        """
        if time.monotonic() >= self._ends:
            message = f"no whole answer within {self._seconds:g} s"
            raise TimeoutError(message) from None

    def left(self) -> float:
        """Return the seconds that are left, for the time limit of a single read; never 0, which would be none."""
        return max(self._ends - time.monotonic(), 0.001)

    def handlers(self, context: ssl.SSLContext | None = None) -> tuple[urllib.request.BaseHandler, ...]:
        """Return what an opener makes its connections with.

        Args:
            context: of TLS; None: the default.
        """
        return _Http(self), _Https(self, context)

    def connect(self, *address: Any, **more: Any) -> socket.socket:  # noqa: ANN401 - what socket.create_connection takes
        """Make a connection that is shut down when the time is over, whatever takes it over."""
        bare = socket.create_connection(*address, **more)
        line = bare.dup()
        timer = threading.Timer(self.left(), _shut, [line])
        timer.daemon = True
        self._watched.append((timer, line))
        timer.start()
        return bare


def _shut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


class _Line(http.client.HTTPConnection):
    def __init__(self, deadline: Deadline, host: str, **more: Any) -> None:  # noqa: ANN401 - what the base class takes
        super().__init__(host, **more)
        # What makes the connection, before a tunnel or TLS (http/client.py, HTTPConnection.connect).
        self._create_connection = deadline.connect


class _SecureLine(http.client.HTTPSConnection):
    def __init__(self, deadline: Deadline, host: str, **more: Any) -> None:  # noqa: ANN401 - what the base class takes
        super().__init__(host, **more)
        self._create_connection = deadline.connect


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(functools.partial(_Line, self._deadline), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: Deadline, context: ssl.SSLContext | None) -> None:
        super().__init__(context=context)
        self._deadline, self._tls = deadline, context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(functools.partial(_SecureLine, self._deadline), req, context=self._tls)
