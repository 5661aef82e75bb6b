"""Sends requests to a cluster's API server through the official client, and gives plain JSON back.

It has the shape of the verifier's own client (gpu_pools/verifier/api.py), so what drains a node there drains it here. Each
request, with the log-in that it may need, runs on a thread of its own: a log-in program, a name server or a server that sends a
byte a second cannot keep a command longer than its limit, and Ctrl-C ends it at once.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gpu_pools.kubernetes_api.errors import ClusterError, late, refusal, unreachable
from gpu_pools.kubernetes_api.login import Kubeconfig, log_in, logged_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from kubernetes.client import ApiClient

_Answer = TypeVar("_Answer")
_MERGE: Final = "application/strategic-merge-patch+json"
_JSON: Final = "application/json"
#: Objects in a page of a list, as kubectl has it.
_PAGE: Final = "500"
_OK, _MORE_THAN_OK, _UNAUTHORIZED = 200, 300, 401
_NO_KUBERNETES: Final = "Check the server's address in the kubeconfig: what answers there is not a Kubernetes API server."


@dataclass(frozen=True)
class Limits:
    """How long is waited, in seconds.

    Attributes:
        connect: for a connection.
        read: for each part of an answer.
        whole: for a whole object or list, with all its pages and the log-in.
    """

    connect: float
    read: float
    whole: float


#: For a command that a user waits for.
COMMAND: Final = Limits(30, 60, 600)
#: For a hook of a deploy. A private API server does not answer at all.
HOOK: Final = Limits(5, 15, 60)


class ClusterApi:
    """A cluster's API; each method may raise ClusterError. As a context it takes files with keys away at the end.

    Args:
        kubeconfig: how to log in.
        limits: how long is waited.
        manager: who wrote it, as a changed object tells afterwards; empty for the client's own name.
    """

    def __init__(self, kubeconfig: Kubeconfig, limits: Limits = COMMAND, manager: str = "") -> None:
        self._kubeconfig, self._limits = kubeconfig, limits
        self._written_by = {"fieldManager": manager} if manager else {}
        self._client: ApiClient | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-pools-kubeconfig-", ignore_cleanup_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder:
            self._folder.cleanup()

    def log_in(self) -> None:
        """Log in before the first request: a kubeconfig that is of no use is not worth a second try."""
        self._in_time("log-in", self._logged_in)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """One object, or a list in one piece."""
        return self._in_time(f"GET {path}", lambda: self._answer("GET", path, query))

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """All objects of a list, page by page."""
        return self._in_time(f"GET {path}", lambda: list(self._pages(path, query)))

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object by a strategic merge patch; returns what it is then."""
        return self._in_time(f"PATCH {path}", lambda: self._answer("PATCH", path, self._written_by, body, _MERGE))

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make an object, or ask for what a subresource does; returns the answer."""
        return self._in_time(f"POST {path}", lambda: self._answer("POST", path, {}, body))

    def delete(self, path: str, uid: str) -> dict[str, Any]:
        """Delete an object if it is still the one with that uid."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        return self._in_time(f"DELETE {path}", lambda: self._answer("DELETE", path, {}, body))

    def _in_time(self, request: str, ask: Callable[[], _Answer]) -> _Answer:
        answered: Future[_Answer] = Future()

        def run() -> None:
            try:
                answered.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - raised on the thread that waits
                answered.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        try:
            return answered.result(self._limits.whole)
        except TimeoutError:
            raise late(request, self._limits.whole) from None

    def _pages(self, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        end = time.monotonic() + self._limits.whole
        after: object = None
        # Nobody reads on after that.
        while time.monotonic() < end:
            more = {"continue": str(after)} if after else {}
            page = self._answer("GET", path, {"limit": _PAGE, **query, **more})
            found = page.get("items")
            if not isinstance(found, list):
                raise ClusterError(f"GET {path}", None, "the answer is not a list of objects", _NO_KUBERNETES)
            yield from (one for one in found if isinstance(one, dict))
            metadata = page.get("metadata")
            after = metadata.get("continue") if isinstance(metadata, dict) else None
            if not after:
                return
        raise late(f"GET {path}", self._limits.whole)

    def _answer(
        self, method: str, path: str, query: dict[str, str], body: dict[str, Any] | None = None, content: str = _JSON
    ) -> dict[str, Any]:
        client = self._logged_in()
        from kubernetes.client import ApiException  # noqa: PLC0415 - it takes a third of a second to load
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - comes with the client

        headers = {"Accept": _JSON, "Content-Type": content}
        with logged_errors():
            # Here the client renews a token that is about to expire.
            asked = client.param_serialize(
                method, path, query_params=list(query.items()), header_params=headers, body=body, auth_settings=["BearerToken"]
            )
        try:
            answer = client.call_api(*asked, _request_timeout=(self._limits.connect, self._limits.read))
            text: bytes = answer.read()  # type: ignore[no-untyped-call]
        except (HTTPError, ApiException, OSError, ValueError) as error:
            raise unreachable(f"{method} {path}", client.configuration.host, error) from None
        if answer.status == _UNAUTHORIZED:
            # What a log-in program gave has expired: the next request logs in anew, as client-go does.
            self._client = None
        if not _OK <= answer.status < _MORE_THAN_OK:
            raise refusal(method, path, answer.status, text, answer.reason)
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ClusterError(f"{method} {path}", None, "the answer is not an object", _NO_KUBERNETES)
        return found

    def _logged_in(self) -> ApiClient:
        if self._client is None:
            self._client = log_in(self._kubeconfig, self._folder.name if self._folder else None)
        return self._client
