"""The watch as it runs: when it asserts, how it follows the node, and HTTP on real sockets. What it says is in test_watch.py."""

from __future__ import annotations

import errno
import http.client
import json
import socket
import socketserver
import threading
import time
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.verifier import watch
from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.node import NodeReader
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.reading import Unreadable
from sandbox.system.patience import Patience
from tests.clock import set_clock
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.verifier.api_server import ApiServer

EXPECTED = nodes.healthy(*nodes.plan_and_pool({"exclusive": {}})).expected


class _Observer:
    """Has found this."""

    def __init__(self, *unknown: str) -> None:
        self._findings = Findings()
        for cause in unknown:
            self._findings.cannot_tell(Where("node"), "answer", "200", "503", cause)

    def hold(self, _: object) -> Assertion:
        return Assertion(self._findings, Observation(Unreadable("not looked at"), None, None), 2, 0.5)


def watcher(interval: float = 600.0) -> watch.Watcher:
    observer: Any = _Observer()
    return watch.Watcher(EXPECTED, observer, interval, 30.0)


class _EnoughError(Exception):
    """Ends what goes on for ever."""


def _sleeping(sleep: Callable[[float], object]) -> SimpleNamespace:
    """The clock of one module, which sleeps like this: threads that another test has left behind sleep by the true one."""
    return SimpleNamespace(sleep=sleep, time=time.time, monotonic=time.monotonic)


@pytest.mark.parametrize(
    ("interval", "jitter", "pauses"), [(600.0, 0.1, (10.0, 650.0)), (600.0, -0.1, (10.0, 530.0)), (4.0, 0.1, (4.0, 0.4))]
)
def test_an_assertion_is_due_after_the_interval_which_is_not_the_same_on_all_nodes(
    interval: float, jitter: float, pauses: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watcher(interval)
    slept: list[float] = []

    def wait(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 4:
            raise _EnoughError

    def drawn(least: float, most: float) -> float:
        assert (least, most) == (-0.1, 0.1)
        return jitter

    monkeypatch.setattr(watch, "time", _sleeping(slept.append))
    monkeypatch.setattr(watch.random, "uniform", drawn)
    monkeypatch.setattr(watched._due, "wait", wait)
    with pytest.raises(_EnoughError):
        watched.run()
    assert slept == pytest.approx([*pauses] * 2)
    assert watched.result
    assert watched.result.runs == 2


def test_who_wakes_it_does_not_wait_for_the_interval_and_wakes_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, waited = watcher(), []
    wait = watched._due.wait

    def waits(seconds: float) -> None:
        assert seconds >= 0
        waited.append(wait(0))
        if len(waited) == 2:
            raise _EnoughError

    monkeypatch.setattr(watch, "time", _sleeping(lambda _: None))
    monkeypatch.setattr(watched._due, "wait", waits)
    watched.wake()
    with pytest.raises(_EnoughError):
        watched.run()
    assert waited == [True, False]


def test_a_result_says_when_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, watch, time=lambda: 5000.0, monotonic=lambda: 1007.0)
    watched = watcher()
    result = watched.assert_once()
    assert (result.ended, result.ended_monotonic, result.runs) == (5000.0, 1007.0, 1)
    assert watched.result is result


def test_what_cannot_be_told_is_news_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    watched = watcher()
    for cause in ("api-unreachable", "api-unreachable", "api-permission"):
        watched._observer = _Observer(cause)  # type: ignore[assignment]
        watched.assert_once()
    assert len(caplog.records) == 2
    proven = _Observer()
    proven._findings.differs(Where("node"), "answer", "200", "503", "api-permission")
    watched._observer = proven  # type: ignore[assignment]
    watched.assert_once()
    assert len(caplog.records) == 3


# --- following the node -----------------------------------------------------------------------------------


def _event(kind: str = "MODIFIED", **labels: str) -> bytes:
    return json.dumps({"type": kind, "object": {"kind": "Node", "metadata": {"labels": labels}}}).encode() + b"\n"


def test_a_node_is_followed_from_watch_to_watch_and_each_change_is_told_once(
    answering: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []
    told: list[int] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        told.append(len(changes))
        if len(slept) == 5:
            raise _EnoughError

    changes: list[None] = []
    monkeypatch.setattr(watch, "time", _sleeping(sleep))
    answering.say(
        "GET /api/v1/nodes",
        (200, _event("ADDED", a="1") + _event(a="1")),
        (200, _event("ADDED", a="1") + _event(a="2") + _event(a="2") + _event("BOOKMARK", a="9") + _event(a="3")),
        (403, {"message": "no"}),
        (200, _event("ADDED", a="4")),
        (200, b'{"type"'),
    )
    with pytest.raises(_EnoughError):
        watch.follow(NodeReader(answering.api, "gpu-1"), lambda: changes.append(None))
    assert slept == [10.0, 10.0, 30.0, 10.0, 30.0]
    assert told == [0, 2, 2, 3, 3]
    query = {"fieldSelector": "metadata.name=gpu-1", "watch": "true", "timeoutSeconds": "300"}
    assert [one.query for one in answering.asked] == [query] * 5
    first, _ = [record.getMessage() for record in caplog.records]
    assert first == "the node's changes cannot be followed: WATCH /api/v1/nodes: 403: no"


# --- over HTTP --------------------------------------------------------------------------------------------


@contextmanager
def served(watched: watch.Watcher, host: str = "127.0.0.1") -> Iterator[Any]:
    server = watch.server(watched, (host, 0))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def asked(address: tuple[str, int], path: str, method: str = "GET", source: str = "127.0.0.1") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(*address, timeout=30, source_address=(source, 0))
    connection.request(method, path)
    return connection.getresponse()


def test_the_three_paths_are_served_and_nothing_is_written_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    watched = watcher()
    with served(watched) as server:
        address = server.server_address
        response = asked(address, "/readyz?verbose=1")
        assert (response.status, response.read()) == (503, b"no assertion has ended yet\n")
        assert (response.headers["Content-Type"], response.headers["Content-Length"]) == ("text/plain; charset=utf-8", "27")
        assert response.headers["Server"].strip() == "gpu-pools-verifier"
        watched.assert_once()
        response = asked(address, "/metrics")
        content = response.read()
        assert (response.status, response.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert int(response.headers["Content-Length"]) == len(content) > 100
        assert asked(address, "/other").status == 404
        assert asked(address, "/healthz", "POST").status == 501
    assert capfd.readouterr() == ("", "")


def test_without_an_address_both_families_are_served() -> None:
    with served(watcher(), "") as server:
        families = ["127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])]
        for host in families:
            assert asked((host, server.server_address[1]), "/healthz", source=host).status == 200


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_served() -> None:
    with served(watcher(), "::1") as server:
        assert asked(("::1", server.server_address[1]), "/healthz", source="::1").status == 200


def test_where_ipv6_is_switched_off_ipv4_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    bind = socketserver.TCPServer.server_bind

    def without_ipv6(server: socketserver.TCPServer) -> None:
        if server.address_family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        bind(server)

    for dual in (True, False):
        monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda dual=dual: dual)
        monkeypatch.setattr(socketserver.TCPServer, "server_bind", without_ipv6)
        with served(watcher(), "") as server:
            assert asked(("127.0.0.1", server.server_address[1]), "/healthz").status == 200


def test_an_address_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        watch.server(watcher(), ("127.0.0.1", taken.getsockname()[1]))


def hold(server: Any, *sources: str) -> ExitStack:
    """Connections on which nothing is said, each taken before the next is opened."""
    stack = ExitStack()
    for source in sources:
        taken = server._open.total()
        stack.enter_context(socket.create_connection(server.server_address[:2], timeout=30, source_address=(source, 0)))
        until(lambda taken=taken: server._open.total() > taken)  # type: ignore[misc]
    return stack


def refused(server: Any, source: str) -> bool:
    try:
        return asked(server.server_address[:2], "/healthz", source=source).status != 200
    except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
        return True


def test_an_address_has_four_connections_at_once_and_gets_them_back() -> None:
    with served(watcher()) as server:
        with hold(server, *["127.0.0.2"] * 3):
            assert not refused(server, "127.0.0.2")
        until(lambda: server._open.total() == 0)
        with hold(server, *["127.0.0.2"] * 4):
            assert refused(server, "127.0.0.2")
            assert not refused(server, "127.0.0.3")
        until(lambda: server._open.total() == 0)
        assert not refused(server, "127.0.0.2")


def test_all_addresses_have_thirty_two_connections_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_SILENT_SECONDS", 30)
    sources = [f"127.0.0.{10 + number // 4}" for number in range(32)]
    with served(watcher()) as server:
        with hold(server, *sources[:31]):
            assert not refused(server, "127.0.0.31")
        until(lambda: server._open.total() == 0)
        with hold(server, *sources):
            assert refused(server, "127.0.0.31")


def until(holds: Callable[[], bool]) -> None:
    """A place is taken and given back by threads, a moment later."""
    end = Patience(20)
    while not holds():
        assert not end.is_over()
        time.sleep(0.005)


def test_a_connection_may_be_silent_for_five_seconds() -> None:
    server = watch.server(watcher(), ("127.0.0.1", 0))
    server.server_close()
    assert server.RequestHandlerClass.timeout == 5  # type: ignore[attr-defined]
    assert server.daemon_threads
