"""Type tokens of the resources that are pools and clusters, on every platform."""

from __future__ import annotations

from typing import Final

#: Types of the resources that are pools, with the input that names the pool.
POOL_TYPES: Final = {
    "azure-native:containerservice:AgentPool": "agentPoolName",
    "openstack:containerinfra/nodeGroup:NodeGroup": "name",
}
CLUSTER_TYPES: Final = ("azure-native:containerservice:ManagedCluster", "openstack:containerinfra/cluster:Cluster")
