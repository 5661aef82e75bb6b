"""`replace: surge` on AKS: the new pool beside the old one, proven; then the old one is drained, and deleted at the very end.

The tests share a stack with pods that are served from the pool all the time, and run in the order they are written. Engine,
scheduler, controllers, eviction API and verifiers are the real ones; Azure is a stand-in.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from sandbox.clouds.azure import AzureCloud
from tests.engine.marks import ON_NODES
from tests.engine.served import (
    BUDGET,
    BUDGETS,
    DEPLOYMENTS,
    PODS,
    REPLICAS,
    Served,
    cordoned,
    declared,
    kill,
    marked,
    pod_names,
    report,
    running,
    serve,
    stay,
)
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
    systemPool: {vmSize: Standard_D4s_v5, count: 1}
  gpu-pools:sharing:
    sliced: {timeSlicing: {replicas: 4}}
  gpu-pools:verification: {deadlineSeconds: 60, intervalSeconds: 10}
  gpu-pools:pools:
    - {name: serving, vmSize: Standard_NC24ads_A100_v4, count: 2, sharing: sliced}
"""
A100, T4, LARGER = "Standard_NC24ads_A100_v4", "Standard_NC4as_T4_v3", "Standard_NC16as_T4_v3"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    serve(made)
    return made


def test_a_pool_that_is_there_keeps_its_name_its_nodes_and_its_pods(trial: Trial) -> None:
    before, pods = _machines(trial), pod_names(trial)
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(replace="surge"))
    trial.up().ok()
    assert _made(trial) == {"serving"}
    assert (_machines(trial), pod_names(trial)) == (before, pods)
    assert trial.planned_steps() == []


def test_the_new_pool_comes_first_as_it_was_told_and_the_budget_holds(trial: Trial) -> None:
    old = declared(trial)
    _size(trial, T4)
    # 4 of the system pool, 48 of the old nodes, 8 of the new ones.
    limits = trial.folder / "cloud" / "azure-subscription.json"
    limits.write_text(json.dumps({"limits": {"cores": 59}}))
    refused = trial.preview()
    assert refused.code != 0
    assert "8 more vCPUs of all families are asked for (serving), and the quota of the region leaves 7 of 59" in refused.text
    limits.unlink()

    told = report(trial, old)
    assert [pool["effects"] for pool in told["pools"]] == [["rotated"]]
    assert (told["beside"][0]["gpus"], told["after"]["gpusAtMost"], told["away"]) == ([2, 2], 2, [])
    # As the pipelines do it: held to the plan of a preview, which knows nothing of what is yet to be made.
    plan = str(trial.base / "plan.json")
    trial.engine("preview", "--save-plan", plan).ok()
    with Served(trial) as served:
        run = trial.engine("up", "--yes", "--skip-preview", "--plan", plan).ok()
    assert served.most_nodes == told["after"]["gpusAtMost"] + told["beside"][0]["gpus"][1]
    assert "pods are to leave 2 old nodes" in run.text
    assert served.fewest >= BUDGET
    (name,) = _made(trial)
    assert (name[:6], len(name)) == ("servin", 12)
    assert len(trial.nodes("serving")) == 2
    assert trial.holds()
    assert trial.planned_steps() == []


def test_a_new_pool_that_is_not_proven_leaves_the_old_one_serving_and_goes_with_the_revert(trial: Trial) -> None:
    before, pods, (name,) = _machines(trial), pod_names(trial), _made(trial)
    old = declared(trial)
    trial.edit(lambda config: config["gpu-pools:verification"].update(deadlineSeconds=20))
    # No node has it, which only the node can tell.
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(vmSize=LARGER, minimum={"cuda": "99.0"}))
    failed = trial.up()
    assert failed.code == 1
    assert "pool serving is not verified" in failed.text
    assert len(_made(trial)) == 2
    assert name in _made(trial)
    assert list(marked(trial)) == []
    assert (pod_names(trial), cordoned(trial)) == (pods, [])

    trial.write(old)
    trial.up().ok()
    assert (_made(trial), _machines(trial), pod_names(trial)) == ({name}, before, pods)
    assert trial.holds()
    assert trial.planned_steps() == []


@at_night("more replacements of the same pool, a minute each")
def test_pods_that_stay_stop_it_whatever_is_declared_next_and_the_old_declaration_takes_all_back(trial: Trial) -> None:
    before, (name,) = _machines(trial), _made(trial)
    old = declared(trial)
    stay(trial)
    _size(trial, LARGER)
    command = trial.start("up", trial.stack)
    trial.wait_until(lambda: cordoned(trial), "the old nodes are cordoned", 240)
    kill(command)
    assert len(_made(trial)) == 2

    # Changed again before it was over: the names of three pools differ, and both older ones are to be emptied.
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(vmSize=A100, drainTimeoutSeconds=10))
    failed = trial.up()
    assert failed.code == 1
    assert "the old nodes of pool serving are not empty, so nothing of it is deleted" in failed.text
    assert "default/stays (a bare pod): Cannot evict pod as it would violate the pod's disruption budget" in failed.text
    assert len(_made(trial)) == 3
    assert before <= _machines(trial)
    assert {mark["to"] for mark in marked(trial)} == {f"succeeded by {trial.plan().pools[0].replacement_id}"}

    trial.write(old)
    with Served(trial) as served:
        trial.up().ok()
    assert served.fewest >= BUDGET
    assert (_made(trial), _machines(trial)) == ({name}, before)
    assert (cordoned(trial), list(marked(trial))) == ([], [])
    assert trial.get(f"{PODS}/stays")["status"]["phase"] == "Running"
    assert trial.planned_steps() == []


@at_night("more replacements of the same pool, a minute each")
def test_the_first_declaration_once_more(trial: Trial) -> None:
    """Its name in Azure is the digits' this time.

    And it may be empty: so it begins with a node that is proven, which has room for four of the five pods. The fifth waits for
    the autoscaler, which the budget allows.
    """
    trial.api().delete(f"{BUDGETS}/stays")
    _size(trial, A100)
    trial.edit(lambda config: _nodes(config["gpu-pools:pools"][0], {"min": 0, "max": 4}))
    with Served(trial) as served:
        trial.up().ok()
    assert (_made(trial), len(trial.nodes("serving"))) == ({trial.plan().pools[0].made_name}, 1)
    assert (served.fewest, running(trial)) == (BUDGET, BUDGET)
    trial.scale("serving", 2).ok()
    trial.wait_until(lambda: running(trial) == REPLICAS, "the fifth runs on a node that has joined")


@at_night("more replacements of the same pool, a minute each")
def test_in_place_it_is_drained_before_it_is_replaced_and_a_destroy_leaves_nothing(trial: Trial) -> None:
    """Nor does a destroy need the program."""
    before, (name,) = _machines(trial), _made(trial)
    trial.edit(lambda config: _nodes(config["gpu-pools:pools"][0], None))
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(replace="inPlace", drainTimeoutSeconds=10))
    trial.up().ok()
    assert (_made(trial), _machines(trial)) == ({name}, before)

    # The budget leaves no pod without a place, and there is none.
    _size(trial, T4)
    failed = trial.up()
    assert failed.code == 1
    assert "the old nodes of pool serving are not empty, so nothing of it is deleted" in failed.text
    assert (_made(trial), _machines(trial)) == ({name}, before)

    trial.api().delete(f"{BUDGETS}/served")
    trial.up().ok()
    assert _made(trial) == {"serving"}
    trial.wait_until(lambda: running(trial) == REPLICAS, "the Deployment runs again")
    assert trial.planned_steps() == []
    trial.api().delete(f"{DEPLOYMENTS}/served")
    trial.engine("destroy", "--yes", "--skip-preview").ok()
    trial.down().ok()


def _size(trial: Trial, size: str) -> None:
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(vmSize=size))


def _nodes(pool: dict[str, Any], bounds: dict[str, int] | None) -> None:
    """Bounds for the autoscaler, or two nodes again."""
    for key in ("count", "nodes"):
        pool.pop(key, None)
    pool.update({"count": 2} if bounds is None else {"nodes": bounds})


def _made(trial: Trial) -> set[str]:
    """The GPU pools that Azure has."""
    return {one["name"] for one in AzureCloud(trial.folder).read()["pools"].values()} - {"system"}


def _machines(trial: Trial) -> set[str]:
    return {node["metadata"]["uid"] for node in trial.nodes("serving")}
