"""Which rights a repair needs, and which of them whoever asks has not: asked of the API itself, before anything is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.repairing.steps import leaving
from gpu_pools.verifier.api import shaped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_pools.repairing.looking import Look
    from gpu_pools.repairing.ways import Way
    from gpu_pools.verifier.api import Client

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, order=True)
class Right:
    """One right; in all namespaces where none is named."""

    verb: str
    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        """As messages show it."""
        return f"{self.verb} {self.resource}" + (f" in {self.namespace}" if self.namespace else "")


def needed(look: Look, ways: tuple[Way, ...], starting: Sequence[Mapping[str, object]], *, deletes: bool) -> tuple[Right, ...]:
    """What is needed for this; the right to read the node and its pods has been used already.

    Args:
        look: at the node.
        ways: what is done.
        starting: pods that start anew.
        deletes: whether pods that do not go are deleted.
    """
    evicted = {one.namespace for one in leaving(ways, look.seen)}
    deleted = {path.partition("/")[0] for path in (look.seen.pods[str(_uid(pod))] for pod in starting)}
    rights = {Right("patch", "nodes")}
    rights |= {Right("create", "pods/eviction", namespace) for namespace in evicted}
    rights |= {Right("delete", "pods", namespace) for namespace in (deleted | evicted if deletes else deleted)}
    return tuple(sorted(rights))


def missing(api: Client, rights: Sequence[Right]) -> tuple[Right, ...]:
    """Those that whoever asks has not.

    Raises:
        ApiError: where it cannot be asked.
    """
    return tuple(right for right in rights if not _has(api, right))


@shaped("the review of a right")
def _has(api: Client, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    asked = {"verb": right.verb, "resource": resource, "subresource": subresource, "namespace": right.namespace}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
    return (api.create(_REVIEWS, review).get("status") or {}).get("allowed") is True


def _uid(pod: Mapping[str, object]) -> object:
    metadata = pod["metadata"]
    return metadata["uid"] if isinstance(metadata, dict) else ""
