"""Clusters of different makes are adopted: what comes out, and that it can be planned.

That the preview after the import replaces nothing of them is in tests/components/test_adopted.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.adopting.adopter import PLATFORM
from gpu_pools.adopting.aks.agent_pools import adopt_aks
from gpu_pools.adopting.inside import look
from gpu_pools.adopting.magnum.node_groups import Gpus, MagnumCluster, adopt_magnum
from gpu_pools.adopting.written import import_text, stack_text
from gpu_pools.plan.planning import plan_config
from gpu_pools.text.yaml_text import load_yaml
from tests.adopting.recorded import CASES, OWNER, WITH_POOLS, adopted
from tests.unit.golden import golden


@pytest.mark.parametrize("name", CASES)
def test_pools_and_their_sharing_are_those_that_are_there_and_the_rest_is_said(name: str) -> None:
    found, case = adopted(name), CASES[name]
    assert found.sections.get("pools", []) == case["pools_expected"]
    assert found.sections.get("sharing", {}) == case["sharing_expected"]
    said = [f"{one.place}: {one.why}" for one in found.unsaid]
    for part in case["unsaid"]:
        assert any(part in one for one in said), (part, said)


@pytest.mark.parametrize("name", WITH_POOLS)
def test_the_stack_file_can_be_planned_and_holds_nothing_but_what_was_found(name: str) -> None:
    text = stack_text(adopted(name), name)
    config = load_yaml(text)["config"]
    assert {pool.name for pool in plan_config(config).pools} == {one["name"] for one in CASES[name]["pools_expected"]}
    assert config == adopted(name).config


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_and_said_is_what_somebody_has_looked_at(name: str) -> None:
    """After a wanted change: ``UPDATE_GOLDEN=1 venv/bin/pytest tests/adopting``, then read the difference."""
    found = adopted(name)
    told = {"changes": {pool: list(one) for pool, one in found.changes.items()}, "managed": found.managed}
    if found.imports:
        told["import file"] = json.loads(import_text(found))["resources"]
    golden(f"adopted/{name}.yaml", f"{stack_text(found, name)}---\n{yaml.safe_dump(told, sort_keys=False, width=130)}")


def test_there_are_six_real_clusters_with_pools_and_each_says_what_it_is() -> None:
    assert {case["kind"] for case in CASES.values()} == {"recording", "printed", "constructed"}
    assert len([name for name in WITH_POOLS if CASES[name]["kind"] != "constructed"]) >= 6
    assert all(case["source"] for case in CASES.values())
    assert all(case["added"] for case in CASES.values() if case["kind"] != "constructed")


@pytest.mark.parametrize("name", WITH_POOLS)
def test_the_import_file_names_each_resource_once_below_its_component(name: str) -> None:
    """As `pulumi import --file` reads it: names are labels of the file, parents are named by them, components have no id."""
    found = adopted(name)
    specs = json.loads(import_text(found))["resources"]
    names = [one["name"] for one in specs]
    assert len(set(names)) == len(names)
    assert specs[0] == {
        "type": "gpu-pools:index:GpuPlatform",
        "name": "component gpu",
        "logicalName": PLATFORM,
        "component": True,
    }
    for number, one in enumerate(specs[1:], 1):
        assert one["parent"] in names[:number]
        assert ("id" in one) != one.get("component", False)
    pools = [one["name"] for one in CASES[name]["pools_expected"]] if CASES[name]["platform"] != "existing" else []
    suffix = "pool" if CASES[name]["platform"] == "aks" else "group"
    assert [one["logicalName"] for one in specs if "id" in one] == [f"gpu-{pool}-{suffix}" for pool in pools]


def test_pools_are_added_to_a_stack_that_is_deployed_below_the_platform_that_it_has() -> None:
    document = json.loads(import_text(adopted("magnum-heat"), "gpu-pools/prod"))
    assert document["nameTable"] == {"component gpu": "urn:pulumi:prod::gpu-pools::gpu-pools:index:GpuPlatform::gpu"}
    assert [one["parent"] for one in document["resources"]] == ["component gpu", "component gpu-gpu-a100"]


@pytest.mark.parametrize(("looked", "installs"), [(False, False), (True, True)])
def test_clusters_with_add_ons_have_them_unless_it_was_seen_that_they_have_not(*, looked: bool, installs: bool) -> None:
    """capi-helm's clusters come with operator and NFD; a stack must say which it is (gpu_pools/stack/adoption.py)."""
    case = CASES["magnum-capi-helm"]
    node = {"kind": "Node", "metadata": {"name": "a", "labels": {}}}
    there = MagnumCluster(case["cluster"], case["groups"], "capi-helm")
    found = adopt_magnum(there, {"8d1c1f0e-gpu.h100.1": Gpus("h100-80gb", 1)}, look([node] if looked else []), PLATFORM)
    assert [pool["name"] for pool in found.sections["pools"]] == ["h100"]
    assert found.sections["operator"]["install"] is found.sections["nodeFeatureDiscovery"]["install"] is installs


#: A pool as az prints one (Azure/ARO-HCP#6447, 2026: names, nulls, what is off), on a size with GPUs, with what else newer
#: versions of the API tell of such pools (azure-aks-docs, aks-managed-gpu-nodes, artifact-streaming).
PRINTED: dict[str, Any] = {
    **dict.fromkeys(
        ("capacityReservationGroupId", "creationData", "enableCustomCaTrust", "gatewayProfile", "gpuInstanceProfile")
    ),
    **dict.fromkeys(("kubeletConfig", "linuxOsConfig", "nodeTaints", "spotMaxPrice", "status", "virtualMachinesProfile")),
    "artifactStreamingProfile": {"enabled": True},
    "availabilityZones": ["2"],
    "count": 1,
    "currentOrchestratorVersion": "1.35.6",
    "eTag": "3f5963e1",
    "enableAutoScaling": True,
    "enableFips": False,
    "gpuProfile": {"driver": "Install", "driverType": "GRID", "nvidia": {"managementMode": "Unmanaged", "migStrategy": None}},
    "maxCount": 4,
    "minCount": 1,
    "mode": "User",
    "name": "gpu",
    "orchestratorVersion": "1.35",
    "osSku": "AzureLinux",
    "osType": "Linux",
    "powerState": {"code": "Running"},
    "provisioningState": "Succeeded",
    "resourceGroup": "rg",
    "securityProfile": {"enableSecureBoot": False, "enableVtpm": False, "sshAccess": "LocalUser"},
    "type": "Microsoft.ContainerService/managedClusters/agentPools",
    "typePropertiesType": "VirtualMachineScaleSets",
    "upgradeSettings": {"drainTimeoutInMinutes": None, "maxBlockedNodes": "1", "maxSurge": "10%", "maxUnavailable": "0"},
    "vmSize": "Standard_NC24ads_A100_v4",
}


def test_what_a_newer_api_tells_and_the_plugin_lacks_is_said() -> None:
    """The plugin leaves it out of an import without a word."""
    found = adopt_aks({**CASES["aks-without-gpus"]["cluster"], "agentPoolProfiles": [PRINTED]}, None, look([]), OWNER, PLATFORM)
    (pool,) = found.sections["pools"]
    assert pool["driver"] == "preinstalled"
    newer = {one.place for one in found.unsaid if "the plugin's API version does not know it" in one.why}
    assert newer == {
        "pool gpu: artifactStreamingProfile.enabled = true",
        'pool gpu: gpuProfile.driverType = "GRID"',
        'pool gpu: upgradeSettings.maxBlockedNodes = "1"',
    }


#: What AKS says of pools, by the plugin's names, with values that it may have.
_PROPERTIES: dict[str, st.SearchStrategy[Any]] = {
    "count": st.integers(0, 3),
    "osDiskSizeGB": st.integers(30, 2048),
    "osDiskType": st.sampled_from(["Managed", "Ephemeral"]),
    "kubeletDiskType": st.sampled_from(["OS", "Temporary"]),
    "maxPods": st.integers(10, 250),
    "osSKU": st.sampled_from(["Ubuntu", "Ubuntu2204", "AzureLinux"]),
    "availabilityZones": st.lists(st.sampled_from(["1", "2", "3"]), unique=True),
    "gpuProfile": st.sampled_from([{"driver": "None"}, {"driver": "Install"}, {}, None]),
    "nodeLabels": st.dictionaries(
        st.sampled_from(["team", "example.com/a", "nvidia.com/x", "gpu-pools/pool"]), st.sampled_from(["a", ""])
    ),
    "nodeTaints": st.lists(st.sampled_from(["sku=gpu:NoSchedule", "a:NoExecute"]), unique=True),
    "tags": st.none() | st.dictionaries(st.sampled_from(["cost", "team"]), st.text("ab ", max_size=3)),
    "upgradeSettings": st.sampled_from([{}, {"maxSurge": "10%"}, {"maxSurge": "1", "drainTimeoutInMinutes": 30}, None]),
    "scaleDownMode": st.sampled_from(["Delete", "Deallocate"]),
    "enableFIPS": st.booleans(),
    "enableNodePublicIP": st.booleans(),
    "enableUltraSSD": st.booleans(),
    "enableEncryptionAtHost": st.booleans(),
    "workloadRuntime": st.just("OCIContainer"),
    "orchestratorVersion": st.sampled_from(["1.33", "1.34.2"]),
    "powerState": st.just({"code": "Running"}),
    "messageOfTheDay": st.sampled_from(["", "aGk="]),
    "kubeletConfig": st.sampled_from([{"cpuManagerPolicy": "static"}, {"podMaxPids": 4096, "failSwapOn": True}, None]),
    "linuxOSConfig": st.sampled_from([{"sysctls": {"netCoreSomaxconn": 16384}}, None]),
    "securityProfile": st.sampled_from([{"enableVTPM": True, "enableSecureBoot": False}, None]),
    "networkProfile": st.sampled_from([{"allowedHostPorts": [{"portStart": 80, "portEnd": 81, "protocol": "TCP"}]}, None]),
}


@given(st.fixed_dictionaries({}, optional=_PROPERTIES), st.sampled_from(["Standard_NC24ads_A100_v4", "standard_nc4as_t4_v3"]))
@settings(max_examples=30, deadline=None)
def test_whatever_a_pool_has_it_is_left_out_or_kept_whole(inputs: dict[str, Any], size: str) -> None:
    """What is adopted can be planned, and the first preview changes nothing of it but what is changed in place."""
    pool = {"name": "gpu", "vmSize": size, "count": 1, **inputs}
    cluster = {**CASES["aks-without-gpus"]["cluster"], "agentPoolProfiles": [pool]}
    found = adopt_aks(cluster, None, look([]), "gpu-pools/test", PLATFORM)
    if not found.sections.get("pools"):
        assert any(one.place == "pool gpu" and "is not adopted" in one.why for one in found.unsaid)
        return
    plan_config(load_yaml(stack_text(found, "a cluster"))["config"])
    (entry,) = found.sections["pools"]
    assert entry["vmSize"] == size
    assert {one.partition(":")[0] for one in found.changes["gpu"]} <= {"nodeLabels", "tags", "orchestratorVersion", "powerState"}
