"""What AKS's own programs do on a GPU node when it boots, and what of a stack goes against it: said before anything is made.

Each rule names its sources. AgentBaker is Azure/AgentBaker at 06836ee2, the docs are azure-aks-docs at fb060abe.

- No driver on Arm64 (C17): AgentBaker, cse_config.sh, ensureGPUDrivers returns at once there. Second source: its #8745, #8950.
- No driver of AKS's on confidential GPUs (C18): azure-aks-docs 6b5b35bb, use-confidential-gpus. One source only.
- Tags that the boot reads (C19): AgentBaker, cse_helpers.sh (get_imds_vm_tag_value: part of a name, in any case) and cse_main.sh.
  Second source for EnableManagedGPUExperience: docs, aks-managed-gpu-nodes; for SkipGpuDriverInstall AgentBaker alone.
- AzureLinux on A10 (C20): Azure/AKS#4602, whose answer is InvalidOSSKU; microsoft/tyger#209 has the same text.
- Ubuntu 24.04 (C21): docs, upgrade-os-version, and Azure/AKS#5538; azure-rest-api-specs has `Ubuntu2404` from 2025-10-01 on
  (its #38610), and azure-native 3.29 sends 2025-09-01. One driver image for all nodes: NVIDIA/gpu-operator at a22dbf67,
  controllers/object_controls.go (gpuNodeOSTag). One source only for the latter.
- InfiniBand (C22): docs, use-amd-gpus, and Azure/aks-rdma-infiniband#15.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from gpu_pools.hardware import azure_sizes
from gpu_pools.platforms.aks.placement import AksPlacement, placement_of
from gpu_pools.text.errors import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpu_pools.platforms.aks.cluster import AksSettings
    from gpu_pools.stack.pools import Pool
    from gpu_pools.stack.settings import Settings
    from gpu_pools.text.errors import Problems

#: Part of a tag's name in lower case -> what AKS then does; its value must have `true` in it.
MANAGED_TAG: Final = "enablemanagedgpuexperience"
SKIP_TAG: Final = "skipgpudriverinstall"
_CONFIDENTIAL: Final = re.compile(r"standard_ncc\d", re.IGNORECASE)
#: Sizes whose names have an `r` are on an InfiniBand network (azure-compute-docs, vm-naming-conventions).
_RDMA: Final = re.compile(r"standard_n[cd]\d+[a-z]*r", re.IGNORECASE)
_A10: Final = "a10-24gb"
#: The first minor version whose image `Ubuntu` is 24.04.
_NEWER_UBUNTU: Final = (1, 35)


def boot_tags(tags: Mapping[str, object], part: str) -> Iterator[str]:
    """The tags that the boot takes for a switch that is on.

    Args:
        tags: of the pool's machines.
        part: of the name, in lower case.
    """
    return (name for name, value in tags.items() if part in name.lower() and "true" in str(value).lower())


def check_node_boot(settings: Settings, drivers: Mapping[str, str], problems: Problems) -> None:
    """Add what would leave a pool without a driver, or with two owners of its GPUs.

    Args:
        settings: of the stack.
        drivers: pool -> who installs its driver.
        problems: are added to.
    """
    cluster = cast("AksSettings", settings.cluster)
    for pool in settings.pools:
        placement = placement_of(pool)
        if drivers[pool.name] == "preinstalled":
            _check_driver(pool, placement, problems)
        _check_tags(pool, placement, cluster, drivers[pool.name], problems)


def _check_driver(pool: Pool, placement: AksPlacement, problems: Problems) -> None:
    size = azure_sizes.size(placement.vm_size)
    if size and size.arch == "arm64":
        why, remedy = "AKS installs no driver on Arm64 (C17)", "Write `driver: operator` for all pools of the cluster."
    elif _CONFIDENTIAL.match(placement.vm_size):
        why = "AKS installs no driver for confidential GPUs: the operator has to bring a signed one (C18)"
        remedy = "Write `driver: operator` for all pools of the cluster, and a signed image in gpu-pools:operator.values.driver."
    else:
        return
    problems.add(f"{pool.path}.driver", f"preinstalled on {placement.vm_size}: {why}", allowed="operator", remedy=remedy)


def _check_tags(pool: Pool, placement: AksPlacement, cluster: AksSettings, driver: str, problems: Problems) -> None:
    # Those of the cluster's `properties` are the cluster's alone.
    places: Sequence[tuple[str, Mapping[str, object]]] = (
        (f"{pool.path}.tags", placement.options.tags),
        (f"{pool.path}.properties.tags", _mapping(placement.options.properties.get("tags"))),
        ("gpu-pools:cluster.tags", cluster.tags),
    )
    for path, tags in places:
        for name in boot_tags(tags, MANAGED_TAG):
            problems.add(
                f"{path}.{name}",
                f"{show(str(tags[name]))} has AKS run a device plugin and an exporter of its own beside the operator's (C19)",
                allowed="no such tag on GPU pools of this stack",
                remedy="Take it out; the operator brings both.",
            )
        if driver != "preinstalled":
            continue
        for name in boot_tags(tags, SKIP_TAG):
            problems.add(
                f"{path}.{name}",
                f"{show(str(tags[name]))} has AKS install no driver, and nobody else does with `driver: preinstalled` (C19)",
                allowed="no such tag beside `driver: preinstalled`",
                remedy="Take it out, or write `driver: operator` for all pools of the cluster.",
            )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def node_boot_warnings(pool: Pool, settings: Settings, driver: str) -> Iterator[str]:
    """What of a pool's machines and image works with a catch, or not at all in some clusters.

    Args:
        pool: any.
        settings: of the stack.
        driver: who installs its driver.
    """
    cluster = cast("AksSettings", settings.cluster)
    placement = placement_of(pool).asked
    image, size = placement.os_sku or "Ubuntu", azure_sizes.size(placement.vm_size)
    if image.startswith("AzureLinux") and size and size.gpu_model == _A10:
        yield (
            f"Azure was seen to refuse {image} on A10 sizes (InvalidOSSKU, C20), and no page of it says so: it cannot be checked "
            "before the deploy; leave `osSku` out for Ubuntu"
        )
    if image == "Ubuntu2404":
        yield (
            "`osSku: Ubuntu2404` is in Azure's API from 2025-10-01 on, and the provider sends 2025-09-01: Azure may refuse it "
            "(C21); from Kubernetes 1.35 on `Ubuntu` is 24.04"
        )
    if _RDMA.match(placement.vm_size) and (pool.max_nodes or 0) > 1:
        yield (
            f"{placement.vm_size} has InfiniBand, and machines share a network only where the feature AKSInfinibandSupport is "
            "registered before the pool is made: `az feature register --namespace Microsoft.ContainerService --name "
            "AKSInfinibandSupport` (C22); a zone says nothing of it"
        )
    if driver == "operator" and pool is settings.pools[0]:
        yield from _mixed_releases(settings, cluster)


def _mixed_releases(settings: Settings, cluster: AksSettings) -> Iterator[str]:
    """The operator's driver images are for one release of Ubuntu each, and it takes that of one node for all (C21)."""
    placements = [placement_of(pool).asked for pool in settings.pools]
    images = {placement.os_sku or "Ubuntu" for placement in placements}
    releases = _releases(images, cluster.kubernetes_version)
    if len(releases) > 1:
        yield (
            f"the images {', '.join(sorted(images))} are Ubuntu {' and '.join(sorted(releases))}, and the operator installs "
            "the driver image of one release on all nodes (C21), without NVIDIADriver objects: write the same `osSku` everywhere"
        )


def _releases(images: Iterable[str], version: str | None) -> set[str]:
    minor = tuple(int(part) for part in re.findall(r"\d+", version or "")[:2])
    fixed = {"Ubuntu2204": "22.04", "Ubuntu2404": "24.04"}
    if len(minor) == len(_NEWER_UBUNTU):
        fixed["Ubuntu"] = "24.04" if minor >= _NEWER_UBUNTU else "22.04"
    return {fixed[image] for image in images if image in fixed}
