"""A small client of a Kubernetes API server, generic over every kind that the server knows.

The official client does what is easy to get wrong: kubeconfig files, contexts, certificates, tokens. What it does
not have is used instead of its generated classes: plain dicts in and out, kinds found through API discovery (custom
resources included), server-side apply and dry runs. Its own dynamic client is not used because that keeps its
discovery in one file per machine, which several clusters on changing ports would share.

One `Api` serves many threads at once.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, new_client_from_config_dict
from urllib3.exceptions import HTTPError

if TYPE_CHECKING:
    from collections.abc import Mapping

_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_JSON_PATCH = "application/json-patch+json"
_TIMEOUT = urllib3.Timeout(connect=2.0, read=60.0)
_CONNECTIONS = 32
#: What log-in programs give is good for longer: an hour Entra ID's tokens, ten minutes the sandbox's certificates.
_RENEW_SECONDS = 300.0
_CONFIG_LOCK = threading.Lock()


class ApiError(Exception):
    """The API server refused. The text is the server's own.

    Attributes:
        status: the HTTP status.
        reason: the machine-readable reason, such as "AlreadyExists" ("" when there is none).
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class UnreachableError(Exception):
    """There is no answer from the API server, or no way to ask."""


class UnknownKindError(Exception):
    """The API server has no such kind (its CRD is not installed yet, or not any more)."""


@dataclass(frozen=True)
class Kind:
    """One kind of object, as discovered.

    Attributes:
        prefix: the path of its group and version, such as "/apis/apps/v1".
        plural: the last part of its path, such as "daemonsets".
        namespaced: whether its objects live in namespaces.
    """

    prefix: str
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        """The path of the collection, or of one object."""
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.prefix}{scope}/{self.plural}" + (f"/{name}" if name else "")


def read_kubeconfig(kubeconfig: str) -> dict[str, Any]:
    """Take a kubeconfig given by its content or by its path.

    Raises:
        UnreachableError: it is neither, or holds no cluster.
    """
    text = kubeconfig
    if "\n" not in kubeconfig and not kubeconfig.lstrip().startswith("{"):
        try:
            text = Path(kubeconfig).expanduser().read_text(encoding="utf-8")
        except OSError as error:
            raise UnreachableError(f"unable to read kubeconfig file {kubeconfig!r}: {error.strerror}") from error
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UnreachableError("failed to parse kubeconfig data: it is not valid YAML") from error
    if not isinstance(config, dict) or not config.get("clusters"):
        raise UnreachableError("invalid configuration: no configuration has been provided: the kubeconfig has no clusters")
    return config


def context_namespace(config: Mapping[str, Any], context: str) -> str:
    """The namespace that a kubeconfig's context names, "" when it names none."""
    wanted = context or config.get("current-context", "")
    for entry in config.get("contexts") or []:
        if entry.get("name") == wanted:
            return str(entry.get("context", {}).get("namespace") or "")
    return ""


def _login_program(config: Mapping[str, Any], context: str) -> str:
    """The program with which a kubeconfig's context logs in, "" when it needs none."""
    wanted = context or config.get("current-context", "")
    users = [(entry.get("context") or {}).get("user") for entry in config.get("contexts") or [] if entry.get("name") == wanted]
    found = [entry.get("user") or {} for entry in config.get("users") or [] if entry.get("name") in users]
    return str((found[0].get("exec") or {}).get("command") or "") if found else ""


class Api:
    """An API server; where a program logs in, it does so again while what it gave is still good.

    Args:
        config: the content of a kubeconfig.
        context: which of its contexts; "" for the current one.

    Raises:
        UnreachableError: the kubeconfig is of no use.
    """

    def __init__(self, config: dict[str, Any], context: str) -> None:
        self._config, self._context = config, context
        self._kinds: dict[str, dict[str, Kind]] = {}
        self._lock, self._login_lock = threading.Lock(), threading.Lock()
        self._log_in()

    def _log_in(self) -> None:
        settings = Configuration()
        settings.connection_pool_maxsize = _CONNECTIONS
        program = _login_program(self._config, self._context)
        try:
            with _CONFIG_LOCK:  # the loader keeps its temporary files in a global table
                self._client = new_client_from_config_dict(  # type: ignore[no-untyped-call]
                    self._config, context=self._context or None, persist_config=False, client_configuration=settings
                )
        except (ConfigException, ValueError, KeyError, TypeError, OSError) as error:
            raise UnreachableError(f"invalid configuration: {error}") from error
        if program and not (settings.api_key or settings.cert_file):
            # The loader only logs it; client-go says it so.
            why = "failed" if shutil.which(program) else "not found"
            raise UnreachableError(f"getting credentials: exec: executable {program} {why}")
        self._pool = self._client.rest_client.pool_manager
        self.server: str = self._client.configuration.host.rstrip("/")
        self._renew_at = time.monotonic() + _RENEW_SECONDS if program else float("inf")

    # ---------------------------------------------------------------- requests

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401  (JSON)
        *,
        query: Mapping[str, str] | None = None,
        content: str = _JSON,
    ) -> dict[str, Any]:
        """Send one request and return the answer's JSON object.

        Raises:
            ApiError: the server refused.
            UnreachableError: no server answered.
        """
        with self._login_lock:
            if time.monotonic() >= self._renew_at:
                self._log_in()
        headers: dict[str, str] = {"Accept": _JSON, "Content-Type": content}
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        try:
            response = self._pool.request(
                method,
                self.server + path + (f"?{_encode(query)}" if query else ""),
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=_TIMEOUT,
                retries=False,
            )
        except (HTTPError, OSError) as error:
            raise UnreachableError(f"{method} {self.server}{path}: {_plain(error)}") from error
        return _answer(response.status, response.data)

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

    def kind(self, api_version: str, kind: str) -> Kind:
        """Find a kind. One that is missing is looked for again: CRDs come at any time.

        Raises:
            UnknownKindError: the server has no such kind.
        """
        with self._lock:
            known = self._kinds.get(api_version, {})
            if kind not in known:
                known = self._kinds[api_version] = self._discover(api_version)
        try:
            return known[kind]
        except KeyError:
            raise UnknownKindError(f'no matches for kind "{kind}" in version "{api_version}"') from None

    def _discover(self, api_version: str) -> dict[str, Kind]:
        prefix = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            found = self.request("GET", prefix)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return {}
            raise
        return {
            item["kind"]: Kind(prefix, item["name"], item["namespaced"])
            for item in found.get("resources", [])
            if "/" not in item["name"]
        }

    # ---------------------------------------------------------------- objects

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object; None when it, or its kind, does not exist."""
        try:
            return self.request("GET", self.kind(api_version, kind).path(namespace, name))
        except UnknownKindError:
            return None
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def find(self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the objects of a namespace that carry all the labels."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        answer = self.request("GET", self.kind(api_version, kind).path(namespace), query={"labelSelector": selector})
        items: list[dict[str, Any]] = answer.get("items", [])
        return items

    def create(self, obj: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> dict[str, Any]:
        """Create an object that must not exist yet."""
        kind = self.kind(obj["apiVersion"], obj["kind"])
        query = {"fieldManager": manager, **_dry(dry_run)}
        return self.request("POST", kind.path(_namespace(obj)), obj, query=query)

    def apply(self, obj: Mapping[str, Any], *, manager: str, force: bool = False, dry_run: bool = False) -> dict[str, Any]:
        """Apply an object on the server's side."""
        path = self.kind(obj["apiVersion"], obj["kind"]).path(_namespace(obj), obj["metadata"]["name"])
        query = {"fieldManager": manager, "force": str(force).lower(), **_dry(dry_run)}
        return self.request("PATCH", path, obj, query=query, content=_APPLY)

    def patch(self, obj: Mapping[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
        """Change an object by JSON patch."""
        path = self.kind(obj["apiVersion"], obj["kind"]).path(_namespace(obj), obj["metadata"]["name"])
        return self.request("PATCH", path, operations, content=_JSON_PATCH)

    def delete(self, obj: Mapping[str, Any], propagation: str) -> None:
        """Ask for the deletion of an object; one that does not exist is not an error."""
        try:
            path = self.kind(obj["apiVersion"], obj["kind"]).path(_namespace(obj), obj["metadata"]["name"])
            self.request("DELETE", path, {"propagationPolicy": propagation})
        except UnknownKindError:
            return
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


class ApiPool:
    """The API servers in use: one `Api` per kubeconfig and context, and for how long its answer to a probe counts."""

    _fresh_seconds = 2.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._apis: dict[tuple[str, str], Api] = {}
        self._probed: dict[int, tuple[float, UnreachableError | None]] = {}

    def open(self, config: dict[str, Any], context: str) -> Api:
        """The client for a kubeconfig; it need not answer."""
        key = (json.dumps(config, sort_keys=True), context)
        with self._lock:
            if key not in self._apis:
                self._apis[key] = Api(config, context)
            return self._apis[key]

    def check(self, api: Api) -> None:
        """Find out, at most every two seconds, whether a server answers.

        Raises:
            UnreachableError: it does not.
        """
        with self._lock:
            at, error = self._probed.get(id(api), (float("-inf"), None))
            if time.monotonic() - at >= self._fresh_seconds:
                try:
                    api.probe()
                    error = None
                except UnreachableError as failure:
                    error = failure
                self._probed[id(api)] = (time.monotonic(), error)
        if error is not None:
            raise UnreachableError(str(error)) from error


def _namespace(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"].get("namespace") or "")


def _dry(dry_run: bool) -> dict[str, str]:  # noqa: FBT001
    return {"dryRun": "All"} if dry_run else {}


def _encode(query: Mapping[str, str]) -> str:
    return urlencode(query)


def _plain(error: Exception) -> str:
    """The innermost cause in a transport error's text, without object addresses."""
    reason = getattr(error, "reason", None) or error
    return str(reason).rsplit(": ", 1)[-1] if "object at 0x" in str(reason) else str(reason)


def _answer(status: int, data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data) if data else {}
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    if status < HTTPStatus.BAD_REQUEST:
        return body
    message = body.get("message") or data.decode(errors="replace").strip() or f"HTTP status {status}"
    raise ApiError(status, str(body.get("reason") or ""), message)
