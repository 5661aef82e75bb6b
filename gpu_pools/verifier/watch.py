"""Asserts again and again, and tells the last result over HTTP.

An assertion is due when the interval is over, and as soon as the node object changes. Nothing is kept open between two
assertions but the API's watch: NVML events would need the driver kept open, which blocks the resets that MIG changes need.
HTTP runs in threads of its own and only shows what is there, so a driver that hangs cannot block it. Whoever reaches the port may
ask: it tells no more than a verdict, its causes and counts (gpu_pools/verifier/metrics.py), and there are few threads, fewer
still for one address. What was read and found in words stands on the node, for those who may read that.
"""

from __future__ import annotations

import contextlib
import http.server
import logging
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from . import report
from .api import ApiError
from .findings import Verdict
from .metrics import metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from .expectation import Expectation
    from .node import NodeReader
    from .observation import Assertion, Observer

LOG = logging.getLogger("verifier")
#: The node object may change many times in a row: between two assertions there is at least so much time.
_LEAST_GAP_SECONDS: Final = 10.0
_WATCH_SECONDS: Final = 300
_RETRY_SECONDS: Final = 30.0
#: So that the nodes of a pool do not all ask at once.
_JITTER: Final = 0.1
#: Connections at the same time, of all and of one address: a kubelet and a Prometheus need one each.
_MOST_CONNECTIONS, _MOST_OF_ONE = 32, 4
#: A connection may be silent so long.
_SILENT_SECONDS: Final = 5
#: What one assertion may take beside NVML: the API's time limits, and those of the MPS daemon.
_SLACK_SECONDS: Final = 300.0


@dataclass(frozen=True)
class Result:
    """The last assertion, when it ended (seconds since the epoch, and monotonic), and how many there were."""

    assertion: Assertion
    ended: float
    ended_monotonic: float
    runs: int


class Watcher:
    """Keeps the last result current.

    Args:
        expected: what the node must be.
        observer: looks at the node.
        interval: seconds between two assertions.
        nvml_seconds: how long one call of NVML may take; decides when a result is too old.
    """

    def __init__(self, expected: Expectation, observer: Observer, interval: float, nvml_seconds: float) -> None:
        self.expected = expected
        self._observer = observer
        self._interval = interval
        self._stale_seconds = 2 * interval + 2 * nvml_seconds + _SLACK_SECONDS
        self._due = threading.Event()
        self._began = time.monotonic()
        self.result: Result | None = None
        #: Told of each assertion; returns what went wrong with that.
        self.tell: Callable[[Expectation, Assertion], str | None] = lambda _, __: None
        #: The same, of whoever takes the startup taint away.
        self.untaint: Callable[[Assertion], str | None] = lambda _: None
        #: The same, of whoever puts labels back.
        self.keep: Callable[[Assertion], str | None] = lambda _: None

    def run(self) -> None:
        """Assert for ever."""
        while True:
            self.assert_once()
            gap = min(_LEAST_GAP_SECONDS, self._interval)
            time.sleep(gap)
            spread = 1 + random.uniform(-_JITTER, _JITTER)  # noqa: S311 - no secret
            self._due.wait(max(0.0, self._interval * spread - gap))
            self._due.clear()

    def assert_once(self) -> Result:
        """Hold the expectation against the node once, and keep the result."""
        before = self.result
        assertion = self._observer.hold(self.expected)
        result = Result(assertion, time.time(), time.monotonic(), before.runs + 1 if before else 1)
        if before is None or _differs(before.assertion, assertion):
            LOG.info("%s", report.termination_message(self.expected, assertion))
        self.result = result
        if trouble := self.tell(self.expected, assertion):
            LOG.warning("%s", trouble)
        if trouble := self.untaint(assertion):
            LOG.warning("%s", trouble)
        if news := self.keep(assertion):
            LOG.warning("%s", news)
        return result

    def wake(self) -> None:
        """Assert as soon as may be."""
        self._due.set()

    @property
    def alive(self) -> bool:
        """Whether assertions still come to an end."""
        last = self.result.ended_monotonic if self.result else self._began
        return time.monotonic() - last < self._stale_seconds

    @property
    def ready(self) -> bool:
        """Whether the last assertion held, and is not too old to count."""
        return self.alive and self.result is not None and self.result.assertion.findings.verdict is Verdict.HOLDS


def _differs(before: Assertion, now: Assertion) -> bool:
    keys = [
        [(finding.where, finding.field, finding.cause.key) for finding in (*one.findings.differences, *one.findings.unknown)]
        for one in (before, now)
    ]
    return before.findings.verdict is not now.findings.verdict or keys[0] != keys[1]


# --- changes of the node ----------------------------------------------------------------------------------


def follow(node: NodeReader, changed: Callable[[], None]) -> None:
    """Call `changed` whenever something about the node that is compared has changed; for ever.

    The first state of each watch counts too where it is another than the last known one.
    """
    known: object = None
    while True:
        try:
            for event in node.api.watch("/api/v1/nodes", _WATCH_SECONDS, fieldSelector=f"metadata.name={node.name}"):
                now = _compared(event)
                if now is not None and now != known:
                    if known is not None:
                        changed()
                    known = now
            time.sleep(_LEAST_GAP_SECONDS)
        except ApiError as error:
            LOG.warning("the node's changes cannot be followed: %s", error)
            time.sleep(_RETRY_SECONDS)


def _compared(event: dict[str, Any]) -> object:
    """What is compared of a node event; None of any other event."""
    item = event.get("object") or {}
    if event.get("type") not in {"ADDED", "MODIFIED"} or item.get("kind") != "Node":
        return None
    status = item.get("status") or {}
    ready = [one.get("status") for one in status.get("conditions") or [] if one.get("type") == "Ready"]
    return (
        (item.get("metadata") or {}).get("labels"),
        (item.get("spec") or {}).get("taints"),
        status.get("allocatable"),
        status.get("capacity"),
        ready,
    )


# --- HTTP -------------------------------------------------------------------------------------------------


def server(watcher: Watcher, address: tuple[str, int]) -> http.server.ThreadingHTTPServer:
    """The HTTP server, bound and not yet serving.

    Raises:
        OSError: where the address cannot be had.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        """GET only; three paths."""

        timeout = _SILENT_SECONDS
        server_version = "gpu-pools-verifier"
        sys_version = ""

        def do_GET(self) -> None:
            """Answer one of the three paths."""
            status, kind, text = answer(watcher, self.path.partition("?")[0])
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that is overridden
            """Probes come every few seconds; they are no news."""

    return _bound(address, Handler)


def _bound(address: tuple[str, int], handler: type[http.server.BaseHTTPRequestHandler]) -> http.server.ThreadingHTTPServer:
    """Bound to the address; without one to all of them, IPv6 and IPv4 alike where the machine has both."""
    host, _ = address

    class Server(http.server.ThreadingHTTPServer):
        """For either family of addresses."""

        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def __init__(self) -> None:
            self._open: Counter[str] = Counter()
            self._counting = threading.Lock()
            super().__init__(address, handler)

        def verify_request(self, request: object, client_address: Any) -> bool:  # noqa: ANN401 - of either family
            """Whether there is a thread for it; else the connection is closed at once."""
            del request
            with self._counting:
                if self._open.total() >= _MOST_CONNECTIONS or self._open[client_address[0]] >= _MOST_OF_ONE:
                    return False
                self._open[client_address[0]] += 1
                return True

        def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
            """Serve it, and give its place back."""
            try:
                super().process_request_thread(request, client_address)
            finally:
                with self._counting:
                    self._open[client_address[0]] -= 1
                    self._open += Counter()

    class BothServer(Server):
        """For both."""

        address_family = socket.AF_INET6

        def server_bind(self) -> None:
            """Take IPv4's addresses too."""
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

    if not host and socket.has_dualstack_ipv6():
        # Where IPv6 is switched off, its socket can be made but not bound.
        with contextlib.suppress(OSError):
            return BothServer()
    return Server()


def answer(watcher: Watcher, path: str) -> tuple[int, str, str]:
    """(status, content type, text) of a path."""
    plain = "text/plain; charset=utf-8"
    result = watcher.result
    if path == "/healthz":
        return (200, plain, "ok\n") if watcher.alive else (503, plain, "no assertion has ended for too long\n")
    if path == "/readyz":
        return (200, plain, "ok\n") if watcher.ready else (503, plain, _why_not_ready(watcher))
    if path != "/metrics":
        return 404, plain, "known are /healthz, /readyz and /metrics\n"
    if result is None:
        return 503, plain, "no assertion has ended yet\n"
    text = metrics(watcher.expected, result.assertion, finished=result.ended, runs=result.runs)
    return 200, "text/plain; version=0.0.4; charset=utf-8", text


def _why_not_ready(watcher: Watcher) -> str:
    if watcher.result is None:
        return "no assertion has ended yet\n"
    if not watcher.alive:
        return "the last assertion is too old\n"
    return "the last assertion did not hold: the node's condition GpuSharingVerified says why\n"
