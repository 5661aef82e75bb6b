"""Serves the live dashboards by HTTP: a page that is drawn anew for each request, its style sheet and its script; GET alone.

It asks Prometheus with the rights of whoever started it, so it answers nobody else: it listens where it is told to, which is this
machine only; the address may have a secret part that others cannot guess; and a page of another site that a browser has open
reaches nothing, since names of other hosts are refused. A policy lets the page load what is this server's, and nothing more.

Whoever looks, and however many do: the same question is asked once in a step of time, and one after the other. A step is a
minute or more, as in a file; of an hour at most it is a quarter of a minute, so that somebody who looks sees something happen.

Not here: TLS, log-ins, the address to listen at. For several people there is Grafana.
"""

from __future__ import annotations

import hmac
import socketserver
import threading
import time
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from gpu_pools.dashboards.asking import MOST_STEPS, Boards, asked
from gpu_pools.dashboards.choosing import Choice, values
from gpu_pools.dashboards.live_page import Shown, live_page
from gpu_pools.dashboards.page import style
from gpu_pools.observing.dashboards import dashboards
from gpu_pools.observing.prometheus import CannotAskError
from gpu_pools.observing.times import Window, span

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from gpu_pools.observing.prometheus import Prometheus
    from gpu_pools.plan.planned import Plan

_OVERS: Final = ("15m", "1h", "3h", "6h", "24h", "7d", "28d")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_TEXT, _HTML = "text/plain; charset=utf-8", "text/html; charset=utf-8"
#: Steps of a short time, and what is one; in seconds.
_SHORT_STEP: Final = 15
_SHORT: Final = 3600
#: How long Prometheus may take for all questions of a page.
_ANSWER_SECONDS: Final = 60.0
#: How long a client may take to ask.
_SECONDS: Final = 20
_KEYS: Final = ("board", "pool", "node", "gpu", "over")
#: Pages that are kept, and the most letters of what is chosen.
_KEPT: Final = 32
_LONGEST: Final = 300


@dataclass(frozen=True)
class Answer:
    """What a request is answered with."""

    status: HTTPStatus
    type: str
    body: str


class Live:
    """The dashboards of a stack, as they are when somebody asks."""

    def __init__(self, stack: str, plan: Plan, prometheus: Prometheus, over: str, secret: str = "") -> None:
        """Ask nothing yet.

        Args:
            stack: its name.
            plan: of the stack.
            prometheus: who is asked.
            over: how long until now, where nothing else is chosen.
            secret: what each address begins with; empty: nothing.
        """
        self._stack, self._plan, self._prometheus, self._over = stack, plan, prometheus, over
        self._prefix = f"/{secret}/" if secret else "/"
        self._lock = threading.Lock()
        self._kept: dict[tuple[Choice, Window], tuple[Mapping[str, Sequence[str]], Choice, Boards, float]] = {}

    @property
    def prefix(self) -> str:
        """The path of the page."""
        return self._prefix

    def answer(self, target: str, host: str, now: float) -> Answer:
        """What is at an address.

        Args:
            target: path and query.
            host: as the client names it.
            now: seconds since the epoch.
        """
        try:
            named, asked_for = urlsplit(f"//{host}").hostname or "", urlsplit(target)
            pairs = parse_qsl(asked_for.query, keep_blank_values=True, max_num_fields=len(_KEYS))
        except ValueError:
            return Answer(HTTPStatus.BAD_REQUEST, _TEXT, "This is not an address of this page.\n")
        if named not in _HOSTS:
            return Answer(HTTPStatus.MISDIRECTED_REQUEST, _TEXT, "This answers to 127.0.0.1 and localhost only.\n")
        if not hmac.compare_digest(asked_for.path[: len(self._prefix)].encode(), self._prefix.encode()):
            return Answer(HTTPStatus.NOT_FOUND, _TEXT, "Nothing is here: the whole address was printed where this was started.\n")
        name = asked_for.path.removeprefix(self._prefix)
        if name == "page.css":
            return Answer(HTTPStatus.OK, "text/css; charset=utf-8", style() + _file("live.css"))
        if name == "live.js":
            return Answer(HTTPStatus.OK, "text/javascript; charset=utf-8", _file(name))
        return self._page(dict(pairs), now) if not name else Answer(HTTPStatus.NOT_FOUND, _TEXT, "Nothing is here.\n")

    def _page(self, query: Mapping[str, str], now: float) -> Answer:
        board = query.get("board") or next(iter(dashboards(self._plan)))
        over = query.get("over") or self._over
        choice = Choice(board, query.get("pool", ""), query.get("node", ""), query.get("gpu", ""))
        try:
            wrong = self._wrong(query, choice)
            window = _window(over, now)
        except ValueError as error:
            wrong = [str(error)]
        if wrong:
            return Answer(HTTPStatus.BAD_REQUEST, _TEXT, "\n".join([*wrong, ""]))
        overs = _OVERS if over in _OVERS else (over, *_OVERS)
        shown = Shown(self._stack, self._plan, choice, over, overs, {}, None, "", (), now)
        try:
            offered, found, boards, when = self._asked(choice, window, now)
        except CannotAskError as error:
            failed = replace(shown, failed=f"{error.message}. {error.remedy}")
            return Answer(HTTPStatus.OK, _HTML, live_page(failed))
        lost = [(name, choice.of(name)) for name in offered if choice.of(name) != found.of(name)]
        gone = [f"{value} is not among the {name}s of that time" for name, value in lost]
        body = live_page(replace(shown, choice=found, values=offered, boards=boards, gone=gone, now=when))
        return Answer(HTTPStatus.OK, _HTML, body)

    def _wrong(self, query: Mapping[str, str], choice: Choice) -> list[str]:
        """What in an address is not of this stack."""
        pools = [pool.name for pool in self._plan.pools]
        wrong = [f"{name}: is not known here; {', '.join(_KEYS)} are" for name in query if name not in _KEYS]
        wrong += [f"{name}: is too long" for name, value in query.items() if len(value) > _LONGEST]
        if choice.board not in (boards := list(dashboards(self._plan))):
            wrong.append(f"board: {choice.board!r} is not one of {', '.join(boards)}")
        if choice.pool and choice.pool not in pools:
            wrong.append(f"pool: {choice.pool!r} is not one of {', '.join(pools)}")
        return wrong

    def _asked(self, choice: Choice, window: Window, now: float) -> tuple[Mapping[str, Sequence[str]], Choice, Boards, float]:
        """What can be chosen, what of the choice is there, the dashboard, and when it was asked."""
        with self._lock:
            key = (choice, window)
            if key not in self._kept:
                # Whoever looks meanwhile waits.
                prometheus = self._prometheus.within(_ANSWER_SECONDS)
                offered = values(prometheus, self._plan, window, choice)
                lost = {name: "" for name, there in offered.items() if choice.of(name) not in there}
                found = replace(choice, **lost)
                boards = asked(prometheus, self._plan, window, found)
                while len(self._kept) >= _KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = (offered, found, boards, now)
            return self._kept[key]


def _window(over: str, now: float) -> Window:
    """The time that is asked about.

    Raises:
        ValueError: it is not a time.
    """
    asked_about = span(over)
    if asked_about.seconds > _SHORT:
        return asked_about.window(now, MOST_STEPS)
    end = int(now) // _SHORT_STEP * _SHORT_STEP
    return Window(end - asked_about.seconds, end, _SHORT_STEP)


def _file(name: str) -> str:
    return resources.files("gpu_pools.dashboards").joinpath(name).read_text(encoding="utf-8")


class Server(ThreadingHTTPServer):
    """Answers at a socket that listens; who accepts there says whose connections count."""

    daemon_threads = True

    def __init__(self, live: Live, listener: socket.socket) -> None:
        """Serve nothing yet: `serve_forever` does."""
        socketserver.BaseServer.__init__(self, listener.getsockname(), _Handler)
        self.socket = listener
        self.live = live
        self.server_name, self.server_port = listener.getsockname()[:2]

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{self.server_name}:{self.server_port}{self.live.prefix}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "gpu-pools", ""
    timeout = _SECONDS

    def do_GET(self) -> None:
        answer = self.server.live.answer(self.path, self.headers.get("Host", ""), time.time())
        body = answer.body.encode()
        self.send_response(answer.status)
        for name, value in {**_HEADERS, "Content-Type": answer.type, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: addresses may have the secret."""
