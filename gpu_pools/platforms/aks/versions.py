"""Versions of Kubernetes that AKS offers in a region, held against the one that a stack asks for.

Sources: azure-aks-docs (supported-kubernetes-versions, long-term-support; upgrade-os-version at 024a50aa, whose upper bounds are
left out, since its editions differ in them; auto-upgrade-cluster); the words of the service are in
sandbox/clouds/azure_versions.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.aks.machines import CLUSTER
from gpu_pools.platforms.judgement import Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpu_pools.platforms.aks.answers import MadeCluster, Version
    from gpu_pools.platforms.aks.cluster import AksSettings
    from gpu_pools.platforms.aks.machines import Machines
    from gpu_pools.text.errors import Problems

_OFFICIAL: Final = "KubernetesOfficial"
_LONG_TERM: Final = "AKSLongTermSupport"
#: Node image of a pool -> the oldest minor version that has it.
OLDEST_FOR_IMAGE: Final[Mapping[str, str]] = {"Ubuntu2404": "1.32", "AzureLinux3": "1.28"}


def judge_versions(
    cluster: AksSettings, made: MadeCluster | None, offered: Sequence[Version] | Unread, problems: Problems
) -> Iterator[str]:
    """Add what Azure would refuse of the cluster's version; yields warnings.

    Args:
        cluster: of the stack; one that is there already names no version.
        made: as it is; a version that it has is not asked for anew.
        offered: in its region.
        problems: told.
    """
    wanted = cluster.kubernetes_version
    if wanted is None or isinstance(offered, Unread) or not offered:
        return
    if made and (made.version == wanted or made.version.startswith(f"{wanted}.")):
        return
    yield from _beside_a_channel(cluster, made, wanted)
    found = next((one for one in offered if wanted == one.minor or wanted in one.patches), None)
    if found is None:
        _add_unknown(f"{CLUSTER}.kubernetesVersion", wanted, offered, problems)
    elif _OFFICIAL not in found.plans and not _long_term(cluster):
        problems.add(
            f"{CLUSTER}.kubernetesVersion",
            f"{wanted} is offered in this region with long-term support only",
            allowed=_minors(one for one in offered if _OFFICIAL in one.plans),
            remedy=f"Choose one of those, or write `tier: Premium` and `properties: {{supportPlan: {_LONG_TERM}}}`.",
        )
    elif found.preview:
        yield f"Kubernetes {wanted} is a preview in this region: Azure supports it without a promise, and may take it away"


def judge_pool_versions(new: Iterable[Machines], offered: Sequence[Version] | Unread, problems: Problems) -> None:
    """Add what pools that are still to be made name, and AKS does not offer; one that is there keeps what it has.

    Args:
        new: those pools.
        offered: in their region.
        problems: told.
    """
    if isinstance(offered, Unread) or not offered:
        return
    for pool in new:
        wanted = pool.version
        if wanted is not None and not any(wanted == one.minor or wanted in one.patches for one in offered):
            _add_unknown(pool.at("kubernetesVersion"), wanted, offered, problems)


def default_version(offered: Sequence[Version] | Unread) -> str | None:
    """What a cluster gets that names no version; None where Azure did not say."""
    if isinstance(offered, Unread):
        return None
    return next((one.minor for one in offered if one.default), None)


def numbers(version: str) -> tuple[int, ...]:
    """A version to compare."""
    return tuple(map(int, re.findall(r"\d+", version)))


def _beside_a_channel(cluster: AksSettings, made: MadeCluster | None, wanted: str) -> Iterator[str]:
    """Warn where the control plane goes first, as this stack's order is, and Azure upgrades by itself.

    A warning, since reports differ: azure-aks-docs (auto-upgrade-cluster) and hashicorp/terraform-provider-azurerm#17839 have it
    refused, Azure/terraform-azurerm-aks#301 saw the control plane go alone.
    """
    channel = cluster.options.upgrades.channel if cluster.options.upgrades else None
    if made is None or not made.version or channel in {None, "none"}:
        return
    if numbers(wanted) > numbers(made.version)[: len(numbers(wanted))]:
        yield (
            f"kubernetesVersion goes from {made.version} to {wanted} with the upgrade channel {channel}: Azure documents that "
            "the control plane cannot go before the pools then, and may refuse the request with "
            "NotAllAgentPoolOrchestratorVersionSpecifiedAndUnchanged (C27). If it does, write `upgrades: {channel: none}`, run "
            "`pulumi up`, raise the version, run it again, and write the channel again"
        )


def _long_term(cluster: AksSettings) -> bool:
    return cluster.tier == "Premium" and cluster.options.properties.get("supportPlan") == _LONG_TERM


def _add_unknown(path: str, wanted: str, offered: Sequence[Version], problems: Problems) -> None:
    minor = ".".join(wanted.split(".")[:2])
    same = next((one for one in offered if one.minor == minor), None)
    if same:
        nearest, allowed = same.minor, ", ".join(sorted(same.patches, key=numbers)) or same.minor
    else:
        nearest = min((one.minor for one in offered), key=lambda one: abs(numbers(one)[-1] - numbers(minor)[-1]))
        allowed = _minors(offered)
    problems.add(
        path,
        f"AKS does not offer Kubernetes {wanted} in this region",
        allowed=allowed,
        remedy=f'The nearest is "{nearest}"; az aks get-versions --location REGION lists them.',
    )


def _minors(versions: Sequence[Version] | Iterator[Version]) -> str:
    return ", ".join(sorted((one.minor for one in versions), key=numbers)) or "none"
