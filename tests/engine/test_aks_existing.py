"""GPU pools in an AKS cluster that is there: added, changed, removed, and the cluster itself as it was.

One stack for the file; the tests run in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.clouds.azure import AzureCloud
from sandbox.clouds.azure_ids import cluster_id, network_id
from tests.engine.whole_cluster import check_as_before, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial
    from tests.engine.whole_cluster import Objects

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

STACK = """
config:
  gpu-pools:cluster:
    platform: aks
    existing: {resourceGroup: platform-rg, name: platform}
    tags: {team: ml}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
    whole: {exclusive: {}}
  gpu-pools:verification: {}
  gpu-pools:pools:
    - {name: gpu, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: shared, taints: ["sku=gpu:NoSchedule"]}
"""
CLUSTER = cluster_id("platform-rg", "platform")
NETWORK = network_id("platform-rg", "platform-network")
#: Of a cluster, what Azure itself writes when a pool of it changes.
ITS_OWN = ("eTag", "agentPoolProfiles")


def shown(trial: Trial) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the cluster without its pools, its pools by name), as Azure shows them."""
    found = AzureCloud(trial.folder).get(CLUSTER)
    assert found
    pools = {pool["name"]: pool for pool in found["agentPoolProfiles"]}
    return {key: value for key, value in found.items() if key not in ITS_OWN}, pools


def azure(trial: Trial) -> dict[str, Any]:
    """All that the subscription has: groups, networks, clusters, pools and what lies beside them."""
    return {
        table: {id_: {**one, "etag": ""} for id_, one in rows.items()} for table, rows in AzureCloud(trial.folder).read().items()
    }


@dataclass(frozen=True)
class Before:
    """What the platform team had before the stack: the cluster, its pools, all else in Azure, and what is inside."""

    cluster: dict[str, Any]
    pools: dict[str, Any]
    azure: dict[str, Any]
    inside: Objects


@pytest.fixture(scope="module")
def made(shared_sandbox: Callable[..., Trial]) -> tuple[Trial, Before]:
    trial = shared_sandbox(STACK)
    # A preview needs the cluster, so it is there before anything is deployed to it.
    trial.preview().ok()
    trial.wait_until(lambda: len(trial.nodes()) == 2, "the nodes of the existing cluster")
    found = Before(*shown(trial), azure(trial), settled(trial.api()))
    trial.up().ok()
    return trial, found


@pytest.fixture(scope="module")
def trial(made: tuple[Trial, Before]) -> Trial:
    return made[0]


@pytest.fixture(scope="module")
def before(made: tuple[Trial, Before]) -> Before:
    return made[1]


def own_pools(trial: Trial) -> dict[str, Any]:
    return {name: pool for name, pool in shown(trial)[1].items() if name not in ("system", "apps")}


def is_as_before(trial: Trial, before: Before) -> None:
    cluster, pools = shown(trial)
    assert cluster == before.cluster
    assert {name: pools[name] for name in before.pools} == before.pools


def test_its_pool_lies_beside_the_others_and_is_proven(trial: Trial, before: Before) -> None:
    (pool,) = own_pools(trial).values()
    assert pool["vnetSubnetID"] == f"{NETWORK}/subnets/nodes"
    assert pool["tags"] == {"team": "ml", "gpu-pools": "gpu-pools/small"}
    assert pool["currentOrchestratorVersion"] == before.cluster["currentKubernetesVersion"]
    (node,) = trial.nodes("gpu")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert trial.holds()
    state = trial.exported()["resources"]
    kinds = {one["type"] for one in state if one["type"].startswith("azure-native:")}
    assert kinds == {"azure-native:containerservice:AgentPool"}


def test_a_second_up_changes_nothing(trial: Trial) -> None:
    assert trial.planned_steps() == []


def test_what_a_private_api_server_asks_for_is_said(trial: Trial) -> None:
    assert shown(trial)[0]["apiServerAccessProfile"] == {"enablePrivateCluster": True}
    assert "its API server has a private address only: `pulumi up` must run where that is reached" in trial.preview().ok().text


@pytest.mark.sweep
def test_pools_are_added_changed_and_removed_and_nothing_else(trial: Trial, before: Before) -> None:
    def more(config: dict[str, Any]) -> None:
        config["gpu-pools:sharing"]["shared"] = {"timeSlicing": {"replicas": 8}}
        one = {"name": "more", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "whole"}
        config["gpu-pools:pools"].append(one)

    trial.edit(more)
    trial.up().ok()
    assert set(own_pools(trial)) == {"gpu", "more"}
    assert trial.nodes("gpu")[0]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    is_as_before(trial, before)

    trial.write(STACK)
    trial.up().ok()
    assert set(own_pools(trial)) == {"gpu"}
    is_as_before(trial, before)


@pytest.mark.sweep
def test_what_does_not_go_together_is_said_at_once_and_nothing_is_made(trial: Trial) -> None:
    elsewhere = NETWORK.replace("platform-network", "other") + "/subnets/nodes"

    def wrong(config: dict[str, Any]) -> None:
        pool = {"vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "whole"}
        config["gpu-pools:pools"] += [
            {**pool, "name": "apps"},
            {**pool, "name": "far", "subnet": elsewhere},
            {**pool, "name": "new", "kubernetesVersion": "1.99"},
        ]
        config["gpu-pools:cluster"]["existing"]["name"] = "platform"

    pools = own_pools(trial)
    trial.edit(wrong)
    for run in (trial.preview(), trial.up()):
        assert run.code != 0
        assert 'gpu-pools:pools[1].name: "apps" is a pool that the cluster has already, made by another' in run.text
        assert 'gpu-pools:pools[2].subnet: "other/subnets/nodes" is not in the network of the cluster' in run.text
        assert "gpu-pools:pools[3].kubernetesVersion: 1.99 is newer than" in run.text
        assert "nothing was created or changed" in run.text
    assert own_pools(trial) == pools
    trial.write(STACK)


@pytest.mark.sweep
def test_another_subscription_is_refused(trial: Trial) -> None:
    trial.edit(lambda config: config["gpu-pools:cluster"]["existing"].update(subscription="0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"))
    run = trial.preview()
    assert run.code != 0
    assert "is not the one that the provider is configured for, 00000000-0000-0000-0000-000000000001" in run.text
    trial.write(STACK)


@pytest.mark.sweep
def test_a_destroy_leaves_the_cluster_as_it_was(trial: Trial, before: Before) -> None:
    trial.engine("destroy", "--yes", "--skip-preview").ok()
    assert own_pools(trial) == {}
    is_as_before(trial, before)
    assert azure(trial) == before.azure
    check_as_before(trial.api(), before.inside)
    trial.down().ok()
