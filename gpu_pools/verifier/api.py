"""A client of the Kubernetes API with a service account's token. Nothing but the standard library.

The token's file is read for each request, since the kubelet renews it. Every answer that is not a success is an ApiError: whoever
asked says what it means.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from .deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: For all of a request, from the connection to the last byte of the answer.
_SECONDS: Final = 10.0
_STREAM_SLACK_SECONDS: Final = 15.0
_MESSAGE_LENGTH: Final = 300
_STRATEGIC: Final = "application/strategic-merge-patch+json"
#: Who wrote it, as the object tells afterwards; the admission policy lets a verifier give no other name.
_AS_ITSELF: Final = {"fieldManager": "gpu-pools-verifier"}
_JSON_PATCH: Final = "application/json-patch+json"
_JSON: Final = "application/json"


class ApiError(Exception):
    """The API did not give what was asked for.

    Args:
        request: method and path.
        status: the HTTP status; None where there was no answer.
        message: in the server's or the system's words.
    """

    def __init__(self, request: str, status: int | None, message: str) -> None:
        super().__init__(f"{request}: {status or 'no answer'}: {message}")
        self.request = request
        self.status = status
        self.message = message


#: What Python raises where an answer has another form than was thought, or a value is of another type.
MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@contextlib.contextmanager
def shaped(request: str) -> Iterator[None]:
    """Read an answer: where it has another form than Kubernetes documents, that is an ApiError as any other.

    Args:
        request: what was asked for, for messages.

    Raises:
        ApiError: where it has.
    """
    try:
        yield
    except MALFORMED as error:
        why = f"the answer has another form than Kubernetes documents: {error!r}"
        raise ApiError(request, None, why[:_MESSAGE_LENGTH]) from None


class Client(Protocol):
    """What a node is changed through: an API, whoever asks it. Each may raise ApiError."""

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """One object or list."""

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object by a strategic merge patch; returns what it is then."""

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make an object, or ask for what a subresource does; returns the answer."""

    def delete(self, path: str, uid: str) -> dict[str, Any]:
        """Delete an object if it is still the one with that uid."""


@dataclass(frozen=True)
class Api:
    """Where the API is, and who asks.

    Attributes:
        server: such as ``https://10.0.0.1:443``.
        token_file: the service account's token.
        ca_file: who must have signed the server's certificate.
    """

    server: str
    token_file: Path
    ca_file: Path

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """One object or list.

        Raises:
            ApiError: where it does not come.
        """
        return self._answer("GET", path, query)

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object by a strategic merge patch; returns what it is then.

        Raises:
            ApiError: where that is refused, or no answer comes.
        """
        return self._answer("PATCH", path, _AS_ITSELF, (_STRATEGIC, json.dumps(body)))

    def change(self, path: str, operations: list[dict[str, Any]]) -> dict[str, Any]:
        """Change an object by a JSON patch; returns what it is then.

        Raises:
            ApiError: where that is refused, a test of the patch fails (422), or no answer comes.
        """
        return self._answer("PATCH", path, _AS_ITSELF, (_JSON_PATCH, json.dumps(operations)))

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make an object, or ask for what a subresource does; returns the answer.

        Raises:
            ApiError: where that is refused, or no answer comes.
        """
        return self._answer("POST", path, _AS_ITSELF, (_JSON, json.dumps(body)))

    def delete(self, path: str, uid: str) -> dict[str, Any]:
        """Delete an object if it is still the one with that uid.

        Raises:
            ApiError: where that is refused, or no answer comes.
        """
        return self._answer("DELETE", path, {}, (_JSON, json.dumps({"preconditions": {"uid": uid}})))

    def clock(self) -> float:
        """The server's clock, in seconds since the epoch: the same for all nodes, whatever their own clocks say.

        Raises:
            ApiError: where no answer comes, or one without a date.
        """
        request = "GET /version"
        try:
            with Deadline(_SECONDS) as deadline, self._open("GET", "/version", {}, deadline) as response:
                date = response.headers.get("Date")
        except urllib.error.HTTPError as error:
            # Who may not ask for the version is told the time all the same.
            date = error.headers.get("Date")
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(request, None, str(getattr(error, "reason", error))) from None
        try:
            return email.utils.parsedate_to_datetime(str(date)).timestamp()
        except ValueError:
            raise ApiError(request, None, "the answer has no date") from None

    def _answer(self, method: str, path: str, query: Mapping[str, str], body: tuple[str, str] | None = None) -> dict[str, Any]:
        request = f"{method} {path}"
        with self._opened(request, method, path, query, _SECONDS, body) as response:
            answer = json.load(response)
        if not isinstance(answer, dict):
            raise ApiError(request, None, "the answer is not an object")
        return answer

    def watch(self, path: str, seconds: int, **query: str) -> Iterator[dict[str, Any]]:
        """The events of a watch, until the server or `seconds` end it.

        Raises:
            ApiError: where it cannot be opened, or breaks off.
        """
        request = f"WATCH {path}"
        query |= {"watch": "true", "timeoutSeconds": str(seconds)}
        with self._opened(request, "GET", path, query, seconds + _STREAM_SLACK_SECONDS) as response:
            for line in response:
                yield json.loads(line)

    @contextlib.contextmanager
    def _opened(
        self, request: str, method: str, path: str, query: Mapping[str, str], seconds: float, body: tuple[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """An answer, to be read within a time that is for all of the request.

        Raises:
            ApiError: where none comes, a refusal, or none that can be read to its end in time.
        """
        try:
            with Deadline(seconds) as deadline:
                try:
                    with self._open(method, path, query, deadline, body) as response:
                        yield response
                except urllib.error.HTTPError as error:
                    raise ApiError(request, error.code, _message(error)) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ApiError(request, None, str(getattr(error, "reason", error))) from None

    def _open(
        self, method: str, path: str, query: Mapping[str, str], deadline: Deadline, body: tuple[str, str] | None = None
    ) -> http.client.HTTPResponse:
        context = ssl.create_default_context(cafile=str(self.ca_file))
        token = self.token_file.read_text(encoding="ascii").strip()
        address = f"{self.server}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": "gpu-pools-verifier"}
        data = None
        if body is not None:
            headers["Content-Type"], data = body[0], body[1].encode()
        # A proxy of the environment must not come between: it would not reach the cluster's own address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *deadline.handlers(context))
        asked = urllib.request.Request(address, data=data, headers=headers, method=method)  # noqa: S310 - always https
        response: http.client.HTTPResponse = opener.open(asked, timeout=deadline.left())
        return response


def in_cluster(environment: Mapping[str, str], folder: Path) -> Api | None:
    """The API as a pod sees it; None outside a pod.

    Args:
        environment: the pod's environment variables.
        folder: with the service account's token and ca.crt.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return None
    shown = f"[{host}]" if ":" in host else host
    return Api(f"https://{shown}:{port}", folder / "token", folder / "ca.crt")


def _message(error: urllib.error.HTTPError) -> str:
    """The server's own words: a Status object, as a rule, with causes where several things stand against it."""
    text = error.read(65536).decode(errors="replace")
    try:
        status = json.loads(text)
        causes = [str(one["message"]) for one in (status.get("details") or {}).get("causes") or [] if one.get("message")]
        words = str(status["message"])
        return " ".join([words, *(cause for cause in causes if cause not in words)])[:_MESSAGE_LENGTH]
    except (ValueError, KeyError, TypeError, AttributeError):
        return " ".join(text.split())[:_MESSAGE_LENGTH] or str(error.reason)
