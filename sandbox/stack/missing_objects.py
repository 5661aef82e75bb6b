"""Finds objects that the engine's state records and no cluster of the sandbox has.

The engine does not look for them by itself. An update that ended early may have deleted objects of a pool that the stack file
declares again by now, and then nothing would create them. On a real cloud the program fails with the remedy, `pulumi up
--refresh` (components/kubernetes/recorded_objects.py); here `make up` refreshes exactly these resources.

Objects are listed, a kind and a namespace at a time: a stack has hundreds of objects, of a dozen kinds.

Helm releases are left out: after a failed update the provider reads one as if it were whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sandbox.cluster.api import shared_client
from sandbox.cluster.api_errors import ApiError, UnknownKindError, UnreachableError
from sandbox.providers.kube_objects import Objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    Object = Mapping[str, Any]


def urns_of_missing(resources: Iterable[Mapping[str, Any]], clusters: Iterable[Path]) -> list[str]:
    """Return the URNs of the resources whose object is in none of the clusters.

    Args:
        resources: all of the state.
        clusters: folders of the clusters that run; one that does not answer is not looked at, and then nothing is missing.
    """
    try:
        listed = [_Listed(Objects(shared_client(folder / "kubeconfig"))) for folder in clusters]
        return [one["urn"] for one in resources if listed and _is_object(one) and not any(_has(there, one) for there in listed)]
    except (ApiError, UnreachableError):
        return []


@dataclass(frozen=True)
class _Listed:
    """The objects of a cluster, each list read when it is first needed.

    Attributes:
        objects: of the cluster.
        lists: (apiVersion, kind, namespace) -> name -> object.
    """

    objects: Objects
    lists: dict[tuple[str, str, str], Mapping[str, Object]] = field(default_factory=dict)

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        """Return an object; None where it, or its kind, does not exist."""
        place = (api_version, kind, namespace)
        if place not in self.lists:
            self.lists[place] = {one["metadata"]["name"]: one for one in self._find(*place)}
        return self.lists[place].get(name)

    def _find(self, api_version: str, kind: str, namespace: str) -> Iterable[Object]:
        try:
            return self.objects.find(api_version, kind, namespace, {})
        except UnknownKindError:
            return ()
        except ApiError as error:
            if error.missing:
                return ()
            raise


def _is_object(resource: Mapping[str, Any]) -> bool:
    """Whether it is an object of the stack's own, or keys of one; not what a program only reads, and no release."""
    inputs = resource.get("inputs") or {}
    is_kubernetes = str(resource["type"]).startswith("kubernetes:") and not resource.get("external")
    return is_kubernetes and {"apiVersion", "kind", "metadata"} <= inputs.keys()


def _has(listed: _Listed, resource: Mapping[str, Any]) -> bool:
    inputs = resource["inputs"]
    metadata = inputs["metadata"]
    found = listed.get(inputs["apiVersion"], inputs["kind"], metadata.get("namespace", ""), metadata["name"])
    written = inputs.get("data") if str(resource["type"]).endswith("ConfigMapPatch") else None
    return found is not None and (found.get("data") or {}).keys() >= (written or {}).keys()
