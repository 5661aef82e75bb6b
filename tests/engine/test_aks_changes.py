"""Changes of an AKS stack that is up which Azure takes in another way than the plugin says, and its hand on pool labels.

One stack for the file; each test leaves it as it was deployed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sandbox.clouds.azure import AzureCloud
from sandbox.cluster.api_errors import ApiError
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

STACK = """
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    resourceGroup: small-rg
    kubernetesVersion: "1.34"
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:sharing:
    shared: {timeSlicing: {replicas: 4}}
  gpu-pools:pools:
    - {name: gpu, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: shared, labels: {team: ml}, taints: ["sku=gpu:NoSchedule"]}
    - {name: cheap, vmSize: Standard_NC4as_T4_v3, nodes: {min: 0, max: 2}, sharing: shared, spot: {}, zones: ["1"]}
"""


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    return made


@pytest.fixture
def edited(trial: Trial) -> Iterator[Callable[..., Trial]]:
    """Changes the stack file for one test."""

    def change(**cluster: Any) -> Trial:
        trial.edit(lambda config: config["gpu-pools:cluster"].update(cluster))
        return trial

    yield change
    trial.write(STACK)


def node_of(trial: Trial) -> str:
    """The node of the pool `gpu`."""
    found = trial.api().list("/api/v1/nodes?labelSelector=agentpool%3Dgpu")["items"]
    return str(found[0]["metadata"]["name"])


def steps(trial: Trial) -> dict[str, str]:
    """Kind of a resource -> what the engine would do to it; several of a kind by name."""
    return {step["urn"].rpartition("::")[2]: step["op"] for step in trial.planned_steps()}


class TestSystemPool:
    """Everything that is written about it acts, or is refused."""

    def test_its_number_of_nodes_is_changed(self, edited: Callable[..., Trial]) -> None:
        trial = edited(systemPool={"vmSize": "Standard_D4s_v5", "nodes": {"min": 1, "max": 3}})
        assert steps(trial) == {"gpu-cluster": "update"}

    @pytest.mark.parametrize(
        ("system", "told"),
        [
            ({"vmSize": "Standard_D8s_v5", "count": 1}, "systemPool.vmSize: Standard_D8s_v5 is asked for"),
            ({"vmSize": "Standard_D4s_v5", "count": 1, "zones": ["1"]}, "systemPool.zones: 1 is asked for"),
        ],
    )
    def test_other_machines_are_refused_in_the_preview(self, edited: Callable[..., Trial], system: Any, told: str) -> None:
        preview = edited(systemPool=system).preview()
        assert preview.code != 0
        assert told in preview.text
        assert "Write back what is deployed" in preview.text


class TestVersion:
    """The control plane goes first, then the system pool (test_aks_system_pool.py), then the GPU pools."""

    def test_pools_follow_the_control_plane(self, edited: Callable[..., Trial]) -> None:
        trial = edited(kubernetesVersion="1.35")
        assert steps(trial) == {"gpu-cluster": "update", "gpu-gpu-pool": "update", "gpu-cheap-pool": "update"}
        told = trial.preview().text
        assert "the pool `system` is raised from 1.34.0 to Kubernetes 1.35" in told
        assert "az aks nodepool upgrade" not in told

    @pytest.mark.parametrize(("version", "told"), [("1.36", "skips a minor version"), ("1.33", "is older than 1.34")])
    def test_what_azure_refuses_is_refused_in_the_preview(self, edited: Callable[..., Trial], version: str, told: str) -> None:
        preview = edited(kubernetesVersion=version).preview()
        assert preview.code != 0
        assert f"kubernetesVersion: {version} {told}" in preview.text


class TestPoolLabels:
    """What a pool has given its nodes nobody else takes from them; everything else is free."""

    @pytest.mark.parametrize(
        ("change", "refusal"),
        [
            ({"metadata": {"labels": {"team": "other"}}}, 'request "team" refused'),
            ({"metadata": {"labels": {"team": None}}}, 'request "team" refused'),
            ({"metadata": {"labels": {"nvidia.com/device-plugin.config": "x"}}}, "label configured on node pool"),
            ({"metadata": {"labels": {"kubernetes.azure.com/mode": "system"}}}, "label configured on node pool"),
            ({"spec": {"taints": None}}, 'Taint delete request "sku=gpu:NoSchedule" refused'),
        ],
    )
    def test_are_refused_to_the_administrator(self, trial: Trial, change: Any, refusal: str) -> None:
        with pytest.raises(ApiError) as refused:
            trial.api().patch(f"/api/v1/nodes/{node_of(trial)}", change)
        assert refusal in str(refused.value)

    def test_labels_and_taints_of_no_pool_come_and_go(self, trial: Trial) -> None:
        api, path = trial.api(), f"/api/v1/nodes/{node_of(trial)}"
        own = (api.get(path) or {})["spec"]["taints"]
        mine = {"key": "example.com/starting", "effect": "NoSchedule"}
        assert api.patch(path, {"metadata": {"labels": {"mine": "yes"}}, "spec": {"taints": [*own, mine]}})
        assert api.patch(path, {"metadata": {"labels": {"mine": None}}, "spec": {"taints": own}})["spec"]["taints"] == own

    def test_the_pool_itself_changes_them(self, trial: Trial) -> None:
        trial.edit(lambda config: config["gpu-pools:pools"][0].update(labels={"team": "other"}, taints=["sku=a100:NoSchedule"]))
        trial.up().ok()
        node = trial.api().get(f"/api/v1/nodes/{node_of(trial)}") or {}
        assert (node["metadata"]["labels"]["team"], node["spec"]["taints"][0]["value"]) == ("other", "a100")
        trial.write(STACK)
        trial.up().ok()


def test_what_azure_keeps_on_a_living_pool_is_shown_as_a_replacement(trial: Trial) -> None:
    for change in ({"zones": ["2"]}, {"spot": {"maxPrice": 1}}):
        trial.edit(lambda config, change=change: config["gpu-pools:pools"][1].update(change))  # type: ignore[misc]
        done = steps(trial)
        trial.write(STACK)
        assert set(done) == {"gpu-cheap-pool"}
        assert done["gpu-cheap-pool"] in {"replace", "create-replacement", "delete-replaced"}


@at_night("more changes of the same stack, a minute each")
def test_after_a_refresh_a_pool_can_still_be_taken_out(trial: Trial) -> None:
    """The plugin's refresh writes every pool of the cluster into the cluster's inputs (pulumi-azure-native#2719)."""
    trial.engine("refresh", "--yes", "--skip-preview").ok()
    trial.edit(lambda config: config["gpu-pools:pools"].pop())
    trial.edit(lambda config: config["gpu-pools:cluster"].update(tags={"team": "ml"}, kubernetesVersion="1.35"))
    trial.up().ok()
    trial.write(STACK.replace('"1.34"', '"1.35"'))
    trial.up().ok()
    assert steps(trial) == {}


@at_night("more changes of the same stack, a minute each")
def test_a_group_that_the_stack_has_made_is_let_go_and_not_deleted(trial: Trial) -> None:
    """The last one: what is let go is not taken back. With the group Azure would delete the cluster in it."""
    trial.write(STACK.replace('"1.34"', '"1.35"').replace("resourceGroup: small-rg", "existingResourceGroup: small-rg"))
    assert steps(trial) == {}
    trial.up().ok()
    (group,) = [one for one in trial.exported()["resources"] if one["type"] == "azure-native:resources:ResourceGroup"]
    assert group["external"]
    assert AzureCloud(trial.folder).get(group["id"]) is not None
    assert node_of(trial)
    assert steps(trial) == {}
