"""What a pod writes to get a share of a pool, and which key a ResourceQuota must have to count it.

Follows from the advertised names alone. An extended resource is counted as ``requests.<name>`` only: a quota on the plain name,
or on ``limits.<name>``, has no effect and says nothing (Kubernetes documentation, Resource Quotas; incident D17).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_pools.hardware.resource_names import WHOLE_GPU, mig_resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.sharing.mode import Replicated, Sharing


@dataclass(frozen=True)
class PodRequest:
    """One resource of a pool, as pods ask for it.

    Attributes:
        resource: the name below ``resources.limits`` of a container.
        most: how many of it one pod can get: 1 where the plugin refuses more (failRequestsGreaterThanOne), else a node's all.
    """

    resource: str
    most: int

    @property
    def quota(self) -> str:
        """The key in a ResourceQuota's ``hard``."""
        return f"requests.{self.resource}"

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"resource": self.resource, "mostPerPod": self.most, "quota": self.quota}


def pod_requests(sharing: Sharing, advertises: Mapping[str, int], *, refuses_two: bool) -> tuple[PodRequest, ...]:
    """What pods can ask for on a node that advertises these resources (name -> count).

    `refuses_two`: the device plugin refuses requests for two or more whatever the declaration says.
    """
    return tuple(PodRequest(name, 1 if refuses_two or _one_only(sharing, name) else count) for name, count in advertises.items())


def _one_only(sharing: Sharing, resource: str) -> bool:
    """Whether a resource is shared and a request for two is refused; what is not shared is never refused."""
    shared = _shared_by(sharing, resource.removesuffix(".shared"))
    return shared is not None and shared.fail_requests_greater_than_one


def _shared_by(sharing: Sharing, resource: str) -> Replicated | None:
    """How the units of a resource are shared; under MIG strategy single all instances are nvidia.com/gpu, else whole GPUs are."""
    if resource == WHOLE_GPU:
        return sharing.replication_of(sharing.uniform_profile)
    profiles = {mig_resource(profile): profile for layout in sharing.layouts for profile, _ in layout}
    return sharing.replication_of(profiles[resource])
