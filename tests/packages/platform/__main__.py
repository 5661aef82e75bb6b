"""A whole platform, with the options that a user gives the component: what it waits for, and whether it is protected."""

import pulumi
from pulumi_azure_native import resources

from gpu_pools.components.platform import GpuPlatform

A100 = "Standard_NC24ads_A100_v4"
config = pulumi.Config()

first = resources.ResourceGroup("first", location=config.get("location") or "westeurope")
GpuPlatform(
    "gpu",
    {
        "cluster": {
            "platform": "aks",
            "name": "kept",
            "location": "westeurope",
            "kubernetes_version": "1.36",
            "system_pool": {"vm_size": "Standard_D4s_v5", "count": 1},
        },
        "sharing": {"turns": {"time_slicing": {"replicas": 4}}, "parts": {"mig": {"layout": {"1g.10gb": 7}}}},
        "pools": [
            {"name": name, "vm_size": A100, "count": 1, "sharing": sharing}
            for name, sharing in (("nb", "turns"), ("train", "parts"))
            if name != config.get("without")
        ],
        "verification": {"startup_taint": True},
    },
    pulumi.ResourceOptions(depends_on=[first], protect=config.get_bool("protected")),
)
