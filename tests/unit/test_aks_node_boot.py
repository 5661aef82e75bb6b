"""What AKS's own programs do when a GPU node boots, as far as a plan warns of it; what it refuses is in bad_aks_options.py."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.hardware.azure_sizes import sizes
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.inputs import maintenance_windows
from gpu_pools.platforms.aks.node_boot import MANAGED_TAG, boot_tags
from tests.unit.bad_aks_options import id_of, subnet
from tests.unit.stacks import GONE, aks, plan_of

A10, A100, RDMA = "Standard_NV36ads_A10_v5", "Standard_NC24ads_A100_v4", "Standard_ND96isr_H100_v5"
SUBNET, IDENTITY = subnet("nodes"), id_of("Microsoft.ManagedIdentity/userAssignedIdentities/gpu")
OF_AKS = {"driver": "preinstalled"}


def told(pool: dict[str, Any], id_: str, **sections: Any) -> list[str]:
    return [text for text in plan_of(aks(pool, **sections)).pools[0].warnings if f"({id_})" in text or f", {id_})" in text]


@pytest.mark.parametrize(
    ("pool", "id_", "says"),
    [
        ({**OF_AKS, "vmSize": A10, "osSku": "AzureLinux"}, "C20", "InvalidOSSKU"),
        ({"osSku": "Ubuntu2404"}, "C21", "sends 2025-09-01"),
        ({"vmSize": RDMA, "count": 2}, "C22", "AKSInfinibandSupport"),
        ({"vmSize": RDMA, "count": GONE, "nodes": {"min": 0, "max": 4}}, "C22", "AKSInfinibandSupport"),
    ],
)
def test_what_works_with_a_catch_is_told(pool: dict[str, Any], id_: str, says: str) -> None:
    (warning,) = told(pool, id_)
    assert says in warning


@pytest.mark.parametrize(
    ("pool", "id_"),
    [
        ({**OF_AKS, "vmSize": A100, "osSku": "AzureLinux"}, "C20"),
        ({**OF_AKS, "vmSize": A10}, "C20"),
        ({"osSku": "Ubuntu2204"}, "C21"),
        ({"vmSize": RDMA, "count": 1}, "C22"),
        ({"vmSize": A100, "count": 4}, "C22"),
    ],
)
def test_nothing_else_is(pool: dict[str, Any], id_: str) -> None:
    assert told(pool, id_) == []


@pytest.mark.parametrize(
    ("version", "images", "mixed"),
    [
        ("1.34", (None, "Ubuntu2204"), False),
        ("1.34", (None, "Ubuntu2404"), True),
        ("1.35", (None, "Ubuntu2204"), True),
        ("1.35", (None, None), False),
        (None, (None, "Ubuntu2204"), False),
        (None, ("Ubuntu2404", "Ubuntu2204"), True),
    ],
)
def test_pools_of_different_releases_of_ubuntu_share_one_driver_image(
    version: str | None, images: tuple[str | None, ...], *, mixed: bool
) -> None:
    pools = [
        {"name": f"p{number}", "vmSize": A100, "count": 1, "sharing": "s", **({"osSku": image} if image else {})}
        for number, image in enumerate(images)
    ]
    stack = aks(cluster={"kubernetesVersion": version or GONE}, sharing={"s": {"exclusive": {}}}, pools=pools)
    first, second = plan_of(stack).pools
    assert bool([text for text in first.warnings if "the driver image of one release" in text]) is mixed
    assert "the driver image of one release" not in " ".join(second.warnings)


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ({"EnableManagedGPUExperience": "true"}, True),
        # As the boot reads it: part of a name, in any case, with `true` in its value.
        ({"my-enablemanagedgpuexperience": "TRUE"}, True),
        ({"EnableManagedGPUExperience": "false"}, False),
        ({"team": "true"}, False),
    ],
)
def test_tags_are_read_as_the_boot_reads_them(tags: dict[str, str], *, found: bool) -> None:
    assert bool([*boot_tags(tags, MANAGED_TAG)]) is found


def test_the_table_says_where_aks_installs_no_driver() -> None:
    none = {size.name for size in sizes() if size.driver is None}
    assert none == {size.name for size in sizes() if size.arch == "arm64" or size.name.startswith("Standard_NCC")}


@pytest.mark.parametrize(
    ("cluster", "warned"),
    [
        ({"network": {"plugin": "kubenet", "nodeSubnet": SUBNET}}, True),
        ({"network": {"plugin": "kubenet", "nodeSubnet": SUBNET}, "identity": {"userAssigned": IDENTITY}}, False),
        ({"network": {"plugin": "kubenet"}}, False),
        ({"network": {"nodeSubnet": SUBNET}}, False),
    ],
)
def test_kubenet_in_a_subnet_of_ones_own_needs_an_identity_of_ones_own(cluster: dict[str, Any], *, warned: bool) -> None:
    plan = plan_of(aks(cluster=cluster))
    assert bool([text for pool in plan.pools for text in pool.warnings if "C24" in text]) is warned


def test_a_window_of_every_day_is_taken_for_upgrades_of_the_cluster() -> None:
    window = {"startTime": "02:00", "durationHours": 4}
    cluster = plan_of(aks(cluster={"upgrades": {"channel": "patch"}, "maintenance": {"clusterUpgrade": window}})).settings.cluster
    assert isinstance(cluster, AksSettings)
    sent = maintenance_windows(cluster.options.maintenance)["aksManagedAutoUpgradeSchedule"]
    assert sent["schedule"] == {"daily": {"intervalDays": 1}}


@pytest.mark.parametrize(("more", "warned"), [({}, True), ({"observability": {"to": "azure"}}, False)])
def test_metrics_that_nothing_sends_on_are_told(more: dict[str, Any], *, warned: bool) -> None:
    warnings = plan_of(aks(cluster={"monitoring": {"metrics": True}}, **more)).pools[0].warnings
    assert bool([text for text in warnings if "(C26)" in text]) is warned
    assert "C26" not in " ".join(plan_of(aks(cluster={"monitoring": {"metrics": False}})).pools[0].warnings)
