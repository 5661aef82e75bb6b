"""AKS stacks with options that do not fit, each with the problem that must be told; a part of bad_stacks.py.

Each is complete and good but for what its id names.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from tests.unit.bad_case import Case
from tests.unit.bad_gpu_models import ALONE
from tests.unit.stacks import A100, GONE, aks

_POOL: Final = "gpu-pools:pools[0]"
_CLUSTER: Final = "gpu-pools:cluster"
GUID: Final = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
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
    _pool(
        "managed-gpus-by-a-tag",
        {"tags": {"EnableManagedGPUExperience": "true"}},
        "tags.EnableManagedGPUExperience",
        "a device plugin and an exporter of its own beside the operator's (C19)",
        "no such tag",
        "Take it out",
    ),
    _pool(
        "no-driver-by-a-tag",
        {"driver": "preinstalled", "tags": {"SkipGPUDriverInstall": "true"}},
        "tags.SkipGPUDriverInstall",
        "AKS install no driver, and nobody else does",
        remedy="`driver: operator`",
    ),
    _pool(
        "preinstalled-on-arm",
        {"driver": "preinstalled", "vmSize": "Standard_ND128isr_GB300_v6"},
        "driver",
        "preinstalled on Standard_ND128isr_GB300_v6: AKS installs no driver on Arm64 (C17)",
        "operator",
    ),
    _pool(
        "preinstalled-and-confidential",
        {"driver": "preinstalled", "vmSize": "Standard_NCC40ads_H100_v5"},
        "driver",
        "AKS installs no driver for confidential GPUs",
        "operator",
        "a signed image",
    ),
    _pool("subnet-by-name", {"subnet": "gpu"}, "subnet", '"gpu" is not the id', "virtualNetworks/<name>/subnets", "az network"),
    _pool("subnet-a-number", {"subnet": 7}, "subnet", "7 is not the id of such a resource", "/subscriptions/<id>"),
    _pool(
        "subnet-of-a-network",
        {"subnet": id_of("Microsoft.Network/virtualNetworks/hub")},
        "subnet",
        "is not the id of such a resource",
    ),
    _pool(
        "pod-subnet-alone",
        {"podSubnet": subnet("pods")},
        "podSubnet",
        "the nodes have no subnet",
        "`subnet` beside it",
        problems=2,
    ),
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
        # Nor has the cluster an identity of its own.
        problems=2,
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
    _pool("driver-type", {"driverType": "CUDA"}, "driverType", "unknown key", remedy="Remove it: Azure has it for Windows"),
    _pool("azure-name-of-a-key", {"vnetSubnetID": subnet("gpu")}, "vnetSubnetID", "unknown key", remedy="Did you mean `subnet`?"),
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
    _pool("property-a-number", {"properties": {"hostGroupID": 5}}, "properties.hostGroupID", "5 is not a text"),
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


def _cluster(
    id_: str, cluster: dict[str, Any], place: str, message: str, allowed: str = "", remedy: str = "", **more: Any
) -> Case:
    return Case(f"aks-cluster-{id_}", aks(cluster=cluster), f"{_CLUSTER}.{place}", message, allowed, remedy, **more)


def _network(
    id_: str, network: dict[str, Any], place: str, message: str, allowed: str = "", remedy: str = "", **more: Any
) -> Case:
    return _cluster(f"network-{id_}", {"network": network}, f"network.{place}", message, allowed, remedy, **more)


_NODES: Final = subnet("nodes")
_SCALED: Final = {"count": GONE, "nodes": {"min": 0, "max": 2}}
_PROVISIONED: Final = {"properties": {"nodeProvisioningProfile": {"mode": "Auto"}}}
_IDENTITY: Final = id_of("Microsoft.ManagedIdentity/userAssignedIdentities/gpu")
_CLUSTERS: Final = (
    Case(
        "aks-cluster-node-auto-provisioning-and-an-autoscaled-pool",
        aks(_SCALED, cluster=_PROVISIONED),
        f"{_POOL}.nodes",
        "Azure refuses a pool with the cluster autoscaler beside it (C23)",
        "`count`",
        "take `nodeProvisioningProfile` out",
    ),
    _cluster(
        "managed-gpus-by-a-tag",
        {"tags": {"enableManagedGpuExperience": "True"}},
        "tags.enableManagedGpuExperience",
        "a device plugin and an exporter of its own beside the operator's (C19)",
    ),
    _cluster(
        "two-groups",
        {"resourceGroup": "one", "existingResourceGroup": "two"},
        "existingResourceGroup",
        "`resourceGroup` is written",
    ),
    _cluster("group-of-nodes-with-a-slash", {"nodeResourceGroup": "a/b"}, "nodeResourceGroup", '"a/b" does not fit', "1 to 90"),
    _cluster("network-a-text", {"network": "overlay"}, "network", "is not a mapping"),
    _network("subnet-by-name", {"nodeSubnet": "nodes"}, "nodeSubnet", '"nodes" is not the id', "virtualNetworks"),
    _network("pods-without-nodes", {"podSubnet": subnet("pods")}, "podSubnet", "the nodes have no subnet", "`nodeSubnet`"),
    _network(
        "pods-with-overlay",
        {"nodeSubnet": _NODES, "podSubnet": subnet("pods"), "pluginMode": "overlay"},
        "podSubnet",
        "pods have a range of their own",
    ),
    _network("plugin-unknown", {"plugin": "calico"}, "plugin", '"calico" is unknown', "azure | kubenet | none"),
    _network(
        "overlay-of-kubenet", {"plugin": "kubenet", "pluginMode": "overlay"}, "pluginMode", "kubenet has no overlay", "azure"
    ),
    _network(
        "cilium-of-kubenet", {"plugin": "kubenet", "dataplane": "cilium"}, "dataplane", "needs the plugin azure, not kubenet"
    ),
    _network("calico-with-cilium", {"dataplane": "cilium", "policy": "calico"}, "policy", "it is cilium, not calico", "cilium"),
    _network("cilium-alone", {"policy": "cilium"}, "policy", "cilium needs the dataplane cilium", remedy="`dataplane: cilium`"),
    _network("azure-of-kubenet", {"plugin": "kubenet", "policy": "azure"}, "policy", "azure enforces nothing with kubenet"),
    _network("no-range", {"podCidr": "10.1.2.3/16"}, "podCidr", '"10.1.2.3/16" is not a range of addresses', "host part is 0"),
    _network("one-address", {"podCidr": "10.1.0.0"}, "podCidr", "is not a range of addresses"),
    _network("kept-range", {"podCidr": "172.30.0.0/16"}, "podCidr", "is kept by AKS for itself", remedy="169.254.0.0/16"),
    _network(
        "range-without-use",
        {"nodeSubnet": _NODES, "pluginMode": "none", "podCidr": "10.1.0.0/16"},
        "podCidr",
        "addresses of the network",
    ),
    _network("services-alone", {"serviceCidr": "10.9.0.0/16"}, "serviceCidr", "together or not at all", "10.100.0.10"),
    _network("dns-alone", {"dnsServiceIp": "10.9.0.10"}, "dnsServiceIp", "together or not at all"),
    _network(
        "dns-no-address",
        {"serviceCidr": "10.9.0.0/16", "dnsServiceIp": "dns"},
        "dnsServiceIp",
        '"dns" is not an address',
    ),
    _network(
        "dns-elsewhere",
        {"serviceCidr": "10.9.0.0/16", "dnsServiceIp": "10.0.0.10"},
        "dnsServiceIp",
        "10.0.0.10 is not an address for it in 10.9.0.0/16",
        remedy="10.9.0.10",
    ),
    _network(
        "dns-first",
        {"serviceCidr": "10.9.0.0/16", "dnsServiceIp": "10.9.0.1"},
        "dnsServiceIp",
        "10.9.0.1 is not an address for it",
    ),
    _network(
        "services-too-large", {"serviceCidr": "10.16.0.0/12", "dnsServiceIp": "10.16.0.10"}, "serviceCidr", "is too large", "/12"
    ),
    _network(
        "ranges-overlap",
        {"serviceCidr": "10.244.0.0/20", "dnsServiceIp": "10.244.0.10"},
        "serviceCidr",
        "overlaps the pods' range 10.244.0.0/16",
    ),
    _network("routes-without-a-network", {"outboundType": "userDefinedRouting"}, "outboundType", "needs a network of your own"),
    _network(
        "gateway-of-azure-in-a-network",
        {"nodeSubnet": _NODES, "outboundType": "managedNATGateway"},
        "outboundType",
        "in no network of yours",
        "userAssignedNATGateway",
    ),
    _network("outbound-none", {"outboundType": "none"}, "outboundType", '"none" is unknown', "loadBalancer | managedNATGateway"),
    _network("basic", {"loadBalancerSku": "basic"}, "loadBalancerSku", '"basic" is unknown', "standard", "retired basic"),
    _network(
        "balancer-beside-a-gateway",
        {"outboundType": "managedNATGateway", "loadBalancer": {"managedIps": 2}},
        "loadBalancer",
        "nodes reach outside by managedNATGateway",
    ),
    _network(
        "two-kinds-of-addresses",
        {"loadBalancer": {"managedIps": 2, "prefixes": [id_of("Microsoft.Network/publicIPPrefixes/p")]}},
        "loadBalancer",
        "more than one of managedIps, ips and prefixes",
    ),
    _network(
        "many-ports", {"loadBalancer": {"allocatedOutboundPorts": 65000}}, "loadBalancer.allocatedOutboundPorts", "out of bounds"
    ),
    _network(
        "address-by-name", {"loadBalancer": {"ips": ["one"]}}, "loadBalancer.ips[0]", '"one" is not the id', "publicIPAddresses"
    ),
    _cluster(
        "ranges-of-a-private-server",
        {"apiServer": {"private": True, "authorizedIpRanges": ["203.0.113.0/24"]}},
        "apiServer.authorizedIpRanges",
        "a private API server has none",
    ),
    _cluster(
        "zone-of-a-public-server", {"apiServer": {"privateDnsZone": "system"}}, "apiServer.privateDnsZone", "is not private"
    ),
    _cluster(
        "name-of-a-public-server", {"apiServer": {"publicFqdn": False}}, "apiServer.publicFqdn", "is not private", "private: true"
    ),
    _cluster(
        "server-without-a-name",
        {"apiServer": {"private": True, "privateDnsZone": "none", "publicFqdn": False}},
        "apiServer.publicFqdn",
        "it would have no name",
    ),
    _cluster(
        "zone-by-name",
        {"apiServer": {"private": True, "privateDnsZone": "privatelink.example"}},
        "apiServer.privateDnsZone",
        "is not the id of such a resource",
        "system or none",
    ),
    _cluster(
        "zone-without-rights",
        {"apiServer": {"private": True, "privateDnsZone": id_of("Microsoft.Network/privateDnsZones/z")}},
        "apiServer.privateDnsZone",
        "has no rights on a zone of yours",
        "identity.userAssigned",
    ),
    _cluster(
        "caller-no-range",
        {"apiServer": {"authorizedIpRanges": ["office"]}},
        "apiServer.authorizedIpRanges[0]",
        '"office" is not a range',
    ),
    _cluster("identity-by-name", {"identity": {"userAssigned": "gpu"}}, "identity.userAssigned", '"gpu" is not the id'),
    _cluster(
        "kubelets-alone",
        {"identity": {"kubelet": {"id": _IDENTITY, "clientId": GUID, "objectId": GUID}}},
        "identity.kubelet",
        "cannot assign it",
        "`userAssigned` beside it",
    ),
    _cluster(
        "kubelets-half",
        {"identity": {"userAssigned": _IDENTITY, "kubelet": {"id": _IDENTITY, "clientId": GUID}}},
        "identity.kubelet.objectId",
        "is missing",
        "a GUID",
    ),
    _cluster(
        "workload-identity-alone", {"workloadIdentity": True}, "workloadIdentity", "it needs the issuer", "oidcIssuer: true"
    ),
    _cluster(
        "rotation-interval",
        {"keyVaultSecrets": {"rotationInterval": "2"}},
        "keyVaultSecrets.rotationInterval",
        '"2" does not fit',
    ),
    _cluster(
        "channel-unknown", {"upgrades": {"channel": "Stable"}}, "upgrades.channel", '"Stable" is unknown', "stable", "`stable`"
    ),
    _cluster(
        "channel-and-version",
        {"kubernetesVersion": "1.34", "upgrades": {"channel": "stable"}},
        "kubernetesVersion",
        "the channel stable moves it",
        "the channel patch",
    ),
    _cluster(
        "channel-and-patch",
        {"kubernetesVersion": "1.34.2", "upgrades": {"channel": "patch"}},
        "kubernetesVersion",
        "moves on from 1.34.2",
        remedy='Write "1.34".',
    ),
    _cluster(
        "window-for-nothing",
        {"maintenance": {"clusterUpgrade": {"day": "Sunday", "startTime": "02:00", "durationHours": 4}}},
        "maintenance.clusterUpgrade",
        "Azure upgrades nothing by itself",
        "upgrades.channel",
    ),
    _cluster(
        "window-too-short",
        {"maintenance": {"nodeOsUpgrade": {"startTime": "02:00", "durationHours": 2}}},
        "maintenance.nodeOsUpgrade.durationHours",
        "2 is out of bounds",
        "at least 4",
    ),
    _cluster(
        "window-start",
        {"maintenance": {"nodeOsUpgrade": {"startTime": "2am", "durationHours": 4}}},
        "maintenance.nodeOsUpgrade.startTime",
        '"2am" does not fit',
        "02:00",
    ),
    _cluster(
        "window-of-no-images",
        {"upgrades": {"nodeOsChannel": "None"}, "maintenance": {"nodeOsUpgrade": {"startTime": "02:00", "durationHours": 4}}},
        "maintenance.nodeOsUpgrade",
        "Azure exchanges no node images",
    ),
    _cluster(
        "window-every-month",
        {"maintenance": {"nodeOsUpgrade": {"day": "Sunday", "every": 5, "startTime": "02:00", "durationHours": 4}}},
        "maintenance.nodeOsUpgrade.every",
        "5 weeks are too many",
    ),
    _cluster("autoscaler-a-number", {"autoscaler": {"scanInterval": 10}}, "autoscaler.scanInterval", "10 is not a text", "10m"),
    _cluster(
        "autoscaler-a-flag",
        {"autoscaler": {"skipNodesWithLocalStorage": False}},
        "autoscaler.skipNodesWithLocalStorage",
        "false is not a text",
    ),
    _cluster(
        "autoscaler-unknown",
        {"autoscaler": {"expander": "cheapest"}},
        "autoscaler.expander",
        '"cheapest" is unknown',
        "least-waste",
    ),
    _cluster("registry-by-name", {"containerRegistries": ["acr"]}, "containerRegistries[0]", '"acr" is not the id', "registries"),
    _cluster(
        "workspace-by-name", {"monitoring": {"workspace": "logs"}}, "monitoring.workspace", '"logs" is not the id', "workspaces"
    ),
    _cluster(
        "property-unknown",
        {"properties": {"networkProfile": {"podCdir": "10.1.0.0/16"}}},
        "properties.networkProfile.podCdir",
        "unknown property `podCdir` of azure-native's ContainerServiceNetworkProfile",
        "podCidr",
        "`podCidr`",
    ),
    _cluster(
        "property-of-a-key", {"properties": {"aadProfile": {}}}, "properties.aadProfile", "decided by the stack", "", "`entra`"
    ),
    _cluster(
        "property-of-the-system-pool",
        {"systemPool": {"vmSize": "Standard_D4s_v5", "count": 1, "properties": {"maxPod": 60}}},
        "systemPool.properties.maxPod",
        "unknown property `maxPod`",
        "maxPods",
    ),
    Case(
        "aks-pool-subnet-without-the-clusters",
        aks({"subnet": subnet("gpu")}),
        f"{_POOL}.subnet",
        "the system pool lies in a network that Azure makes",
        "network.nodeSubnet",
    ),
    Case(
        "aks-pool-subnet-of-another-network",
        aks({"subnet": subnet("gpu", "spoke")}, cluster={"network": {"nodeSubnet": _NODES}}),
        f"{_POOL}.subnet",
        "it lies in spoke, the cluster in hub",
    ),
    Case(
        "aks-pool-reservation-without-rights",
        aks({"capacityReservationGroup": _GROUP}),
        f"{_POOL}.capacityReservationGroup",
        "an identity that Azure makes cannot use it",
        "identity.userAssigned",
    ),
    Case(
        "aks-pool-version-beside-a-channel",
        aks({"kubernetesVersion": "1.34"}, cluster={"upgrades": {"channel": "rapid"}}),
        f"{_POOL}.kubernetesVersion",
        "the cluster's channel rapid moves it",
    ),
)
OPTION_CASES: Final = (*_POOLS, *_CLUSTERS)


def _all_at_once() -> tuple[str, tuple[tuple[str, str], ...]]:
    """A stack with every pool and GPU model that is wrong by itself, and the place and message of each mistake."""
    config: dict[str, Any] = {}
    pools: list[dict[str, Any]] = []
    told: list[tuple[str, str]] = []
    for case in _POOLS:
        written = yaml.safe_load(case.stack)["config"]
        if written["gpu-pools:cluster"] != GOOD_CLUSTER:
            continue
        config = config or written
        (pool,) = written["gpu-pools:pools"]
        told.append((case.path.replace("pools[0]", f"pools[{len(pools)}]"), case.message))
        pools.append({**pool, "name": f"p{len(pools)}"})
    models: dict[str, Any] = {}
    for case in ALONE:
        (says,) = yaml.safe_load(case.stack)["config"]["gpu-pools:gpuModels"].values()
        told.append((case.path.replace("gpuModels.card", f"gpuModels.card{len(models)}"), case.message))
        models[f"card{len(models)}"] = says
    sections = {**config, "gpu-pools:gpuModels": models, "gpu-pools:pools": pools}
    return yaml.safe_dump({"config": sections}, sort_keys=False), tuple(told)


GOOD_CLUSTER: Final = yaml.safe_load(aks())["config"]["gpu-pools:cluster"]
MANY_MISTAKES, MANY_TOLD = _all_at_once()
