"""The stand-in for Azure: options of clusters and pools, what it refuses of them and of their change, and what stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sandbox.clouds.azure_beside import check_assignment, check_window
from sandbox.clouds.azure_cluster_options import check_cluster_change, check_cluster_options, merged_cluster
from sandbox.clouds.azure_errors import AzureError
from sandbox.clouds.azure_pool_options import (
    check_autoscalers,
    check_disk,
    check_options,
    check_tags,
    check_with_cluster,
    own_disks,
)

if TYPE_CHECKING:
    from collections.abc import Callable

GUID = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
OWN = {"identity": {"type": "UserAssigned", "userAssignedIdentities": ["/i"]}}
LIES = {"agentPoolProfiles": [{"name": "system", "vnetSubnetID": "/n"}]}


def _refusal(check: Callable[..., None], *args: Any) -> str:
    with pytest.raises(AzureError) as refused:
        check(*args)
    return str(refused.value)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"maxPods": 5}, "maxPods"),
        ({"osDiskSizeGB": 4096}, "4096 is not in the range of 0 to 2048"),
        ({"osDiskType": "Premium"}, "'Premium' is not one of Managed, Ephemeral"),
        ({"osDiskType": "Ephemeral", "scaleDownMode": "Deallocate"}, "not supported with ephemeral OS disks"),
        ({"nodePublicIPPrefixID": "/p"}, "when enableNodePublicIP is true"),
        ({"podSubnetID": "/p"}, "together with vnetSubnetID"),
        ({"upgradeSettings": {"drainTimeoutInMinutes": 1}}, "1 is not in the range of 5 to 1440"),
        ({"upgradeSettings": {"nodeSoakDurationInMinutes": 31}}, "31 is not in the range of 0 to 30"),
        ({"upgradeSettings": {"undrainableNodeBehavior": "Delete"}}, "'Delete' is not one of"),
        ({"upgradeSettings": {"maxSurge": "0"}}, "cannot both be 0"),
        ({"scaleSetPriority": "Spot", "upgradeSettings": {"maxSurge": "1"}}, "Spot pools can't set max surge"),
        ({"scaleSetPriority": "Spot", "upgradeSettings": {"maxUnavailable": "1"}}, "Spot pools can't set maxUnavailable"),
        ({"mode": "System", "upgradeSettings": {"maxUnavailable": "1"}}, "System pools can't set max unavailable"),
        ({"kubeletConfig": {"topologyManagerPolicy": "numa"}}, "'numa' is not one of none, best-effort"),
        ({"kubeletConfig": {"imageGcLowThreshold": 90}}, "90 is greater than imageGcHighThreshold 85"),
        ({"kubeletConfig": {"containerLogMaxFiles": 1}}, "containerLogMaxFiles"),
        ({"linuxOSConfig": {"transparentHugePageEnabled": "yes"}}, "'yes' is not one of always"),
        ({"linuxOSConfig": {"swapFileSizeMB": 1024}}, "failSwapOn to be false"),
    ],
)
def test_a_pool_is_refused(body: dict[str, Any], says: str) -> None:
    assert says in _refusal(check_options, body, "amd64")


@pytest.mark.parametrize(
    "body",
    [
        {"upgradeSettings": {"maxSurge": "0", "maxUnavailable": "1"}},
        {"upgradeSettings": {"maxSurge": "33%"}},
        {"osSKU": "Ubuntu2404"},
        {"linuxOSConfig": {"swapFileSizeMB": 1024}, "kubeletConfig": {"failSwapOn": False}},
        {"enableFIPS": True},
    ],
)
def test_a_pool_is_taken(body: dict[str, Any]) -> None:
    check_options(body, "amd64")


def test_arm_has_fips_on_azure_linux_alone() -> None:
    assert "not supported on arm64" in _refusal(check_options, {"enableFIPS": True, "osSKU": "Ubuntu"}, "arm64")
    check_options({"enableFIPS": True, "osSKU": "AzureLinux"}, "arm64")


@pytest.mark.parametrize(
    "body",
    [
        {"securityProfile": {"enableVTPM": True}},
        {"securityProfile": {"enableSecureBoot": True}},
        {"workloadRuntime": "KataVmIsolation"},
    ],
    ids=str,
)
def test_what_arm_pools_cannot_have(body: dict[str, Any]) -> None:
    assert "not supported on arm64" in _refusal(check_options, body, "arm64")
    check_options(body, "amd64")


def test_an_ephemeral_disk_fits_on_the_size_s_own() -> None:
    t4 = "Standard_NC4as_T4_v3"
    told = "has a cache size of 154619000000 bytes, but the OS disk requires 193273528320 bytes"
    assert told in _refusal(check_disk, {"osDiskType": "Ephemeral", "osDiskSizeGB": 180}, t4)
    for body in (
        {"osDiskType": "Ephemeral", "osDiskSizeGB": 144},
        {"osDiskType": "Ephemeral", "osDiskSizeGB": 0},
        {"osDiskType": "Managed", "osDiskSizeGB": 1024},
    ):
        check_disk(body, t4)
    check_disk({"osDiskType": "Ephemeral", "osDiskSizeGB": 2048}, "Standard_NC24ads_A100_v4")
    assert all(size.startswith("Standard_") and disk > 0 for size, disk in own_disks().items())


@pytest.mark.parametrize(
    ("tags", "says"),
    [
        ({f"t{number}": "" for number in range(51)}, "Requested tag count - '51'. Maximum number of tags allowed - '50'"),
        ({"n" * 513: ""}, "Maximum allowed length for tag name - '512'"),
        ({"n": "v" * 257}, "Maximum allowed length for tag value - '256'"),
        ({"a/b": ""}, "The tag names 'a/b' have reserved characters"),
        ({"a\x07": ""}, "control characters"),
    ],
    ids=["many", "name", "value", "reserved", "control"],
)
def test_tags_beyond_the_limits_are_refused(tags: dict[str, str], says: str) -> None:
    assert says in _refusal(check_tags, tags)
    assert says in _refusal(check_options, {"tags": tags}, "amd64")


def test_tags_at_the_limits_are_taken() -> None:
    check_tags({"n" * 512: "v" * 256, **{f"t{number}": "a/b" for number in range(49)}})


def test_node_auto_provisioning_excludes_the_cluster_autoscaler() -> None:
    auto, pools = {"nodeProvisioningProfile": {"mode": "Auto"}}, {"fixed": {}, "scaled": {"enableAutoScaling": True}}
    says = _refusal(check_autoscalers, auto, pools)
    assert "the cluster autoscaler of agent pool 'scaled' since the cluster enables" in says
    check_autoscalers(auto, {"fixed": {}})
    check_autoscalers({"nodeProvisioningProfile": {"mode": "Manual"}}, pools)
    check_autoscalers(auto, pools, both_before=True)


def test_reserved_capacity_needs_an_identity_of_ones_own() -> None:
    pool = {"capacityReservationGroupID": "/g"}
    assert "user-assigned identity" in _refusal(check_with_cluster, pool, {"identity": {"type": "SystemAssigned"}})
    check_with_cluster(pool, OWN)


def test_pods_in_a_subnet_are_not_for_overlay() -> None:
    cluster = {"networkProfile": {"networkPluginMode": "overlay"}}
    assert "network plugin mode is overlay" in _refusal(check_with_cluster, {"podSubnetID": "/p"}, cluster)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"networkProfile": {"networkPlugin": "calico"}}, "'calico' is not one of azure, kubenet, none"),
        ({"networkProfile": {"networkPlugin": "kubenet", "networkPluginMode": "overlay"}}, "overlay is not supported"),
        ({"networkProfile": {"networkDataplane": "cilium", "networkPolicy": "calico"}}, "requires network policy cilium"),
        ({"networkProfile": {"networkPolicy": "cilium"}}, "requires network dataplane cilium"),
        ({"networkProfile": {"networkPolicy": "azure", "networkPlugin": "kubenet"}}, "not supported with network plugin kubenet"),
        ({"networkProfile": {"outboundType": "userDefinedRouting"}}, "requires a custom virtual network"),
        ({**LIES, "networkProfile": {"outboundType": "managedNATGateway"}}, "not supported in a custom virtual network"),
        ({"networkProfile": {"loadBalancerSku": "basic"}}, "has been retired"),
        ({"networkProfile": {"loadBalancerProfile": {"idleTimeoutInMinutes": 3}}}, "3 is not in the range of 4 to 120"),
        (
            {"networkProfile": {"loadBalancerProfile": {"managedOutboundIPs": {"count": 1}, "outboundIPs": {"publicIPs": []}}}},
            "mutually exclusive",
        ),
        ({"networkProfile": {"serviceCidr": "10.9.0.0/16"}}, "10.0.0.10 is not within the service CIDR 10.9.0.0/16"),
        ({"networkProfile": {"dnsServiceIP": "10.0.0.1"}}, "the first address of the range is reserved"),
        ({"networkProfile": {"serviceCidr": "10.9.1.0/16"}}, "InvalidCIDRNotation"),
        ({"networkProfile": {"networkPluginMode": "overlay", "podCidr": "10.0.0.0/8"}}, "overlaps with pod CIDR"),
        ({"identity": {"type": "UserAssigned"}}, "exactly one user-assigned identity is required"),
        ({"identity": {"type": "SystemAssigned", "userAssignedIdentities": ["/i"]}}, "when the type is UserAssigned"),
        ({"identityProfile": {"kubeletidentity": {"resourceId": "/k"}}}, "requires a user-assigned control plane identity"),
        (
            {"apiServerAccessProfile": {"enablePrivateCluster": True, "authorizedIPRanges": ["1.2.3.4/32"]}},
            "cannot be set on a private cluster",
        ),
        ({"apiServerAccessProfile": {"privateDNSZone": "system"}}, "only be set on a private cluster"),
        (
            {
                "apiServerAccessProfile": {
                    "enablePrivateCluster": True,
                    "privateDNSZone": "none",
                    "enablePrivateClusterPublicFQDN": False,
                }
            },
            "requires the public FQDN",
        ),
        ({"apiServerAccessProfile": {"enablePrivateCluster": True, "privateDNSZone": "/z"}}, "requires a user-assigned identity"),
        ({"securityProfile": {"workloadIdentity": {"enabled": True}}}, "requires the OIDC issuer"),
        ({"supportPlan": "AKSLongTermSupport"}, "can only be used together"),
        ({"autoUpgradeProfile": {"upgradeChannel": "Stable"}}, "'Stable' is not one of rapid, stable"),
    ],
)
def test_a_cluster_is_refused(body: dict[str, Any], says: str) -> None:
    assert says in _refusal(check_cluster_options, body)


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (
            {"networkProfile": {"loadBalancerSku": "standard"}},
            {"networkProfile": {"loadBalancerSku": "basic"}},
            "loadBalancerSku",
        ),
        ({}, {"apiServerAccessProfile": {"enablePrivateCluster": True}}, "enablePrivateCluster"),
        ({"enableRBAC": True}, {"enableRBAC": False}, "enableRBAC"),
        ({"oidcIssuerProfile": {"enabled": True}}, {"oidcIssuerProfile": {"enabled": False}}, "oidcIssuerProfile.enabled"),
        (
            {"apiServerAccessProfile": {"privateDNSZone": "system"}},
            {"apiServerAccessProfile": {"privateDNSZone": "/z"}},
            "privateDNSZone",
        ),
    ],
)
def test_what_a_cluster_keeps_is_not_changed(old: dict[str, Any], new: dict[str, Any], path: str) -> None:
    told = _refusal(check_cluster_change, old, new)
    assert "PropertyChangeNotAllowed" in told
    assert path in told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"apiServerAccessProfile": {"enablePrivateCluster": False}}),
        ({"apiServerAccessProfile": {"privateDNSZone": "/z"}}, {"apiServerAccessProfile": {"privateDNSZone": "none"}}),
        ({"enableRBAC": True}, {}),
        ({"oidcIssuerProfile": {"enabled": True}}, {}),
    ],
)
def test_the_rest_is(old: dict[str, Any], new: dict[str, Any]) -> None:
    check_cluster_change(old, new)


def test_what_a_request_leaves_out_stays_but_for_tags() -> None:
    old = {"addonProfiles": {"omsagent": {"enabled": True}}, "tags": {"a": "b"}, "autoScalerProfile": {"expander": "random"}}
    new = {"addonProfiles": {"azurepolicy": {"enabled": True}}, "tags": {"c": "d"}}
    assert merged_cluster(old, new) == {
        "addonProfiles": {"omsagent": {"enabled": True}, "azurepolicy": {"enabled": True}},
        "tags": {"c": "d"},
        "autoScalerProfile": {"expander": "random"},
    }


WINDOW: dict[str, Any] = {
    "schedule": {"weekly": {"dayOfWeek": "Sunday", "intervalWeeks": 1}},
    "startTime": "02:00",
    "durationHours": 4,
}


@pytest.mark.parametrize(
    ("name", "window", "says"),
    [
        ("mine", WINDOW, "'mine' is not one of default"),
        ("aksManagedAutoUpgradeSchedule", {}, "maintenanceWindow is missing"),
        ("aksManagedAutoUpgradeSchedule", {**WINDOW, "schedule": {}}, "exactly one of daily"),
        ("aksManagedNodeOSUpgradeSchedule", {**WINDOW, "durationHours": 2}, "it must be 4 to 24"),
        ("aksManagedNodeOSUpgradeSchedule", {**WINDOW, "startTime": "2"}, "is not a time"),
        ("aksManagedNodeOSUpgradeSchedule", {**WINDOW, "schedule": {"weekly": {"dayOfWeek": "So"}}}, "not a day of the week"),
    ],
)
def test_a_maintenance_window_is_refused(name: str, window: dict[str, Any], says: str) -> None:
    assert says in _refusal(check_window, name, {"maintenanceWindow": window})


ROLE = "/subscriptions/s/providers/Microsoft.Authorization/roleDefinitions/7f951dda-4ed3-4680-a7ca-43fe172d538d"


@pytest.mark.parametrize(
    ("name", "body", "old", "says"),
    [
        ("pull", {"principalId": GUID, "roleDefinitionId": ROLE}, None, "It must be a GUID"),
        (GUID, {"principalId": "", "roleDefinitionId": ROLE}, None, "A valid principal ID"),
        (GUID, {"principalId": GUID, "roleDefinitionId": "AcrPull"}, None, "is not valid"),
        (
            GUID,
            {"principalId": GUID, "roleDefinitionId": ROLE},
            {"principalId": "x", "roleDefinitionId": ROLE},
            "not allowed to be",
        ),
    ],
)
def test_a_role_assignment_is_refused(name: str, body: dict[str, Any], old: dict[str, Any] | None, says: str) -> None:
    assert says in _refusal(check_assignment, name, body, old)
