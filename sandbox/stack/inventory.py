"""Every object of a cluster by kind and name, to compare what was there before a deploy with what is there after it.

Left out is what a cluster makes and drops by itself at any time: events, leases, endpoints, node heartbeats and the like; and
what another object owns: it goes with its owner, and an operator that was there makes and drops its own.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError
from sandbox.machines import pool_guard
from sandbox.system.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_BEFORE: Final = "objects-before.json"
_NEW_KIND_SECONDS: Final = 30
_POLL_SECONDS: Final = 0.3
_OWN_DOING: Final = frozenset(
    {"events", "leases", "endpoints", "endpointslices", "componentstatuses", "nodes", "controllerrevisions"}
)
#: Made in every namespace by the controllers, whenever they get to it.
_IN_EVERY_NAMESPACE: Final = (("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default"))
#: Helm installs the CRDs of a chart and by design never deletes them; so do these stand-in charts.
KEPT_BY_HELM: Final = ("customresourcedefinitions/", "apiservices/")


def remember(cluster_folder: Path) -> None:
    """Keep the inventory of a cluster before anything is deployed to it; a second call changes nothing."""
    if not is_remembered(cluster_folder):
        write_json(cluster_folder / _BEFORE, {"objects": sorted(inventory(cluster_folder / "kubeconfig"))})


def is_remembered(cluster_folder: Path) -> bool:
    """Whether a cluster was there before the deploy."""
    return (cluster_folder / _BEFORE).exists()


def left_behind(cluster_folder: Path) -> list[str]:
    """The objects that were not there before, without what Helm keeps by design and what is Azure's own."""
    before = set(read_json(cluster_folder / _BEFORE).get("objects", ()))
    found = inventory(cluster_folder / "kubeconfig") - before
    return sorted(name for name in found if not name.startswith(KEPT_BY_HELM) and not name.endswith(f"/{pool_guard.NAME}"))


def inventory(kubeconfig: Path) -> set[str]:
    """All objects as ``kind/namespace/name`` or ``kind/name``."""
    return {name for kind, item in listed(Api.at(kubeconfig), _OWN_DOING) if (name := _name(kind.rpartition("/")[2], item))}


def listed(api: Api, without: Collection[str] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """(``group/plural``, object) of everything that can be listed, each kind in one version.

    Args:
        api: of the cluster.
        without: plural names of what is not asked for.
    """
    for path, kind in _collections(api):
        if kind.rpartition("/")[2] not in without:
            yield from ((kind, item) for item in _items(api, path))


def _collections(api: Api) -> Iterator[tuple[str, str]]:
    """(path, ``group/plural``) of every kind; in the version that its group prefers, or in the first that has it."""
    seen: set[str] = set()
    for group, version in _versions(api):
        prefix = f"/apis/{group}/{version}" if group else "/api/v1"
        for resource in _items(api, prefix, "resources"):
            kind = f"{group}/{resource['name']}"
            if "/" not in resource["name"] and "list" in resource["verbs"] and kind not in seen:
                seen.add(kind)
                yield f"{prefix}/{resource['name']}", kind


def _versions(api: Api) -> Iterator[tuple[str, str]]:
    yield "", "v1"
    for group in api.list("/apis")["groups"]:
        preferred = group["preferredVersion"]["version"]
        others = [one["version"] for one in group["versions"] if one["version"] != preferred]
        yield from ((group["name"], version) for version in (preferred, *others))


def _name(kind: str, item: dict[str, Any]) -> str:
    """Empty where it is nothing of its own."""
    metadata = item["metadata"]
    if (kind, metadata["name"]) in _IN_EVERY_NAMESPACE or metadata.get("ownerReferences"):
        return ""
    return "/".join(part for part in (kind, metadata.get("namespace"), metadata["name"]) if part)


def _items(api: Api, path: str, of: str = "items") -> list[dict[str, Any]]:
    """The objects of a collection; none where its kind has gone since. A kind that has just come is waited for, as clients do.

    The API server answers 429 until it has read a new kind's objects (apiserver, storage/cacher: "storage is (re)initializing").
    """
    end = time.monotonic() + _NEW_KIND_SECONDS
    while True:
        try:
            items: list[dict[str, Any]] = api.list(path).get(of, [])
        except ApiError as error:
            if error.missing:
                return []
            if error.status != HTTPStatus.TOO_MANY_REQUESTS or time.monotonic() > end:
                raise
        else:
            return items
        time.sleep(_POLL_SECONDS)
