"""How the system pool follows its control plane to another version of Kubernetes, as pure functions.

Its version cannot go with the cluster's request, which takes versions of all pools or of none, and no resource of the stack is
the pool. So the cluster's component sends a request for the one pool (components/aks/system_pool.py); here is whether one is due,
what it says, and what users are told. Deliberately not here: versions of GPU pools, which are resources of their own, and the
system pools of clusters that a stack only uses.

The request is that of `az aks nodepool upgrade`: the pool as Azure shows it, with another version, without what is only shown and
without the snapshot that it was made of (azure-cli, acs/custom.py `aks_agentpool_upgrade`; what is only shown: the recording
test_aks_nodepool_update_label_msi there, and the models of azure-mgmt-containerservice 41.8.0).
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks.changes import SYSTEM_POOL
from gpu_pools.platforms.aks.options import MOVING_CHANNELS
from gpu_pools.platforms.aks.versions import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.platforms.aks.answers import MadeCluster
    from gpu_pools.platforms.aks.cluster import AksSettings

_ONLY_SHOWN: Final = {"eTag", "currentOrchestratorVersion", "provisioningState", "nodeImageVersion", "creationData"}


@dataclass(frozen=True)
class Raise:
    """From which version to which the system pool goes."""

    was: str
    to: str


def to_raise(made: MadeCluster | None) -> Raise | None:
    """What is due: the control plane's own version, where the system pool is behind it.

    Args:
        made: the cluster as it is; None: there is none.
    """
    pool = made.pools.get(SYSTEM_POOL) if made else None
    if made is None or pool is None or not pool.version or numbers(pool.version) >= numbers(made.version):
        return None
    return Raise(pool.version, made.version)


def due(version: str, pool: Mapping[str, Any]) -> Raise | None:
    """The same by what Azure answers of the pool; one that has failed is asked for again, whatever version it shows.

    Args:
        version: of the control plane.
        pool: as Azure answers it.
    """
    shown = pool["properties"]
    was = str(shown.get("currentOrchestratorVersion") or "")
    is_behind = bool(was) and numbers(was) < numbers(version)
    return Raise(was, version) if is_behind or shown.get("provisioningState") == "Failed" else None


def raise_request(pool: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The body of the request.

    Args:
        pool: as Azure answers it.
        version: that it shall have.
    """
    kept = {key: value for key, value in pool["properties"].items() if key not in _ONLY_SHOWN}
    return {"properties": {**kept, "orchestratorVersion": version}}


def announced(old: Mapping[str, Any], new: Mapping[str, Any], told: object) -> str | None:
    """What a change of the cluster does to its system pool; None: nothing.

    Args:
        old: inputs of the cluster that are deployed.
        new: those that shall be.
        told: its pools, as AKS has told them last.
    """
    version = raised(old, new, "kubernetesVersion")
    if version is None:
        return None
    pools = {one.get("name"): one for one in told if isinstance(one, dict)} if isinstance(told, list) else {}
    was = pools.get(SYSTEM_POOL, {}).get("currentOrchestratorVersion")
    start = f" from {was}" if isinstance(was, str) else ""
    return (
        f"the pool `{SYSTEM_POOL}` is raised{start} to Kubernetes {version} after the control plane and before the GPU pools: "
        "Azure replaces its nodes in turn, beside nodes of surge, and evicts their pods"
    )


def raised(old: Mapping[str, Any], new: Mapping[str, Any], key: str) -> str | None:
    """The version that a change asks for; None: none, or that of before."""
    version = new.get(key)
    return version if isinstance(version, str) and version != old.get(key) else None


def left_to_others(group: object, cluster: object, version: str, why: str) -> str:
    """What is to be done by hand, where the system pool cannot be asked for here."""
    return (
        f"the pool `{SYSTEM_POOL}` does not follow the control plane to Kubernetes {version} by itself ({why}). After the "
        f"deploy: {system_pool_upgrade(group, cluster, version)}"
    )


def system_pool_upgrade(group: object, cluster: object, version: str) -> str:
    """The command that has the system pool follow."""
    place = ["--resource-group", str(group), "--cluster-name", str(cluster), "--name", SYSTEM_POOL]
    return shlex.join(["az", "aks", "nodepool", "upgrade", *place, "--kubernetes-version", version])


def judge_system_pool(cluster: AksSettings, made: MadeCluster | None) -> Iterator[str]:
    """A system pool that is behind its control plane, as a warning; of a cluster that only is used it is its owner's matter.

    Args:
        cluster: of the stack.
        made: as it is.
    """
    step = to_raise(made)
    upgrades = cluster.options.asked.upgrades
    channel = upgrades.channel if upgrades else None
    if step is None or cluster.existing or channel in MOVING_CHANNELS:
        return
    command = system_pool_upgrade(cluster.resource_group, cluster.name, step.to)
    yield f"the pool `{SYSTEM_POOL}` runs Kubernetes {step.was}, the control plane {step.to}: {command}"
