"""`replace` on Magnum: one node group beside another, or in its place, with pods that are served all the time.

The tests share a stack and run in the order they are written. Keystone, Magnum, engine, NFD, scheduler, controllers, eviction API
and verifiers are the real ones; Magnum's driver is a stand-in, and the autoscaler is played by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.engine.marks import ON_NODES
from tests.engine.served import BUDGET, BUDGETS, REPLICAS, Served, cordoned, declared, marked, pod_names, report, running, serve
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [*ON_NODES, at_night("the replacement on AKS is for the day")]

STACK: Final = """
config:
  gpu-pools:cluster:
    platform: magnum
    name: small
    driver: heat
    template: {image: fcos, externalNetwork: public, flavor: m2.large}
    keypair: gpu-admin
  gpu-pools:flavors:
    g2.5xlarge: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 1}
    g2.10xlarge: {gpuModel: NVIDIA A100-PCIE-40GB, gpusPerNode: 2}
  gpu-pools:sharing:
    sliced: {timeSlicing: {replicas: 4}}
  gpu-pools:verification: {deadlineSeconds: 60, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: serving, flavor: g2.5xlarge, count: 2, sharing: sliced, taints: ["gpu=yes:NoSchedule"]}
"""
SMALL, LARGE = "g2.5xlarge", "g2.10xlarge"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    serve(made)
    return made


def test_a_group_that_is_there_keeps_its_name_its_nodes_and_its_pods(trial: Trial) -> None:
    before, pods = _machines(trial), pod_names(trial)
    _edit(trial, replace="surge")
    trial.up().ok()
    assert _made(trial) == {"serving"}
    assert (_machines(trial), pod_names(trial)) == (before, pods)
    assert trial.holds()
    assert trial.planned_steps() == []


def test_the_new_group_comes_first_as_it_was_told_and_the_budget_holds(trial: Trial) -> None:
    old = declared(trial)
    _edit(trial, flavor=LARGE)
    told = report(trial, old)
    assert [pool["effects"] for pool in told["pools"]] == [["rotated"]]
    assert (told["beside"][0]["gpus"], told["after"]["gpusAtMost"], told["away"]) == ([2, 2], 4, [])
    # As the pipelines do it: held to the plan of a preview, which knows nothing of what is yet to be made.
    plan = str(trial.base / "plan.json")
    trial.engine("preview", "--save-plan", plan).ok()
    with Served(trial) as served:
        run = trial.engine("up", "--yes", "--skip-preview", "--plan", plan).ok()
    assert (served.most_nodes, served.fewest >= BUDGET) == (4, True)
    assert "pods are to leave 2 old nodes" in run.text
    assert _made(trial) == {trial.plan().pools[0].made_name}
    assert trial.holds()
    assert trial.planned_steps() == []


def test_a_new_group_that_is_not_proven_leaves_the_old_one_serving_and_goes_with_the_revert(trial: Trial) -> None:
    before, pods, (name,) = _machines(trial), pod_names(trial), _made(trial)
    old = declared(trial)
    trial.edit(lambda config: config["gpu-pools:verification"].update(deadlineSeconds=20))
    # No node has it, which only the node can tell.
    _edit(trial, flavor=SMALL, minimum={"cuda": "99.0"})
    failed = trial.up()
    assert failed.code == 1
    assert "pool serving is not verified" in failed.text
    assert _made(trial) == {name, trial.plan().pools[0].made_name}
    assert (list(marked(trial)), pod_names(trial), cordoned(trial)) == ([], pods, [])

    trial.write(old)
    trial.up().ok()
    assert (_made(trial), _machines(trial), pod_names(trial)) == ({name}, before, pods)
    assert trial.planned_steps() == []


def test_one_that_may_be_empty_begins_with_a_node_that_is_proven(trial: Trial) -> None:
    """One node has room for four of the five; the fifth waits for the autoscaler, which the budget allows."""
    _edit(trial, flavor=SMALL, count=None, nodes={"min": 0, "max": 4})
    with Served(trial) as served:
        trial.up().ok()
    assert (_made(trial), len(trial.nodes("serving"))) == ({trial.plan().pools[0].made_name}, 1)
    assert (served.fewest, running(trial)) == (BUDGET, BUDGET)
    assert trial.holds()
    trial.scale("serving", 2).ok()
    trial.wait_until(lambda: running(trial) == REPLICAS, "the fifth runs on a node that has joined")
    assert trial.planned_steps() == []


def test_in_place_it_is_drained_before_it_is_replaced_and_a_destroy_leaves_nothing(trial: Trial) -> None:
    before, made = _machines(trial), _made(trial)
    # Other nodes have no room for what the budget keeps.
    _edit(trial, replace="inPlace", drainTimeoutSeconds=10, nodes=None, count=2)
    trial.up().ok()
    assert (_made(trial), _machines(trial)) == (made, before)

    _edit(trial, flavor=LARGE)
    failed = trial.up()
    assert failed.code == 1
    assert "the old nodes of pool serving are not empty, so nothing of it is deleted" in failed.text
    assert (_made(trial), _machines(trial)) == (made, before)

    trial.api().delete(f"{BUDGETS}/served")
    trial.up().ok()
    assert _made(trial) == {"serving"}
    trial.wait_until(lambda: running(trial) == REPLICAS, "the Deployment runs again")
    assert trial.planned_steps() == []
    trial.engine("destroy", "--yes", "--skip-preview").ok()
    trial.down().ok()


def _edit(trial: Trial, **keys: Any) -> None:
    """Write keys of the pool; None takes one out."""

    def change(config: dict[str, Any]) -> None:
        (pool,) = config["gpu-pools:pools"]
        pool.update(keys)
        for key in [key for key, value in keys.items() if value is None]:
            pool.pop(key)

    trial.edit(change)


def _made(trial: Trial) -> set[str]:
    """The GPU pools that Magnum has."""
    return {group["name"] for group in trial.magnum()["groups"]} - {"default-master", "default-worker"}


def _machines(trial: Trial) -> set[str]:
    return {node["metadata"]["uid"] for node in trial.nodes("serving")}
