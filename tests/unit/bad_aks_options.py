"""AKS stacks with options that do not fit, each with the problem that must be told; a part of bad_stacks.py.

Each is complete and good but for what its id names.
"""

from __future__ import annotations

from typing import Any, Final

from tests.unit.bad_case import Case
from tests.unit.stacks import A100, aks

_POOL: Final = "gpu-pools:pools[0]"
_CLUSTER: Final = "gpu-pools:cluster"
GB200: Final = "Standard_ND128isr_NDR_GB200_v6"


def id_of(rest: str) -> str:
    """The id of something in Azure."""
    return f"/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/net/providers/{rest}"


def subnet(name: str, network: str = "hub") -> str:
    """The id of a subnet."""
    return id_of(f"Microsoft.Network/virtualNetworks/{network}/subnets/{name}")


def _pool(id_: str, pool: dict[str, Any], place: str, message: str, allowed: str = "", remedy: str = "", **more: Any) -> Case:
    return Case(f"aks-pool-{id_}", aks(pool), f"{_POOL}.{place}", message, allowed, remedy, **more)


_GROUP: Final = id_of("Microsoft.Compute/capacityReservationGroups/held")
_NEAR: Final = id_of("Microsoft.Compute/proximityPlacementGroups/near")
_POOLS: Final = (
    _pool("subnet-by-name", {"subnet": "gpu"}, "subnet", '"gpu" is not the id', "virtualNetworks/<name>/subnets", "az network"),
    _pool("subnet-a-number", {"subnet": 7}, "subnet", "7 is not the id of such a resource", "/subscriptions/<id>"),
    _pool(
        "subnet-of-a-network",
        {"subnet": id_of("Microsoft.Network/virtualNetworks/hub")},
        "subnet",
        "is not the id of such a resource",
    ),
    _pool("pod-subnet-alone", {"podSubnet": subnet("pods")}, "podSubnet", "the nodes have no subnet", "`subnet` beside it"),
    _pool("disk-too-small", {"osDiskSize": 16}, "osDiskSize", "16 is out of bounds", "at least 30 and at most 2048"),
    _pool("disk-too-large", {"osDiskSize": 4096}, "osDiskSize", "4096 is out of bounds", "at most 2048"),
    _pool("disk-type-unknown", {"osDiskType": "Premium"}, "osDiskType", '"Premium" is unknown', "Managed | Ephemeral"),
    _pool("kubelet-disk-unknown", {"kubeletDiskType": "Os"}, "kubeletDiskType", '"Os" is unknown', "OS | Temporary"),
    _pool("few-pods", {"maxPods": 5}, "maxPods", "5 is out of bounds", "at least 10"),
    _pool("many-pods", {"maxPods": 300}, "maxPods", "300 is out of bounds", "at most 250"),
    _pool(
        "surge-a-number", {"upgradeSettings": {"maxSurge": 1}}, "upgradeSettings.maxSurge", "1 is not a text", '"33%"', "quotes"
    ),
    _pool(
        "surge-in-words", {"upgradeSettings": {"maxSurge": "half"}}, "upgradeSettings.maxSurge", '"half" does not fit', "share"
    ),
    _pool(
        "surge-none", {"upgradeSettings": {"maxSurge": "0"}}, "upgradeSettings.maxSurge", "no node can be exchanged", "above 0"
    ),
    _pool(
        "surge-none-in-percent",
        {"upgradeSettings": {"maxSurge": "0%", "maxUnavailable": "0"}},
        "upgradeSettings.maxSurge",
        "no node can be exchanged",
        remedy='maxUnavailable: "1"',
    ),
    _pool(
        "surge-of-spot",
        {"spot": {}, "upgradeSettings": {"maxSurge": "1"}},
        "upgradeSettings.maxSurge",
        "AKS has none for spot pools",
    ),
    _pool(
        "unavailable-of-spot",
        {"spot": {}, "upgradeSettings": {"maxUnavailable": "1"}},
        "upgradeSettings.maxUnavailable",
        "AKS has none for spot pools",
    ),
    _pool(
        "drain-too-short",
        {"upgradeSettings": {"drainTimeoutInMinutes": 1}},
        "upgradeSettings.drainTimeoutInMinutes",
        "1 is out of bounds",
        "at least 5",
    ),
    _pool(
        "soak-too-long",
        {"upgradeSettings": {"nodeSoakDurationInMinutes": 45}},
        "upgradeSettings.nodeSoakDurationInMinutes",
        "45 is out of bounds",
        "at most 30",
    ),
    _pool(
        "undrainable-unknown",
        {"upgradeSettings": {"undrainableNodeBehavior": "Delete"}},
        "upgradeSettings.undrainableNodeBehavior",
        '"Delete" is unknown',
        "Cordon | Schedule",
    ),
    _pool(
        "upgrade-key-unknown",
        {"upgradeSettings": {"maxSurg": "1"}},
        "upgradeSettings.maxSurg",
        "unknown key",
        "maxSurge",
        "`maxSurge`",
    ),
    _pool("version-a-number", {"kubernetesVersion": 1.34}, "kubernetesVersion", "1.34 is not a text", "in quotes"),
    Case(
        "aks-pool-newer-than-the-cluster",
        aks({"kubernetesVersion": "1.35"}, cluster={"kubernetesVersion": "1.34"}),
        f"{_POOL}.kubernetesVersion",
        "1.35 is newer than the cluster's",
        "1.31 to 1.34",
        "Raise `gpu-pools:cluster.kubernetesVersion` first",
    ),
    Case(
        "aks-pool-patch-newer-than-the-cluster",
        aks({"kubernetesVersion": "1.34.5"}, cluster={"kubernetesVersion": "1.34.2"}),
        f"{_POOL}.kubernetesVersion",
        "1.34.5 is newer than",
    ),
    Case(
        "aks-pool-too-old-for-the-cluster",
        aks({"kubernetesVersion": "1.30"}, cluster={"kubernetesVersion": "1.34"}),
        f"{_POOL}.kubernetesVersion",
        "1.30 is more than 3 minor versions older than",
        "1.31 to 1.34",
        "leave it out: the pool then follows",
    ),
    _pool("scale-down-unknown", {"scaleDownMode": "Stop"}, "scaleDownMode", '"Stop" is unknown', "Delete | Deallocate"),
    _pool(
        "deallocated-without-a-disk",
        {"osDiskType": "Ephemeral", "scaleDownMode": "Deallocate"},
        "scaleDownMode",
        "ephemeral disk cannot be deallocated",
        "Delete",
        "osDiskType: Managed",
    ),
    _pool(
        "reservation-by-name", {"capacityReservationGroup": "held"}, "capacityReservationGroup", '"held" is not the id', "Compute"
    ),
    _pool(
        "reservation-of-spot",
        {"spot": {}, "capacityReservationGroup": _GROUP},
        "capacityReservationGroup",
        "spot machines use no reserved capacity",
    ),
    _pool(
        "proximity-in-two-zones",
        {"proximityPlacementGroup": _NEAR, "zones": ["1", "2"]},
        "proximityPlacementGroup",
        "lies in one zone, and the pool in 1, 2",
        "one zone, or none",
    ),
    _pool("host-group-of-another-kind", {"hostGroup": _NEAR}, "hostGroup", "is not the id", "Microsoft.Compute/hostGroups"),
    _pool(
        "eviction-unknown",
        {"spot": {"evictionPolicy": "Stop"}},
        "spot.evictionPolicy",
        '"Stop" is unknown',
        "Delete | Deallocate",
    ),
    _pool(
        "topology-unknown",
        {"kubeletConfig": {"topologyManagerPolicy": "single-numa"}},
        "kubeletConfig.topologyManagerPolicy",
        '"single-numa" is unknown',
        "single-numa-node",
        "Did you mean",
    ),
    _pool(
        "images-kept-below-what-is-removed",
        {"kubeletConfig": {"imageGcHighThreshold": 60, "imageGcLowThreshold": 70}},
        "kubeletConfig.imageGcLowThreshold",
        "70 is above imageGcHighThreshold, 60",
    ),
    _pool(
        "images-kept-below-the-default",
        {"kubeletConfig": {"imageGcLowThreshold": 90}},
        "kubeletConfig.imageGcLowThreshold",
        "90 is above imageGcHighThreshold, 85",
    ),
    _pool(
        "sysctl-that-no-pod-may-set",
        {"kubeletConfig": {"allowedUnsafeSysctls": ["vm.swappiness"]}},
        "kubeletConfig.allowedUnsafeSysctls[0]",
        '"vm.swappiness" is none that AKS lets pods set',
        "kernel.sem",
    ),
    _pool(
        "one-log-file",
        {"kubeletConfig": {"containerLogMaxFiles": 1}},
        "kubeletConfig.containerLogMaxFiles",
        "1 is out of bounds",
        "at least 2",
    ),
    _pool(
        "swap-that-kubelets-refuse",
        {"linuxOsConfig": {"swapFileSize": 1024}},
        "linuxOsConfig.swapFileSize",
        "kubelets do not start on nodes with swap",
        "failSwapOn: false",
    ),
    _pool(
        "sysctl-unknown",
        {"linuxOsConfig": {"sysctls": {"vmMaxMapCounts": 1}}},
        "linuxOsConfig.sysctls.vmMaxMapCounts",
        "unknown property `vmMaxMapCounts` of azure-native's SysctlConfig",
        "vmMaxMapCount",
        "Did you mean `vmMaxMapCount`?",
    ),
    _pool(
        "sysctl-a-text",
        {"linuxOsConfig": {"sysctls": {"vmMaxMapCount": "262144"}}},
        "linuxOsConfig.sysctls.vmMaxMapCount",
        "is not a whole number",
    ),
    _pool(
        "huge-pages-unknown",
        {"linuxOsConfig": {"transparentHugePageEnabled": True}},
        "linuxOsConfig.transparentHugePageEnabled",
        "true is not a text",
    ),
    _pool("encryption-a-text", {"encryptionAtHost": "yes"}, "encryptionAtHost", "neither true nor false"),
    _pool("fips-on-ubuntu-24", {"fips": True, "osSku": "Ubuntu2404"}, "fips", "there is none for Ubuntu 24.04", "Ubuntu2204"),
    _pool("fips-on-arm", {"fips": True, "vmSize": GB200}, "fips", "has Arm processors", "AzureLinux", "osSku: AzureLinux"),
    _pool(
        "prefix-without-addresses",
        {"publicIpPrefix": id_of("Microsoft.Network/publicIPPrefixes/few")},
        "publicIpPrefix",
        "the nodes have no public address",
        "publicIp: true",
    ),
    _pool("tag-a-number", {"tags": {"cost": 7}}, "tags.cost", "7 is not a text"),
    _pool("driver-type", {"driverType": "CUDA"}, "driverType", "unknown key", remedy="nowhere: Azure has it for Windows"),
    _pool(
        "azure-name-of-a-key", {"vnetSubnetID": subnet("gpu")}, "vnetSubnetID", "unknown key", remedy="a pool of AKS: `subnet`"
    ),
    _pool("properties-a-list", {"properties": ["a"]}, "properties", "a list of 1 is not a mapping"),
    _pool(
        "property-unknown",
        {"properties": {"enableUltraSsd": True}},
        "properties.enableUltraSsd",
        "unknown property `enableUltraSsd` of azure-native's AgentPool",
        "enableUltraSSD",
        "Did you mean `enableUltraSSD`?",
    ),
    _pool(
        "property-unknown-below",
        {"properties": {"securityProfile": {"enableVtpm": True}}},
        "properties.securityProfile.enableVtpm",
        "unknown property `enableVtpm` of azure-native's AgentPoolSecurityProfile",
        "enableVTPM",
    ),
    _pool("property-a-text", {"properties": {"enableUltraSSD": "yes"}}, "properties.enableUltraSSD", "is not true or false"),
    _pool(
        "property-no-list",
        {"properties": {"networkProfile": {"allowedHostPorts": {}}}},
        "properties.networkProfile.allowedHostPorts",
        "is not a list",
    ),
    _pool(
        "property-of-the-plan",
        {"properties": {"vmSize": A100}},
        "properties.vmSize",
        "is decided by the stack itself",
        remedy="the pool's `vmSize`",
    ),
    _pool(
        "property-of-the-plan-below",
        {"properties": {"gpuProfile": {"driver": "None"}}},
        "properties.gpuProfile.driver",
        "is decided by the stack itself",
        remedy="the pool's `driver`",
    ),
    _pool(
        "label-of-kubernetes",
        {"labels": {"app.k8s.io/name": "x"}},
        "labels.app.k8s.io/name",
        '"app.k8s.io/name" is reserved by AKS',
        "any prefix but",
    ),
)
OPTION_CASES: Final = _POOLS
