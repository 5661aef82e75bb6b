"""Documents of Azure's Resource Manager, as its specification shows them, and what is read of them."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.platforms.aks.answers import (
    MadeCluster,
    MadePool,
    Reservation,
    Size,
    Subnet,
    Usage,
    Version,
    read_cluster,
    read_managed,
    read_regions,
    read_reservations,
    read_sizes,
    read_subnets,
    read_usages,
    read_versions,
)


def sku(**changed: Any) -> dict[str, Any]:
    return {
        "resourceType": "virtualMachines",
        "name": "Standard_A0",
        "family": "standardA0_A7Family",
        "locations": ["WestUS"],
        "locationInfo": [
            {"location": "WestUS", "zones": ["2", "1"], "zoneDetails": [{"name": ["2"], "capabilities": []}]},
            {"location": "elsewhere", "zones": ["3"]},
        ],
        "capabilities": [{"name": "vCPUs", "value": "16"}, {"name": "LowPriorityCapable", "value": "True"}],
        **changed,
    }


def size(**changed: Any) -> Size:
    (found,) = read_sizes([sku(**changed)], "westus").values()
    return found


def test_regions_are_physical_ones() -> None:
    listed = [
        {"name": "westus", "metadata": {"regionType": "Physical"}},
        {"name": "us", "metadata": {"regionType": "Logical"}},
        {"name": "bare"},
    ]
    assert read_regions(listed) == ["westus", "bare"]


def test_of_skus_the_machines_are_sizes() -> None:
    listed = [{"resourceType": "disks", "name": "Premium_LRS"}, {"name": "x"}, sku()]
    assert read_sizes(listed, "WestUS") == {"standard_a0": Size("Standard_A0", "standardA0_A7Family", 16, frozenset("12"))}
    assert size(locationInfo=None).zones == frozenset()
    assert size(locationInfo=[{"location": "westus"}]).zones == frozenset()
    assert size(family=None).family == ""


def test_spot_machines_are_there_unless_it_is_said_that_they_are_not() -> None:
    assert size(capabilities=[{"name": "vCPUs", "value": "1"}]).spot
    assert not size(capabilities=[{"name": "vCPUs", "value": "1"}, {"name": "LowPriorityCapable", "value": "False"}]).spot


def test_the_own_disks_of_a_size_and_its_encryption_are_read() -> None:
    said = {
        "vCPUs": "1",
        "EphemeralOSDiskSupported": "True",
        "CachedDiskBytes": "137438953472",
        "MaxResourceVolumeMB": "180224",
        "EncryptionAtHostSupported": "False",
    }
    found = size(capabilities=[{"name": name, "value": value} for name, value in said.items()])
    assert (found.ephemeral, found.own_disk, found.encrypts) == (True, 176, False)
    silent = size(capabilities=[{"name": "vCPUs", "value": "1"}])
    assert (silent.ephemeral, silent.own_disk, silent.encrypts) == (None, None, None)


@pytest.mark.parametrize(
    ("restriction", "withheld", "zones"),
    [
        ({"type": "Location", "values": ["westus"], "reasonCode": "QuotaId"}, "QuotaId", ""),
        ({"type": "Location", "values": ["WestUS"]}, "unknown", ""),
        ({"type": "Location", "restrictionInfo": {"locations": ["WestUS"]}, "reasonCode": "QuotaId"}, "QuotaId", ""),
        ({"type": "Location", "values": ["eastus"], "reasonCode": "QuotaId"}, "", ""),
        ({"type": "Location", "reasonCode": "QuotaId"}, "QuotaId", ""),
        ({"type": "Zone", "values": ["westus"], "restrictionInfo": {"locations": ["westus"], "zones": ["1"]}}, "", "1"),
        ({"type": "Zone", "values": ["eastus"], "restrictionInfo": {"locations": ["eastus"], "zones": ["1"]}}, "", ""),
        ({"type": "Zone", "values": ["westus"]}, "", ""),
        ({"type": "Location", "values": ["westus"], "restrictionInfo": {"zones": ["1"]}, "reasonCode": "x"}, "x", ""),
        ({"type": "Location", "values": ["eu"], "restrictionInfo": {"locations": ["WestUS"]}, "reasonCode": "x"}, "x", ""),
    ],
)
def test_restrictions_are_of_a_region_or_of_zones(restriction: dict[str, Any], withheld: str, zones: str) -> None:
    found = size(restrictions=[restriction])
    assert (found.withheld, found.withheld_zones) == (withheld, frozenset(zones))
    assert found.usable_zones == sorted({"1", "2"} - set(zones))


def test_usages_are_known_by_their_name_in_any_case() -> None:
    listed = [{"currentValue": 17, "limit": 19, "name": {"value": "lowPriorityCores", "localizedValue": "x"}, "unit": "Count"}]
    assert read_usages(listed) == {"lowprioritycores": Usage(17, 19)}
    assert (Usage(17, 19).left, Usage(20, 19).left) == (2, 0)


def test_versions_with_patches_and_plans() -> None:
    document = {
        "values": [
            {
                "version": "1.24",
                "isDefault": True,
                "capabilities": {"supportPlan": ["KubernetesOfficial"]},
                "patchVersions": {"1.24.6": {"upgrades": ["1.24.9"]}, "1.24.9": {"upgrades": []}},
            },
            {"version": "1.26", "isPreview": True},
        ]
    }
    assert read_versions(document) == [
        Version("1.24", ("1.24.6", "1.24.9"), default=True),
        Version("1.26", (), preview=True, plans=()),
    ]


def test_a_cluster_with_its_pools() -> None:
    pools = [
        {"name": "a", "vmSize": "Standard_D4s_v5", "count": 3, "vnetSubnetID": "/n", "podSubnetID": "/p"},
        {"name": "b", "scaleSetPriority": "Spot"},
    ]
    pools[0]["currentOrchestratorVersion"] = "1.33.5"
    network = {"networkPlugin": "kubenet", "networkPluginMode": "overlay"}
    properties = {"kubernetesVersion": "1.34", "networkProfile": network, "agentPoolProfiles": pools}
    assert read_cluster({"location": "West Europe", "properties": properties}) == MadeCluster(
        "westeurope",
        "1.34",
        {"a": MadePool("standard_d4s_v5", 3, version="1.33.5"), "b": MadePool("", 0, spot=True)},
        plugin="kubenet",
        mode="overlay",
        subnets={"a": ("/n", "/p"), "b": ("", "")},
    )
    current = {**properties, "currentKubernetesVersion": "1.34.2"}
    assert read_cluster({"location": "westeurope", "properties": current}).version == "1.34.2"
    assert read_cluster({"location": "x", "properties": {}}) == MadeCluster("x", "", {})


def test_subnets_of_which_azure_may_not_say_how_full_they_are() -> None:
    def usage(subnet: str, used: float, limit: float, name: str = "SubnetSpace") -> dict[str, Any]:
        return {"id": subnet, "currentValue": used, "limit": limit, "name": {"value": name}, "unit": "Count"}

    found = read_subnets([usage("/N/a", 9.0, 251.0), usage("/n/b", -1, -1), usage("/n/c", 0, 0), usage("/n/d", 1, 1, "Other")])
    assert found == {"/n/a": Subnet(9, 251), "/n/b": Subnet(None, None), "/n/c": Subnet(0, 0)}
    assert [subnet.free for subnet in (*found.values(), Subnet(9, None), Subnet(None, 9), Subnet(9, 5))] == [
        *(242, None, 0),
        *(None, None, 0),
    ]


def test_reservations_with_their_machines() -> None:
    listed = [{"sku": {"name": "Standard_DS1_v2", "capacity": 4}, "zones": ["1"]}, {"sku": {"name": "b"}}]
    assert read_reservations(listed) == [Reservation("standard_ds1_v2", 4, frozenset("1")), Reservation("b", 0)]


@pytest.mark.parametrize(
    ("properties", "managed"),
    [
        ({"gpuProfile": {"nvidia": {"managementMode": "Managed"}}}, True),
        ({"gpuProfile": {"nvidia": {"managementMode": "Unmanaged"}}}, False),
        ({"gpuProfile": {"nvidia": None, "driver": "None"}}, False),
        ({"gpuProfile": None}, False),
        ({}, False),
        (None, False),
    ],
)
def test_managed_pools_say_so(properties: Any, managed: bool) -> None:  # noqa: FBT001 - of a test
    assert read_managed([{"name": "a", "properties": properties}]) == (["a"] if managed else [])
