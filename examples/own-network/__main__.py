"""A platform team's own program: their network and cluster, and in it two GPU pools that are shared by gpu-pools.

The network and the cluster are the team's, made by Azure's own resources as everywhere. gpu-pools adds what sharing needs:
NFD, the GPU operator with the configs, and the pools with the labels that choose them.
"""

import base64

import pulumi
import pulumi_kubernetes
from pulumi_azure_native import containerservice, network, resources

from gpu_pools.components import AksGpuNodePool, AksPool, GpuOperator, Mig, NodeFeatureDiscovery, TimeSlicing

A100 = "Standard_NC24ads_A100_v4"
config = pulumi.Config()

# --- what is the team's ---------------------------------------------------------------------------------------------------------

group = resources.ResourceGroup("ml", location=config.get("location") or "westeurope")
own_network = network.VirtualNetwork(
    "ml",
    resource_group_name=group.name,
    address_space={"address_prefixes": ["10.8.0.0/16"]},
    subnets=[{"name": "nodes", "address_prefix": "10.8.0.0/20"}],
    # Azure adds to the list what is made in the network later.
    opts=pulumi.ResourceOptions(ignore_changes=["subnets"]),
)
subnet = own_network.subnets.apply(lambda subnets: subnets[0].id)
cluster = containerservice.ManagedCluster(
    "ml",
    resource_group_name=group.name,
    dns_prefix="ml",
    identity={"type": containerservice.ResourceIdentityType.SYSTEM_ASSIGNED},
    network_profile={"network_plugin": "azure", "network_plugin_mode": "overlay"},
    agent_pool_profiles=[
        {"name": "system", "mode": "System", "vm_size": "Standard_D4s_v5", "count": 1, "vnet_subnet_id": subnet},
    ],
)
answer = containerservice.list_managed_cluster_user_credentials_output(resource_group_name=group.name, resource_name=cluster.name)
kubeconfig = pulumi.Output.secret(answer.apply(lambda known: base64.b64decode(known.kubeconfigs[0].value).decode()))
kubernetes = pulumi_kubernetes.Provider("ml", kubeconfig=kubeconfig)

# --- how the GPUs are shared ----------------------------------------------------------------------------------------------------

pools = [
    AksPool("nb", {"name": "nb", "vm_size": A100, "count": 1, "sharing": TimeSlicing("notebooks", {"replicas": 4})}),
    AksPool(
        "train",
        {
            "name": "train",
            "vm_size": A100,
            "nodes": {"min": 1, "max": 3},
            "sharing": Mig("training", {"layout": {"3g.40gb": 2}}),
            "taints": ["team=ml:NoSchedule"],
        },
    ),
]

# --- what gpu-pools makes of it -------------------------------------------------------------------------------------------------


def inside(*before: pulumi.Resource) -> pulumi.ResourceOptions:
    """In the cluster, after something, and gone with the cluster."""
    return pulumi.ResourceOptions(provider=kubernetes, deleted_with=cluster, depends_on=list(before))


features = NodeFeatureDiscovery("ml-nfd", {"pools": pools}, inside())
operator = GpuOperator("ml-operator", {"pools": pools}, inside(features))
made: dict[str, AksGpuNodePool] = {}
for pool in pools:
    name = pool.written["name"]
    arguments = {
        "cluster_name": cluster.name,
        "resource_group_name": group.name,
        # Beside the system pool; an Output, which no preview knows before the network is there.
        "node_subnet": subnet,
        "pool": pool,
    }
    # One after the other: Azure may refuse two pools that are made in one network at the same time (Azure/AKS#4522).
    after = pulumi.ResourceOptions(depends_on=[*made.values()], deleted_with=cluster)
    made[name] = AksGpuNodePool(f"ml-{name}", arguments, after, operator=operator)

pulumi.export("kubeconfig", kubeconfig)
pulumi.export("subnet", subnet)
pulumi.export("advertises", {name: one.advertises for name, one in made.items()})
