"""What azure-native is asked for a pool: its inputs, from the plan, which `gpu-pools adopt` holds against a pool that is there.

Labels are among them as the plan has them; components/aks/cluster.py hands them over once the operator has its config.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from gpu_pools.platforms.aks import azure_types
from gpu_pools.platforms.aks.inputs import merged, sent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_pools.platforms.aks.placement import AksPlacement
    from gpu_pools.platforms.platform import PlannedPool
    from gpu_pools.reading.node_count import NodeCount

#: Where a pool lies: no properties of it.
PLACE: Final = frozenset({"resourceGroupName", "resourceName", "agentPoolName"})
#: Changed on living pools by Azure and by people, so that what an import has seen must not be sent once more: Azure would refuse
#: to go back to a version, and start a pool that somebody has stopped. Left out of a request they stay as they are.
OF_OTHERS: Final = frozenset({"orchestratorVersion", "powerState", "virtualMachineNodesStatus"})


@dataclass(frozen=True)
class Around:
    """What the cluster gives its pools; values may be Outputs.

    Attributes:
        tags: of all pools.
        node_subnet: for pools that name none.
        pod_subnet: for pools that name none.
        kubernetes_version: for pools that name none; None: Azure leaves them where they are.
    """

    tags: Mapping[str, Any] = field(default_factory=dict)
    node_subnet: Any = None
    pod_subnet: Any = None
    kubernetes_version: str | None = None


def pool_inputs(pool_plan: PlannedPool, around: Around) -> dict[str, Any]:
    """The inputs as the plugin calls them, without labels and the cluster's name; None: not sent."""
    pool, placement = pool_plan.pool, cast("AksPlacement", pool_plan.pool.placement)
    inputs: dict[str, Any] = {
        "agentPoolName": pool_plan.made_name,
        "mode": "User",
        "osType": "Linux",
        "osSKU": placement.os_sku,
        "type": "VirtualMachineScaleSets",
        "vmSize": placement.vm_size,
        **counts(pool.nodes),
        "count": pool.first_nodes,
        "nodeTaints": [str(taint) for taint in pool_plan.taints],
        "availabilityZones": list(placement.zones) or None,
        "gpuProfile": {"driver": "None" if pool_plan.driver == "operator" else "Install"},
        "gpuInstanceProfile": pool_plan.gpu_instance_profile,
        "orchestratorVersion": around.kubernetes_version,
    }
    if placement.spot:
        # AKS refuses a surge on spot pools.
        inputs |= {
            "scaleSetPriority": "Spot",
            "scaleSetEvictionPolicy": placement.spot.eviction_policy,
            "spotMaxPrice": placement.spot.max_price,
        }
    else:
        # One node beyond the pool at an upgrade: GPU quota is scarce; none, where nodes may be away instead.
        away = placement.asked.options.upgrade_settings.max_unavailable
        inputs["upgradeSettings"] = {"maxSurge": "1" if away is None else "0"}
    inputs |= {"vnetSubnetID": around.node_subnet, "podSubnetID": around.pod_subnet}
    inputs = {**merged(inputs, sent(placement.options)), "tags": {**around.tags, **placement.options.tags}}
    return merged(inputs, placement.options.properties)


def counts(nodes: NodeCount) -> dict[str, Any]:
    """How many nodes, as the plugin calls it."""
    if not nodes.autoscaled:
        return {"count": nodes.fewest, "enableAutoScaling": False}
    # The API asks for a count also where the autoscaler decides it; it is only where the pool starts.
    return {"count": nodes.fewest, "enableAutoScaling": True, "minCount": nodes.fewest, "maxCount": nodes.most}


def kept_as_found(pool_plan: PlannedPool, inputs: Mapping[str, Any]) -> list[str]:
    """The properties of an adopted pool that stay as they were imported: those that the stack does not say.

    An import takes over all that Azure answers with, its defaults included (pulumi-azure-native, provider.go, Read). Left out of
    the program they would be a change, and for many Azure knows none but a new pool.

    Of a pool that is only held (gpu_pools/stack/imported.py) labels, tags and what others change stay, too: it is never sent.

    Args:
        pool_plan: any pool.
        inputs: what `pool_inputs` gives for it.
    """
    pool = pool_plan.pool
    if not pool.adopted:
        return []
    said = {key for key, value in inputs.items() if value not in (None, [], {})} - {"gpuProfile"}
    options = cast("AksPlacement", pool.placement).options
    if not sent(options).get("upgradeSettings") and "upgradeSettings" not in options.properties:
        said.discard("upgradeSettings")
    if pool_plan.imported:
        return sorted(azure_types.types()["AgentPool"].keys() - (said - {"tags"}) - PLACE)
    # The program always sends them: labels of the plan, and the tag by which the stack knows its pools.
    said |= {"nodeLabels", "tags"}
    return sorted(azure_types.types()["AgentPool"].keys() - said - PLACE - OF_OTHERS)
