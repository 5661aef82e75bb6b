"""An API server over HTTP on loopback: as much of one as commands and hooks ask that look at a cluster."""

from __future__ import annotations

import json
import threading
import urllib.parse
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import yaml

from tests.selectors import is_chosen

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable


#: With such a status the server says when to ask again.
TOO_MANY = 429


@dataclass(frozen=True)
class Refusal:
    """How a request is refused: as a Status object says it."""

    status: int
    message: str


class ApiServer(ThreadingHTTPServer):
    """Answers the last part of a path with the items of that name, an object, a status, a refusal or bytes; 404 for the rest.

    Of items it gives those that a label selector chooses.
    """

    daemon_threads = True

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.socket = tls.wrap_socket(self.socket, server_side=True) if tls else self.socket
        self.items: dict[str, Any] = {"deployments": [], "daemonsets": []}
        #: What becomes of an object that is sent, by the last part of the path; 404 for what is not here.
        self.admits: dict[str, Callable[[dict[str, Any]], Any]] = {}
        #: Lists that come in pages: last part of the path -> `continue` of the request -> the page.
        self.pages: dict[str, dict[str, Any]] = {}
        #: The paths that were asked for.
        self.asked: list[str] = []
        #: With which headers, their names in lower case.
        self.headers: list[dict[str, str]] = []
        #: Whether it answers nobody any more.
        self.is_silent = False
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def kubeconfig(self) -> str:
        return kubeconfig(self.server_address[1])

    @property
    def collections(self) -> list[str]:
        """The paths that were asked for, without what was asked of them."""
        return [path.partition("?")[0] for path in self.asked]


def kubeconfig(port: int, *contexts: str, user: dict[str, Any] | None = None) -> str:
    """A kubeconfig that leads there; the first context is its current one."""
    names = contexts or ("c",)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in names],
        "current-context": names[0],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
    }
    return yaml.safe_dump(config)


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self._note(self.path)
        path, _, query = self.path.partition("?")
        last, asked = path.rpartition("/")[2], urllib.parse.parse_qs(query)
        if last in self.server.pages:
            self._answer(self.server.pages[last][asked.get("continue", [""])[0]])
            return
        items = self.server.items.get(last, 404)
        for selector in asked.get("labelSelector", []):
            items = [one for one in items if is_chosen(one, selector)] if isinstance(items, list) else items
        self._answer(items)

    def do_POST(self) -> None:
        self._note(f"{self.command} {self.path}")
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        admit = self.server.admits.get(self.path.partition("?")[0].rpartition("/")[2])
        self._answer(404 if admit is None else admit(sent))

    do_PATCH = do_DELETE = do_POST  # noqa: N815 - the names that are called

    def _note(self, asked: str) -> None:
        self.server.headers.append({name.lower(): text for name, text in self.headers.items()})
        self.server.asked.append(asked)
        if self.server.is_silent:
            threading.Event().wait()

    def _answer(self, items: Any) -> None:
        if isinstance(items, Refusal):
            status, answer = items.status, {"kind": "Status", "message": items.message, "code": items.status}
        elif isinstance(items, int):
            status, answer = items, {"items": []}
        else:
            status, answer = 200, items if isinstance(items, dict | bytes) else {"items": items}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status == TOO_MANY:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def log_message(self, *_args: object) -> None:
        pass
