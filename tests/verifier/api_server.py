"""A server that answers as an API server does, over TLS, with what a test has given it; it remembers what it was asked.

For what the verifier asks and what it makes of the answers. That a real API server answers so is held by test_api.py.
"""

from __future__ import annotations

import http.server
import json
import ssl
import threading
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpu_pools.verifier.api import Api

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.system.pki import Pki


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class ApiServer:
    """The server.

    Attributes:
        pki: its certificate, and who signed it.
        folder: a service account's, for `api`.
        asked: what it was asked, the oldest first.
    """

    pki: Pki
    folder: Path
    asked: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._answers: dict[tuple[str, str], list[tuple[int, bytes]]] = {}
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pki["apiserver.crt"], self.pki["apiserver.key"])
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        (self.folder / "token").write_text("secret\n", encoding="ascii")
        (self.folder / "ca.crt").write_text(self.pki.text("ca.crt"), encoding="ascii")

    @property
    def api(self) -> Api:
        """A client, as a pod has it."""
        return Api(f"https://127.0.0.1:{self._server.server_address[1]}", self.folder / "token", self.folder / "ca.crt")

    def say(self, request: str, *answers: Any) -> None:
        """To `METHOD PATH` answer these one after the other, the last for ever.

        Args:
            request: the method, and the path without its query.
            answers: objects; a status and an object; a status and bytes, which are sent as they are.
        """
        method, _, path = request.partition(" ")
        told = [one if isinstance(one, tuple) else (200, one) for one in answers]
        self._answers[method, path] = [
            (status, body if isinstance(body, bytes) else json.dumps(body).encode()) for status, body in told
        ]

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, method: str, path: str) -> tuple[int, bytes]:
        answers = self._answers.get((method, path), [(404, json.dumps({"message": f"{path} not found"}).encode())])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        ours = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                place = urllib.parse.urlsplit(self.path)
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length)) if length else None
                query = dict(urllib.parse.parse_qsl(place.query))
                ours.asked.append(Asked(self.command, place.path, query, dict(self.headers), body))
                status, content = ours._answer(self.command, place.path)
                if status:
                    self.send_response(status)
                    self.end_headers()
                self.wfile.write(content)

            do_PATCH = do_GET  # noqa: N815 - the name that is called

            def log_message(self, *_: object) -> None:
                pass

        return Handler
