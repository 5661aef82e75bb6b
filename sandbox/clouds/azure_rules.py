"""Rules of the Azure container service, as pure functions: what it refuses, in its words.

Stand-in: nothing here asks Azure. Texts marked "seen" below were copied from what the service answered to
others; the rest keep the service's pattern ("The value of parameter X is invalid. Error details: ...").
Sources: MicrosoftDocs/azure-aks-docs at fb060abe (node pools, labels, taints, spot, multi-instance GPU);
the issue trackers of Azure/AKS, azure-cli, pulumi-azure-native and cluster-api-provider-azure for the
texts. Versions of Kubernetes are in azure_versions, quotas and regions without a size in azure_subscription. Deliberately not
modelled: Windows nodes, networking.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from gpu_pools.hardware import azure_sizes
from gpu_pools.text.yaml_text import load_yaml
from sandbox.clouds.azure_errors import AzureError, invalid, missing
from sandbox.clouds.azure_pool_options import check_disk, check_options, check_tags
from sandbox.cluster.machine_groups import Hardware

Body = dict[str, Any]
"""Properties of a resource as ARM takes them: plain, camelCase."""

POOL_NAME: Final = r"^[a-z][a-z0-9]{0,11}$"
CLUSTER_NAME: Final = r"^[a-zA-Z0-9]$|^[a-zA-Z0-9][-_a-zA-Z0-9]{0,61}[a-zA-Z0-9]$"
DEFAULT_VM_SIZE: Final = "Standard_D4s_v5"
SPOT_KEY: Final = "kubernetes.azure.com/scalesetpriority"
SPOT_TAINT: Final = f"{SPOT_KEY}=spot:NoSchedule"
GPU_PROFILES: Final = ("MIG1g", "MIG2g", "MIG3g", "MIG4g", "MIG7g")
SYSTEM_TAINT: Final = "CriticalAddonsOnly=true:NoSchedule"

POOL_DEFAULTS: Final[Mapping[str, Any]] = {
    "mode": "User",
    "osType": "Linux",
    "osSKU": "Ubuntu",
    "osDiskType": "Managed",
    "osDiskSizeGB": 128,
    "kubeletDiskType": "OS",
    "maxPods": 250,
    "type": "VirtualMachineScaleSets",
    "scaleDownMode": "Delete",
    "enableAutoScaling": False,
    "enableFIPS": False,
    "enableNodePublicIP": False,
    "enableUltraSSD": False,
    "enableEncryptionAtHost": False,
    "workloadRuntime": "OCIContainer",
}

_IMMUTABLE: Final = (
    "vmSize",
    "gpuInstanceProfile",
    "osDiskType",
    "osDiskSizeGB",
    "osType",
    "maxPods",
    "type",
    "kubeletDiskType",
    "vnetSubnetID",
    "podSubnetID",
    "availabilityZones",
    "scaleSetPriority",
    "scaleSetEvictionPolicy",
    "spotMaxPrice",
    "enableNodePublicIP",
    "enableUltraSSD",
    "enableEncryptionAtHost",
    "proximityPlacementGroupID",
    "hostGroupID",
    "capacityReservationGroupID",
    "nodePublicIPPrefixID",
    "kubeletConfig",
    "linuxOSConfig",
    "workloadRuntime",
)
_GUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST_NODES: Final = 1000
_WINDOWS_NAME_LENGTH: Final = 6
_SYSTEM_MINIMUM: Final = (2, 4.0)
"""vCPUs and GiB that a node of a System pool must have."""
_PREFIX_LENGTH: Final = 253


@dataclass(frozen=True)
class VmSize:
    """What the rules and the machines need to know of a VM size."""

    name: str
    vcpus: int
    memory_gib: float
    arch: str = "amd64"
    gpu_model: str | None = None
    gpu_product: str | None = None
    gpus: int = 0
    mig: bool = False
    declared: dict[str, Any] | None = None


@lru_cache(maxsize=1)
def cpu_sizes() -> dict[str, Any]:
    """Name of a VM size without a GPU -> what it has."""
    text = (resources.files("sandbox.clouds") / "data" / "azure_cpu_sizes.yaml").read_text(encoding="utf-8")
    sizes: dict[str, Any] = load_yaml(text)
    return sizes


#: Sizes besides those of the tables, by name.
Offered = Mapping[str, Hardware]


def vm_size(name: str, offered: Offered) -> VmSize | None:
    """The size of that name (Azure ignores case); None where it is not known.

    A size that shares one GPU with others has one GPU: its machines show one, with less memory in reality.

    Args:
        name: as a request has it.
        offered: besides those of the tables: what a stack declares of sizes that no table has.
    """
    for known, hardware in offered.items():
        if known.lower() == name.lower():
            has = (hardware.gpu_model, hardware.gpu_product, hardware.gpus)
            return VmSize(known, hardware.cpus, hardware.memory_gib, "amd64", *has, declared=hardware.declared)
    gpu = azure_sizes.size(name)
    if gpu is not None:
        count = max(1, int(gpu.gpus))
        return VmSize(gpu.name, gpu.vcpus, gpu.memory_gib, gpu.arch, gpu.gpu_model, gpu.product, count, gpu.mig is True)
    for known, entry in cpu_sizes().items():
        if known.lower() == name.lower():
            return VmSize(known, entry["vcpus"], entry["memoryGiB"])
    return None


def unknown_size(pool: str, location: str) -> AzureError:
    """A VM size that is not offered (seen)."""
    message = (
        f"The VM size of AgentPoolProfile:{pool} is not allowed in your subscription in location '{location}'.  "
        "For more details, please visit https://aka.ms/aks/quotas-skus-regions"
    )
    return AzureError(400, "BadRequest", message)


def check_pool(name: str, body: Body, location: str, offered: Offered) -> None:
    """Refuse what cannot be an agent pool.

    Args:
        name: the pool's name.
        body: its properties, with `count` already settled.
        location: region of the cluster, for the text.
        offered: sizes besides those of the tables.

    Raises:
        AzureError: the first rule that the pool breaks.
    """
    _check_name(name, body)
    _check_zones(body)
    size = vm_size(body["vmSize"], offered)
    if size is None:
        raise unknown_size(name, location)
    _check_counts(body)
    check_options(body, size.arch)
    check_disk(body, size.name)
    _check_gpu(body, size)
    _check_spot(body)
    spot = body.get("scaleSetPriority") == "Spot"
    for key, value in (body.get("nodeLabels") or {}).items():
        if not (spot and (key, value) == (SPOT_KEY, "spot")):
            check_label(key, value)
    check_taints(body.get("nodeTaints") or [], spot=spot)
    if body.get("mode") == "System":
        _check_system(name, body, size)


def _check_name(name: str, body: Body) -> None:
    windows = body.get("osType") == "Windows"
    if not re.match(POOL_NAME, name) or (windows and len(name) > _WINDOWS_NAME_LENGTH):
        raise invalid("agentPoolProfile.name")  # seen
    if windows:
        raise invalid("agentPoolProfile.osType", "this sandbox has no Windows nodes")


def _check_zones(body: Body) -> None:
    for zone in body.get("availabilityZones") or []:
        if zone not in {"1", "2", "3"}:
            raise invalid("agentPoolProfile.availabilityZones", f"'{zone}' is not one of 1, 2, 3")


def _check_counts(body: Body) -> None:
    count, low, high = body["count"], body.get("minCount"), body.get("maxCount")
    floor = 1 if body.get("mode") == "System" else 0
    if not floor <= count <= _MOST_NODES:
        raise invalid(
            "agentPoolProfile.count",
            f"agentPoolProfile.count was {count}. It must be greater or equal to minCount:{floor} and less than or equal to "
            f"maxCount:{_MOST_NODES}",
        )
    if not body.get("enableAutoScaling"):
        for key, value in (("minCount", low), ("maxCount", high)):
            if value is not None:
                raise invalid(f"agentPoolProfile.{key}", f"{key} cannot be set when enableAutoScaling is false")
        return
    if low is None:
        raise missing("properties.minCount")
    if high is None:
        raise missing("properties.maxCount")
    if not floor <= low <= _MOST_NODES:
        raise invalid("agentPoolProfile.minCount")
    if not max(low, 1) <= high <= _MOST_NODES:
        raise invalid("agentPoolProfile.maxCount", f"maxCount {high} must be at least minCount {low} and at least 1")
    if not low <= count <= high:
        raise invalid("agentPoolProfile.count", f"count {count} is not in the range of minCount {low} and maxCount {high}")


def _check_gpu(body: Body, size: VmSize) -> None:
    profile = body.get("gpuInstanceProfile")
    if profile is not None and not size.mig:
        raise invalid(
            "agentPoolProfile.gpuInstanceProfile",
            f"GPU instance profile {profile} is not supported on VM size {size.name}",
        )
    gpu = body.get("gpuProfile") or {}
    driver = gpu.get("driver")
    if driver is not None and driver not in {"Install", "None"}:
        raise invalid("agentPoolProfile.gpuProfile.driver", f"'{driver}' is not one of Install, None")
    if gpu.get("driverType") is not None:
        raise invalid("agentPoolProfile.gpuProfile.driverType", "driverType cannot be set on Linux agent pools")


def _check_spot(body: Body) -> None:
    price, policy = body.get("spotMaxPrice"), body.get("scaleSetEvictionPolicy")
    if body.get("scaleSetPriority") != "Spot":
        for key, value in (("spotMaxPrice", price), ("scaleSetEvictionPolicy", policy)):
            if value is not None:
                raise invalid(f"agentPoolProfile.{key}", f"{key} can only be set when scaleSetPriority is Spot")
        return
    if price is not None and price != -1 and price <= 0:
        raise invalid("agentPoolProfile.spotMaxPrice", f"{price} is neither -1 nor greater than zero")


def _check_system(name: str, body: Body, size: VmSize) -> None:
    if body.get("scaleSetPriority") == "Spot":
        raise invalid("agentPoolProfile.mode", "System agent pools cannot be Spot")
    cpus, memory = _SYSTEM_MINIMUM
    if size.vcpus < cpus or size.memory_gib < memory:
        raise AzureError(
            400,
            "SystemPoolSkuTooLow",
            f"System node pool must use VM sku with more than 2 cores and 4GB memory. Nodepool name: {name}.",
            "agentPoolProfile.vmSize",
        )
    for taint in body.get("nodeTaints") or []:
        if taint != SYSTEM_TAINT and not taint.endswith(":PreferNoSchedule"):
            raise invalid(
                "agentPoolProfile.nodeTaints",
                f"taint '{taint}' is not allowed on a System agent pool, only {SYSTEM_TAINT} is",
            )


def check_label(key: str, value: str) -> None:
    """Refuse a node label with a wrong syntax or a reserved prefix.

    Raises:
        AzureError: with the service's text (all three were seen).
    """
    prefix, slash, name = key.rpartition("/")
    prefix_fits = not slash or (len(prefix) <= _PREFIX_LENGTH and _LABEL_PREFIX.fullmatch(prefix))
    if not (prefix_fits and _LABEL_NAME.fullmatch(name) and _LABEL_VALUE.fullmatch(value)):
        raise AzureError(
            400,
            "BadRequest",
            f"Node label '{key}: {value}' does not meet syntax and character specifications. Please see "
            "https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ for more details.",
        )
    if prefix == "kubernetes.azure.com":
        raise AzureError(
            400,
            "BadRequest",
            f"Invalid node label key {key}. The 'kubernetes.azure.com' prefix is preserved by aks system labels",
        )
    if _kubernetes_prefix(prefix):
        raise AzureError(
            400,
            "BadRequest",
            "For Kubernetes version greater than or equal to 1.16, node label keys in the 'kubernetes.io' or "
            "'k8s.io' namespace must begin with an allowed prefix (kubelet.kubernetes.io, node.kubernetes.io). "
            "For more information, please check https://aka.ms/aks-node-labels-116.",
            f"{key}={value}",
        )


def _kubernetes_prefix(prefix: str) -> bool:
    """Whether the prefix is one that AKS keeps for Kubernetes; node roles are allowed since 2025."""
    if not prefix.endswith(("kubernetes.io", "k8s.io")):
        return False
    namespace = "kubernetes.io" if prefix.endswith("kubernetes.io") else "k8s.io"
    if prefix != namespace and not prefix.endswith(f".{namespace}"):
        return False
    allowed = ("node", "kubelet", "node-role")
    return not any(prefix == f"{word}.{namespace}" or prefix.endswith(f".{word}.{namespace}") for word in allowed)


def parse_taint(text: str) -> dict[str, str] | None:
    """A taint `key=value:Effect` (or `key:Effect`) in its parts; None where it is malformed."""
    match = re.fullmatch(r"(?P<key>[^=:]+)(?:=(?P<value>[^=:]*))?:(?P<effect>[^=:]+)", text)
    if match is None or match["effect"] not in _EFFECTS:
        return None
    prefix, slash, name = match["key"].rpartition("/")
    if (slash and not _LABEL_PREFIX.fullmatch(prefix)) or not _LABEL_NAME.fullmatch(name):
        return None
    value = match["value"] or ""
    if not _LABEL_VALUE.fullmatch(value):
        return None
    return {"key": match["key"], "value": value, "effect": match["effect"]}


def check_taints(taints: list[str], *, spot: bool = False) -> None:
    """Refuse malformed, repeated and reserved taints.

    Args:
        taints: as the pool's request has them.
        spot: whether it is a spot pool, which may name the taint that it has anyway.

    Raises:
        AzureError: the words "invalid taint spec" and the address were seen, the frame was not; nor was the refusal of the
            prefix, which Azure/karpenter-provider-azure#1830 tells of.
    """
    seen: set[tuple[str, str]] = set()
    for text in taints:
        taint = parse_taint(text)
        if taint is None:
            raise AzureError(
                400,
                "BadRequest",
                f"Node taint '{text}' is invalid. Error details: invalid taint spec: {text}. "
                "Please see https://aka.ms/node-taints for more details.",
                "agentPoolProfile.nodeTaints",
            )
        if taint["key"].startswith("kubernetes.azure.com/") and not (spot and text == SPOT_TAINT):
            raise AzureError(
                400,
                "BadRequest",
                f"Node taint '{text}' is invalid. Error details: the 'kubernetes.azure.com' prefix is reserved by AKS. "
                "Please see https://aka.ms/node-taints for more details.",
                "agentPoolProfile.nodeTaints",
            )
        identity = (taint["key"], taint["effect"])
        if identity in seen:
            raise AzureError(
                400,
                "BadRequest",
                f"Node taint '{text}' is invalid. Error details: duplicated taints with the same key and effect. "
                "Please see https://aka.ms/node-taints for more details.",
                "agentPoolProfile.nodeTaints",
            )
        seen.add(identity)


def check_pool_change(old: Body, new: Body) -> None:
    """Refuse the change of a property that is fixed at creation and that the provider does not know to be.

    Raises:
        AzureError: PropertyChangeNotAllowed (seen).
    """
    for key in _IMMUTABLE:
        if new.get(key) is not None and new[key] != old.get(key):
            raise _fixed(f"properties.{key}")
    driver = (new.get("gpuProfile") or {}).get("driver")
    if driver is not None and driver != ((old.get("gpuProfile") or {}).get("driver") or "Install"):
        raise _fixed("properties.gpuProfile.driver")
    if new.get("enableAutoScaling") and not old.get("enableAutoScaling") and new.get("count") is None:
        raise missing("properties.count")  # seen


def _fixed(path: str) -> AzureError:
    return AzureError(400, "PropertyChangeNotAllowed", f"Changing property '{path}' is not allowed.", path)


@lru_cache(maxsize=1)
def regions() -> frozenset[str]:
    """Names of all regions."""
    text = (resources.files("sandbox.clouds") / "data" / "azure_regions.yaml").read_text(encoding="utf-8")
    return frozenset(region for line in load_yaml(text) for region in line)


def check_location(location: str, kind: str) -> None:
    """Refuse a region that there is not.

    Raises:
        AzureError: with ARM's text (seen, as every list of regions is left out here).
    """
    if location not in regions():
        message = f"The provided location '{location}' is not available for {kind}."
        code = "LocationNotAvailableForResourceGroup" if kind == "resource group" else "LocationNotAvailableForResourceType"
        raise AzureError(400, code, message)


def check_cluster(name: str, body: Body) -> None:
    """Refuse what cannot be a managed cluster; its pools are checked one by one besides.

    Raises:
        AzureError: the first rule that the cluster breaks.
    """
    if not re.match(CLUSTER_NAME, name):
        raise invalid("resourceName")
    if not body.get("location"):
        raise AzureError(400, "LocationRequired", "The location property is required for this definition.")
    check_location(body["location"], "resource type 'Microsoft.ContainerService/managedClusters'")
    check_tags(body.get("tags") or {})
    prefix = body.get("dnsPrefix") or body.get("fqdnSubdomain")
    if not prefix:
        raise missing("dnsPrefix")
    if not re.fullmatch(r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,52}[a-zA-Z0-9])?", prefix):
        raise invalid("dnsPrefix")
    if not body.get("identity") and not body.get("servicePrincipalProfile"):
        raise missing("servicePrincipalProfile")
    _check_entra(body)
    pools = body.get("agentPoolProfiles")
    if not pools:
        raise missing("agentPoolProfiles")
    names = [pool.get("name", "") for pool in pools]
    if len(names) != len(set(names)):
        raise invalid("agentPoolProfile.name", "names of agent pools must be unique")
    if not any(pool.get("mode") == "System" for pool in pools):
        raise AzureError(400, "MustDefineAtLeastOneSystemPool", "Must define at least one system pool.", "agentPoolProfiles")


def _check_entra(body: Body) -> None:
    """Refuse local accounts off without Entra ID (seen in cilium/cilium#48265), and what is left of the legacy integration."""
    profile = body.get("aadProfile")
    if not profile:
        if body.get("disableLocalAccounts"):
            message = (
                "Since kubernetes version 1.25, disableLocalAccounts can only be set on Azure AD integration enabled cluster. "
                "Please integrate your cluster with AAD."
            )
            raise AzureError(400, "BadRequest", message)
        return
    if profile.get("managed") is not True:
        raise invalid("aadProfile.managed", "the legacy integration with Azure AD is retired")
    if body.get("enableRBAC") is False:
        raise invalid("aadProfile", "it needs Kubernetes RBAC")
    for key in ("clientAppID", "serverAppID", "serverAppSecret"):
        if profile.get(key):
            raise invalid(f"aadProfile.{key}", "it belongs to the legacy integration with Azure AD")
    for group in profile.get("adminGroupObjectIDs") or []:
        if not _GUID.fullmatch(group):
            raise invalid("aadProfile.adminGroupObjectIDs", f"'{group}' is not an object id")


def check_entra_change(old: Body, new: Body) -> None:
    """Refuse to switch Entra ID off (told by azure-aks-docs; the text was not seen); a request that leaves it out keeps it.

    Raises:
        AzureError: the profile is there, and the request says that it is not managed.
    """
    if old.get("aadProfile") and (new.get("aadProfile") or {"managed": True}).get("managed") is not True:
        raise _fixed("properties.aadProfile.managed")
