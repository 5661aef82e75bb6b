"""An AKS cluster that is there already: a stack adds GPU pools to it, and manages nothing else of it.

What else an AKS section has is the cluster's own then, and is read from Azure (components/aks/existing.py): here it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_pools.platforms.aks.entra import LOGINS
from gpu_pools.platforms.aks.options import GROUP_NAME, GROUP_NAMES
from gpu_pools.reading.fields import one_of, row, text

if TYPE_CHECKING:
    from collections.abc import Mapping

_GUID: Final = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
#: As Azure has them; an AksSettings has the same.
NAME: Final = text(
    r"[A-Za-z0-9]([-_A-Za-z0-9]{0,61}[A-Za-z0-9])?",
    "1 to 63 letters, digits, - and _, starting and ending with a letter or digit",
)
GROUP: Final = text(GROUP_NAME, GROUP_NAMES)
#: Keys of a cluster that a stack makes -> where the same is said for one that is there.
INSTEAD: Final[Mapping[str, str]] = {
    "name": "Write it as `existing.name`.",
    "resourceGroup": "Write it as `existing.resourceGroup`.",
    "entra": "Who may log in is the cluster's own; how kubelogin does is `existing.login`.",
    "kubernetesVersion": "Pools follow the cluster; a pool that is to stay behind has a `kubernetesVersion` of its own.",
}
BESIDE: Final = ("existing", "tags", "checkCloud")


@dataclass(frozen=True)
class ExistingAks:
    """Which cluster, and how to log in to it."""

    resource_group: str = row("The resource group that it is in.", GROUP, "", needed=True)
    name: str = row("Its name.", NAME, "", needed=True)
    subscription: str | None = row(
        "Its subscription, which the provider must be configured for.",
        text(_GUID, 'a GUID, e.g. "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"'),
        doc="Its subscription. The provider's own (`azure-native:subscriptionId`, `ARM_SUBSCRIPTION_ID`, `az account set`) must "
        "be the same; then no other cluster of that name gets the pools.",
    )
    login: str = row(
        "kubelogin's way to log in, where the cluster has Entra ID; azurecli by default.",
        one_of(LOGINS, "Choose one that asks nobody, or leave it out: AAD_LOGIN_METHOD decides."),
        LOGINS[0],
        doc="How kubelogin logs in, where the cluster has Entra ID: as [`entra.login`](#entra-id).",
    )
