"""What a user writes who follows a remedy with knowledge of his own: another name, an id, a whole mapping.

``BY_HAND`` adds to what followed_remedies.py reads off a text. ``INSTEAD`` takes its place where the text offers more than this
one stack can have, with the reason. A key is the id of a case, for the problem that the case is about; with a path behind it, for
another problem of the same stack. Each value is a list of edits, tried one by one: path -> value, ``Renamed``, or ``GONE``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.unit.followed_remedies import Renamed
from tests.unit.stacks import A100, GONE, aks

if TYPE_CHECKING:
    from collections.abc import Mapping

_POOL: Final = "gpu-pools:pools[0]"
_CLUSTER: Final = "gpu-pools:cluster"
_SHARING: Final = "gpu-pools:sharing"
_OPERATOR: Final = "gpu-pools:operator"
_NETWORK: Final = f"{_CLUSTER}.network"
_CARD: Final = "gpu-pools:gpuModels.card"
_PROFILE: Final = f"{_CARD}.mig.profiles.2g.36gb"
_GUID: Final = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
_GOOD_POOL: Final = {"name": "gpu", "vmSize": A100, "count": 1, "sharing": "whole"}
_SELECTOR: Final = {"kubernetes.io/hostname": "gpu-1"}
_DIGEST: Final = f"registry.example.com/python:3.12-slim@sha256:{'0' * 64}"

Edits = tuple["Mapping[str, Any]", ...]


def _id(type_: str, name: str = "one", group: str = "net") -> str:
    provider, *kinds = type_.split("/")
    inner = "".join(f"/{kind}/{name}" for kind in kinds)
    return f"/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/{group}/providers/{provider}{inner}"


_SUBNET: Final = _id("Microsoft.Network/virtualNetworks/subnets", "hub")
_IDENTITY: Final = _id("Microsoft.ManagedIdentity/userAssignedIdentities")

#: Files that could not be read: what a user makes of them. What else is wrong there is told once they can be read.
FILES: Final[Mapping[str, str]] = {
    "file-empty": aks(),
    "file-only-comments": "# nothing yet\n" + aks(),
    "file-not-yaml": "config:\n  a: 'b: c'\n",
    "file-tab-indent": "config:\n  gpu-pools:pools: []\n",
    "file-duplicate-section": "config:\n  gpu-pools:sharing: {}\n",
    "file-duplicate-key-deep-down": "config:\n  gpu-pools:sharing:\n    nb:\n      timeSlicing:\n        replicas: 4\n",
    "file-yaml-list": aks(),
    "file-yaml-scalar": aks(),
    "file-no-config": "encryptionsalt: v1:abc\n" + aks(),
    "file-config-empty": aks(),
    "file-config-list": aks(),
    "file-impossible-date": "config: {gpu-pools:pools: '2026-99-99'}\n",
    "file-impossible-number": "config: {gpu-pools:pools: '0x_'}\n",
}


def _each(value: Any, *cases: str, path: str) -> dict[str, Edits]:
    return dict.fromkeys(cases, ({path: value},))


BY_HAND: Final[Mapping[str, Edits]] = {
    "model-of-another-line": (
        {"gpu-pools:gpuModels": {"rtx-4090": {"product": "NVIDIA GeForce RTX 4090", "memoryMiB": 24564, "mig": False}}},
    ),
    "model-that-is-a-vgpu": ({"gpu-pools:gpuModels": {"a40-8q": {"product": "NVIDIA A40-8Q", "memoryMiB": 8192, "mig": False}}},),
    "cluster-a-text": ({_CLUSTER: {"platform": "aks"}},),
    "cluster-a-text gpu-pools:pools": ({"gpu-pools:pools": [_GOOD_POOL], _SHARING: {"whole": {"exclusive": {}}}},),
    "cluster-unknown-platform-does-not-hide-the-pools": ({f"{_POOL}.name": "twelvechars1"},),
    "cluster-bad-name": ({f"{_CLUSTER}.name": "x"},),
    "cluster-tags-a-list": ({f"{_CLUSTER}.tags": {"a": "b"}},),
    "entra-group-by-name": ({f"{_CLUSTER}.entra.adminGroups[0]": _GUID},),
    **_each([_GUID], "entra-empty", "entra-no-group", path=f"{_CLUSTER}.entra.adminGroups"),
    **_each(
        "a" * 242, "magnum-name-begins-with-digit", "magnum-name-with-a-space", "magnum-name-too-long", path=f"{_CLUSTER}.name"
    ),
    "magnum-keypair-empty": ({f"{_CLUSTER}.keypair": "k" * 255},),
    "magnum-template-id-too-long": ({f"{_CLUSTER}.templateId": "t" * 255},),
    "magnum-image-empty": ({f"{_CLUSTER}.template.image": "i" * 255},),
    "magnum-flavor-empty": ({f"{_CLUSTER}.template.flavor": "f"},),
    "magnum-externalNetwork-too-long": ({f"{_CLUSTER}.template.externalNetwork": "n" * 255},),
    "aks-name-missing": ({f"{_CLUSTER}.name": "gpu"},),
    "aks-location-missing": ({f"{_CLUSTER}.location": "westeurope"},),
    "magnum-neither-template-nor-id": (
        {f"{_CLUSTER}.templateId": "kubernetes-1.34"},
        {f"{_CLUSTER}.template": {"image": "fedora-coreos", "externalNetwork": "public", "flavor": "m2.large"}},
    ),
    "sharing-a-list": ({_SHARING: {"whole": {"exclusive": {}}}},),
    "sharing-a-text": ({f"{_SHARING}.x": {"timeSlicing": {"replicas": 2}}},),
    "sharing-needs-nothing": ({f"{_SHARING}.x.needs": {"memoryPerReplica": "12Gi"}},),
    "exclusive-true": ({f"{_SHARING}.x.exclusive": {}},),
    **_each({"replicas": 4}, "time-slicing-a-number", "time-slicing-nothing", path=f"{_SHARING}.x.timeSlicing"),
    "mps-on-mig": ({f"{_SHARING}.cut.mig.mps": GONE, f"{_SHARING}.cut.mig.timeSlicing": {"replicas": 4}},),
    "mig-a-list": ({f"{_SHARING}.x.mig": {"layout": {"1g.10gb": 7}}},),
    "mig-replicas-on-instances-1": (
        {f"{_SHARING}.cut.mig.timeSlicing.replicas.1g.10gb": 2},
        {f"{_SHARING}.cut.mig.timeSlicing": GONE},
    ),
    "mig-on-t4": (
        {f"{_POOL}.sharing": "whole"},
        {f"{_POOL}.vmSize": A100},
    ),
    "mig-index-missing": ({f"{_SHARING}.cut.mig.gpus": [{"index": 0, "layout": {"1g.10gb": 7}}, {"index": 1, "layout": {}}]},),
    "mig-index-beyond": ({f"{_SHARING}.cut.mig.gpus[0].index": [0]},),
    "mig-index-twice": (
        {f"{_SHARING}.cut.mig.gpus[0].index": 0},
        {f"{_SHARING}.cut.mig.gpus": [{"index": [0, 1], "layout": {"1g.10gb": 7}}]},
    ),
    "mig-index-twice-in-one-entry": ({f"{_SHARING}.cut.mig.gpus[0].index": [0]},),
    **_each(
        [{"index": 0, "layout": {"1g.10gb": 7}}],
        "mig-gpus-empty",
        "mig-gpus-nothing",
        "mig-gpus-a-mapping",
        path=f"{_SHARING}.x.mig.gpus",
    ),
    "mig-time-slicing-nothing": ({f"{_SHARING}.cut.mig.timeSlicing": {"replicas": 2}},),
    **_each([_GOOD_POOL], "pools-missing", "pools-empty", "pools-a-mapping", path="gpu-pools:pools"),
    "pool-a-text": ({_POOL: _GOOD_POOL},),
    "pool-size-declared-without-number": ({f"{_POOL}.gpusPerNode": 8},),
    "pool-size-declared-without-model": ({f"{_POOL}.gpuModel": "v100-32gb"},),
    "pool-size-declared-twice": ({"gpu-pools:pools[1].gpuModel": "v100-32gb"}, {f"{_POOL}.gpuModel": "v100-16gb"}),
    "operator-oci-under-repository": ({f"{_OPERATOR}.chart": {"oci": "oci://mirror.example.com/gpu-operator"}},),
    "nfd-url-under-oci": ({"gpu-pools:nodeFeatureDiscovery.chart": {"repository": "https://mirror.example.com/charts"}},),
    **_each(
        "gpu1",
        "pool-name-missing",
        "pool-name-13-characters",
        "pool-name-with-dash-on-aks",
        "pool-name-upper-case",
        "pool-name-a-number",
        "pool-name-default-worker",
        path=f"{_POOL}.name",
    ),
    "pool-image-empty": ({f"{_POOL}.image": "i" * 255},),
    "pool-name-twice": ({"gpu-pools:pools[1].name": "other"}, {f"{_POOL}.name": "other"}),
    "pool-inline-sharing": ({f"{_SHARING}.moved": {"timeSlicing": {"replicas": 4}}, f"{_POOL}.sharing": "moved"},),
    "pool-neither-count-nor-nodes": ({f"{_POOL}.count": 2}, {f"{_POOL}.nodes": {"min": 0, "max": 4}}),
    "pool-min-above-max": ({f"{_POOL}.nodes": {"min": 2, "max": 3}},),
    "pool-nodes-a-number": ({f"{_POOL}.nodes": {"min": 0, "max": 3}},),
    **_each(["1", "2"], "pool-zone-a-number", "pool-zone-a-list", "pool-zones-a-text", path=f"{_POOL}.zones"),
    "pool-spot-true": ({f"{_POOL}.spot": {"maxPrice": -1}}, {f"{_POOL}.spot": {}}),
    "pool-spot-not-a-number": ({f"{_POOL}.spot.maxPrice": 0.5},),
    **_each(
        {"g2.xlarge": {"gpuModel": "a100-40gb", "gpusPerNode": 1}, "g2.5xlarge": {"gpuModel": "a100-40gb", "gpusPerNode": 1}},
        "pool-no-flavors-at-all",
        "pool-flavor-undeclared",
        path="gpu-pools:flavors",
    ),
    "flavor-a-text": ({"gpu-pools:flavors.g2.5xlarge": {"gpuModel": "a100-40gb", "gpusPerNode": 1}},),
    **_each(_SELECTOR, "selector-missing", "selector-empty", path=f"{_POOL}.nodeSelector"),
    "selectors-equal": ({f"{_POOL}.nodeSelector": {"a": "b", "pool": "one"}, "gpu-pools:pools[1].nodeSelector.pool": "two"},),
    "selectors-overlap": ({"gpu-pools:pools[1].nodeSelector.c": "other"},),
    "labels-a-list": ({f"{_POOL}.labels": {"team": "a"}},),
    **_each("x" * 63, "label-value-too-long", "label-value-with-blank", path=f"{_POOL}.labels.tier"),
    "label-key-with-blank": ({f"{_POOL}.labels.a b": Renamed("a-b")},),
    "taints-a-text": ({f"{_POOL}.taints": ["sku=gpu:NoSchedule"]},),
    "taint-twice": ({f"{_POOL}.taints": ["sku=gpu:NoSchedule"]},),
    "operator-a-list": ({_OPERATOR: {}},),
    "mig-time-slicing-replicas-null": ({f"{_SHARING}.cut.mig.timeSlicing.replicas.1g.10gb": 2},),
    "operator-values-file-without-version": ({f"{_OPERATOR}.version": "v26.9.0"},),
    "operator-version-too-old-for-media-under-mixed": (
        {f"{_OPERATOR}.version": "v26.7.0"},
        {f"{_POOL}.sharing": "other", f"{_SHARING}.other": {"mig": {"layout": {"1g.10gb": 7}}}},
    ),
    "existing-kubeconfig-twice": ({f"{_CLUSTER}.kubeconfig": GONE}, {f"{_CLUSTER}.kubeconfigContent": GONE}),
    "registry-url-for-a-mirror": ({"gpu-pools:registry.mirror": "registry.example.com/mirror"},),
    "registry-user-without-password": ({"gpu-pools:registry.password": "secret"},),
    "registry-user-of-nowhere": ({"gpu-pools:registry.mirror": "registry.example.com/mirror"},),
    "registry-password-that-is-no-text": ({"gpu-pools:registry.password": "secret"},),
    "operator-two-sources": ({f"{_OPERATOR}.chart.oci": GONE}, {f"{_OPERATOR}.chart.path": GONE}),
    "operator-no-source": ({f"{_OPERATOR}.chart.path": "gpu-operator.tgz"},),
    "operator-source-not-a-url": ({f"{_OPERATOR}.chart.repository": "https://mirror.example.com/charts"},),
    "operator-values-a-list": ({f"{_OPERATOR}.values": {}},),
    "operator-value-that-the-chart-refuses": ({f"{_OPERATOR}.driver": "operator"},),
    "operator-value-mapping-erased": ({f"{_OPERATOR}.values": {}},),
    "operator-value-not-a-mapping": ({f"{_OPERATOR}.values.toolkit": {"imagePullPolicy": "Always"}},),
    "minimum-a-text": ({f"{_POOL}.minimum": {"driver": "570.124.06"}}, {f"{_POOL}.minimum": {"cuda": "12.8"}}),
    "minimum-newer-than-the-pinned-driver": (
        {f"{_POOL}.minimum.driver": "550.144.03"},
        {f"{_OPERATOR}.values.driver.version": "580.95.05"},
    ),
    "minimum-newer-than-the-chart-s-driver": (
        {f"{_POOL}.minimum.driver": "595.91.07"},
        {f"{_OPERATOR}.values": {"driver": {"version": "901.0.0"}}},
    ),
    "surge-of-a-pool-made-by-hand": ({_POOL: _GOOD_POOL},),
    "rollout-by-a-share-of-nothing": (
        {f"{_POOL}.rollout.maxUnavailable": 1},
        {f"{_POOL}.rollout.maxUnavailable": 100},
        {f"{_POOL}.rollout.maxUnavailable": "1%"},
        {f"{_POOL}.rollout.maxUnavailable": "100%"},
    ),
    "observability-not-a-mapping": ({"gpu-pools:observability": {}},),
    "observability-azure-of-a-cluster-that-is-there": (
        {
            "gpu-pools:observability.azure.workspace": _id("Microsoft.Monitor/accounts"),
            "gpu-pools:observability.azure.location": "westeurope",
        },
    ),
    "observability-azure-a-group-by-its-name": ({"gpu-pools:observability.azure.grafanaAdmins[0]": _GUID},),
    "observability-azure-a-log-workspace": ({"gpu-pools:observability.azure.workspace": _id("Microsoft.Monitor/accounts")},),
    "observability-label-no-label": ({"gpu-pools:observability.labels.release": "a-label"},),
    "verification-not-a-mapping": ({"gpu-pools:verification": {}},),
    "verification-image-without-digest": ({"gpu-pools:verification.image": _DIGEST},),
    "driver-owners-mixed": tuple(
        {f"{_POOL}.driver": GONE, "gpu-pools:pools[1].driver": GONE, _OPERATOR: {"driver": owner}}
        for owner in ("operator", "preinstalled")
    ),
    "partitioned-by-two-owners": ({f"{_POOL}.partitionedBy": "operator"}, {"gpu-pools:pools[1].partitionedBy": "aks"}),
    "partitioned-by-aks-mixed-layout": ({f"{_SHARING}.cut.mig.layout": {"1g.10gb": 7}},),
    "partitioned-by-aks-half-a-gpu": ({f"{_SHARING}.cut.mig.layout": {"1g.10gb": 7}},),
    "partitioned-by-aks-with-operator-driver": ({f"{_POOL}.partitionedBy": GONE},),
    "capi-helm-with-autoscaler-and-a-pool-that-may-be-empty-count": ({f"{_POOL}.count": 1},),
    "capi-helm-with-autoscaler-and-a-pool-that-may-be-empty-nodes.min": ({f"{_POOL}.nodes.min": 1},),
    "operator-that-is-there-with-mps-beside-mixed-mig": (
        {f"{_SHARING}.inf": {"timeSlicing": {"replicas": 2}}},
        {f"{_SHARING}.cut.mig.layout": {"1g.10gb": 7}},
    ),
    "aks-pool-pod-subnet-alone": ({f"{_POOL}.podSubnet": GONE},),
    "aks-pool-newer-than-the-cluster": ({f"{_CLUSTER}.kubernetesVersion": "1.35"},),
    "aks-pool-patch-newer-than-the-cluster": ({f"{_CLUSTER}.kubernetesVersion": "1.34.5"},),
    "aks-pool-too-old-for-the-cluster": ({f"{_POOL}.kubernetesVersion": "1.31"},),
    **_each(GONE, "aks-pool-reservation-by-name", "aks-pool-reservation-of-spot", path=f"{_POOL}.capacityReservationGroup"),
    "aks-pool-reservation-without-rights": ({f"{_CLUSTER}.identity": {"userAssigned": _IDENTITY}},),
    "aks-pool-proximity-in-two-zones": ({f"{_POOL}.zones": ["1"]},),
    "aks-pool-host-group-of-another-kind": ({f"{_POOL}.hostGroup": _id("Microsoft.Compute/hostGroups")},),
    "aks-pool-images-kept-below-what-is-removed": (
        {f"{_POOL}.kubeletConfig.imageGcLowThreshold": 60},
        {f"{_POOL}.kubeletConfig.imageGcHighThreshold": 70},
    ),
    "aks-pool-images-kept-below-the-default": (
        {f"{_POOL}.kubeletConfig.imageGcLowThreshold": 85},
        {f"{_POOL}.kubeletConfig.imageGcHighThreshold": 90},
    ),
    "aks-pool-sysctl-a-text": ({f"{_POOL}.linuxOsConfig.sysctls.vmMaxMapCount": 262144},),
    "aks-pool-properties-a-list": ({f"{_POOL}.properties": {"messageOfTheDay": "aGVsbG8="}},),
    "aks-pool-property-a-number": ({f"{_POOL}.properties.hostGroupID": "5"},),
    "aks-pool-property-no-list": ({f"{_POOL}.properties.networkProfile.allowedHostPorts": []},),
    "aks-cluster-node-auto-provisioning-and-an-autoscaled-pool": (
        {f"{_POOL}.nodes": GONE, f"{_POOL}.count": 1},
        {f"{_CLUSTER}.properties.nodeProvisioningProfile": GONE},
    ),
    "aks-cluster-two-groups": ({f"{_CLUSTER}.resourceGroup": GONE}, {f"{_CLUSTER}.existingResourceGroup": GONE}),
    "aks-cluster-group-of-nodes-with-a-slash": ({f"{_CLUSTER}.nodeResourceGroup": "a-b_c.(d)"},),
    "aks-cluster-network-a-text": ({_NETWORK: {"pluginMode": "overlay"}},),
    **_each(
        _SUBNET,
        "aks-cluster-network-subnet-by-name",
        "aks-cluster-network-pods-without-nodes",
        "aks-cluster-network-routes-without-a-network",
        path=f"{_NETWORK}.nodeSubnet",
    ),
    **_each(
        "10.244.0.0/16",
        "aks-cluster-network-no-range",
        "aks-cluster-network-one-address",
        "aks-cluster-network-kept-range",
        path=f"{_NETWORK}.podCidr",
    ),
    "aks-cluster-network-services-alone": (
        {f"{_NETWORK}.serviceCidr": "10.100.0.0/16", f"{_NETWORK}.dnsServiceIp": "10.100.0.10"},
    ),
    "aks-cluster-network-dns-alone": ({f"{_NETWORK}.serviceCidr": "10.100.0.0/16", f"{_NETWORK}.dnsServiceIp": "10.100.0.10"},),
    "aks-cluster-network-dns-no-address": ({f"{_NETWORK}.dnsServiceIp": "10.9.0.10"},),
    "aks-cluster-network-services-too-large": (
        {f"{_NETWORK}.serviceCidr": "10.16.0.0/16"},
        {f"{_NETWORK}.serviceCidr": "10.16.0.0/13"},
    ),
    "aks-cluster-network-ranges-overlap": ({f"{_NETWORK}.serviceCidr": "10.9.0.0/16", f"{_NETWORK}.dnsServiceIp": "10.9.0.10"},),
    "aks-cluster-network-balancer-beside-a-gateway": (
        {f"{_NETWORK}.loadBalancer": GONE},
        {f"{_NETWORK}.outboundType": "loadBalancer"},
    ),
    "aks-cluster-network-two-kinds-of-addresses": (
        {f"{_NETWORK}.loadBalancer.managedIps": GONE},
        {f"{_NETWORK}.loadBalancer.prefixes": GONE},
    ),
    "aks-cluster-network-address-by-name": ({f"{_NETWORK}.loadBalancer.ips[0]": _id("Microsoft.Network/publicIPAddresses")},),
    "aks-cluster-zone-by-name": (
        {f"{_CLUSTER}.apiServer.privateDnsZone": "system"},
        {f"{_CLUSTER}.apiServer.privateDnsZone": "none"},
    ),
    "aks-cluster-zone-without-rights": (
        {f"{_CLUSTER}.identity": {"userAssigned": _IDENTITY}},
        {f"{_CLUSTER}.apiServer.privateDnsZone": "system"},
    ),
    "aks-cluster-caller-no-range": ({f"{_CLUSTER}.apiServer.authorizedIpRanges[0]": "203.0.113.0/24"},),
    "aks-cluster-identity-by-name": ({f"{_CLUSTER}.identity.userAssigned": _IDENTITY},),
    "aks-cluster-kubelets-half": ({f"{_CLUSTER}.identity.kubelet.objectId": _GUID},),
    "aks-cluster-kubelets-alone": ({f"{_CLUSTER}.identity.userAssigned": _IDENTITY},),
    "aks-cluster-window-every-month": ({f"{_CLUSTER}.maintenance.nodeOsUpgrade.every": 4},),
    "aks-cluster-registry-by-name": ({f"{_CLUSTER}.containerRegistries[0]": _id("Microsoft.ContainerRegistry/registries")},),
    "aks-cluster-workspace-by-name": ({f"{_CLUSTER}.monitoring.workspace": _id("Microsoft.OperationalInsights/workspaces")},),
    "aks-pool-subnet-of-another-network": ({f"{_POOL}.subnet": _SUBNET},),
    **_each(
        "10.0.0.1,10.0.0.2",
        "magnum-template-no-proxy-with-blanks",
        "magnum-template-no-proxy-too-long",
        "magnum-template-no-proxy-empty-part",
        "magnum-template-no-proxy-a-list",
        path=f"{_CLUSTER}.template.noProxy",
    ),
    "magnum-cluster-network-too-long": ({f"{_CLUSTER}.fixedNetwork": "n" * 255},),
    "magnum-cluster-subnet-a-list": ({f"{_CLUSTER}.fixedSubnet": "one"},),
    "magnum-cluster-zone-a-list": ({f"{_CLUSTER}.availabilityZone": "nova"},),
    "magnum-cluster-volume-a-number": ({f"{_CLUSTER}.bootVolume": {"size": 50}},),
    "gpu-models-a-list": ({"gpu-pools:gpuModels": {}},),
    "gpu-model-a-text": ({_CARD: {"mig": False}},),
    "gpu-model-twice": ({"gpu-pools:gpuModels.other": GONE}, {"gpu-pools:gpuModels.next": GONE}),
    "gpu-model-without-mig-partitioned": (
        {f"{_SHARING}.whole": {"exclusive": {}}, f"{_POOL}.sharing": "whole"},
        {f"{_POOL}.gpuModel": "a100-80gb"},
    ),
    "gpu-model-mig-without-source": ({f"{_CARD}.mig.source": "nvidia-smi mig -lgip and -lgipp, driver 580.95.05"},),
    **_each(
        {"7g.144gb": {"starts": [0], "size": 8}},
        "gpu-model-mig-without-profiles",
        "gpu-model-mig-no-profiles",
        "gpu-model-mig-profiles-a-list",
        path=f"{_CARD}.mig.profiles",
    ),
    "gpu-model-mig-profile-by-its-id": ({f"{_CARD}.mig.profiles.19": Renamed("1g.18gb")},),
    "gpu-model-mig-larger-than-the-gpu": (
        {f"{_CARD}.mig.computeSlices": 7},
        {f"{_CARD}.mig.profiles.7g.144gb": Renamed("4g.72gb")},
    ),
    "gpu-model-mig-profile-a-number": ({_PROFILE: {"starts": [0, 2, 4], "size": 2}},),
    **_each(
        [0, 2, 4],
        "gpu-model-mig-profile-without-starts",
        "gpu-model-mig-profile-no-starts",
        "gpu-model-mig-profile-starts-a-text",
        "gpu-model-mig-profile-starts-out-of-order",
        "gpu-model-mig-profile-starts-beyond-the-gpu",
        path=f"{_PROFILE}.starts",
    ),
}

#: The reason -> the edits that this stack can have, of all that the text offers.
INSTEAD: Final[Mapping[str, tuple[str, Edits]]] = {
    **{
        case: ("the rest of the file is of AKS", ({f"{_CLUSTER}.platform": "aks"},))
        for case in (
            "cluster-a-list",
            "cluster-no-platform",
            "cluster-unknown-platform",
            "cluster-unknown-platform-does-not-hide-the-pools gpu-pools:cluster.platform",
            "cluster-unknown-platform-does-not-hide-the-cluster gpu-pools:cluster.platform",
        )
    },
    "section-misspelled-does-not-hide-what-is-in-it": (
        "the section has its right name then",
        ({"gpu-pools:poolz": Renamed("gpu-pools:pools"), f"{_POOL}.count": 0},),
    ),
    "aks-pool-azure-name-of-a-key": (
        "a subnet of one's own needs one for the system pool",
        ({f"{_POOL}.vnetSubnetID": Renamed("subnet"), f"{_NETWORK}.nodeSubnet": _SUBNET},),
    ),
    "magnum-driver-missing": (
        "capi-helm brings operators, of which a deploy must say whether they are used",
        (
            {f"{_CLUSTER}.driver": "heat"},
            {f"{_CLUSTER}.driver": "magnum-cluster-api"},
            {
                f"{_CLUSTER}.driver": "capi-helm",
                f"{_OPERATOR}.install": False,
                "gpu-pools:nodeFeatureDiscovery.install": False,
            },
        ),
    ),
    "pool-min-negative": ("the pool has a max of 2", ({f"{_POOL}.nodes.min": 0}, {f"{_POOL}.nodes.min": 2})),
    "taint-reserved-by-aks": ("the pool has the example already", ({f"{_POOL}.taints[1]": "team=a:NoSchedule"},)),
    "taint-a-number": ("the pool has the example already", ({f"{_POOL}.taints[1]": "team=a:NoSchedule"},)),
    "partitioned-by-somebody": ("without MIG only one of them fits", ({f"{_POOL}.partitionedBy": "operator"},)),
    "operator-install-a-text": ("a cluster that the stack makes has no operator", ({f"{_OPERATOR}.install": True},)),
    "aks-cluster-network-outbound-none": (
        "two of them need a network of one's own",
        (
            {f"{_NETWORK}.outboundType": "loadBalancer"},
            {f"{_NETWORK}.outboundType": "managedNATGateway"},
            {f"{_NETWORK}.outboundType": "userAssignedNATGateway", f"{_NETWORK}.nodeSubnet": _SUBNET},
            {f"{_NETWORK}.outboundType": "userDefinedRouting", f"{_NETWORK}.nodeSubnet": _SUBNET},
        ),
    ),
    **{
        case: ("it is written where the model is used", ({f"{_POOL}.gpuModel": model, path: GONE},))
        for case, model, path in (
            ("gpu-model-product-of-the-tables", "a100-80gb", _CARD),
            ("gpu-model-product-as-a-label", "a30-24gb", _CARD),
            ("gpu-model-of-the-tables", "t4-16gb", "gpu-pools:gpuModels.t4-16gb"),
        )
    },
    **{
        case: ("a profile of it takes 7", ({f"{_CARD}.mig.computeSlices": 7}, {f"{_CARD}.mig.computeSlices": 8}))
        for case in ("gpu-model-mig-without-slices", "gpu-model-mig-many-slices")
    },
    **{
        case: (
            "a subnet of one's own needs one for the system pool",
            ({f"{_POOL}.subnet": _SUBNET, f"{_NETWORK}.nodeSubnet": _SUBNET},),
        )
        for case in ("aks-pool-subnet-by-name", "aks-pool-subnet-a-number", "aks-pool-subnet-of-a-network")
    },
    "gpu-model-mig-profile-without-size": ("it starts at 0, 2 and 4", ({f"{_PROFILE}.size": 1}, {f"{_PROFILE}.size": 2})),
}

#: Remedies that no edit of the stack file follows -> why.
NO_EDIT: Final[Mapping[str, str]] = {
    "operator-values-file-gone": "the remedy writes the file that the stack names",
    "operator-values-file-without-version gpu-pools:operator.valuesFile": "the remedy writes the file that the stack names",
}
