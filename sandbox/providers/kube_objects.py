"""Objects as they are declared, at an API server that knows their kinds, and the servers that the provider has to do with.

What the Kubernetes provider's stand-in does with an object whatever its kind, in terms of the one client (sandbox.cluster.api):
create and server-side apply with a field manager, dry runs, JSON patches. Nothing is decided here.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError, UnknownKindError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping

_APPLY = "application/apply-patch+yaml"
_JSON_PATCH = "application/json-patch+json"


class Objects:
    """The objects of an API server.

    Args:
        api: the server.
    """

    def __init__(self, api: Api) -> None:
        self.api = api

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object; None when it, or its kind, does not exist."""
        try:
            return self.api.get(self.api.path(api_version, kind, namespace, name))
        except UnknownKindError:
            return None

    def live(self, obj: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return an object as it is now; None when it does not exist."""
        return self.get(obj["apiVersion"], obj["kind"], _namespace(obj), obj["metadata"]["name"])

    def find(self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the objects of a namespace that carry all the labels."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        answer = self.api.request("GET", self.api.path(api_version, kind, namespace), label_selector=selector)
        items: list[dict[str, Any]] = answer.get("items", [])
        return items

    def create(self, obj: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> dict[str, Any]:
        """Create an object that must not exist yet."""
        path = self.api.path(obj["apiVersion"], obj["kind"], _namespace(obj))
        return self.api.request("POST", path, obj, field_manager=manager, **_dry(dry_run))

    def apply(self, obj: Mapping[str, Any], *, manager: str, force: bool = False, dry_run: bool = False) -> dict[str, Any]:
        """Apply an object on the server's side."""
        options = {"content_type": _APPLY, "field_manager": manager, "force_conflicts": force, **_dry(dry_run)}
        return self.api.request("PATCH", self._path(obj), obj, **options)

    def patch(self, obj: Mapping[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
        """Change an object by JSON patch."""
        return self.api.request("PATCH", self._path(obj), operations, content_type=_JSON_PATCH)

    def delete(self, obj: Mapping[str, Any], propagation: str) -> None:
        """Ask for the deletion of an object; one that does not exist is not an error."""
        try:
            self.api.request("DELETE", self._path(obj), {"propagationPolicy": propagation})
        except UnknownKindError:
            return
        except ApiError as error:
            if not error.missing:
                raise

    def _path(self, obj: Mapping[str, Any]) -> str:
        return self.api.path(obj["apiVersion"], obj["kind"], _namespace(obj), obj["metadata"]["name"])


class Servers:
    """The API servers in use: one client per kubeconfig and context, and for how long its answer to a probe counts."""

    _fresh_seconds = 2.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[tuple[str, str], Objects] = {}
        self._probed: dict[int, tuple[float, UnreachableError | None]] = {}

    def open(self, config: dict[str, Any], context: str) -> Objects:
        """The objects of a kubeconfig's server; it need not answer."""
        key = (json.dumps(config, sort_keys=True), context)
        with self._lock:
            if key not in self._opened:
                self._opened[key] = Objects(Api(config, context))
            return self._opened[key]

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
    return {"dry_run": "All"} if dry_run else {}
