"""A pool of running nodes moves to resource claims and back, node after node, within a disruption budget.

The tests share a stack on an existing cluster, and run in the order in which they are written. The pods ask for what they always
asked for; the scheduler, the eviction API and NVIDIA's DRA driver are the real ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.engine.marks import ON_NODES
from tests.engine.served import BUDGET, REPLICAS, Served, cordoned, leave, marked, report, running, serve, served

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = ON_NODES

STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: small}
  gpu-pools:sharing:
    four: {timeSlicing: {replicas: 4}}
  gpu-pools:verification: {deadlineSeconds: 120, intervalSeconds: 10}
  gpu-pools:pools:
    - name: serving
      nodeSelector: {pool: serving}
      gpuModel: NVIDIA A10
      gpusPerNode: 1
      count: 2
      sharing: four
      rollout: {drainTimeoutSeconds: 120}
"""
CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    return made


def allocate(trial: Trial, by: str) -> None:
    trial.edit(lambda config: config["gpu-pools:pools"][0].__setitem__("allocation", by))


def labels(trial: Trial) -> set[tuple[Any, ...]]:
    keys = ("gpu-pools/dra-driver", "nvidia.com/gpu.deploy.device-plugin")
    return {tuple(node["metadata"]["labels"].get(key) for key in keys) for node in trial.nodes("serving")}


def of_claims(trial: Trial) -> int:
    """How many claims of the pods that serve are allocated."""
    return sum(bool(one.get("status", {}).get("allocation")) for one in trial.api().list(CLAIMS)["items"])


def moves(trial: Trial, by: str) -> Served:
    """Move the pool while its pods serve."""
    allocate(trial, by)
    with Served(trial) as watch:
        trial.up().ok()
    assert trial.holds()
    assert (cordoned(trial), list(marked(trial))) == ([], [])
    trial.wait_until(lambda: running(trial) == REPLICAS, "all replicas run again")
    return watch


def test_the_report_says_that_nodes_are_drained_one_by_one(trial: Trial) -> None:
    serve(trial)
    before = trial.file.read_text(encoding="utf-8")
    allocate(trial, "dra")
    (pool,) = report(trial, before)["pools"]
    assert "reallocated" in pool["effects"]
    trial.file.write_text(before, encoding="utf-8")


def test_the_pool_moves_to_claims_and_its_pods_keep_their_budget(trial: Trial) -> None:
    watch = moves(trial, "dra")
    assert watch.fewest >= BUDGET
    assert labels(trial) == {("shares-4", "false")}
    assert of_claims(trial) == REPLICAS


def test_another_number_of_shares_drains_the_nodes_one_by_one(trial: Trial) -> None:
    trial.edit(lambda config: config["gpu-pools:sharing"].__setitem__("four", {"timeSlicing": {"replicas": 5}}))
    with Served(trial) as watch:
        trial.up().ok()
    assert trial.holds()
    assert watch.fewest >= BUDGET
    assert labels(trial) == {("shares-5", "false")}
    trial.wait_until(lambda: running(trial) == REPLICAS, "all replicas run again")


def test_the_pool_moves_back_and_nothing_of_claims_is_left(trial: Trial) -> None:
    watch = moves(trial, "devicePlugin")
    assert watch.fewest >= BUDGET
    assert labels(trial) == {("none", "true")}
    (pool,) = trial.plan().pools
    declared = {str(count) for count in pool.advertises.values()}
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in trial.nodes("serving")} == declared
    assert len(served(trial)) == REPLICAS
    leave(trial)
    trial.wait_until(lambda: not trial.api().list(SLICES)["items"], "the driver's devices are gone", 120)
    trial.wait_until(lambda: not trial.api().list(CLAIMS)["items"], "all claims are gone", 120)
