"""Serves the stand-in of Azure's Resource Manager on a loopback port, over TLS, to the sandbox's own user alone.

The check of the cloud sends its token only over TLS, so the sandbox has an authority of its own. Clients find the address as
those of another Azure do: by `ARM_METADATA_HOSTNAME`. They trust the authority by `SSL_CERT_FILE`, a file with those that were
trusted before and this one. Connections of other users are closed (sandbox.system.peers) before anything is said.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from sandbox.clouds.azure_errors import AzureError
from sandbox.system import peers
from sandbox.system.files import make_folder, write_atomic
from sandbox.system.pki import make_server_pki

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox.clouds.azure_rest import ResourceManager

_HOST: Final = "127.0.0.1"
_STEM: Final = "resource-manager"
_LARGEST: Final = 1024 * 1024


class Server(ThreadingHTTPServer):
    """Answers for one Resource Manager."""

    daemon_threads = True

    def __init__(self, manager: ResourceManager, state: Path) -> None:
        """Listen on a free port; `serve` begins to answer.

        Args:
            manager: who knows the answers.
            state: the sandbox's state folder; keys and certificates lie in it.
        """
        super().__init__((_HOST, 0), _Handler)
        self.manager = manager
        pki = make_server_pki(_folder(state), _STEM, (_HOST,))
        write_atomic(trusted(state), _authorities() + pki.text("ca.crt"))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pki[f"{_STEM}.crt"], pki[f"{_STEM}.key"])

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def serve(self) -> None:
        """Answer from now on, in a thread of its own."""
        threading.Thread(target=self.serve_forever, name="resource-manager", daemon=True).start()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401 - as the base class has them
        """Whether a connection is of this server's own user."""
        del client_address
        return peers.is_own(request)

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Speak TLS, in the thread of the connection: who says nothing keeps nobody else waiting."""
        with self._context.wrap_socket(request, server_side=True) as secure:
            super().finish_request(secure, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Who breaks off, or speaks no TLS, is no fault of the server's."""
        del request, client_address
        if not isinstance(sys.exception(), OSError):
            sys.stderr.write(f"the Resource Manager's stand-in failed: {sys.exception()!r}\n")


def environment(state: Path, port: int) -> Mapping[str, str]:
    """Variables by which clients find and trust it."""
    return {"ARM_METADATA_HOSTNAME": f"{_HOST}:{port}", "SSL_CERT_FILE": str(trusted(state))}


def trusted(state: Path) -> Path:
    """The file with all authorities that a client in the sandbox trusts."""
    return _folder(state) / "trusted.pem"


def _folder(state: Path) -> Path:
    return make_folder(state / "cloud" / _STEM)


def _authorities() -> str:
    """Those that were trusted before: of the user's own file, else of the machine."""
    file = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    try:
        return f"{Path(file).read_text(encoding='utf-8').rstrip()}\n" if file else ""
    except OSError:
        return ""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and PUT."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Ask the Resource Manager."""
        path, query = self._asked()
        self._answer(lambda: (self._manager.answer(self._address, path, query, self.headers.get("Authorization")), {}))

    def do_PUT(self) -> None:
        """Have the Resource Manager change something."""
        path, query = self._asked()
        content = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), _LARGEST))

        def put() -> tuple[dict[str, Any], Mapping[str, str]]:
            version, login, etag = query.get("api-version", ""), self.headers.get("Authorization"), self.headers.get("If-Match")
            body, operation = self._manager.put(path, version, login, etag, json.loads(content))
            return body, {"Azure-AsyncOperation": f"{self._address}{operation}"}

        self._answer(put)

    def _asked(self) -> tuple[str, dict[str, str]]:
        asked = urlsplit(self.path)
        return asked.path, dict(parse_qsl(asked.query))

    @property
    def _address(self) -> str:
        return f"https://{_HOST}:{self._own.port}"

    @property
    def _manager(self) -> ResourceManager:
        return self._own.manager

    @property
    def _own(self) -> Server:
        if not isinstance(self.server, Server):
            message = "this handler belongs to another server"
            raise TypeError(message)
        return self.server

    def _answer(self, ask: Callable[[], tuple[dict[str, Any], Mapping[str, str]]]) -> None:
        headers: Mapping[str, str] = {}
        try:
            body, headers = ask()
            status = 200
        except AzureError as error:
            status, body = error.status, {"error": {"code": error.code, "message": error.message}}
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """One line a request, without headers."""
        sys.stderr.write(f"Azure: {format % args}\n")
