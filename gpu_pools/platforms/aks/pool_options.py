"""Options of an AKS pool besides those that GPUs need: where its nodes lie, what they have, how they are upgraded.

Names and values are Azure's. The ranges come from azure-aks-docs at fb060abe (custom-node-configuration-reference,
upgrade-aks-node-pools-rolling, scale-down-mode, enable-fips-nodes, use-capacity-reservation-groups, reduce-latency-ppg) and the
API's model of 2025-09-01. What a change does is gpu_pools/platforms/aks/properties.yaml; what goes with the cluster,
gpu_pools/platforms/aks/together.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_pools.hardware import azure_sizes
from gpu_pools.platforms.aks.asked import asked, place_of
from gpu_pools.platforms.aks.azure_types import properties
from gpu_pools.reading.azure_names import resource_id
from gpu_pools.reading.fields import Kind, Row, flag, inner, one_of, placed_texts, read, row, text, whole_number
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpu_pools.reading.section import Section

SUBNET: Final = "Microsoft.Network/virtualNetworks/subnets"
_SHARE: Final = text(r"\d{1,4}|\d{1,3}%", 'a number of nodes or a share of them, in quotes, e.g. "1" or "33%"')
_SYSCTLS: Final = "kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.*"
#: What `properties` must leave to the plan -> the key to write instead.
_PLANNED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("agentPoolName", "resourceName", "resourceGroupName"), "Leave it out: `name` and the cluster say it."),
    **dict.fromkeys(("count", "minCount", "maxCount", "enableAutoScaling"), "Write the pool's `count` or `nodes`."),
    **dict.fromkeys(("mode", "osType", "type"), "Leave it out: GPU pools are scale sets of Linux nodes for users."),
    "vmSize": "Write the pool's `vmSize`; the plan follows from its GPUs.",
    "gpuInstanceProfile": "Write `partitionedBy: aks`; the plan chooses the profile.",
    "gpuProfile.driver": "Write the pool's `driver`.",
    "nodeTaints": "Write the pool's `taints`, which the operands then tolerate.",
    "scaleSetPriority": "Write the pool's `spot`.",
    "nodeLabels": "Write the pool's `labels`.",
    "orchestratorVersion": "Write the pool's `kubernetesVersion`.",
}


@dataclass(frozen=True)
class UpgradeSettings:
    """How nodes are replaced when version, image or configuration of the pool change."""

    max_surge: str | None = row(
        'Nodes beyond the pool during an upgrade, e.g. "1" or "33%"; "1" by default.',
        _SHARE,
        sets="upgradeSettings.maxSurge",
        change="updates",
        doc='Nodes beyond the pool during an upgrade, e.g. `"1"` or `"33%"`. Each is one more GPU machine, by quota and bill. '
        'By default `"1"`, and `"0"` where `maxUnavailable` is written. Not for spot pools.',
    )
    max_unavailable: str | None = row(
        'Nodes that may be away at once during an upgrade, e.g. "1"; for a GPU quota without room.',
        _SHARE,
        sets="upgradeSettings.maxUnavailable",
        change="updates",
        doc='Nodes that may be away at once during an upgrade, e.g. `"1"`: for a GPU quota without room for a surge. '
        "Not for spot pools.",
    )
    drain_timeout: int | None = row(
        "Minutes that pods have to end.",
        whole_number(5, 1440),
        key="drainTimeoutInMinutes",
        sets="upgradeSettings.drainTimeoutInMinutes",
        change="updates",
        doc="Minutes that pods have to end, 5 to 1440, 30 where nothing is said; pods that take longer fail the upgrade.",
    )
    node_soak: int | None = row(
        "Minutes to wait after each node.",
        whole_number(0, 30),
        key="nodeSoakDurationInMinutes",
        sets="upgradeSettings.nodeSoakDurationInMinutes",
        change="updates",
        doc="Minutes to wait after each node, 0 to 30: time for the driver and the verifier on it.",
    )
    undrainable: str | None = row(
        "What happens to a node that cannot be drained: Cordon or Schedule.",
        one_of(("Cordon", "Schedule")),
        key="undrainableNodeBehavior",
        sets="upgradeSettings.undrainableNodeBehavior",
        change="updates",
        doc="What happens to a node that cannot be drained: `Schedule` stops the upgrade, `Cordon` leaves the node quarantined "
        "and goes on; its surge node then stays, and is billed.",
    )


def _is_none(share: str) -> bool:
    return not share.strip("0%")


def _sysctl_names(section: Section, one: Row) -> tuple[str, ...]:
    return section.each(one.key, lambda value, path: _sysctl_name(value, path, section))


def _sysctl_name(value: object, path: str, section: Section) -> str | None:
    allowed = ("kernel.shm", "kernel.msg", "fs.mqueue.", "net.")
    if isinstance(value, str) and (value == "kernel.sem" or value.startswith(allowed)):
        return value
    section.problems.add(path, f"{show(value)} is none that AKS lets pods set", allowed=_SYSCTLS, remedy="Take it out.")
    return None


_SYSCTL_NAMES: Final = Kind(_sysctl_names, "list[str]")


@dataclass(frozen=True)
class KubeletConfig:
    """Settings of the kubelets."""

    cpu_manager_policy: str | None = row(
        "none or static.", one_of(("none", "static")), sets="kubeletConfig.cpuManagerPolicy", change="replaces"
    )
    topology_manager_policy: str | None = row(
        "none, best-effort, restricted or single-numa-node: whether CPUs, GPUs and NICs of a pod lie together.",
        one_of(("none", "best-effort", "restricted", "single-numa-node")),
        sets="kubeletConfig.topologyManagerPolicy",
        change="replaces",
    )
    cpu_cfs_quota: bool | None = row(
        "Whether limits of CPU are enforced.", flag(), sets="kubeletConfig.cpuCfsQuota", change="replaces"
    )
    cpu_cfs_quota_period: str | None = row(
        "The period of that quota, e.g. 100ms.",
        text(r"\d+(ms|us|s)", 'a time with its unit, e.g. "100ms"'),
        sets="kubeletConfig.cpuCfsQuotaPeriod",
        change="replaces",
    )
    image_gc_high: int | None = row(
        "Percent of the disk from which images are removed.",
        whole_number(0, 100),
        key="imageGcHighThreshold",
        sets="kubeletConfig.imageGcHighThreshold",
        change="replaces",
    )
    image_gc_low: int | None = row(
        "Percent of the disk down to which images are removed; not above the other.",
        whole_number(0, 100),
        key="imageGcLowThreshold",
        sets="kubeletConfig.imageGcLowThreshold",
        change="replaces",
    )
    allowed_unsafe_sysctls: tuple[str, ...] = row(
        f"Unsafe sysctls that pods may set: of {_SYSCTLS}.",
        _SYSCTL_NAMES,
        (),
        sets="kubeletConfig.allowedUnsafeSysctls",
        change="replaces",
        doc="Unsafe sysctls that pods may set: of `kernel.shm*`, `kernel.msg*`, `kernel.sem`, `fs.mqueue.*` and `net.*`.",
    )
    fail_swap_on: bool | None = row(
        "Whether the kubelet refuses to start on a node with swap.", flag(), sets="kubeletConfig.failSwapOn", change="replaces"
    )
    container_log_max_size: int | None = row(
        "MB of a container's log before it is rotated.",
        whole_number(1),
        key="containerLogMaxSize",
        sets="kubeletConfig.containerLogMaxSizeMB",
        change="replaces",
    )
    container_log_max_files: int | None = row(
        "Log files of a container.", whole_number(2), sets="kubeletConfig.containerLogMaxFiles", change="replaces"
    )
    pod_max_pids: int | None = row(
        "Processes of a pod; -1: as many as the node has.",
        whole_number(-1),
        sets="kubeletConfig.podMaxPids",
        change="replaces",
    )


@dataclass(frozen=True)
class LinuxOsConfig:
    """Settings of the nodes' kernels."""

    huge_pages: str | None = row(
        "always, madvise or never.",
        one_of(("always", "madvise", "never")),
        key="transparentHugePageEnabled",
        sets="linuxOSConfig.transparentHugePageEnabled",
        change="replaces",
    )
    huge_page_defrag: str | None = row(
        "always, defer, defer+madvise, madvise or never.",
        one_of(("always", "defer", "defer+madvise", "madvise", "never")),
        key="transparentHugePageDefrag",
        sets="linuxOSConfig.transparentHugePageDefrag",
        change="replaces",
    )
    swap_file_size: int | None = row(
        "MB of swap; needs kubeletConfig.failSwapOn: false.",
        whole_number(1),
        key="swapFileSize",
        sets="linuxOSConfig.swapFileSizeMB",
        change="replaces",
        doc="MB of swap; needs `kubeletConfig.failSwapOn: false`.",
    )
    sysctls: Mapping[str, Any] = row(
        'Kernel settings as Azure names them, e.g. {"netCoreRmemMax": 134217728}.',
        properties("SysctlConfig", {}),
        {},
        sets="linuxOSConfig.sysctls",
        change="replaces",
        doc="Kernel settings as azure-native names them, e.g. `{netCoreRmemMax: 134217728}`; an unknown one is refused.",
    )


@dataclass(frozen=True)
class AksPoolOptions:
    """All of them."""

    subnet: str | None = row(
        "Id of the nodes' subnet; the cluster's by default.",
        resource_id(SUBNET),
        sets="vnetSubnetID",
        change="replaces",
        doc="Id of the nodes' subnet; the cluster's `network.nodeSubnet` by default. All pools lie in one virtual network.",
    )
    pod_subnet: str | None = row(
        "Id of the pods' subnet; the cluster's by default.",
        resource_id(SUBNET),
        sets="podSubnetID",
        change="replaces",
        doc="Id of the pods' subnet; the cluster's `network.podSubnet` by default. Only for Azure CNI without overlay.",
    )
    os_disk_size: int | None = row(
        "GiB of the nodes' disk; that of the size by default.",
        whole_number(30, 2048),
        sets="osDiskSizeGB",
        change="replaces",
        doc="GiB of the nodes' disk, 30 to 2048; Azure's default for the size by default. Driver and CUDA images are large.",
    )
    os_disk_type: str | None = row(
        "Managed, or Ephemeral: on the machine's own disk.",
        one_of(("Managed", "Ephemeral")),
        sets="osDiskType",
        change="replaces",
        doc="`Managed`, or `Ephemeral`: on the machine's own disk. Azure's default is `Ephemeral` where it fits.",
    )
    kubelet_disk_type: str | None = row(
        "Where images and emptyDir volumes lie: OS or Temporary.",
        one_of(("OS", "Temporary")),
        sets="kubeletDiskType",
        change="replaces",
        doc="Where images and emptyDir volumes lie: `OS`, or `Temporary`, the machine's temporary disk.",
    )
    max_pods: int | None = row(
        "Pods on a node, 10 to 250.",
        whole_number(10, 250),
        sets="maxPods",
        change="replaces",
        doc="Pods on a node, 10 to 250; the GPU operator, NFD and Azure's own need some 15 of them.",
    )
    upgrade_settings: UpgradeSettings = row(
        "How nodes are replaced in an upgrade.",
        inner(UpgradeSettings, "a mapping with maxSurge, maxUnavailable or drainTimeoutInMinutes"),
        UpgradeSettings(),
    )
    kubernetes_version: str | None = row(
        "The version of this pool's nodes; the cluster's by default.",
        text(r"1\.\d+(\.\d+)?", 'a version in quotes, e.g. "1.34"'),
        sets="orchestratorVersion",
        change="rolling",
        doc="The version of this pool's nodes, e.g. `\"1.34\"`, in quotes; by default it follows the cluster's. "
        "Never newer than the cluster's, and at most three minor versions older.",
    )
    scale_down_mode: str | None = row(
        "What becomes of nodes that the autoscaler takes out: Delete or Deallocate.",
        one_of(("Delete", "Deallocate")),
        sets="scaleDownMode",
        change="updates",
        doc="What becomes of nodes that are scaled away: `Delete`, or `Deallocate`: they stop, and keep disk and quota, but not "
        "their capacity: GPU machines may not come back.",
    )
    capacity_reservation_group: str | None = row(
        "Id of a capacity reservation group.",
        resource_id("Microsoft.Compute/capacityReservationGroups"),
        sets="capacityReservationGroupID",
        change="replaces",
        doc="Id of a capacity reservation group: what holds GPU capacity across a replacement. The cluster needs "
        "`identity.userAssigned`. A group without a reservation for the size is passed over by Azure without an error.",
    )
    proximity_placement_group: str | None = row(
        "Id of a proximity placement group.",
        resource_id("Microsoft.Compute/proximityPlacementGroups"),
        sets="proximityPlacementGroupID",
        change="replaces",
        doc="Id of a proximity placement group, which lies in one zone.",
    )
    host_group: str | None = row(
        "Id of a group of dedicated hosts.",
        resource_id("Microsoft.Compute/hostGroups"),
        sets="hostGroupID",
        change="replaces",
    )
    kubelet_config: KubeletConfig | None = row("Settings of the kubelets.", inner(KubeletConfig))
    linux_os_config: LinuxOsConfig | None = row("Settings of the nodes' kernels.", inner(LinuxOsConfig))
    encryption_at_host: bool | None = row(
        "Encrypt disks and caches on the host.",
        flag(),
        sets="enableEncryptionAtHost",
        change="replaces",
        doc="Encrypt disks and caches on the host; the subscription needs the feature `EncryptionAtHost`.",
    )
    fips: bool | None = row(
        "A node image with FIPS modules.",
        flag(),
        sets="enableFIPS",
        change="rolling",
        doc="A node image with FIPS modules; not with `Ubuntu2404`, and on Arm64 (GB200, GB300) with Azure Linux only.",
    )
    public_ip: bool | None = row("A public address for each node.", flag(), sets="enableNodePublicIP", change="replaces")
    public_ip_prefix: str | None = row(
        "Id of the prefix that those addresses come from.",
        resource_id("Microsoft.Network/publicIPPrefixes"),
        sets="nodePublicIPPrefixID",
        change="replaces",
        doc="Id of the prefix that those addresses come from; it must hold as many as the pool may have nodes.",
    )
    tags: Mapping[str, str] = row(
        "Tags of the pool besides the cluster's.",
        placed_texts(),
        {},
        sets="tags",
        change="updates",
    )
    properties: Mapping[str, Any] = row(
        "Properties of azure-native's AgentPool, merged last into what is sent.",
        properties("AgentPool", _PLANNED),
        {},
        doc="Properties of azure-native's `AgentPool` in its own words, merged last into what is sent: see [below](#properties).",
    )


def pool_options(section: Section, _one: Row) -> AksPoolOptions:
    """The options of a pool, with the rules that hold between them, by whichever way each value is written."""
    options = read(AksPoolOptions, section)
    for key, message, allowed, remedy in _rules(asked(options, options.properties), section):
        place = place_of(AksPoolOptions, key, options.properties)
        section.problems.add(section.at(place), message, allowed=allowed, remedy=remedy)
    return options


_Rule = tuple[str, str, str, str]


def _rules(options: AksPoolOptions, section: Section) -> Iterator[_Rule]:
    if options.os_disk_type == "Ephemeral" and options.scale_down_mode == "Deallocate":
        yield (
            "scaleDownMode",
            "a machine with an ephemeral disk cannot be deallocated: its disk would be gone",
            "Delete",
            "Write `osDiskType: Managed`, or leave `scaleDownMode` out.",
        )
    if options.public_ip_prefix and not options.public_ip:
        yield "publicIpPrefix", "the nodes have no public address", "`publicIp: true` beside it", "Write it, or take this out."
    if options.pod_subnet and not options.subnet and not _cluster_has_subnet(section):
        yield (
            "podSubnet",
            "the nodes have no subnet",
            "`subnet` beside it",
            "Write `subnet`, or the cluster's `network.nodeSubnet`.",
        )
    yield from _upgrade_rules(options.upgrade_settings)
    yield from _kubelet_rules(options.kubelet_config)
    swap = options.linux_os_config and options.linux_os_config.swap_file_size
    if swap and not (options.kubelet_config and options.kubelet_config.fail_swap_on is False):
        yield (
            "linuxOsConfig.swapFileSize",
            "kubelets do not start on nodes with swap",
            "`kubeletConfig: {failSwapOn: false}` in the pool",
            "Write that, or take this out.",
        )
    if options.proximity_placement_group and len(zones := _zones(options, section)) > 1:
        yield (
            "proximityPlacementGroup",
            f"it lies in one zone, and the pool in {', '.join(map(str, zones))}",
            "one zone, or none",
            "Name one zone, or take this out.",
        )
    yield from _spot_rules(options, section)
    yield from _fips_rules(options, section)


def _upgrade_rules(settings: UpgradeSettings) -> Iterator[_Rule]:
    none_away = settings.max_unavailable is None or _is_none(settings.max_unavailable)
    if settings.max_surge is not None and _is_none(settings.max_surge) and none_away:
        yield (
            "upgradeSettings.maxSurge",
            "with no surge no node can be exchanged, since none may be away either",
            'a surge above 0, or `maxUnavailable` above 0, e.g. "1"',
            'Write `maxUnavailable: "1"` beside it.',
        )


def _kubelet_rules(config: KubeletConfig | None) -> Iterator[_Rule]:
    if config and config.image_gc_low is not None and config.image_gc_low > (config.image_gc_high or 85):
        yield (
            "kubeletConfig.imageGcLowThreshold",
            f"{config.image_gc_low} is above imageGcHighThreshold, {config.image_gc_high or 85}",
            "at most the high threshold, which is 85 where nothing is said",
            "Lower it, or raise the other.",
        )


def _cluster_has_subnet(section: Section) -> bool:
    return bool(getattr(section, "context", None) and section.context.node_subnet)  # type: ignore[attr-defined]


def _zones(options: AksPoolOptions, section: Section) -> list[object]:
    zones = options.properties.get("availabilityZones") or section.raw("zones")
    return zones if isinstance(zones, list) else []


def _spot_rules(options: AksPoolOptions, section: Section) -> Iterator[_Rule]:
    if not section.given("spot"):
        return
    for key, value in (
        ("maxSurge", options.upgrade_settings.max_surge),
        ("maxUnavailable", options.upgrade_settings.max_unavailable),
    ):
        if value is not None:
            yield f"upgradeSettings.{key}", "AKS has none for spot pools", "nothing", "Take it out, or take `spot` out."
    if options.capacity_reservation_group:
        yield "capacityReservationGroup", "spot machines use no reserved capacity", "a pool without `spot`", "Keep one of them."


def _fips_rules(options: AksPoolOptions, section: Section) -> Iterator[_Rule]:
    if not options.fips:
        return
    sku = options.properties.get("osSKU") or section.raw("osSku")
    if sku == "Ubuntu2404":
        yield (
            "fips",
            "there is none for Ubuntu 24.04; AKS would fall back to 22.04",
            "`osSku: Ubuntu2204` or `osSku: AzureLinux`",
            "Write `osSku: Ubuntu2204` or `osSku: AzureLinux`.",
        )
    size = azure_sizes.size(str(section.raw("vmSize")))
    if size and size.arch == "arm64" and not str(sku or "").startswith("AzureLinux"):
        yield (
            "fips",
            f"{size.name} has Arm processors, for which Ubuntu has none",
            "`osSku: AzureLinux`",
            "Write `osSku: AzureLinux`.",
        )
