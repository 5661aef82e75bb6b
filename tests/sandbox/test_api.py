"""The sandbox's client of Kubernetes: what it adds to the library. Everything else about it is tested at real API servers."""

from __future__ import annotations

import hashlib
import http.server
import json
import socket
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError, UnknownKindError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NODES = {"name": "nodes", "singularName": "node", "kind": "Node", "namespaced": False, "verbs": ["get"]}
_EVENTS = [{"type": "ADDED", "object": {"metadata": {"name": "a"}}}, {"type": "BOOKMARK", "object": {"metadata": {}}}]
_ANSWERS: dict[str, Any] = {
    "/version": {"gitVersion": "v1.36.3"},
    "/apis": {"kind": "APIGroupList", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [_NODES]},
}


class _Answers(http.server.BaseHTTPRequestHandler):
    """As much of an API server as a client asks before it knows a kind."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if "watch=1" in query:
            self._write(200, b"\n".join(json.dumps(event).encode() for event in _EVENTS) + b"\n")
            return
        missing = {"kind": "Status", "reason": "NotFound", "message": f"there is no {path}", "code": 404}
        self._write(200 if path in _ANSWERS else 404, json.dumps(_ANSWERS.get(path, missing)).encode())

    def _write(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def client(port: int) -> Api:
    entry = {"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    return Api({"clusters": [entry], "contexts": [context], "users": [{"name": "x", "user": {}}], "current-context": "x"})


def test_it_finds_kinds_and_says_which_are_missing(port: int) -> None:
    api = client(port)
    assert api.path("v1", "Node", name="a") == "/api/v1/nodes/a"
    with pytest.raises(UnknownKindError, match='no matches for kind "Pod" in version "v1"'):
        api.path("v1", "Pod")
    with pytest.raises(UnknownKindError):
        api.path("nvidia.com/v1", "ClusterPolicy")


def _define(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the server have the custom resources of these names, and no others."""
    version = {"groupVersion": "nvidia.com/v1", "version": "v1"}
    group = {"name": "nvidia.com", "versions": [version], "preferredVersion": version}
    listed = [{**_NODES, "name": f"{name.lower()}s", "kind": name} for name in names]
    monkeypatch.setitem(_ANSWERS, "/apis", {"kind": "APIGroupList", "groups": [group]})
    found = {"kind": "APIResourceList", "groupVersion": "nvidia.com/v1", "resources": listed}
    monkeypatch.setitem(_ANSWERS, "/apis/nvidia.com/v1", found)


def test_kinds_that_are_defined_later_are_found(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new group, and a new kind of a group that has been read."""
    api = client(port)
    with pytest.raises(UnknownKindError):
        api.path("nvidia.com/v1", "Policy")
    _define(monkeypatch, "Policy")
    assert api.path("nvidia.com/v1", "Policy") == "/apis/nvidia.com/v1/policys"
    with pytest.raises(UnknownKindError):
        api.path("nvidia.com/v1", "Driver")
    _define(monkeypatch, "Policy", "Driver")
    assert api.path("nvidia.com/v1", "Driver", name="a") == "/apis/nvidia.com/v1/drivers/a"


def test_many_threads_use_one_client(port: int) -> None:
    """While some ask for objects others look for a kind that is missing, which makes the library read all kinds anew."""
    api = client(port)

    def ask(number: int) -> str:
        if number % 3 == 0:
            return api.path("v1", "Node", name=str(number))
        if number % 3 == 1:
            return api.probe()
        with pytest.raises(UnknownKindError):
            api.path("nvidia.com/v1", "ClusterPolicy")
        return "missing"

    with ThreadPoolExecutor(16) as threads:
        said = list(threads.map(ask, range(48)))
    assert said == [(f"/api/v1/nodes/{number}", "v1.36.3", "missing")[number % 3] for number in range(48)]


def test_a_watch_that_breaks_says_so(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(request: _Answers) -> None:
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        line = json.dumps(_EVENTS[0]).encode() + b"\n"
        request.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        request.close_connection = True

    api = client(port)
    api.probe()
    monkeypatch.setattr(_Answers, "do_GET", cut)
    events = api.watch("/api/v1/nodes", "7")
    assert next(events) == _EVENTS[0]
    with pytest.raises(UnreachableError):
        next(events)


def test_a_refusal_is_in_the_servers_words(port: int) -> None:
    with pytest.raises(ApiError, match=r"^there is no /api/v1/pods$") as refused:
        client(port).list("/api/v1/pods")
    assert (refused.value.status, refused.value.reason, refused.value.missing) == (404, "NotFound", True)
    assert client(port).get("/api/v1/pods/a") is None


def test_a_watch_gives_events_as_they_are(port: int) -> None:
    assert list(client(port).watch("/api/v1/nodes", "7")) == _EVENTS


def test_attack_kinds_that_somebody_left_in_a_common_file(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library shares what it has discovered by a file whose name anybody can tell; who writes it first says where to ask."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    host = hashlib.md5(f"http://127.0.0.1:{port}".encode(), usedforsecurity=False).hexdigest()
    planted = tmp_path / f"osrcp-{host}.json"
    planted.write_text("planted", encoding="utf-8")
    assert client(port).path("v1", "Node") == "/api/v1/nodes"
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == {planted.name: "planted"}


def test_a_server_that_says_nothing_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.cluster.api._TIMEOUT", (0.2, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        api = client(silent.getsockname()[1])
        with pytest.raises(UnreachableError, match="timed out"):
            api.kind("v1", "Node")


def test_a_server_on_this_machine_is_asked_directly(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert client(port).probe() == "v1.36.3"


def test_it_is_who_it_says(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str | None, str | None]] = []
    answer = _Answers.do_GET

    def heard(request: _Answers) -> None:
        seen.append((request.headers["Impersonate-User"], request.headers["Impersonate-Group"]))
        answer(request)

    monkeypatch.setattr(_Answers, "do_GET", heard)
    api = client(port)
    Api(api._config, acting_as="aks").probe()
    assert {*seen} == {("aks", "system:masters")}
    seen.clear()
    Api(api._config, acting_as="system:serviceaccount:nfd:gc").probe()
    assert {*seen} == {("system:serviceaccount:nfd:gc", None)}, "with its own rights"
