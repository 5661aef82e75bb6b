"""The machines that an agent pool's record asks for, with what AKS itself puts on the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sandbox.clouds import azure_rules as rules
from sandbox.clouds.azure_ids import digest
from sandbox.cluster.machine_groups import Hardware, MachineGroup

if TYPE_CHECKING:
    from sandbox.clouds.azure_rules import Body

_DIGITS: Final = 10**8


def machine_group(cluster: dict[str, Any], pool: dict[str, Any], offered: rules.Offered) -> MachineGroup:
    """The machines that a pool's record asks for, with what AKS itself puts on the nodes.

    Args:
        cluster: its record.
        pool: its record.
        offered: VM sizes besides those of the tables.
    """
    body, location = pool["body"], cluster["body"]["location"]
    size = rules.vm_size(body["vmSize"], offered)
    if size is None:
        raise rules.unknown_size(pool["name"], location)
    zones = body.get("availabilityZones") or []
    labels = {
        "agentpool": pool["name"],
        "kubernetes.azure.com/agentpool": pool["name"],
        "kubernetes.azure.com/cluster": node_resource_group(cluster),
        "kubernetes.azure.com/mode": body["mode"].lower(),
        "kubernetes.azure.com/os-sku": body["osSKU"],
        "kubernetes.azure.com/node-image-version": node_image(body),
        "kubernetes.azure.com/role": "agent",
        "node.kubernetes.io/instance-type": size.name,
        "topology.kubernetes.io/region": location,
        "topology.kubernetes.io/zone": f"{location}-{zones[0]}" if zones else "0",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": size.arch,
    }
    if size.gpu_model:
        labels["kubernetes.azure.com/accelerator"] = "nvidia"
    taints = [taint for taint in map(rules.parse_taint, body.get("nodeTaints") or []) if taint]
    driver = (body.get("gpuProfile") or {}).get("driver") or "Install"
    digits = int(digest(cluster["id"])[:12], 16) % _DIGITS
    return MachineGroup(
        id=pool["name"],
        node_prefix=f"aks-{pool['name']}-{digits:08d}-vmss00000",
        count=pool["count"],
        labels={**labels, **(body.get("nodeLabels") or {})},
        taints=taints,
        hardware=Hardware(
            cpus=size.vcpus,
            memory_gib=size.memory_gib,
            gpu_model=size.gpu_model,
            gpu_product=size.gpu_product,
            gpus=size.gpus,
            declared=size.declared,
        ),
        driver_preinstalled=bool(size.gpu_model) and driver == "Install",
        cloud_mig_profile=body.get("gpuInstanceProfile"),
        guarded=True,
    )


def node_resource_group(cluster: dict[str, Any]) -> str:
    """Where a cluster's machines are: a resource group of its own."""
    location = cluster["body"]["location"]
    name: str = cluster["body"].get("nodeResourceGroup") or f"MC_{cluster['groupName']}_{cluster['name']}_{location}"
    return name


def node_image(body: Body) -> str:
    """The image of a pool's nodes, as AKS names it."""
    kind = "AKSUbuntu-2204gen2containerd" if body["osSKU"].startswith("Ubuntu") else "AKSAzureLinux-V3gen2"
    return f"{kind}-202610.27.0"
