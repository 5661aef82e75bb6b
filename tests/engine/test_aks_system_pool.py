"""The system pool follows a raised `kubernetesVersion`: control plane, system pool, GPU pools, by the real engine and program.

One stack for the file, whose version goes up by one in each class; no cluster goes back, so their order counts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.clouds.azure import AzureCloud
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.programs,
    pytest.mark.sweep,
    at_night("most of it is in tests/sandbox/test_system_pool.py"),
]

STACK = """
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    resourceGroup: small-rg
    kubernetesVersion: "1.33"
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:sharing:
    whole: {exclusive: {}}
  gpu-pools:pools:
    - {name: gpu, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: whole}
    - {name: cheap, vmSize: Standard_NC4as_T4_v3, nodes: {min: 0, max: 2}, sharing: whole, spot: {}}
    - {name: pinned, vmSize: Standard_NC4as_T4_v3, nodes: {min: 0, max: 2}, sharing: whole, kubernetesVersion: "1.33"}
"""
COMMAND = "az aks nodepool upgrade --resource-group small-rg --cluster-name small --name system --kubernetes-version"
WRITE = "Microsoft.ContainerService/managedClusters/agentPools/write"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    return made


def asks_for(trial: Trial, version: str) -> None:
    trial.edit(lambda config: config["gpu-pools:cluster"].update(kubernetesVersion=version))


def azure_has(trial: Trial, **subscription: Any) -> None:
    (trial.folder / "cloud" / "azure-subscription.json").write_text(json.dumps(subscription))


def running(trial: Trial) -> dict[str, str]:
    """Control plane and pools -> the minor version that they run."""
    return {name: one["version"].rpartition(".")[0] for name, one in records(trial).items()}


def records(trial: Trial) -> dict[str, Any]:
    data = AzureCloud(trial.folder).read()
    return {one["name"]: one for table in ("clusters", "pools") for one in data[table].values()}


class TestWithoutTheRight:
    """From 1.33 to 1.34; nothing is stopped that would work without."""

    def test_a_preview_says_what_is_raised_and_writes_nothing(self, trial: Trial) -> None:
        asks_for(trial, "1.34")
        before = records(trial)
        told = trial.preview().ok().text
        assert (
            "the pool `system` is raised from 1.33.0 to Kubernetes 1.34 after the control plane and before the GPU pools" in told
        )
        assert "Azure replaces its nodes in turn" in told
        assert COMMAND not in told
        assert records(trial) == before

    def test_a_preview_without_a_login_says_the_command(self, trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sandbox.stack.engine.Engine._azure", lambda _: {"ARM_ENVIRONMENT": "elsewhere"})
        told = trial.engine("preview").ok().text
        assert "does not follow the control plane to Kubernetes 1.34 by itself (there is no Azure called elsewhere" in told
        assert f"{COMMAND} 1.34" in told

    def test_a_deploy_goes_on_and_says_the_command(self, trial: Trial) -> None:
        azure_has(trial, rights={"without": [WRITE]})
        told = trial.up().ok().text
        assert f"(Azure answers 403 AuthorizationFailed: the right {WRITE} is missing)" in told
        assert f"{COMMAND} 1.34.0" in told
        assert running(trial) == {"small": "1.34", "system": "1.33", "gpu": "1.34", "cheap": "1.34", "pinned": "1.33"}

    def test_while_it_is_behind_each_preview_says_so(self, trial: Trial) -> None:
        told = trial.preview().ok().text
        assert f"the pool `system` runs Kubernetes 1.33.0, the control plane 1.34.0: {COMMAND} 1.34.0" in told


class TestFailure:
    """From 1.34 to 1.35; Azure cannot empty a node."""

    BEHIND: Final = {"small": "1.35", "system": "1.33", "gpu": "1.34", "cheap": "1.34", "pinned": "1.33"}

    def test_an_engine_that_goes_on_after_errors_does_not_get_past_it(self, trial: Trial) -> None:
        asks_for(trial, "1.35")
        trial.edit(lambda config: config["gpu-pools:pools"].append({**config["gpu-pools:pools"][1], "name": "late"}))
        azure_has(trial, upgrades={"blocked": ["system"]})
        run = trial.engine("up", "--yes", "--skip-preview", "--continue-on-error")
        assert run.code != 0
        assert 'after hook "gpu-system-pool" failed: the pool `system` of small is not raised to Kubernetes 1.35.0' in run.text
        assert "UpgradeFailed: Drain node aks-system-vmss000000 failed when evicting pod" in run.text
        for pool in ("gpu", "cheap", "late"):
            assert f'before hook "gpu-{pool}-system-pool-first" failed: nothing was done here' in run.text
        assert running(trial) == self.BEHIND
        assert records(trial)["system"]["state"] == "Failed"

    def test_the_next_deploy_asks_again_before_the_gpu_pools(self, trial: Trial) -> None:
        """The cluster is up to date by now; and it stops again."""
        trial.edit(lambda config: config["gpu-pools:pools"].pop())
        run = trial.up()
        assert run.code != 0
        assert "the pool `system` of small is not raised to Kubernetes 1.35.0: UpgradeFailed: Drain node" in run.text
        assert running(trial) == self.BEHIND

    def test_once_it_can_be_done_it_goes_on(self, trial: Trial) -> None:
        azure_has(trial)
        trial.up().ok()
        assert running(trial) == {**dict.fromkeys(self.BEHIND, "1.35"), "pinned": "1.33"}
        assert "az aks nodepool upgrade" not in trial.preview().ok().text
        assert trial.planned_steps() == []


class TestOrder:
    """From 1.35 to 1.36, with nothing in the way."""

    def test_control_plane_then_system_pool_then_gpu_pools(self, trial: Trial) -> None:
        asks_for(trial, "1.36")
        told = trial.up().ok().text
        assert "the pool `system` of small goes from Kubernetes 1.35.0 to 1.36.3" in told
        since = {name: one.get("versionSince", "") for name, one in records(trial).items()}
        assert since["small"] < since["system"] < min(since["gpu"], since["cheap"])
        assert since["pinned"] == ""
        assert running(trial)["system"] == "1.36"
        assert trial.planned_steps() == []
