"""MPS by the real engine, with NVIDIA's config-manager and mps-control-daemon on the nodes: what works, and how it fails.

The tests of the first stack share it, and run in the order in which they are written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.rendering.mps_signal import APP, POLICY, has_wrong_name, probe_pod
from sandbox.nvml import state
from tests.engine.fleet import Fleet
from tests.engine.marks import ON_NODES
from tests.patience import scaled
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = ON_NODES

STACK: Final = """
config:
  azure-native:location: westeurope
  gpu-pools:cluster:
    platform: aks
    name: small
    location: westeurope
    resourceGroup: small-rg
    kubernetesVersion: "1.36"
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:operator: {driver: preinstalled}
  gpu-pools:sharing:
    served: {mps: {replicas: 4}}
    later: {exclusive: {}}
  gpu-pools:verification: {deadlineSeconds: 600, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: served, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: served}
    - {name: later, vmSize: Standard_NC24ads_A100_v4, count: 1, sharing: later}
"""
BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
PODS: Final = "/api/v1/namespaces/gpu-operator/pods"
DAEMONS: Final = f"{PODS}?labelSelector=app%3D{APP}"
_EXCLUSIVE_PROCESS: Final = 3


@pytest.fixture(scope="module")
def fleet(shared_sandbox: Callable[..., Trial]) -> Fleet:
    trial = shared_sandbox(STACK)
    trial.up().ok()
    return Fleet(trial)


def offers(fleet: Fleet, pool: str) -> int:
    found = fleet.trial.get(f"/api/v1/nodes/{fleet.node(pool, 0)}")
    return int(found["status"]["allocatable"].get("nvidia.com/gpu", 0))


def modes(fleet: Fleet, pool: str) -> set[int]:
    """The compute modes of the GPUs, as NVML has them."""
    return {gpu.compute_mode for gpu in state.read(fleet.machine(fleet.node(pool, 0)) / "state").gpus}


def daemons(fleet: Fleet) -> dict[str, str]:
    """Node -> uid of the pod of its MPS daemon."""
    pods = fleet.api.list(DAEMONS)["items"]
    return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def share(trial: Trial, name: str, declaration: dict[str, Any]) -> None:
    trial.edit(lambda config: config["gpu-pools:sharing"].__setitem__(name, declaration))


def test_a_fresh_node_serves_what_is_declared(fleet: Fleet) -> None:
    assert (offers(fleet, "served"), modes(fleet, "served")) == (4, {_EXCLUSIVE_PROCESS})
    assert (offers(fleet, "later"), modes(fleet, "later")) == (1, {0})


def test_other_replicas_and_a_pool_that_gets_mps_reach_running_nodes(fleet: Fleet) -> None:
    """The pod of the daemon stays: the signal alone reaches it."""
    before = daemons(fleet)
    share(fleet.trial, "served", {"mps": {"replicas": 10}})
    share(fleet.trial, "later", {"mps": {"replicas": 2}})
    fleet.trial.up().ok()
    assert (offers(fleet, "served"), offers(fleet, "later")) == (10, 2)
    after = daemons(fleet)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 1


def test_without_the_policy_a_deploy_ends_early_and_names_the_cause(fleet: Fleet) -> None:
    fleet.api.delete(f"{BINDINGS}/{POLICY}")
    probe = f"{PODS}?dryRun=All"
    # API servers learn of it a moment later.
    fleet.trial.wait_until(lambda: has_wrong_name(fleet.api.create(probe, probe_pod())), "the policy is out of force", 60)
    for pod in fleet.api.list(DAEMONS)["items"]:
        fleet.api.delete(f"{PODS}/{pod['metadata']['name']}")
    share(fleet.trial, "served", {"mps": {"replicas": 5}})
    # `make up` would look for the binding in the cluster first, and make it again.
    done = fleet.trial.engine("up", "--yes", "--skip-preview")
    assert done.code != 0
    assert done.seconds < scaled(300), "the deadline of the verification alone is 600 s"
    assert "waiting helps nothing" in done.text
    assert "config-manager cannot signal the MPS daemon" in done.text
    assert "error creating symlink" not in done.text, "that would be another cause"


def test_no_repair_is_tried(fleet: Fleet) -> None:
    before = daemons(fleet)
    done = fleet.trial.gpu_pools("repair", fleet.node("served", 0), "--stack", fleet.trial.stack, "--yes")
    assert "nothing was done" in done.text
    assert "nothing on the node helps" in done.text
    assert daemons(fleet) == before


def test_a_deploy_that_looks_at_the_cluster_makes_the_policy_again_and_replaces_old_pods(fleet: Fleet) -> None:
    before = daemons(fleet)
    done = fleet.trial.engine("up", "--refresh", "--yes", "--skip-preview").ok()
    assert "older than the admission policy" in done.text
    assert (offers(fleet, "served"), offers(fleet, "later")) == (5, 2)
    assert not before.items() & daemons(fleet).items(), "each pod is another one"


def test_mps_that_goes_gives_the_gpus_back(fleet: Fleet) -> None:
    share(fleet.trial, "served", {"timeSlicing": {"replicas": 3}})
    share(fleet.trial, "later", {"exclusive": {}})
    fleet.trial.up().ok()
    assert (offers(fleet, "served"), modes(fleet, "served")) == (3, {0})
    assert (offers(fleet, "later"), modes(fleet, "later")) == (1, {0})
    assert daemons(fleet) == {}
    assert json.dumps(fleet.api.list(BINDINGS)["items"]).count(POLICY) == 0, "no pool needs it any more"


@at_night("an older release, two minutes")
def test_an_old_device_plugin_needs_a_rollout_for_other_replicas(shared_sandbox: Callable[..., Trial]) -> None:
    trial = shared_sandbox(
        STACK.replace("driver: preinstalled", "driver: preinstalled, values: {devicePlugin: {version: v0.18.1}}")
    )
    trial.up().ok()
    fleet = Fleet(trial)
    assert offers(fleet, "served") == 4
    before = daemons(fleet)
    share(trial, "served", {"mps": {"replicas": 10}})
    refused = trial.up()
    assert refused.code != 0
    assert "running nodes serve another MPS configuration" in refused.text
    assert (offers(fleet, "served"), daemons(fleet)) == (4, before), "nothing was changed"
    trial.edit(lambda config: config["gpu-pools:pools"][0].__setitem__("rollout", {}))
    trial.up().ok()
    assert offers(fleet, "served") == 10
    assert not before.items() & daemons(fleet).items(), "the daemon was restarted in its node's turn"
