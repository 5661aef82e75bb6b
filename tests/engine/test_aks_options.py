"""Each property of AKS changed once on what is up: what the preview says, and that the deploy does it.

What a change does is a table with sources (gpu_pools/platforms/aks/properties.yaml). Here the real engine is asked, and a
stand-in of Azure that has rules of its own and refuses what cannot be changed. A pool for each property, without nodes, and all
of them changed at once; the cluster is changed in steps. The network and the resource group were there before, made by somebody
else. The rows that nothing here can have up are changed in test_aks_rows.py, where only a preview is asked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from gpu_pools.platforms.aks.properties import known_of, properties
from sandbox.clouds.azure import AzureCloud
from tests.tiers import at_night
from tests.unit.bad_aks_options import id_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep, at_night("its table is held in seconds elsewhere")]

A100: Final = "Standard_NC24ads_A100_v4"
NETWORK: Final = (
    "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/shared/providers/Microsoft.Network/virtualNetworks/hub"
)
NODES, GPUS, MORE, PODS = (f"{NETWORK}/subnets/{name}" for name in ("nodes", "gpus", "more", "pods"))
RESERVED: Final = id_of("Microsoft.Compute/capacityReservationGroups")
IDENTITY: Final = id_of("Microsoft.ManagedIdentity/userAssignedIdentities/gpu")

#: Property -> what a pool says of it before and after.
POOLS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "availabilityZones": ({"zones": ["1"]}, {"zones": ["2"]}),
    "capacityReservationGroupID": ({}, {"capacityReservationGroup": f"{RESERVED}/a"}),
    "count": ({}, {"count": 1}),
    "enableAutoScaling": ({}, {"count": None, "nodes": {"min": 0, "max": 3}}),
    "enableEncryptionAtHost": ({}, {"encryptionAtHost": True}),
    "enableFIPS": ({}, {"fips": True}),
    "enableNodePublicIP": ({}, {"publicIp": True}),
    "enableUltraSSD": ({}, {"properties": {"enableUltraSSD": True}}),
    "gpuInstanceProfile": (
        {"sharing": "sliced", "partitionedBy": "aks", "driver": "preinstalled"},
        {"sharing": "halves", "partitionedBy": "aks", "driver": "preinstalled"},
    ),
    "hostGroupID": ({}, {"hostGroup": id_of("Microsoft.Compute/hostGroups/own")}),
    "kubeletConfig": ({"kubeletConfig": {"podMaxPids": 100}}, {"kubeletConfig": {"podMaxPids": 200}}),
    "kubeletDiskType": ({}, {"kubeletDiskType": "Temporary"}),
    "linuxOSConfig": ({}, {"linuxOsConfig": {"sysctls": {"vmMaxMapCount": 262144}}}),
    "localDNSProfile": ({}, {"properties": {"localDNSProfile": {"mode": "Required"}}}),
    "maxCount": ({"count": None, "nodes": {"min": 0, "max": 3}}, {"count": None, "nodes": {"min": 0, "max": 4}}),
    "maxPods": ({"maxPods": 60}, {"maxPods": 110}),
    "messageOfTheDay": ({}, {"properties": {"messageOfTheDay": "aGVsbG8="}}),
    "minCount": ({"count": None, "nodes": {"min": 0, "max": 3}}, {"count": None, "nodes": {"min": 1, "max": 3}}),
    "networkProfile.allowedHostPorts": (
        {},
        {"properties": {"networkProfile": {"allowedHostPorts": [{"portStart": 1, "portEnd": 2}]}}},
    ),
    "networkProfile.nodePublicIPTags": (
        {"properties": {"networkProfile": {"nodePublicIPTags": [{"ipTagType": "a", "tag": "a"}]}}},
        {"properties": {"networkProfile": {"nodePublicIPTags": [{"ipTagType": "a", "tag": "b"}]}}},
    ),
    "nodeLabels": ({}, {"labels": {"team": "ml"}}),
    "nodePublicIPPrefixID": (
        {"publicIp": True},
        {"publicIp": True, "publicIpPrefix": id_of("Microsoft.Network/publicIPPrefixes/few")},
    ),
    "nodeTaints": ({}, {"taints": ["sku=gpu:NoSchedule"]}),
    "orchestratorVersion": ({"kubernetesVersion": "1.34"}, {"kubernetesVersion": "1.35"}),
    "osDiskSizeGB": ({"osDiskSize": 128}, {"osDiskSize": 256}),
    "osDiskType": ({}, {"osDiskType": "Ephemeral"}),
    "osSKU": ({"osSku": "Ubuntu2204"}, {"osSku": "Ubuntu2404"}),
    "podIPAllocationMode": ({}, {"properties": {"podIPAllocationMode": "StaticBlock"}}),
    "podSubnetID": ({"podSubnet": PODS}, {"podSubnet": MORE}),
    "powerState": ({}, {"properties": {"powerState": {"code": "Running"}}}),
    "proximityPlacementGroupID": ({}, {"proximityPlacementGroup": id_of("Microsoft.Compute/proximityPlacementGroups/near")}),
    "scaleDownMode": ({}, {"scaleDownMode": "Deallocate"}),
    "scaleSetEvictionPolicy": ({"spot": {}}, {"spot": {"evictionPolicy": "Deallocate"}}),
    "scaleSetPriority": ({}, {"spot": {}}),
    "securityProfile": ({}, {"properties": {"securityProfile": {"sshAccess": "Disabled"}}}),
    "spotMaxPrice": ({"spot": {"maxPrice": 1}}, {"spot": {"maxPrice": 2}}),
    "tags": ({}, {"tags": {"team": "ml"}}),
    "upgradeSettings": ({}, {"upgradeSettings": {"maxUnavailable": "1", "drainTimeoutInMinutes": 60}}),
    # From a size that no table has to one that they have.
    "vmSize": (
        {"vmSize": "Standard_ND40rs_v2", "gpuModel": "v100-32gb", "gpusPerNode": 8},
        {"vmSize": "Standard_NC48ads_A100_v4"},
    ),
    "vnetSubnetID": ({"subnet": GPUS}, {"subnet": MORE}),
    "workloadRuntime": ({}, {"properties": {"workloadRuntime": "KataVmIsolation"}}),
}
#: What no pool of this file can have or change, and why.
NOT_CHANGED: Final = {
    **dict.fromkeys(("agentPoolName", "resourceName", "resourceGroupName"), "another name is another pool"),
    **dict.fromkeys(("mode", "osType", "type"), "the stack decides it, and has no key for it"),
    **dict.fromkeys(("windowsProfile", "gatewayProfile"), "of pools without GPUs"),
    **dict.fromkeys(("virtualMachinesProfile", "virtualMachineNodesStatus"), "of pools of single machines"),
    "gpuProfile": "the driver is the same on all pools; test_platforms.py",
    "creationData": "a snapshot, which the stand-in has none of",
    "networkProfile.applicationSecurityGroups": "as allowedHostPorts",
}
#: Updates of the cluster in one step, from what it has at first; none of them touches a pool.
UPDATED: Final[dict[str, Any]] = {
    "tier": "Standard",
    "tags": {"team": "ml"},
    "oidcIssuer": True,
    "workloadIdentity": True,
    "keyVaultSecrets": {"rotation": True},
    "upgrades": {"channel": "patch", "nodeOsChannel": "None"},
    "autoscaler": {"expander": "random", "maxNodeProvisionTime": "30m"},
    "apiServer": {"authorizedIpRanges": ["203.0.113.0/24"], "disableRunCommand": True},
    "monitoring": {"workspace": id_of("Microsoft.OperationalInsights/workspaces/logs"), "metrics": True},
    "maintenance": {"clusterUpgrade": {"day": "Sunday", "startTime": "02:00", "durationHours": 4}},
    "containerRegistries": [id_of("Microsoft.ContainerRegistry/registries/acr")],
    "properties": {
        "storageProfile": {"blobCSIDriver": {"enabled": True}},
        "nodeResourceGroupProfile": {"restrictionLevel": "ReadOnly"},
        "workloadAutoScalerProfile": {"keda": {"enabled": True}},
    },
}
#: Changes that make another cluster.
REPLACED: Final[dict[str, dict[str, Any]]] = {
    "location": {"location": "northeurope"},
    "nodeResourceGroup": {"nodeResourceGroup": "machines"},
    "networkPolicy": {"policy": "calico"},
    "networkDataplane": {"dataplane": "cilium", "policy": "cilium"},
    "networkPlugin": {"plugin": "none"},
    "podCidr": {"plugin": "kubenet", "podCidr": "10.128.0.0/16"},
    "serviceCidr": {"serviceCidr": "10.100.0.0/16", "dnsServiceIp": "10.100.0.10"},
    "outboundType": {"outboundType": "userDefinedRouting"},
    "loadBalancerSku": {"loadBalancerSku": "standard"},
    "enablePrivateCluster": {"apiServer": {"private": True}},
}


def _name(index: int) -> str:
    return f"p{index}"


def _pool(index: int, says: dict[str, Any]) -> dict[str, Any]:
    pool = {"name": _name(index), "vmSize": A100, "count": 0, "sharing": "whole", **says}
    return {key: value for key, value in pool.items() if value is not None}


def _stack(*, after: bool = False, cluster: dict[str, Any] | None = None) -> str:
    pools = [_pool(index, says[after]) for index, says in enumerate(POOLS.values())]
    own = {
        "platform": "aks",
        "name": "small",
        "location": "westeurope",
        "existingResourceGroup": "shared",
        "kubernetesVersion": "1.35",
        "systemPool": {"vmSize": "Standard_D4s_v5", "count": 1},
        "identity": {"userAssigned": IDENTITY},
        "network": {"nodeSubnet": NODES, "pluginMode": "none"},
        **(cluster or {}),
    }
    config = {
        "azure-native:location": "westeurope",
        "gpu-pools:cluster": own,
        "gpu-pools:sharing": {
            "whole": {"exclusive": {}},
            "sliced": {"mig": {"layout": {"1g.10gb": 7}}},
            "halves": {"mig": {"layout": {"3g.40gb": 2}}},
        },
        "gpu-pools:operator": {"driver": "preinstalled"},
        "gpu-pools:pools": pools,
    }
    return yaml.safe_dump({"config": config}, sort_keys=False)


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(_stack())
    # Starts the stand-ins; nothing of what it needs is there yet.
    assert 'there is no subnet "hub/subnets/nodes"' in made.preview().text
    cloud = AzureCloud(made.folder)
    cloud.put_group("shared", {"location": "westeurope"})
    ranges = {name: f"10.{index}.0.0/16" for index, name in enumerate(("nodes", "gpus", "more", "pods"), start=1)}
    subnets = [{"name": name, "addressPrefix": prefix} for name, prefix in ranges.items()]
    cloud.put_network(
        "shared", "hub", {"location": "westeurope", "addressSpace": {"addressPrefixes": ["10.0.0.0/8"]}, "subnets": subnets}
    )
    for one in (NETWORK, NETWORK.partition("/providers/")[0]):
        cloud.belongs_to_others(one)
    made.up().ok()
    return made


def _done(trial: Trial) -> dict[str, str]:
    """Name of a resource -> what the engine would do to it."""
    found: dict[str, str] = {}
    for step in trial.planned_steps():
        name = step["urn"].rpartition("::")[2]
        found[name] = "replace" if "replace" in step["op"] else step["op"]
    return found


def test_every_property_is_changed_here_or_it_is_said_why_not() -> None:
    assert {*POOLS} | {*NOT_CHANGED} == {*properties("AgentPool")}
    assert not {*POOLS} & {*NOT_CHANGED}


class TestPools:
    """All of them at once."""

    def test_the_preview_replaces_what_the_table_says_and_updates_the_rest(self, trial: Trial) -> None:
        trial.write(_stack(after=True))
        done = _done(trial)
        told = {path: done.get(f"gpu-{_name(index)}-pool") for index, path in enumerate(POOLS)}
        wanted = {path: "replace" if _word(path) == "replaces" else "update" for path in POOLS}
        assert told == wanted

    def test_the_deploy_does_it_and_nothing_is_left_to_do(self, trial: Trial) -> None:
        trial.up().ok()
        assert _done(trial) == {}

    def test_what_is_taken_out_again_is_told_where_azure_keeps_it(self, trial: Trial) -> None:
        text = yaml.safe_load(_stack(after=True))
        index = [*POOLS].index("upgradeSettings")
        del text["config"]["gpu-pools:pools"][index]["upgradeSettings"]
        trial.write(yaml.safe_dump(text, sort_keys=False))
        told = trial.preview().ok().text
        trial.write(_stack(after=True))
        assert (
            f"pool {_name(index)}: upgradeSettings.drainTimeoutInMinutes is written no more, and Azure may leave it, 60" in told
        )

    def test_what_comes_with_a_mapping_of_its_own_is_refused_where_nothing_can_replace(self, trial: Trial) -> None:
        """The engine is told of the mapping alone; neither it nor the plugin would replace the pool."""
        says = {"properties": {"networkProfile": {"nodePublicIPTags": [{"ipTagType": "a", "tag": "a"}]}}}
        text = yaml.safe_load(_stack(after=True))
        text["config"]["gpu-pools:pools"][[*POOLS].index("tags")].update(says)
        trial.write(yaml.safe_dump(text, sort_keys=False))
        preview = trial.preview()
        trial.write(_stack(after=True))
        assert preview.code != 0
        assert "networkProfile.nodePublicIPTags: " in preview.text
        assert "AKS changes it on nothing that lives" in preview.text

    def test_what_the_autoscaler_and_azure_change_is_no_difference(self, trial: Trial) -> None:
        """Its count, and the taint and label that Azure has put on a spot pool; what a person changes is."""
        scaled, person = (_name([*POOLS].index(path)) for path in ("maxCount", "scaleDownMode"))
        trial.scale(scaled, 2).ok()
        trial.engine("refresh", "--yes", "--skip-preview").ok()
        done = _done(trial)
        assert {name for name in done if name.endswith("-pool")} == set()
        cloud = AzureCloud(trial.folder)
        cloud.put_pool("shared", "small", person, {"scaleDownMode": "Delete", "vmSize": A100, "count": 0, "mode": "User"})
        trial.engine("refresh", "--yes", "--skip-preview").ok()
        assert _done(trial)[f"gpu-{person}-pool"] == "update"
        trial.up().ok()


def _word(path: str) -> str:
    known = known_of("AgentPool", path)
    assert known is not None
    return known.change


class TestCluster:
    """Updates, refusals, replacements."""

    def test_a_cluster_in_a_group_that_was_there_is_updated_in_place(self, trial: Trial) -> None:
        trial.write(_stack(after=True, cluster=UPDATED))
        done = _done(trial)
        assert done.pop("gpu-cluster") == "update"
        assert {op for name, op in done.items() if not name.endswith("-pool")} <= {"create"}
        # The cluster's tags are the pools', too.
        assert {op for name, op in done.items() if name.endswith("-pool")} == {"update"}
        trial.up().ok()
        assert _done(trial) == {}
        told = AzureCloud(trial.folder).get(_cluster_id()) or {}
        assert told["addonProfiles"]["azureKeyvaultSecretsProvider"]["enabled"] is True
        assert told["apiServerAccessProfile"] == {"authorizedIPRanges": ["203.0.113.0/24"], "disableRunCommand": True}

    def test_an_update_of_it_alone_replaces_nothing_beside_it(self, trial: Trial) -> None:
        """What it answers is unknown until it has: who may pull from a registry must not hang on that."""
        trial.write(_stack(after=True, cluster={**UPDATED, "tier": "Free"}))
        assert _done(trial) == {"gpu-cluster": "update"}

    @pytest.mark.parametrize(
        ("cluster", "told"),
        [
            ({"oidcIssuer": False, "workloadIdentity": False}, "oidcIssuer: is on, and is not to be any more"),
            ({"network": {"nodeSubnet": MORE, "pluginMode": "none"}}, "network.nodeSubnet: "),
            (
                {"systemPool": {"vmSize": "Standard_D4s_v5", "count": 1, "properties": {"maxPods": 60}}},
                "systemPool.properties.maxPods: 60 is asked for",
            ),
        ],
    )
    def test_what_azure_refuses_the_preview_refuses(self, trial: Trial, cluster: dict[str, Any], told: str) -> None:
        trial.write(_stack(after=True, cluster={**UPDATED, **cluster}))
        preview = trial.preview()
        assert preview.code != 0
        assert told in preview.text

    @pytest.mark.parametrize("change", REPLACED)
    def test_what_it_keeps_for_good_the_preview_replaces(self, trial: Trial, change: str) -> None:
        network = {"nodeSubnet": NODES, "pluginMode": "none"}
        says = REPLACED[change]
        whole = {"location", "nodeResourceGroup", "apiServer"} & says.keys()
        more = says if whole else {"network": {**network, **says}}
        trial.write(_stack(after=True, cluster={**UPDATED, **more}))
        assert _done(trial)["gpu-cluster"] == "replace"

    def test_protection_holds_against_it(self, trial: Trial) -> None:
        trial.write(_stack(after=True, cluster={**UPDATED, "protect": True}))
        trial.up().ok()
        trial.write(_stack(after=True, cluster={**UPDATED, "protect": True, "nodeResourceGroup": "machines"}))
        preview = trial.preview()
        assert preview.code != 0
        assert re.search(r"protected|protect", preview.text)
        trial.write(_stack(after=True, cluster={**UPDATED, "protect": False}))
        trial.up().ok()

    def test_the_group_outlives_the_stack(self, trial: Trial) -> None:
        trial.engine("destroy", "--yes", "--skip-preview").ok()
        cloud = AzureCloud(trial.folder)
        assert cloud.get(_cluster_id()) is None
        assert cloud.get(NETWORK) is not None
        cloud.delete_group("shared")


def _cluster_id() -> str:
    group = NETWORK.partition("/providers/")[0]
    return f"{group}/providers/Microsoft.ContainerService/managedClusters/small"
