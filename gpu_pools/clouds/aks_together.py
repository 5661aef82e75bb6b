"""What AKS options of a pool need of the cluster and the other way round, as far as the stack file tells it: said beforehand.

Azure refuses all of this, some of it minutes into a deploy. Sources: azure-aks-docs at fb060abe (upgrade-aks-control-plane,
supported-kubernetes-versions, use-capacity-reservation-groups); NVIDIA/gpu-driver-container at db4f8bf8, azurelinux/README.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpu_pools.stack.clusters import AksSettings
from gpu_pools.stack.placements import AksPlacement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: Minor versions that a pool may be behind.
WIDEST_SKEW: Final = 3
_CLUSTER: Final = "gpu-pools:cluster"


def check_aks(settings: Settings, problems: Problems) -> None:
    """What pools and cluster ask for that does not go together."""
    cluster = settings.cluster
    if not isinstance(cluster, AksSettings):
        return
    for pool in settings.pools:
        if isinstance(pool.placement, AksPlacement):
            _check_version(pool, pool.placement, cluster, problems)


def aks_warnings(pool: Pool, driver: str) -> Iterator[str]:
    """What of a pool works with a catch.

    Args:
        pool: any.
        driver: who installs its driver.
    """
    placement = pool.placement
    if not isinstance(placement, AksPlacement):
        return
    if driver == "operator" and (placement.os_sku or "").startswith("AzureLinux"):
        yield (
            f"NVIDIA publishes no driver image for {placement.os_sku}, and its recipe for one is an experiment: have the driver "
            "installed by AKS (driver: preinstalled), or name an image of your own in gpu-pools:operator.values.driver"
        )


def _check_version(pool: Pool, placement: AksPlacement, cluster: AksSettings, problems: Problems) -> None:
    pinned, control_plane = placement.options.kubernetes_version, cluster.kubernetes_version
    if pinned is None or control_plane is None:
        return
    old, new = _parts(pinned), _parts(control_plane)
    newer = old[1] > new[1] or (old[1] == new[1] and len(old) == len(new) and old > new)
    if not newer and new[1] - old[1] <= WIDEST_SKEW:
        return
    problems.add(
        f"{pool.path}.kubernetesVersion",
        f"{pinned} is " + ("newer than" if newer else f"more than {WIDEST_SKEW} minor versions older than") + " the cluster's "
        f"kubernetesVersion, {control_plane}",
        allowed=f"1.{max(new[1] - WIDEST_SKEW, 0)} to {control_plane}",
        remedy=f"Raise `{_CLUSTER}.kubernetesVersion` first." if newer else "Raise it, or leave it out: the pool then follows.",
    )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
