"""What Azure is asked for a cluster and its windows of maintenance, by its options (gpu_pools/platforms/aks/inputs.py).

That the components place it is in tests/components/test_aks_options.py.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import pytest

from gpu_pools.platforms.aks.changes import never_updated
from gpu_pools.platforms.aks.cluster import AksSettings
from gpu_pools.platforms.aks.inputs import cluster_inputs, maintenance_windows
from gpu_pools.platforms.aks.placement import AksPlacement
from gpu_pools.text.errors import InvalidStackError
from tests.unit.bad_aks_options import GUID, id_of, subnet
from tests.unit.stacks import aks, plan_of

NODES, PODS = subnet("nodes"), subnet("pods")
IDENTITY: Final = id_of("Microsoft.ManagedIdentity/userAssignedIdentities/gpu")
LOGS: Final = id_of("Microsoft.OperationalInsights/workspaces/logs")
LEAST: Final = {
    "networkProfile": {"networkPlugin": "azure", "networkPluginMode": "overlay"},
    "identity": {"type": "SystemAssigned"},
}


def settings(**cluster: Any) -> AksSettings:
    found = plan_of(aks(cluster=cluster)).settings.cluster
    assert isinstance(found, AksSettings)
    return found


def asked(**cluster: Any) -> dict[str, Any]:
    return cluster_inputs(settings(**cluster).options)


def test_a_cluster_without_options_says_what_cannot_be_changed_later() -> None:
    assert asked() == LEAST


@pytest.mark.parametrize(
    ("said", "inputs"),
    [
        ({"network": {"nodeSubnet": NODES}}, {}),
        ({"network": {"pluginMode": "none"}}, {"networkProfile": {"networkPlugin": "azure"}}),
        ({"network": {"plugin": "kubenet"}}, {"networkProfile": {"networkPlugin": "kubenet"}}),
        ({"network": {"nodeSubnet": NODES, "podSubnet": PODS}}, {"networkProfile": {"networkPlugin": "azure"}}),
        (
            {"network": {"dataplane": "cilium", "policy": "cilium", "podCidr": "10.8.0.0/16"}},
            {
                "networkProfile": {
                    **LEAST["networkProfile"],
                    "networkDataplane": "cilium",
                    "networkPolicy": "cilium",
                    "podCidr": "10.8.0.0/16",
                }
            },
        ),
        (
            {"identity": {"userAssigned": IDENTITY}},
            {"identity": {"type": "UserAssigned", "userAssignedIdentities": [IDENTITY]}},
        ),
        (
            {"identity": {"userAssigned": IDENTITY, "kubelet": {"id": IDENTITY, "clientId": GUID, "objectId": GUID}}},
            {
                "identity": {"type": "UserAssigned", "userAssignedIdentities": [IDENTITY]},
                "identityProfile": {"kubeletidentity": {"resourceId": IDENTITY, "clientId": GUID, "objectId": GUID}},
            },
        ),
        ({"keyVaultSecrets": {}}, {"addonProfiles": {"azureKeyvaultSecretsProvider": {"enabled": True}}}),
        (
            {"keyVaultSecrets": {"rotation": False, "rotationInterval": "5m"}},
            {
                "addonProfiles": {
                    "azureKeyvaultSecretsProvider": {
                        "enabled": True,
                        "config": {"enableSecretRotation": "false", "rotationPollInterval": "5m"},
                    }
                }
            },
        ),
        (
            {"monitoring": {"workspace": LOGS}},
            {
                "addonProfiles": {
                    "omsagent": {"enabled": True, "config": {"logAnalyticsWorkspaceResourceID": LOGS, "useAADAuth": "true"}}
                }
            },
        ),
        ({"monitoring": {"metrics": True}}, {"azureMonitorProfile": {"metrics": {"enabled": True}}}),
        ({"existingResourceGroup": "shared", "location": "westeurope"}, {}),
    ],
    ids=lambda value: ", ".join(value) or "nothing",
)
def test_an_option_asks_for_this_and_nothing_else(said: dict[str, Any], inputs: dict[str, Any]) -> None:
    assert asked(**said) == LEAST | inputs


SUNDAY: Final = {"day": "Sunday", "startTime": "02:00", "durationHours": 4, "utcOffset": "+01:00"}
THIRD: Final = {"every": 3, "startTime": "23:00", "durationHours": 6, "startDate": "2027-01-31"}


@pytest.mark.parametrize(
    ("said", "windows"),
    [
        ({}, {}),
        (
            {"clusterUpgrade": SUNDAY},
            {
                "aksManagedAutoUpgradeSchedule": {
                    "schedule": {"weekly": {"dayOfWeek": "Sunday", "intervalWeeks": 1}},
                    "startTime": "02:00",
                    "durationHours": 4,
                    "utcOffset": "+01:00",
                }
            },
        ),
        (
            {"nodeOsUpgrade": THIRD},
            {
                "aksManagedNodeOSUpgradeSchedule": {
                    "schedule": {"daily": {"intervalDays": 3}},
                    "startTime": "23:00",
                    "durationHours": 6,
                    "startDate": "2027-01-31",
                }
            },
        ),
    ],
    ids=["none", "weekly", "daily"],
)
def test_windows_of_maintenance_have_azures_names_and_shape(said: dict[str, Any], windows: dict[str, Any]) -> None:
    options = settings(upgrades={"channel": "patch", "nodeOsChannel": "SecurityPatch"}, **({"maintenance": said} if said else {}))
    assert maintenance_windows(options.options.maintenance) == windows


class TestNeverUpdated:
    """What comes with a mapping that was not there, and is fixed at creation."""

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ({"osDiskType": "Managed"}, {"osDiskType": "Managed"}),
            ({"osDiskType": "Managed"}, {}),
            ({}, {"enableUltraSSD": False}),
            ({"count": 1}, {"count": 2}),
        ],
        ids=["the same", "left out", "off is what it was", "in place"],
    )
    def test_what_stays_or_may_change_is_not_told(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        assert list(never_updated("AgentPool", old, new)) == []

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ({}, {"kubeletConfig": {"cpuManagerPolicy": "static"}}),
            ({"kubeletConfig": {"cpuManagerPolicy": "none"}}, {"kubeletConfig": {"cpuManagerPolicy": "static"}}),
            ({"osDiskType": "Managed"}, {"osDiskType": "Ephemeral"}),
            ({"enableUltraSSD": True}, {"enableUltraSSD": False}),
        ],
    )
    def test_what_azure_would_refuse_is_told_with_both_values(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        (problem,) = never_updated("AgentPool", old, new)
        assert "is asked for, and" in problem.message
        assert problem.allowed.endswith("as it is deployed")


@pytest.mark.parametrize("name", ["kernel.shmmax", "kernel.msgmax", "kernel.sem", "fs.mqueue.msg_max", "net.core.somaxconn"])
def test_kernel_settings_that_aks_lets_pods_set_are_taken(name: str) -> None:
    (pool,) = plan_of(aks({"kubeletConfig": {"allowedUnsafeSysctls": [name]}})).pools
    assert isinstance(pool.pool.placement, AksPlacement)
    kubelet = pool.pool.placement.options.kubelet_config
    assert kubelet is not None
    assert kubelet.allowed_unsafe_sysctls == (name,)


@pytest.mark.parametrize(
    ("network", "apart"),
    [
        ({"plugin": "kubenet"}, False),
        ({"pluginMode": "overlay"}, False),
        ({"podCidr": "10.244.0.0/16"}, False),
        # Pods have addresses of their subnet, and no range of their own.
        ({"nodeSubnet": NODES, "podSubnet": PODS}, True),
    ],
    ids=["kubenet", "overlay", "a range that is written", "a subnet"],
)
def test_services_must_be_apart_from_the_range_of_pods_where_there_is_one(network: dict[str, Any], *, apart: bool) -> None:
    services = {"serviceCidr": "10.244.0.0/20", "dnsServiceIp": "10.244.0.10"}
    stack = aks(cluster={"network": {**network, **services}})
    with contextlib.nullcontext() if apart else pytest.raises(InvalidStackError, match=r"serviceCidr.*overlaps the pods' range"):
        plan_of(stack)
