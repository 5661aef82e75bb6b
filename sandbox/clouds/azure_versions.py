"""Kubernetes versions of a managed cluster and its pools, as pure functions: what is offered, and which step AKS takes.

Texts marked "seen" are the service's own. Sources: MicrosoftDocs/azure-aks-docs at fb060abe (upgrade-aks-control-plane,
upgrade-node-pools); pulumi-azure-native#3550 and #2094, rancher#33426, Azure/ARO-HCP#662 for the texts and for what the cluster's
request takes of its pools. Deliberately not modelled: patch releases (any is taken), long-term support, automatic upgrades, and
the nodes themselves, whose machines keep the one version that the sandbox has.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sandbox.clouds.azure_errors import AzureError, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KUBERNETES_VERSION: Final = "1.36.3"
#: N to N-2 and the one that is leaving.
_OFFERED: Final = (33, 36)
_WIDEST_SKEW: Final = 3
_SHOWN_PATCHES: Final = 13
_FORM: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_SEE: Final = "Please use [az aks get-versions] command to get the supported version list in this region."


def full(version: str | None) -> str:
    """The release that a version stands for: a minor version is an alias of its newest patch, none of the default."""
    if version is None or KUBERNETES_VERSION.startswith(f"{version}."):
        return KUBERNETES_VERSION
    return version if version.count(".") > 1 else f"{version}.0"


def offered() -> list[dict[str, object]]:
    """The versions as the API lists them; any patch is taken, so some are shown."""
    minors = range(_OFFERED[0], _OFFERED[1] + 1)
    return [
        {
            "version": f"1.{minor}",
            **({"isDefault": True} if KUBERNETES_VERSION.startswith(f"1.{minor}.") else {}),
            "capabilities": {"supportPlan": ["KubernetesOfficial", "AKSLongTermSupport"]},
            "patchVersions": {patch: {"upgrades": []} for patch in _patches(minor)},
        }
        for minor in minors
    ]


def _patches(minor: int) -> list[str]:
    newest = full(f"1.{minor}")
    return [newest] if newest == KUBERNETES_VERSION else [f"1.{minor}.{patch}" for patch in range(_SHOWN_PATCHES)]


def check_new_cluster(name: str, version: str | None) -> None:
    """Refuse a version that no cluster can be made with.

    Raises:
        AzureError: it is none, or not offered (seen).
    """
    if version is None:
        return
    if not _FORM.fullmatch(version):
        raise invalid("kubernetesVersion")
    major, minor, _ = _parts(version)
    if major != 1 or not _OFFERED[0] <= minor <= _OFFERED[1]:
        message = (
            f"Managed cluster {name} is on version {version} which is not supported in this region. {_SEE} For more information, "
            "please check https://aka.ms/supported-version-list"
        )
        raise AzureError(400, "BadRequest", message)


def check_control_plane(name: str, running: str, wanted: str | None, pools: Iterable[str]) -> None:
    """Refuse a step of the control plane: back, over a minor version, or away from pools that would be too old.

    Raises:
        AzureError: the first rule that it breaks.
    """
    if wanted is None or full(wanted) == running or running.startswith(f"{wanted}."):
        return
    check_new_cluster(name, wanted)
    old, new = _parts(running), _parts(full(wanted))
    if new < old or new[1] > old[1] + 1:
        message = (
            f"Upgrading Kubernetes version {running} to {wanted} is not allowed. "
            "Please see https://aka.ms/aks-supported-k8s-ver for version details."
        )
        raise AzureError(400, "BadRequest", message, "kubernetesVersion")
    for pool in pools:
        _check_skew(pool, full(wanted))


def check_pool(version: str | None, running: str | None, control_plane: str) -> None:
    """Refuse a version of a pool: newer than the control plane, too old for it, or older than the pool is.

    Args:
        version: what is asked for; None: the pool keeps its own, and a new one gets the control plane's.
        running: the pool's own; None: it is new.
        control_plane: the cluster's.

    Raises:
        AzureError: the first rule that it breaks.
    """
    if version is None or running == version or (running or "").startswith(f"{version}."):
        return
    if not _FORM.fullmatch(version):
        raise invalid("agentpool.Properties.OrchestratorVersion")  # seen
    _check_skew(resolved(version, control_plane), control_plane)
    if running is not None and _parts(resolved(version, control_plane)) < _parts(running):
        raise invalid("agentpool.Properties.OrchestratorVersion", f"a pool cannot go back from {running} to {version}")


def check_inline(asked: Sequence[str | None], running: Sequence[str], pools: int, control_plane: str | None) -> None:
    """Refuse versions of pools in the cluster's own request.

    Args:
        asked: what the listed pools ask for.
        running: what they have.
        pools: how many pools the cluster has, listed or not.
        control_plane: what the same request asks of the control plane.

    Raises:
        AzureError: some name one and others do not, or one names what is neither its own nor the control plane's (seen).
    """
    named = [(version, own) for version, own in zip(asked, running, strict=True) if version is not None]
    if not named:
        return
    if len(named) == pools and all(version in {own, control_plane} or own.startswith(f"{version}.") for version, own in named):
        return
    message = (
        "Using managed cluster api, all Agent pools' OrchestratorVersion must be all specified or all unspecified. If all "
        "specified, they must be stay unchanged or the same with control plane. For agent pool specific change, please use per "
        "agent pool operations: https://aka.ms/agent-pool-rest-api"
    )
    raise AzureError(400, "NotAllAgentPoolOrchestratorVersionSpecifiedAndUnchanged", message)


def resolved(version: str, control_plane: str) -> str:
    """The release that a pool gets: of the control plane's minor version it is the control plane's own."""
    return control_plane if control_plane.startswith(f"{version}.") else full(version)


def _check_skew(pool: str, control_plane: str) -> None:
    old, new = _parts(pool), _parts(control_plane)
    if old[:2] > new[:2]:
        detail = f"Minor version of node pool version {old[1]} is bigger than control plane version {new[1]}."  # seen
    elif old > new:
        detail = "Node pool version is bigger than control plane version."
    elif new[1] - old[1] > _WIDEST_SKEW:
        detail = (
            f"Minor version of node pool cannot be more than {_WIDEST_SKEW} versions less than control plane's version. "
            f"Minor version of node pool is {old[1]} and control plane is {new[1]}."
        )
    else:
        return
    message = (
        f"Node pool version {pool} and control plane version {control_plane} are incompatible. {detail} "
        "For more information, please check https://aka.ms/version-skew-policy"
    )
    raise AzureError(400, "NodePoolMcVersionIncompatible", message)


def _parts(version: str) -> tuple[int, int, int]:
    match = _FORM.fullmatch(version)
    if match is None:
        raise invalid("kubernetesVersion")
    return int(match[1]), int(match[2]), int(match[3] or 0)
