"""Asks a Prometheus, or what speaks its HTTP API, one question at a time; believes nothing of the answer but its shape.

By its documentation (HTTP API): `POST /api/v1/query` takes a form, so that questions may be long, and answers
`{status, data: {resultType, result}}`, or `{status: error, errorType, error}` with 4xx or 5xx. `POST /api/v1/query_range` is the
same for a value at each step of a time. `limit` bounds how many series it answers with; older ones do not heed it.

An answer has a time in which it has to be there as a whole, whatever comes of it meanwhile, and a number of parts that it may
have, since Python makes much of little. Points outside of the time that was asked about are left out, and so are series beyond
those that were asked for.

A token goes to the address that was named, by TLS, or to this machine itself, as with `kubectl port-forward`. No redirection is
followed. No proxy is used, and no password is taken from the URL, since whoever lists processes reads it.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import math
import ssl
import time
import urllib.parse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gpu_pools.verifier.deadline import Deadline

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gpu_pools.observing.times import Window

#: Of one answer, from the look-up of the host to its last byte: as long as Prometheus itself takes at most (query.timeout).
_SECONDS: Final = 120.0
#: A fleet of 500 nodes with 5,000 pods answers with 2 MB, a chart of 2,000 series with 20 MB.
_MOST: Final = 64 << 20
#: Objects, lists and their elements: such a chart has 2.2 million, and Python needs some hundred bytes for each.
_MOST_PARTS: Final = 3_000_000
_OK: Final = 200
_Read = TypeVar("_Read")


class CannotAskError(Exception):
    """No answer, and what to do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        """Say both."""
        super().__init__(message)
        self.message, self.remedy = message, remedy


class RefusedError(CannotAskError):
    """It is there, and gives no answer to this question; another may be answered."""


@dataclass(frozen=True)
class Sample:
    """One series of an answer, at the moment that was asked for."""

    labels: Mapping[str, str]
    value: float

    def key(self, *names: str) -> tuple[str, ...]:
        """Some of its labels; one that is missing is empty."""
        return tuple(self.labels.get(name, "") for name in names)


@dataclass(frozen=True)
class Row:
    """One series of an answer over a time: (seconds since the epoch, value) where it has one."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Prometheus:
    """Where it is.

    Attributes:
        url: its address, with the path that is before `/api/v1`.
        token: a bearer token; empty: none.
        authorities: a file of certificates; None: those of this machine.
        seconds: in which an answer has to be there.
        ends: when no more is asked, on the clock of `time.monotonic`; None: never.
    """

    url: str
    token: str = ""
    authorities: Path | None = None
    seconds: float = _SECONDS
    ends: float | None = None

    def within(self, seconds: float) -> Prometheus:
        """The same, for several questions that have so long together."""
        return replace(self, ends=time.monotonic() + seconds)

    def ask(self, expression: str, *, at: float | None = None, limit: int = 0) -> Sequence[Sample]:
        """What an expression is.

        Args:
            expression: the question.
            at: when, in seconds since the epoch; None: now.
            limit: the most series that are wanted; 0: all.

        Raises:
            CannotAskError: where there is no answer.
        """
        form = {"query": expression, **({} if at is None else {"time": str(at)})}
        return [one for one in self._asked("query", form, limit, "vector", _sample) if math.isfinite(one.value)]

    def ask_range(self, expression: str, window: Window, *, limit: int = 0) -> Sequence[Row]:
        """What it was at each step of a time. What is not a number is left out, so that it is a gap.

        Raises:
            CannotAskError: where there is no answer.
        """
        form = {"query": expression, "start": str(window.start), "end": str(window.end), "step": str(window.step)}
        return self._asked("query_range", form, limit, "matrix", lambda one: _row(one, window))

    def _asked(self, what: str, form: Mapping[str, str], limit: int, kind: str, read: Callable[[Any], _Read]) -> Sequence[_Read]:
        try:
            status, body = self._post(f"/api/v1/{what}", {**form, **({"limit": str(limit)} if limit else {})})
        except ssl.SSLCertVerificationError as error:
            remedy = "Name the file of its authority with --ca."
            raise CannotAskError(f"the certificate of {self.url} is not trusted: {error.verify_message}", remedy) from None
        except TimeoutError:
            remedy = "Ask about a shorter time, or a Prometheus that has less to do."
            raise CannotAskError(f"{self.url} gives no whole answer in the time that it has", remedy) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            remedy = (
                "Is it there? kubectl port-forward -n NAMESPACE svc/NAME 9090 brings one of a cluster to http://127.0.0.1:9090."
            )
            raise CannotAskError(f"{self.url} cannot be asked: {_reason(error)}", remedy) from None
        return _results(self.url, status, body, lambda document: [read(one) for one in _rows(document, kind, limit)])

    def _post(self, path: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        split = urllib.parse.urlsplit(self.url)
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", "User-Agent": "gpu-pools"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        with self._line(split) as line:
            line.request("POST", f"{split.path.rstrip('/')}{path}", urllib.parse.urlencode(form), headers)
            answer = line.getresponse()
            return answer.status, answer.read(_MOST + 1)

    @contextlib.contextmanager
    def _line(self, split: urllib.parse.SplitResult) -> Iterator[http.client.HTTPConnection]:
        """A connection that ends by itself when the time is over.

        Raises:
            TimeoutError: when it is.
        """
        host, port = split.hostname or "", split.port or (80 if split.scheme == "http" else 443)
        ends = time.monotonic() + self.seconds
        ends = ends if self.ends is None else min(ends, self.ends)
        if ends <= time.monotonic():
            raise TimeoutError
        with Deadline(ends - time.monotonic()) as deadline:
            bare = deadline.connect((host, port), timeout=deadline.left())
            with contextlib.closing(bare), contextlib.closing(http.client.HTTPConnection(host, port)) as line:
                line.sock = bare if split.scheme == "http" else self._secured(bare, host)
                yield line
            # What was shut down reads like an answer that has ended.
            deadline.check()

    def _secured(self, bare: socket.socket, host: str) -> ssl.SSLSocket:
        trusted = ssl.create_default_context(cafile=str(self.authorities) if self.authorities else None)
        return trusted.wrap_socket(bare, server_hostname=host)


def refused(url: str, *, with_token: bool) -> str:
    """Why an address is not taken; empty: it is."""
    try:
        split = urllib.parse.urlsplit(url)
        port = split.port
    except ValueError as error:
        return str(error)
    if split.scheme not in {"http", "https"} or not split.hostname or port == 0:
        return "it must be http://… or https://… with a host"
    if split.username is not None:
        return "a name or password in it can be read by whoever lists processes; give a token with --token-file"
    if split.query or split.fragment:
        return "it must end with the path before /api/v1"
    if with_token and split.scheme == "http" and not _is_here(split.hostname):
        return "a token goes by TLS only, or to this machine: use https://…"
    return ""


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _results(url: str, status: int, body: bytes, read: Callable[[Any], Sequence[_Read]]) -> Sequence[_Read]:
    if len(body) > _MOST:
        raise RefusedError(f"{url} answers with more than {_MOST} bytes", "Ask about a shorter time.")
    if sum(map(body.count, (b"{", b"[", b","))) > _MOST_PARTS:
        raise RefusedError(f"{url} answers with more than {_MOST_PARTS} values", "Ask about a shorter time.")
    try:
        document = json.loads(body)
        if status == _OK:
            return read(document)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        document = None
    said = document.get("error") if isinstance(document, dict) else None
    if isinstance(said, str):
        raise RefusedError(f"{url} refuses the question ({status}): {said}", _remedy(status))
    raise CannotAskError(f"{url} answers as no Prometheus does (status {status})", _remedy(status))


def _remedy(status: int) -> str:
    if status in {http.client.UNAUTHORIZED, http.client.FORBIDDEN}:
        return "Give a token that may read it with --token-file."
    return "Name its address as it is before /api/v1; where it gives up ask about a shorter time."


def _rows(document: Any, kind: str, limit: int) -> Sequence[Any]:  # noqa: ANN401 - what others wrote
    data = document["data"]
    if document["status"] != "success" or data["resultType"] != kind:
        raise ValueError("another kind of answer")
    found = data["result"]
    if not isinstance(found, list):
        raise TypeError("no list")
    return found[:limit] if limit else found


def _sample(one: Any) -> Sample:  # noqa: ANN401 - what others wrote
    return Sample(_labels(one), float(one["value"][1]))


def _row(one: Any, window: Window) -> Row:  # noqa: ANN401 - what others wrote
    pairs = [(float(time), float(value)) for time, value in one["values"]]
    return Row(_labels(one), [pair for pair in pairs if window.start <= pair[0] <= window.end and math.isfinite(pair[1])])


def _labels(one: Any) -> Mapping[str, str]:  # noqa: ANN401 - what others wrote
    return {str(name): str(text) for name, text in one["metric"].items()}
