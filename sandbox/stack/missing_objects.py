"""Finds objects that the engine's state records and no cluster of the sandbox has.

The engine does not look for them by itself. An update that ended early may have deleted objects of a pool that the stack file
declares again by now, and then nothing would create them. On a real cloud the program fails with the remedy, `pulumi up
--refresh` (components/_recorded_objects.py); here `make up` refreshes exactly these resources.

Helm releases are left out: after a failed update the provider reads one as if it were whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandbox.cluster.api import Api
from sandbox.cluster.api_errors import ApiError, UnreachableError
from sandbox.providers.kube_objects import Objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def urns_of_missing(resources: Iterable[Mapping[str, Any]], clusters: Iterable[Path]) -> list[str]:
    """Return the URNs of the resources whose object is in none of the clusters.

    Args:
        resources: all of the state.
        clusters: folders of the clusters that run; one that does not answer is not looked at, and then nothing is missing.
    """
    apis = [Objects(Api.at(folder / "kubeconfig")) for folder in clusters]
    try:
        return [one["urn"] for one in resources if apis and _is_object(one) and not any(_has(api, one) for api in apis)]
    except (ApiError, UnreachableError):
        return []


def _is_object(resource: Mapping[str, Any]) -> bool:
    """Whether it is an object of the stack's own, or keys of one; not what a program only reads, and no release."""
    inputs = resource.get("inputs") or {}
    is_kubernetes = str(resource["type"]).startswith("kubernetes:") and not resource.get("external")
    return is_kubernetes and {"apiVersion", "kind", "metadata"} <= inputs.keys()


def _has(objects: Objects, resource: Mapping[str, Any]) -> bool:
    inputs = resource["inputs"]
    metadata = inputs["metadata"]
    found = objects.get(inputs["apiVersion"], inputs["kind"], metadata.get("namespace", ""), metadata["name"])
    written = inputs.get("data") if str(resource["type"]).endswith("ConfigMapPatch") else None
    return found is not None and (found.get("data") or {}).keys() >= (written or {}).keys()
