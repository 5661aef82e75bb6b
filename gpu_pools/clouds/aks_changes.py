"""What AKS does not change of what lives: properties of a pool, machines of the system pool, jumps of the version, Entra ID off.

The plugin (azure-native 3.29) calls all of these updates, and Azure refuses them only in the deploy. Told here before, from
what is deployed and what shall be, as the plugin's inputs say it (camelCase). Sources: the table of immutable settings in
azure-aks-docs (manage-node-pools, resize-node-pool, upgrade-aks-control-plane at fb060abe); gpu_pools/stack/entra.py for
Entra ID. What replaces a pool is data: gpu_pools/clouds/aks_properties.yaml.

The system pool is a part of the cluster's own request, because no cluster can be made without one and the plugin creates
nothing that exists already. Its number of nodes goes through that request. Its Kubernetes version cannot: AKS wants the
version of all pools there or of none (NotAllAgentPoolOrchestratorVersionSpecifiedAndUnchanged), and the GPU pools are
resources of their own. So that is said when the version changes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.text.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SYSTEM_POOL: Final = "system"
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_LONG_TERM: Final = "AKSLongTermSupport"


def refused_cluster_changes(old: Mapping[str, Any], new: Mapping[str, Any], running: object) -> Iterator[Problem]:
    """What AKS would refuse of a cluster's update.

    Args:
        old: inputs that are deployed.
        new: inputs that shall be.
        running: the version of the control plane, as AKS tells it.
    """
    before, after = _system_pool(old), _system_pool(new)
    if before and after:
        yield from _machines(before, after)
    if old.get("aadProfile") and not new.get("aadProfile"):
        yield Problem(
            "entra",
            "is not there, and the cluster has Entra ID; AKS never switches it off",
            "entra, as it is deployed",
            "Write it back; `localAccounts: true` in it lets certificates of administrators be had again.",
        )
    if new.get("supportPlan") != _LONG_TERM:
        yield from _version(running, new.get("kubernetesVersion"))


def system_pool_left_behind(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """What to do about the system pool's version, where the cluster's changes."""
    version = new.get("kubernetesVersion")
    if not isinstance(version, str) or version == old.get("kubernetesVersion"):
        return None
    group, cluster = new.get("resourceGroupName"), new.get("resourceName")
    return (
        f"the GPU pools follow the control plane to Kubernetes {version}, the pool `{SYSTEM_POOL}` does not: its version "
        f"cannot go with the cluster's request. After the deploy: az aks nodepool upgrade --resource-group {group} "
        f"--cluster-name {cluster} --name {SYSTEM_POOL} --kubernetes-version {version}"
    )


def kept_on_pool(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What a pool's declaration says no more and Azure leaves as it was: empty settings clear none (azure-rest-api-specs#27373).

    Args:
        old: the pool's inputs that are deployed.
        new: those that shall be.
    """
    before, after = old.get("upgradeSettings") or {}, new.get("upgradeSettings") or {}
    for key in sorted(before.keys() - after.keys()):
        yield (
            f"pool {new.get('agentPoolName')}: upgradeSettings.{key} is written no more, and stays {before[key]} in Azure: "
            "write the value that it shall have"
        )


def _system_pool(inputs: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """By its name: after a refresh the plugin's inputs have all pools of the cluster, in the order of Azure."""
    profiles = inputs.get("agentPoolProfiles")
    for profile in profiles if isinstance(profiles, list) else []:
        if profile.get("name") == SYSTEM_POOL:
            found: Mapping[str, Any] = profile
            return found
    return None


def _machines(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Problem]:
    for key, name in (("vmSize", "vmSize"), ("availabilityZones", "zones")):
        old, new = before.get(key) or None, after.get(key) or None
        if old != new:
            yield Problem(
                f"systemPool.{name}",
                f"{_shown(new)} is asked for, and the pool is there with {_shown(old)}; AKS changes it on no living pool",
                f"{_shown(old)}, as it is deployed",
                "Write back what is deployed; other machines need another cluster, made by a second stack beside this one.",
            )


def _version(running: object, wanted: object) -> Iterator[Problem]:
    old, new = _parsed(running), _parsed(wanted)
    if old is None or new is None:
        return
    if new[:2] < old[:2] or (len(new) == len(old) and new < old):
        yield Problem(
            "kubernetesVersion",
            f"{wanted} is older than {running}, which the control plane runs",
            f"{running} or newer",
            "Write that version; AKS goes back to none.",
        )
    elif new[0] == old[0] and new[1] > old[1] + 1:
        step = f"{old[0]}.{old[1] + 1}"
        yield Problem(
            "kubernetesVersion",
            f"{wanted} skips a minor version: the control plane runs {running}",
            f"at most {step}",
            f'Set kubernetesVersion: "{step}" and deploy, then go on one by one; AKS skips none.',
        )


def _parsed(version: object) -> tuple[int, ...] | None:
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def _shown(value: object) -> str:
    return "none" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
