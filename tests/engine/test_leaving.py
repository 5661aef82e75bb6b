"""A cluster that stays gets everything back: a pool that is taken out, a destroy that is refused, killed and run again.

The tests share a stack on an existing cluster, and run in the order they are written. What takes MIG back is the real program, as
a hook of the real Helm, with the rights of its own account; mig-manager is a stand-in, and applies layouts with the real
mig-parted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.proof.verifier_rights import CONDITION
from gpu_pools.rendering.node_cleanup import NAME as CLEANUP
from gpu_pools.rendering.node_leaving import NAME, REMOVED
from sandbox.nvml import state
from tests.engine.marks import ON_NODES
from tests.engine.whole_cluster import check_as_before, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial
    from tests.engine.whole_cluster import Objects

pytestmark = ON_NODES

STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: byo}
  gpu-pools:operator: {migStrategy: mixed}
  gpu-pools:sharing:
    sliced: {timeSlicing: {replicas: 4}}
    cut: {mig: {layout: {1g.10gb: 7}}}
  gpu-pools:verification: {deadlineSeconds: 60, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: ts, nodeSelector: {pool: ts}, gpuModel: NVIDIA A10, gpusPerNode: 1, count: 1, sharing: sliced}
    - {name: stays, nodeSelector: {pool: stays}, gpuModel: a100-80gb, gpusPerNode: 1, count: 1, sharing: cut, rollout: {}}
    - {name: goes, nodeSelector: {pool: goes}, gpuModel: a100-80gb, gpusPerNode: 1, count: 1, sharing: cut}
"""
SLICE: Final = "nvidia.com/mig-1g.10gb"
PODS: Final = "/api/v1/namespaces/{}/pods"
OPERATOR: Final = "gpu-operator"
JOB: Final = f"/apis/batch/v1/namespaces/{OPERATOR}/jobs/{{}}"
VERIFIER: Final = "/apis/apps/v1/namespaces/gpu-pools-verifier/daemonsets/gpu-pools-verifier-ts"


@dataclass(frozen=True)
class Left:
    """The stack, and the cluster before it."""

    trial: Trial
    before: Objects


@pytest.fixture(scope="module")
def left(shared_sandbox: Callable[..., Trial]) -> Left:
    trial = shared_sandbox(STACK)
    trial.preview().ok()
    trial.wait_until(lambda: len(trial.nodes()) == 5, "the nodes of the existing cluster")
    found = Left(trial, settled(trial.api()))
    trial.up().ok()
    return found


def test_a_pool_is_not_taken_out_while_a_pod_holds_its_gpus(left: Left) -> None:
    trial = left.trial
    _hold(trial, "goes")
    trial.edit(lambda config: config["gpu-pools:pools"].pop())
    failed = trial.up()
    assert failed.code == 1
    assert f"job {REMOVED} failed: nothing was changed, since pods hold GPUs of nodes that leave" in failed.text
    assert "default/holds-goes (a bare pod)" in failed.text
    (node,) = trial.nodes("goes")
    assert _allocatable(node) == 7, "nothing was changed"
    assert trial.get(f"{PODS.format('default')}/holds-goes")["status"]["phase"] == "Running"


def test_nodes_of_a_pool_that_is_taken_out_are_given_back(left: Left) -> None:
    trial = left.trial
    (node,) = (one["metadata"]["name"] for one in trial.nodes("goes"))
    trial.api().delete(f"{PODS.format('default')}/holds-goes")
    trial.up().ok()
    found = trial.get(f"/api/v1/nodes/{node}")
    assert _allocatable(found) == 0
    labels = found["metadata"]["labels"]
    assert (labels["nvidia.com/mig.config"], labels["nvidia.com/mig.config.state"]) == ("all-disabled", "success")
    assert not {"gpu-pools/pool", "nvidia.com/device-plugin.config"} & labels.keys()
    assert [key for key in found["metadata"]["annotations"] if key.startswith("gpu-pools/")] == []
    assert CONDITION not in [one["type"] for one in found["status"]["conditions"]]
    assert not _partitioned(trial, node)
    (other,) = trial.nodes("stays")
    assert _allocatable(other) == 7
    assert trial.planned_steps() == []


def test_a_destroy_names_pods_that_hold_gpus_and_leaves_them_what_they_have(left: Left) -> None:
    trial = left.trial
    _hold(trial, "stays")
    failed = trial.engine("destroy", "--yes", "--skip-preview")
    assert failed.code != 0
    assert f"job {NAME} failed: nothing was changed, since pods hold GPUs of nodes that leave" in failed.text
    assert "default/holds-stays (a bare pod)" in failed.text
    (node,) = (one for one in trial.nodes() if one["metadata"]["labels"].get("pool") == "stays")
    assert _allocatable(node) == 7
    assert trial.get(f"/apis/apps/v1/namespaces/{OPERATOR}/deployments/gpu-operator")
    trial.api().delete(f"{PODS.format('default')}/holds-stays")


def test_a_destroy_that_was_killed_is_run_again_and_the_cluster_is_as_before(left: Left) -> None:
    """Killed while the verifiers go, while MIG is taken back, and while the nodes are cleaned."""
    trial = left.trial
    api, again = trial.api(), ("destroy", "--yes", "--skip-preview", "--refresh")
    trial.kill_engine(*again, once=lambda: api.get(VERIFIER) is None, what="the verifiers have gone")
    trial.kill_engine(*again, once=lambda: api.get(JOB.format(NAME)), what="MIG is being taken back")
    trial.kill_engine(*again, once=lambda: api.get(JOB.format(CLEANUP)), what="the nodes are being cleaned")
    trial.engine(*again).ok()
    assert not any(_partitioned(trial, node["metadata"]["name"]) for node in trial.nodes())
    check_as_before(trial.api(), left.before)
    trial.down().ok()


def _partitioned(trial: Trial, node: str) -> bool:
    paths = list(trial.clusters[0].glob(f"machines/{node}/state"))
    return any(gpu.mig is not None and (gpu.mig.current or gpu.mig.pending) for path in paths for gpu in state.read(path).gpus)


def _allocatable(node: dict[str, Any]) -> int:
    return int(node["status"]["allocatable"].get(SLICE, 0))


def _hold(trial: Trial, pool: str) -> None:
    spec = {"containers": [{"name": "c", "image": "a:1", "resources": {"limits": {SLICE: 1}}}], "nodeSelector": {"pool": pool}}
    trial.api().create(PODS.format("default"), {"metadata": {"name": f"holds-{pool}"}, "spec": spec})
    where = f"{PODS.format('default')}/holds-{pool}"
    trial.wait_until(lambda: trial.get(where)["status"]["phase"] == "Running", "the pod runs")
