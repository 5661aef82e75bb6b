"""The sandbox's one client of Kubernetes API servers: the official dynamic client, asked for plain JSON.

The library reads kubeconfigs, logs in, keeps the connections, sends the requests and finds the kinds. Added here is what it
leaves open: a log-in that is repeated while the last one is good, a limit to its own questions, watches, and errors that say what
the server says. Its objects with attributes are left out: to make them of a list costs several times what its JSON does. It
repeats nothing, since whoever asks here asks again anyway, and caches no objects (sandbox.machines.store does).

Paths are as the API has them, such as ``/api/v1/nodes``; `Api.path` finds one by kind. Many threads may use one `Api`.
"""

from __future__ import annotations

import functools
import json
import shutil
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from kubernetes.client import ApiException, Configuration
from kubernetes.config import ConfigException, new_client_from_config_dict
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ResourceNotFoundError
from kubernetes.watch.watch import iter_resp_lines
from urllib3.exceptions import HTTPError

from sandbox.cluster.api_errors import ApiError, UnknownKindError, UnreachableError
from sandbox.cluster.kubeconfig import login_program, read_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import urllib3
    from kubernetes.client import ApiClient
    from kubernetes.dynamic import Resource

    Json = dict[str, Any]

MERGE_PATCH: Final = "application/merge-patch+json"
_CONNECTIONS: Final = 32
#: To connect, and until something comes.
_TIMEOUT: Final = (5.0, 60.0)
_WATCH_SECONDS: Final = 600
#: A path that no file can have. The library would share what it has discovered in a file of a common name in the folder for
#: temporary files, which anybody may have put there, and which outlives the cluster that had this port before.
_NO_FILE: Final = "/dev/null/discovered"
#: What log-in programs give is good for longer: an hour Entra ID's tokens, ten minutes the sandbox's certificates.
_RENEW_SECONDS = 300.0
_ACCOUNT: Final = "system:serviceaccount:"
_HERE: Final = "localhost,127.0.0.0/8,::1"
_LOADER_LOCK = threading.Lock()


class _Client(DynamicClient):  # type: ignore[misc, unused-ignore]
    """The library's client, whose own questions (version, groups, kinds) have no limit of time otherwise."""

    def request(self, method: str, path: str, body: Any = None, **params: Any) -> Any:  # noqa: ANN401  (the library's)
        return super().request(method, path, body, **{"_request_timeout": _TIMEOUT, **params})


class Api:
    """An API server; where a program logs in, it does so again while what it gave is still good.

    Args:
        config: the content of a kubeconfig.
        context: which of its contexts; "" for the current one.
        acting_as: the user that the API server shall take us for, as an administrator; a service account has its own rights.

    Raises:
        UnreachableError: the kubeconfig is of no use. Whether a server answers is not asked.
    """

    def __init__(self, config: Mapping[str, Any], context: str = "", acting_as: str = "") -> None:
        self._config, self._context, self._acting_as = dict(config), context, acting_as
        self._login_lock, self._kinds_lock = threading.Lock(), threading.Lock()
        self._log_in()

    @classmethod
    def at(cls, kubeconfig: Path, acting_as: str = "") -> Self:
        """The server of a kubeconfig file."""
        return cls(read_kubeconfig(str(kubeconfig)), acting_as=acting_as)

    def _log_in(self) -> None:
        settings = Configuration()
        settings.connection_pool_maxsize = _CONNECTIONS
        settings.retries = False
        # A server on this machine is asked directly, whatever the environment says about proxies.
        settings.no_proxy = ",".join(filter(None, (settings.no_proxy, _HERE)))
        program = login_program(self._config, self._context)
        try:
            with _LOADER_LOCK:  # the loader keeps its temporary files in a global table
                client: ApiClient = new_client_from_config_dict(  # type: ignore[no-untyped-call]
                    self._config, context=self._context or None, persist_config=False, client_configuration=settings
                )
        except (ConfigException, ValueError, KeyError, TypeError, OSError) as error:
            raise UnreachableError(f"invalid configuration: {error}") from error
        if program and not (settings.api_key or settings.cert_file):
            # The loader only logs it; client-go says it so.
            why = "failed" if shutil.which(program) else "not found"
            raise UnreachableError(f"getting credentials: exec: executable {program} {why}")
        if self._acting_as:
            client.set_default_header("Impersonate-User", self._acting_as)  # type: ignore[no-untyped-call]
            if not self._acting_as.startswith(_ACCOUNT):
                client.set_default_header("Impersonate-Group", "system:masters")  # type: ignore[no-untyped-call]
        #: Where the API server is, e.g. ``https://127.0.0.1:6443``.
        self.server: str = client.configuration.host.rstrip("/")
        self._transport = client
        self._dynamic: _Client | None = None
        self._renew_at = time.monotonic() + _RENEW_SECONDS if program else float("inf")

    # ---------------------------------------------------------------- requests

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401  (JSON)
        **options: Any,  # noqa: ANN401  (as DynamicClient.request has them, such as field_manager or content_type)
    ) -> Json:
        """Send one request and return the answer's JSON object.

        Raises:
            ApiError: the server refused.
            UnreachableError: no server answered.
        """
        with self._asking(method, path):
            data = self._send(method, path, body, **options).data
        try:
            value = json.loads(data) if data else {}
        except ValueError:
            value = {}
        return value if isinstance(value, dict) else {}

    def text(self, path: str) -> str:
        """What a path answers that is text and not JSON, such as the metrics."""
        with self._asking("GET", path):
            return self._send("GET", path).data.decode(errors="replace")

    def get(self, path: str) -> Json | None:
        """One object, None if there is none."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.missing:
                return None
            raise

    def list(self, path: str) -> Json:
        """A whole collection."""
        return self.request("GET", path)

    def create(self, path: str, body: Json) -> Json:
        """Create an object in a collection."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: Json) -> Json:
        """Replace an object."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Json) -> Json:
        """Merge-patch an object; a resourceVersion in it makes the patch fail where the object has changed since."""
        return self.request("PATCH", path, body, content_type=MERGE_PATCH)

    def delete(self, path: str, *, uid: str | None = None, grace_seconds: int | None = None) -> None:
        """Delete an object; one that is gone, or has another uid by now, is fine."""
        body: Json = {"propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            self.request("DELETE", path, body)
        except ApiError as error:
            if not error.outdated:
                raise

    def watch(self, path: str, resource_version: str) -> Iterator[Json]:
        """Events of a collection from a version on, until the server ends the watch.

        Raises:
            ApiError: the version is too old, or the kind is gone.
            UnreachableError: the connection broke.
        """
        with self._asking("GET", path):
            response = self._send(
                "GET", path, watch=1, resource_version=resource_version, allow_watch_bookmarks="true",
                timeout_seconds=_WATCH_SECONDS, _request_timeout=(_TIMEOUT[0], _WATCH_SECONDS + 60.0),
            )  # fmt: skip
            try:
                yield from (json.loads(line) for line in iter_resp_lines(response) if line)  # type: ignore[no-untyped-call]
            finally:
                # The connection is inside a stream that has no end: it cannot go back into the pool.
                response.close()

    def probe(self) -> str:
        """The server's version, such as "v1.36.3".

        Raises:
            UnreachableError: no server answers.
        """
        try:
            return str(self.request("GET", "/version").get("gitVersion", ""))
        except ApiError as error:
            raise UnreachableError(f"the server refused: {error}") from error

    # ---------------------------------------------------------------- kinds

    def kind(self, api_version: str, kind: str) -> Resource:
        """Find a kind. One that is missing is looked for again: CRDs come at any time.

        Raises:
            UnknownKindError: the server has no such kind.
        """
        group = {} if "/" in api_version else {"prefix": "api"}  # else it would look for "v1" in every group
        with self._asking("GET", f"/apis/{api_version}"):
            client = self._connected()
            try:
                with self._kinds_lock:  # the library changes its table while it looks
                    found: Resource = client.resources.get(api_version=api_version, kind=kind, **group)
                    return found
            except ResourceNotFoundError:
                raise UnknownKindError(f'no matches for kind "{kind}" in version "{api_version}"') from None

    def path(self, api_version: str, kind: str, namespace: str = "", name: str = "") -> str:
        """The path of a kind's collection, or of one object.

        Raises:
            UnknownKindError: the server has no such kind.
        """
        return str(self.kind(api_version, kind).path(name=name, namespace=namespace))  # type: ignore[no-untyped-call]

    # ---------------------------------------------------------------- the library

    def _connected(self) -> _Client:
        """The library's client, made when it is first needed: it begins with questions to the server."""
        with self._login_lock:
            if time.monotonic() >= self._renew_at:
                self._log_in()
            if self._dynamic is None:
                self._dynamic = _Client(self._transport, cache_file=_NO_FILE)  # type: ignore[no-untyped-call]
            return self._dynamic

    def _send(self, method: str, path: str, body: Any = None, **options: Any) -> urllib3.BaseHTTPResponse:  # noqa: ANN401
        response: urllib3.BaseHTTPResponse = self._connected().request(method, path, body, serialize=False, **options)
        return response

    @contextmanager
    def _asking(self, method: str, path: str) -> Iterator[None]:
        """Make one of our errors of whatever the library raises."""
        try:
            yield
        except ApiException as error:
            if error.status:
                raise ApiError.of(error) from error
            raise UnreachableError(f"{method} {self.server}{path}: {error.reason}") from error
        except (HTTPError, OSError) as error:
            raise UnreachableError(f"{method} {self.server}{path}: {_plain(error)}") from error


def shared_client(kubeconfig: Path) -> Api:
    """Return the client of a kubeconfig file: the same one as long as the file says the same.

    A command looks at a cluster several times, and a new client begins with a handshake and questions of its own.

    Raises:
        UnreachableError: the kubeconfig is of no use.
        OSError: it cannot be read.
    """
    return _client_of(kubeconfig.read_text(encoding="utf-8"))


@functools.lru_cache
def _client_of(kubeconfig: str) -> Api:
    return Api(read_kubeconfig(kubeconfig))


def _plain(error: Exception) -> str:
    """The innermost cause in a transport error's text, without object addresses."""
    reason = getattr(error, "reason", None) or error
    return str(reason).rsplit(": ", 1)[-1] if "object at 0x" in str(reason) else str(reason)
