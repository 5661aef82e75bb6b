"""The ids of Azure Resource Manager: how those of groups, networks, clusters and pools are made, and what is in one."""

from __future__ import annotations

import hashlib
from typing import Final

SUBSCRIPTION: Final = "00000000-0000-0000-0000-000000000001"
CLIENT: Final = "00000000-0000-0000-0000-0000000000cc"


#: Of what lies below whatever it holds for.
_BELOW_ANYTHING: Final = (
    "/providers/Microsoft.Authorization/roleAssignments/",
    "/providers/Microsoft.Insights/dataCollectionRuleAssociations/",
)


def group_id(group: str) -> str:
    """ARM id of a resource group."""
    return f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}"


def network_id(group: str, network: str) -> str:
    """ARM id of a virtual network."""
    return f"{group_id(group)}/providers/Microsoft.Network/virtualNetworks/{network}"


def cluster_id(group: str, cluster: str) -> str:
    """ARM id of a managed cluster."""
    return f"{group_id(group)}/providers/Microsoft.ContainerService/managedClusters/{cluster}"


def pool_id(group: str, cluster: str, pool: str) -> str:
    """ARM id of an agent pool."""
    return f"{cluster_id(group, cluster)}/agentPools/{pool}"


def window_id(group: str, cluster: str, window: str) -> str:
    """ARM id of a maintenance window."""
    return f"{cluster_id(group, cluster)}/maintenanceConfigurations/{window}"


def assignment_id(scope: str, name: str) -> str:
    """ARM id of a role assignment: below whatever it holds for."""
    return f"{scope}/providers/Microsoft.Authorization/roleAssignments/{name}"


def parts(id_: str) -> list[str]:
    """The names in an ARM id: group, then cluster, then pool as far as it goes."""
    for inside in _BELOW_ANYTHING:
        scope, found, name = id_.rpartition(inside)
        if found:
            return [scope, name]
    words = id_.strip("/").split("/")
    return [words[index] for index in (3, 7, 9) if index < len(words)]


def digest(text: str) -> str:
    """What follows from an id, however it is written: hexadecimal digits."""
    return hashlib.sha256(text.lower().encode()).hexdigest()
