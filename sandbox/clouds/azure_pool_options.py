"""What the service refuses of an agent pool's options, as pure functions: disks, pods, upgrades, kubelet, kernel, FIPS.

Stand-in: nothing here asks Azure. The rules are those of azure-aks-docs at fb060abe (upgrade-aks-node-pools-rolling,
custom-node-configuration-reference, scale-down-mode, concepts-network-ip-address-planning, enable-fips-nodes,
use-node-public-ips, use-capacity-reservation-groups); texts marked "seen" are the service's own, all others keep its pattern.
Values of enumerations are those of the API version that azure-native speaks (gpu_pools/platforms/aks/azure_native.json), and
what newer ones add. What an Arm64 pool cannot have is that of azure-aks-docs, node-images and use-trusted-launch; the texts were
not seen. A GPU driver on Arm64 is not refused: the node's boot passes over it (Azure/AgentBaker, ensureGPUDrivers). Deliberately
not modelled: quotas of surge nodes, what a setting does to the nodes.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.platforms.aks import azure_types
from gpu_pools.text.yaml_text import load_yaml
from sandbox.clouds.azure_errors import AzureError, invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

_GIB: Final = 1024**3
_DEFAULT_DISK: Final = 128
_PROVISIONING: Final = ".properties.nodeProvisioningProfile.mode 'Auto'"
_MOST_TAGS: Final = 50
_TAG_NAME: Final = 512
_TAG_VALUE: Final = 256
_RESERVED: Final = "<>%&\\?/"
_PODS: Final = (10, 250)
_DISK: Final = (0, 2048)
#: Newer than the API version that the SDK was made for; the service takes them (azure-aks-docs, upgrade-os-version).
_NEWER: Final[Mapping[str, tuple[str, ...]]] = {"OSSKU": ("Ubuntu2404",)}
#: upgradeSettings -> least, most. The service asks for 5 minutes of draining where the API's model says 1 (azure-aks-docs).
_MINUTES: Final = {"drainTimeoutInMinutes": (5, 1440), "nodeSoakDurationInMinutes": (0, 30)}
_KUBELET: Final = {"imageGcHighThreshold": (0, 100), "imageGcLowThreshold": (0, 100), "containerLogMaxFiles": (2, 10**6)}
_POLICIES: Final[Mapping[str, tuple[str, ...]]] = {
    "cpuManagerPolicy": ("none", "static"),
    "topologyManagerPolicy": ("none", "best-effort", "restricted", "single-numa-node"),
}
_HUGE_PAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "transparentHugePageEnabled": ("always", "madvise", "never"),
    "transparentHugePageDefrag": ("always", "defer", "defer+madvise", "madvise", "never"),
}


def check_options(body: Mapping[str, Any], arch: str) -> None:
    """Refuse options that no pool may have.

    Args:
        body: the pool's properties.
        arch: of the size's processors.

    Raises:
        AzureError: the first rule that they break.
    """
    _check_enums(body)
    _within(body, {"maxPods": _PODS}, "agentPoolProfile.kubernetesConfig.kubeletConfig")
    _within(body, {"osDiskSizeGB": _DISK}, "agentPoolProfile")
    _check_upgrades(body)
    _check_kubelet(body.get("kubeletConfig") or {}, body.get("linuxOSConfig") or {})
    if body.get("osDiskType") == "Ephemeral" and body.get("scaleDownMode") == "Deallocate":
        raise invalid("agentPoolProfile.scaleDownMode", "Deallocate is not supported with ephemeral OS disks")
    if body.get("nodePublicIPPrefixID") and not body.get("enableNodePublicIP"):
        raise invalid("agentPoolProfile.nodePublicIPPrefixID", "it can only be set when enableNodePublicIP is true")
    if body.get("podSubnetID") and not body.get("vnetSubnetID"):
        raise invalid("agentPoolProfile.podSubnetID", "it can only be set together with vnetSubnetID")
    check_tags(body.get("tags") or {})
    if arch == "arm64":
        _check_arm(body)
    if body.get("enableFIPS") and arch == "arm64" and not str(body.get("osSKU")).startswith("AzureLinux"):
        raise invalid("agentPoolProfile.enableFIPS", f"FIPS is not supported on {arch} with {body.get('osSKU')}")


def check_with_cluster(body: Mapping[str, Any], cluster: Mapping[str, Any]) -> None:
    """Refuse options that need something of the cluster.

    Raises:
        AzureError: the cluster lacks it.
    """
    identity = (cluster.get("identity") or {}).get("type")
    if body.get("capacityReservationGroupID") and identity != "UserAssigned":
        raise invalid("agentPoolProfile.capacityReservationGroupID", "it needs a cluster with a user-assigned identity")
    mode = (cluster.get("networkProfile") or {}).get("networkPluginMode")
    if body.get("podSubnetID") and mode == "overlay":
        raise invalid("agentPoolProfile.podSubnetID", "PodSubnetID can't be set when network plugin mode is overlay")


def check_autoscalers(cluster: Mapping[str, Any], pools: Mapping[str, Mapping[str, Any]], *, both_before: bool = False) -> None:
    """Refuse the cluster autoscaler in a cluster with node auto-provisioning.

    Sources: azure-aks-docs (migrate-from-autoscaler-to-node-auto-provisioning), MicrosoftDocs/azure-docs#119994 and
    GoogleCloudPlatform/PerfKitBenchmarker#6029 for the rule, MicrosoftDocs/azure-docs#118661 for the manner of the text.

    Args:
        cluster: the cluster's properties.
        pools: name -> properties of all its pools, as the request wants them.
        both_before: whether the cluster has both already, which only a feature for migrations allows.

    Raises:
        AzureError: it has both from now on.
    """
    mode = (cluster.get("nodeProvisioningProfile") or {}).get("mode")
    if mode != "Auto" or both_before:
        return
    for name, pool in pools.items():
        if pool.get("enableAutoScaling"):
            message = f"Unable to enable the cluster autoscaler of agent pool '{name}' since the cluster enables {_PROVISIONING}"
            raise AzureError(400, "OperationNotAllowed", message)


def check_disk(body: Mapping[str, Any], size: str) -> None:
    """Refuse an ephemeral OS disk that is larger than the disk that the size has for it (seen: Azure/AKS#2635).

    Raises:
        AzureError: it does not fit; of sizes whose disk nobody has told nothing is refused.
    """
    has, wanted = own_disks().get(size), (body.get("osDiskSizeGB") or _DEFAULT_DISK) * _GIB
    if body.get("osDiskType") == "Ephemeral" and has is not None and wanted > has:
        raise AzureError(
            400,
            "VMCacheSizeTooSmall",
            f"The virtual machine size {size} has a cache size of {has} bytes, but the OS disk requires {wanted} bytes. "
            "Use a VM size with larger cache or disable ephemeral OS.",
        )


@lru_cache(maxsize=1)
def own_disks() -> Mapping[str, int]:
    """Name of a VM size -> bytes of the largest disk of its own; only sizes of which somebody has told it."""
    text = (resources.files("sandbox.clouds") / "data" / "azure_own_disks.yaml").read_text(encoding="utf-8")
    return {size: entry["bytes"] for size, entry in load_yaml(text).items()}


def check_tags(tags: Mapping[str, str]) -> None:
    """Refuse tags beyond the Resource Manager's limits: 50 of them, names of 512 characters, values of 256, no reserved ones.

    Sources of the limits: Azure's documentation of tags, cloud-custodian/cloud-custodian#5416. The texts are those that Azure's
    own PowerShell module for migrations and pages about storage print; nobody has shown them of a managed cluster.

    Raises:
        AzureError: the first limit that they break.
    """
    if len(tags) > _MOST_TAGS:
        found = f"Requested tag count - '{len(tags)}'. Maximum number of tags allowed - '{_MOST_TAGS}'."
        raise AzureError(400, "InvalidTags", f"Too many tags specified. {found}")
    for name, value in tags.items():
        if set(name) & set(_RESERVED) or not name.isprintable():
            message = f"The tag names '{name}' have reserved characters '<,>,%,&,\\,?,/' or control characters."
            raise AzureError(400, "InvalidTagNameCharacters", message)
        for what, text, most in (("name", name, _TAG_NAME), ("value", value, _TAG_VALUE)):
            if len(text) > most:
                limit = f"Maximum allowed length for tag {what} - '{most}' characters."
                message = f"Tag {what} too large. Following tag {what} '{text}' exceeded the maximum length. {limit}"
                raise AzureError(400, "InvalidTagNameLength" if what == "name" else "InvalidTagValueLength", message)


def _check_arm(body: Mapping[str, Any]) -> None:
    security = body.get("securityProfile") or {}
    for key in ("enableVTPM", "enableSecureBoot"):
        if security.get(key):
            raise invalid(f"agentPoolProfile.securityProfile.{key}", "Trusted Launch is not supported on arm64")
    if str(body.get("workloadRuntime")).startswith("Kata"):
        raise invalid("agentPoolProfile.workloadRuntime", "Pod Sandboxing is not supported on arm64")


def _check_enums(body: Mapping[str, Any]) -> None:
    for key, kind in azure_types.types()["AgentPool"].items():
        values, value = azure_types.enums().get(kind), body.get(key)
        if value is not None and values is not None and value not in (*values, *_NEWER.get(kind, ())):
            raise invalid(f"agentPoolProfile.{key}", f"'{value}' is not one of {', '.join(values)}")


def _check_upgrades(body: Mapping[str, Any]) -> None:
    settings = body.get("upgradeSettings") or {}
    _within(settings, _MINUTES, "agentPoolProfile.upgradeSettings")
    surge, away = settings.get("maxSurge"), settings.get("maxUnavailable")
    if body.get("scaleSetPriority") == "Spot":
        if surge is not None:
            raise invalid("agentPoolProfile.upgrade.maxSurge", "Spot pools can't set max surge")
        if away is not None:
            raise invalid("agentPoolProfile.upgradeSettings.maxUnavailable", "Spot pools can't set maxUnavailable")
    if body.get("mode") == "System" and not _none(away):
        raise invalid("agentPoolProfile.upgrade.maxUnavailable", "System pools can't set max unavailable")
    if surge is not None and _none(surge) and _none(away):
        raise invalid("agentPoolProfile.upgrade.maxSurge", "maxSurge and maxUnavailable cannot both be 0")
    behavior = settings.get("undrainableNodeBehavior")
    if behavior is not None and behavior not in azure_types.enums()["UndrainableNodeBehavior"]:
        raise invalid("agentPoolProfile.upgradeSettings.undrainableNodeBehavior", f"'{behavior}' is not one of Cordon, Schedule")


def _none(share: str | None) -> bool:
    return not (share or "").strip("0%")


def _check_kubelet(kubelet: Mapping[str, Any], linux: Mapping[str, Any]) -> None:
    _within(kubelet, _KUBELET, "agentPoolProfile.kubeletConfig")
    _among(kubelet, _POLICIES, "agentPoolProfile.kubeletConfig")
    _among(linux, _HUGE_PAGES, "agentPoolProfile.linuxOSConfig")
    low, high = kubelet.get("imageGcLowThreshold"), kubelet.get("imageGcHighThreshold") or 85
    if low is not None and low > high:
        raise invalid("agentPoolProfile.kubeletConfig.imageGcLowThreshold", f"{low} is greater than imageGcHighThreshold {high}")
    if linux.get("swapFileSizeMB") and kubelet.get("failSwapOn") is not False:
        raise invalid("agentPoolProfile.linuxOSConfig.swapFileSizeMB", "it needs kubeletConfig.failSwapOn to be false")


def _within(values: Mapping[str, Any], bounds: Mapping[str, tuple[int, int]], path: str) -> None:
    for key, (least, most) in bounds.items():
        value = values.get(key)
        if value is not None and not least <= value <= most:
            raise invalid(f"{path}.{key}", f"{value} is not in the range of {least} to {most}")


def _among(values: Mapping[str, Any], allowed: Mapping[str, tuple[str, ...]], path: str) -> None:
    for key, known in allowed.items():
        value = values.get(key)
        if value is not None and value not in known:
            raise invalid(f"{path}.{key}", f"'{value}' is not one of {', '.join(known)}")
