"""What a pod writes to get a share of a pool, and which key a ResourceQuota must have to count it.

Follows from the advertised names alone. An extended resource is counted as ``requests.<name>`` only: a quota on the plain name,
or on ``limits.<name>``, has no effect and says nothing (Kubernetes documentation, Resource Quotas; incident D17).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpus.sharing import Mig, Mps, TimeSlicing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpus.sharing import Sharing


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


def pod_requests(sharing: Sharing, advertises: Mapping[str, int], *, refuses_two: bool = False) -> tuple[PodRequest, ...]:
    """What pods can ask for on a node that advertises these resources (name -> count).

    `refuses_two`: the device plugin refuses requests for two or more whatever the declaration says.
    """
    shared = sharing.time_slicing if isinstance(sharing, Mig) else sharing
    one_only = refuses_two or (isinstance(shared, TimeSlicing | Mps) and shared.fail_requests_greater_than_one)
    return tuple(PodRequest(name, 1 if one_only else count) for name, count in advertises.items())
