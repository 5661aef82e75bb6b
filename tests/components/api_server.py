"""An API server that answers lists, over HTTP on loopback: as much of one as hooks ask that look at a cluster first."""

from __future__ import annotations

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import yaml

from tests.selectors import is_chosen

if TYPE_CHECKING:
    from collections.abc import Callable


class ApiServer(ThreadingHTTPServer):
    """Answers the last part of a path with the items of that name, an object, or a status; 404 for what it does not know.

    Of items it gives those that a label selector chooses.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.items: dict[str, Any] = {"deployments": [], "daemonsets": []}
        #: What becomes of an object that is posted, by the last part of the path; 404 for what is not here.
        self.admits: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        #: Lists that come in pages: last part of the path -> `continue` of the request -> the page.
        self.pages: dict[str, dict[str, Any]] = {}
        #: The paths that were asked for.
        self.asked: list[str] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def kubeconfig(self) -> str:
        return kubeconfig(self.server_address[1])


def kubeconfig(port: int) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    return yaml.safe_dump(config)


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        path, _, query = self.path.partition("?")
        last, asked = path.rpartition("/")[2], urllib.parse.parse_qs(query)
        if last in self.server.pages:
            self._answer(self.server.pages[last][asked.get("continue", [""])[0]])
            return
        items = self.server.items.get(last, 404)
        for selector in asked.get("labelSelector", []):
            items = items if isinstance(items, int) else [one for one in items if is_chosen(one, selector)]
        self._answer(items)

    def do_POST(self) -> None:
        self.server.asked.append(f"POST {self.path}")
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        admit = self.server.admits.get(self.path.partition("?")[0].rpartition("/")[2])
        self._answer(404 if admit is None else admit(sent))

    def _answer(self, items: Any) -> None:
        self.send_response(items if isinstance(items, int) else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        answer = items if isinstance(items, dict) else {"items": [] if isinstance(items, int) else items}
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_args: object) -> None:
        pass
