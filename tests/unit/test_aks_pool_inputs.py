"""What Azure is asked for a pool, and of an adopted pool what is left to it (gpu_pools/platforms/aks/pool_inputs.py).

The same of the components, with labels and cluster, is in tests/components; real pools that were adopted are in tests/adopting.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_pools.platforms.aks import azure_types
from gpu_pools.platforms.aks.inputs import subnets
from gpu_pools.platforms.aks.network import Network
from gpu_pools.platforms.aks.pool_inputs import OF_OTHERS, PLACE, Around, counts, kept_as_found, pool_inputs
from gpu_pools.reading.node_count import NodeCount
from tests.unit.stacks import A100, GONE, aks, pool_of

IN_ONE: dict[str, Any] = {"name": GONE, "location": GONE, "systemPool": GONE, "existing": {"resourceGroup": "g", "name": "c"}}
AROUND = Around({"team": "ml", "cost": "7"}, "the nodes' subnet", "the pods' subnet", "1.34")
LEAST = {
    "agentPoolName": "gpu",
    "mode": "User",
    "osType": "Linux",
    "osSKU": None,
    "type": "VirtualMachineScaleSets",
    "vmSize": A100,
    "count": 1,
    "enableAutoScaling": False,
    "nodeTaints": [],
    "availabilityZones": None,
    "gpuProfile": {"driver": "None"},
    "gpuInstanceProfile": None,
    "orchestratorVersion": "1.34",
    "upgradeSettings": {"maxSurge": "1"},
    "vnetSubnetID": "the nodes' subnet",
    "podSubnetID": "the pods' subnet",
    "tags": {"team": "ml", "cost": "7"},
}


def asked(around: Around = AROUND, **pool: Any) -> dict[str, Any]:
    return pool_inputs(pool_of(aks(pool)), around)


def test_a_pool_that_says_the_least_follows_the_cluster() -> None:
    assert asked() == LEAST
    nothing = {"tags": {}, "vnetSubnetID": None, "podSubnetID": None, "orchestratorVersion": None}
    assert asked(Around()) == LEAST | nothing


@pytest.mark.parametrize(
    ("said", "inputs"),
    [
        ({"osSku": "AzureLinux3"}, {"osSKU": "AzureLinux3"}),
        ({"zones": ["1", "3"]}, {"availabilityZones": ["1", "3"]}),
        ({"taints": ["sku=gpu:NoSchedule"]}, {"nodeTaints": ["sku=gpu:NoSchedule"]}),
        ({"driver": "preinstalled"}, {"gpuProfile": {"driver": "Install"}}),
        ({"kubernetesVersion": "1.33"}, {"orchestratorVersion": "1.33"}),
        ({"tags": {"cost": "8"}}, {"tags": {"team": "ml", "cost": "8"}}),
        ({"upgradeSettings": {"maxSurge": "33%"}}, {"upgradeSettings": {"maxSurge": "33%"}}),
        ({"upgradeSettings": {"maxUnavailable": "1"}}, {"upgradeSettings": {"maxSurge": "0", "maxUnavailable": "1"}}),
        ({"properties": {"enableUltraSSD": True}}, {"enableUltraSSD": True}),
        ({"properties": {"upgradeSettings": {"maxSurge": "2"}}}, {"upgradeSettings": {"maxSurge": "2"}}),
    ],
)
def test_what_a_pool_says_is_asked_for(said: dict[str, Any], inputs: dict[str, Any]) -> None:
    assert asked(**said) == LEAST | inputs


def test_spot_machines_have_a_price_and_no_surge() -> None:
    spot = {"scaleSetPriority": "Spot", "scaleSetEvictionPolicy": "Deallocate", "spotMaxPrice": 2.5}
    without = {key: value for key, value in LEAST.items() if key != "upgradeSettings"}
    found = asked(spot={"maxPrice": 2.5, "evictionPolicy": "Deallocate"})
    assert {key: value for key, value in found.items() if key != "nodeTaints"} == {
        key: value for key, value in (without | spot).items() if key != "nodeTaints"
    }
    assert found["nodeTaints"] == ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]
    assert asked(spot={})["spotMaxPrice"] == -1


def test_the_number_of_nodes() -> None:
    assert counts(NodeCount(2, 2, autoscaled=False)) == {"count": 2, "enableAutoScaling": False}
    scaled = {"count": 1, "enableAutoScaling": True, "minCount": 1, "maxCount": 4}
    assert counts(NodeCount(1, 4, autoscaled=True)) == scaled


def kept(**pool: Any) -> set[str]:
    pool_plan = pool_of(aks({"adopted": True, **pool}, cluster=IN_ONE))
    return set(kept_as_found(pool_plan, pool_inputs(pool_plan, Around({"gpu-pools": "dev"}))))


ALL = azure_types.types()["AgentPool"].keys()
SAID = {"mode", "osType", "type", "vmSize", "count", "enableAutoScaling"}


def test_an_adopted_pool_keeps_what_the_stack_does_not_say() -> None:
    assert kept() == ALL - PLACE - OF_OTHERS - SAID - {"nodeLabels", "tags"}
    assert {"gpuProfile", "upgradeSettings", "osSKU", "availabilityZones", "nodeTaints"} <= kept()
    assert not {"osSKU", "availabilityZones"} & kept(osSku="AzureLinux3", zones=["1"])


@pytest.mark.parametrize(
    ("said", "keeps"),
    [
        ({}, True),
        ({"maxPods": 60}, True),
        ({"upgradeSettings": {"maxSurge": "1"}}, False),
        ({"properties": {"upgradeSettings": {"maxSurge": "2"}}}, False),
        ({"properties": {"enableUltraSSD": True}}, True),
    ],
)
def test_its_surge_stays_unless_the_stack_says_one(said: dict[str, Any], *, keeps: bool) -> None:
    assert ("upgradeSettings" in kept(**said)) is keeps


def test_of_a_pool_that_the_stack_makes_nothing_is_kept() -> None:
    pool_plan = pool_of(aks())
    assert kept_as_found(pool_plan, pool_inputs(pool_plan, Around())) == []


def test_subnets_of_a_network_that_names_them() -> None:
    assert subnets(None) == subnets(Network()) == {}
    assert subnets(Network(node_subnet="a")) == {"vnetSubnetID": "a"}
    assert subnets(Network(node_subnet="a", pod_subnet="b")) == {"vnetSubnetID": "a", "podSubnetID": "b"}
