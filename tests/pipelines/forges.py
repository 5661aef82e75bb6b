"""Stands in for the APIs of GitHub and GitLab, as far as `pipelines` asks them: it has what it is given, keeps what is written.

No forge can be had here. Written after the forges' documentation of their REST APIs; it refuses who comes without the token, and
says 404 to what it was not given.
"""

from __future__ import annotations

import io
import json
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN = "the-token-of-the-job"  # noqa: S105


def packed(files: Mapping[str, bytes | str]) -> bytes:
    """An artifact."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in files.items():
            target.writestr(name, content)
    return made.getvalue()


class Server:
    """Answers on loopback.

    Attributes:
        answers: path with its query -> JSON, bytes, or an address to be sent to.
        written: (method, path, body) of what was written.
        seen: (path, token) of everything that was asked for.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.written: list[tuple[str, str, dict[str, Any]]] = []
        self.seen: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Keep quiet."""

            def do_GET(self) -> None:
                outer.seen.append((self.path, self._token()))
                found = outer.answers.get(self.path)
                if found is None and "page=" in self.path and not self.path.endswith("&page=1"):
                    found = []
                if self.path.startswith("/store/"):
                    self._say(200, found)
                elif TOKEN not in self._token():
                    self._say(401, b"")
                elif isinstance(found, str):
                    self.send_response(302)
                    self.send_header("Location", found)
                    self.end_headers()
                else:
                    self._say(404 if found is None else 200, found if isinstance(found, bytes) else json.dumps(found).encode())

            def _write(self) -> None:
                length = int(self.headers["Content-Length"])
                outer.written.append((self.command, self.path, json.loads(self.rfile.read(length))))
                self._say(200, b"{}")

            do_POST = do_PUT = do_PATCH = _write  # noqa: N815 - as its base class calls them

            def _token(self) -> str:
                return self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""

            def _say(self, code: int, text: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.base = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
