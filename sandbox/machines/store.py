"""A cache of the cluster's objects, filled by watches, and the event that wakes the daemon.

As a client-go informer: list, then watch from there, list again when the server has forgotten the version. Kinds that do
not exist yet (custom resources) are tried again until they do. Own writes are put in at once, so that a step never
repeats what it has just done; the watch's echo of an older version does not undo that.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.cluster.api_errors import ApiError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.cluster.api import Api
    from sandbox.machines.objects import Json

_LOG = logging.getLogger("sandbox.machines")
_RETRY_SECONDS = 0.5

KINDS: Mapping[str, str] = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "configmaps": "/api/v1/configmaps",
    "daemonsets": "/apis/apps/v1/daemonsets",
    "runtimeclasses": "/apis/node.k8s.io/v1/runtimeclasses",
    "clusterpolicies": "/apis/nvidia.com/v1/clusterpolicies",
    "nodefeatures": "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeatures",
}


@dataclass
class _Cache:
    objects: dict[str, Json] = field(default_factory=dict)
    # Uids that were deleted while an older copy of them may still come back from an own write.
    deleted: set[str] = field(default_factory=set)
    listed: bool = False


class Store:
    """Objects by kind and namespace/name, kept in step with the API server."""

    def __init__(self, api: Api) -> None:
        """Make an empty store; start() fills it."""
        self.api = api
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._caches = {kind: _Cache() for kind in KINDS}

    def start(self) -> None:
        """Begin to watch, one thread per kind."""
        for kind in KINDS:
            threading.Thread(target=self._follow, args=(kind,), name=f"watch {kind}", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait for a change, at most that long; say whether there was one."""
        if not self._changed.wait(seconds):
            # Not cleared: a change that comes just now is for the next wait.
            return False
        self._changed.clear()
        return True

    def wake(self) -> None:
        """Make the next wait return at once."""
        self._changed.set()

    def ready(self) -> bool:
        """Whether every kind has been listed that is always there."""
        with self._lock:
            return all(self._caches[kind].listed for kind in ("nodes", "pods", "configmaps", "daemonsets"))

    def all(self, kind: str) -> list[Json]:
        """All objects of a kind now."""
        with self._lock:
            return list(self._caches[kind].objects.values())

    def by_name(self, kind: str) -> dict[str, Json]:
        """All objects of a kind now, by "namespace/name" or plain name."""
        with self._lock:
            return dict(self._caches[kind].objects)

    def wrote(self, kind: str, obj: Json) -> None:
        """Take over what the API server answered to an own write."""
        with self._lock:
            self._put(self._caches[kind], obj)

    def removed(self, kind: str, obj: Json) -> None:
        """Forget an object that was deleted by an own request."""
        with self._lock:
            self._drop(self._caches[kind], obj)

    def _follow(self, kind: str) -> None:
        while True:
            try:
                self._list_and_watch(kind)
            except ApiError as error:
                if not error.outdated:
                    _LOG.warning("watch of %s: %s", kind, error)
                self._forget_if_gone(kind, error)
            except UnreachableError as error:
                _LOG.info("watch of %s: %s", kind, error)
            except Exception:  # noqa: BLE001 a watch that ended for good would leave the cache wrong in silence
                _LOG.exception("watch of %s", kind)
            time.sleep(_RETRY_SECONDS)

    def _list_and_watch(self, kind: str) -> None:
        listing = self.api.list(KINDS[kind])
        with self._lock:
            self._caches[kind] = _Cache({_key(item): item for item in listing["items"]}, listed=True)
        self._changed.set()
        version = listing["metadata"]["resourceVersion"]
        while True:
            for event in self.api.watch(KINDS[kind], version):
                if event["type"] == "ERROR":
                    return
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._take(kind, event)

    def _take(self, kind: str, event: Json) -> None:
        with self._lock:
            if event["type"] == "DELETED":
                self._drop(self._caches[kind], event["object"])
            else:
                self._put(self._caches[kind], event["object"])
        self._changed.set()

    def _forget_if_gone(self, kind: str, error: ApiError) -> None:
        """A kind whose definition was removed has no objects."""
        if error.missing:
            with self._lock:
                had_some = bool(self._caches[kind].objects)
                self._caches[kind] = _Cache()
            if had_some:
                self._changed.set()

    @staticmethod
    def _put(cache: _Cache, obj: Json) -> None:
        old = cache.objects.get(_key(obj))
        if obj["metadata"]["uid"] in cache.deleted or (old is not None and _version(old) > _version(obj)):
            return
        cache.objects[_key(obj)] = obj

    @staticmethod
    def _drop(cache: _Cache, obj: Json) -> None:
        known = cache.objects.get(_key(obj))
        cache.deleted.add(obj["metadata"]["uid"])
        if known is not None and known["metadata"]["uid"] == obj["metadata"]["uid"]:
            del cache.objects[_key(obj)]


def _key(obj: Json) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])
