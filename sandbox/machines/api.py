"""The Kubernetes API as plain JSON, over the official client's transport.

The client brings the kubeconfig, TLS and the connection pool; its typed models and its retries are left out, because the
daemon reads thousands of objects and repeats every step anyway. Nothing here caches; see store.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from kubernetes import client, config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import urllib3

    from sandbox.machines.objects import Json

_LOG = logging.getLogger("sandbox.machines")
_NOT_FOUND, _CONFLICT, _GONE = 404, 409, 410
_OK_BELOW = 300
_CONNECTIONS = 24
_TIMEOUT = (5.0, 20.0)
_WATCH_SECONDS = 600
_WATCH_TIMEOUT = (5.0, _WATCH_SECONDS + 60.0)
MERGE = "application/merge-patch+json"


@dataclass
class ApiError(Exception):
    """An answer that is not a success.

    Attributes:
        status: the HTTP status code.
        message: the API server's own words.
    """

    status: int
    message: str

    @property
    def missing(self) -> bool:
        """There is no such object or kind."""
        return self.status == _NOT_FOUND

    @property
    def outdated(self) -> bool:
        """Somebody else was faster; the next pass sees the new state."""
        return self.status in {_NOT_FOUND, _CONFLICT, _GONE}

    def __str__(self) -> str:
        """Status and message."""
        return f"{self.status}: {self.message}"


class Api:
    """Requests to one API server."""

    def __init__(self, kubeconfig: Path, acting_as: str | None = None) -> None:
        """Read the kubeconfig's current context.

        Args:
            kubeconfig: of an administrator.
            acting_as: the user that the API server shall take us for, with the same rights.
        """
        self._headers: dict[str, str] = {}
        if acting_as:
            self._headers = {"Impersonate-User": acting_as, "Impersonate-Group": "system:masters"}
        configuration = client.Configuration()
        config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
        configuration.proxy = None  # The server is on loopback, whatever the environment says about proxies.
        configuration.connection_pool_maxsize = _CONNECTIONS
        self._host = configuration.host
        self._rest = client.ApiClient(configuration).rest_client

    @property
    def server(self) -> str:
        """Where the API server is, e.g. ``https://127.0.0.1:6443``."""
        return str(self._host)

    def get(self, path: str) -> Json | None:
        """One object, None if there is none."""
        try:
            return self._json("GET", path)
        except ApiError as error:
            if error.missing:
                return None
            raise

    def list(self, path: str) -> Json:
        """A whole collection."""
        return self._json("GET", path)

    def create(self, path: str, body: Json) -> Json:
        """Create an object in a collection."""
        return self._json("POST", path, body)

    def replace(self, path: str, body: Json) -> Json:
        """Replace an object."""
        return self._json("PUT", path, body)

    def patch(self, path: str, body: Json) -> Json:
        """Merge-patch an object; a resourceVersion in it makes the patch fail where the object has changed since."""
        return self._json("PATCH", path, body, MERGE)

    def delete(self, path: str, *, uid: str | None = None, grace_seconds: int | None = None) -> None:
        """Delete an object; one that is gone, or has another uid by now, is fine."""
        body: Json = {"propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            self._json("DELETE", path, body)
        except ApiError as error:
            if not error.outdated:
                raise

    def watch(self, path: str, resource_version: str) -> Iterator[Json]:
        """Events of a collection from a version on, until the server ends the watch.

        Raises:
            ApiError: if the version is too old, or the kind is gone.
        """
        options = {
            "watch": 1,
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": _WATCH_SECONDS,
        }
        query = urlencode(options)
        response = self._send("GET", f"{path}?{query}", {"Accept": "application/json"}, None, _WATCH_TIMEOUT)
        try:
            if response.status >= _OK_BELOW:
                raise ApiError(response.status, response.read().decode(errors="replace")[:500])
            rest = b""
            for chunk in response.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
        finally:
            # The connection is inside a stream that has no end: it cannot go back into the pool.
            response.close()

    def _json(self, method: str, path: str, body: Json | None = None, content_type: str = "application/json") -> Json:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        response = self._send(method, path, headers, body, _TIMEOUT)
        data = response.read()
        response.release_conn()
        if response.status >= _OK_BELOW:
            raise ApiError(response.status, _message(data))
        value: Json = json.loads(data) if data else {}
        return value

    def _send(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: Json | None,
        timeout: tuple[float, float],
    ) -> urllib3.BaseHTTPResponse:
        request = self._rest.request
        url = f"{self._host}{path}"
        headers = {**headers, **self._headers}
        answer = request(method, url, headers=headers, body=body, _request_timeout=timeout)  # type: ignore[no-untyped-call]
        response: urllib3.BaseHTTPResponse = answer.response
        return response


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace")[:500]
