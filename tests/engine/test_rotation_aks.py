"""`replace: surge` on AKS: the new pool beside the old one, proven; then the old one is drained, and deleted at the very end.

The tests share a stack with pods that are served from the pool all the time, and run in the order they are written. Engine,
scheduler, controllers, eviction API and verifiers are the real ones; Azure is a stand-in.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

from gpu_pools.verifier.living_node import ANNOTATION
from sandbox.clouds.azure import AzureCloud
from sandbox.cluster import node_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.engine.trial import Trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.programs,
    pytest.mark.sweep,
    pytest.mark.skipif(node_tools.obstacle() is not None, reason=f"rules stand in here: {node_tools.obstacle()}"),
]

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
REPLICAS, BUDGET = 5, 4
GPU: Final = "nvidia.com/gpu"
PODS: Final = "/api/v1/namespaces/default/pods"
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    _serve(made)
    return made


def test_a_pool_that_is_there_keeps_its_name_its_nodes_and_its_pods(trial: Trial) -> None:
    before, pods = _machines(trial), _names(_pods(trial))
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(replace="surge"))
    trial.up().ok()
    assert _made(trial) == {"serving"}
    assert (_machines(trial), _names(_pods(trial))) == (before, pods)
    assert trial.planned_steps() == []


def test_the_new_pool_comes_first_as_it_was_told_and_the_budget_holds(trial: Trial) -> None:
    old = _declared(trial)
    _size(trial, T4)
    # 4 of the system pool, 48 of the old nodes, 8 of the new ones.
    limits = trial.folder / "cloud" / "azure-subscription.json"
    limits.write_text(json.dumps({"limits": {"cores": 59}}))
    refused = trial.preview()
    assert refused.code != 0
    assert "8 more vCPUs of all families are asked for (serving), and the quota of the region leaves 7 of 59" in refused.text
    limits.unlink()

    told = _told(trial, old)
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
    before, pods, (name,) = _machines(trial), _names(_pods(trial)), _made(trial)
    old = _declared(trial)
    trial.edit(lambda config: config["gpu-pools:verification"].update(deadlineSeconds=20))
    # No node has it, which only the node can tell.
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(vmSize=LARGER, minimum={"cuda": "99.0"}))
    failed = trial.up()
    assert failed.code == 1
    assert "pool serving is not verified" in failed.text
    assert len(_made(trial)) == 2
    assert name in _made(trial)
    assert list(_marked(trial)) == []
    assert (_names(_pods(trial)), _cordoned(trial)) == (pods, [])

    trial.write(old)
    trial.up().ok()
    assert (_made(trial), _machines(trial), _names(_pods(trial))) == ({name}, before, pods)
    assert trial.holds()
    assert trial.planned_steps() == []


def test_pods_that_stay_stop_it_whatever_is_declared_next_and_the_old_declaration_takes_all_back(trial: Trial) -> None:
    before, (name,) = _machines(trial), _made(trial)
    old = _declared(trial)
    _stay(trial)
    _size(trial, LARGER)
    command = trial.start("up", trial.stack)
    trial.wait_until(lambda: _cordoned(trial), "the old nodes are cordoned", 240)
    _kill(command)
    assert len(_made(trial)) == 2

    # Changed again before it was over: the names of three pools differ, and both older ones are to be emptied.
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(vmSize=A100, drainTimeoutSeconds=10))
    failed = trial.up()
    assert failed.code == 1
    assert "the old nodes of pool serving are not empty, so nothing of it is deleted" in failed.text
    assert "default/stays (a bare pod): Cannot evict pod as it would violate the pod's disruption budget" in failed.text
    assert len(_made(trial)) == 3
    assert before <= _machines(trial)
    assert {mark["to"] for mark in _marked(trial)} == {f"succeeded by {trial.plan().pools[0].generation}"}

    trial.write(old)
    with Served(trial) as served:
        trial.up().ok()
    assert served.fewest >= BUDGET
    assert (_made(trial), _machines(trial)) == ({name}, before)
    assert (_cordoned(trial), list(_marked(trial))) == ([], [])
    assert trial.get(f"{PODS}/stays")["status"]["phase"] == "Running"
    assert trial.planned_steps() == []


def test_the_first_declaration_once_more(trial: Trial) -> None:
    """Its name in Azure is the digits' this time."""
    trial.api().delete(f"{BUDGETS}/stays")
    _size(trial, A100)
    with Served(trial) as served:
        trial.up().ok()
    assert (_made(trial), served.fewest >= BUDGET) == ({trial.plan().pools[0].made_name}, True)


def test_in_place_it_is_drained_before_it_is_replaced_and_a_destroy_leaves_nothing(trial: Trial) -> None:
    """Nor does a destroy need the program."""
    before, (name,) = _machines(trial), _made(trial)
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
    trial.wait_until(lambda: _running(trial) == REPLICAS, "the Deployment runs again")
    assert trial.planned_steps() == []
    trial.api().delete(f"{DEPLOYMENTS}/served")
    trial.engine("destroy", "--yes", "--skip-preview").ok()
    trial.down().ok()


def _told(trial: Trial, old: str) -> Any:
    """What a preview tells of the change from an old stack file to the one that is there now."""
    before, preview, out = (trial.base / name for name in ("Pulumi.before.yaml", "preview.json", "changes.json"))
    before.write_text(old, encoding="utf-8")
    preview.write_text(trial.engine("preview", "--json").ok().out, encoding="utf-8")
    run = trial.gpu_pools("changes", str(preview), "--before", str(before), "--after", str(trial.file), "--json", str(out))
    assert run.code == 1, f"nobody has acknowledged it\n{run.text}"
    return json.loads(out.read_text(encoding="utf-8"))


def _declared(trial: Trial) -> str:
    return trial.file.read_text(encoding="utf-8")


def _cordoned(trial: Trial) -> list[str]:
    return [node["metadata"]["name"] for node in trial.nodes() if node["spec"].get("unschedulable")]


def _stay(trial: Trial) -> None:
    """A pod that no eviction takes."""
    labels = {"app": "stays"}
    budget = {"metadata": {"name": "stays"}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": labels}}}
    spec = {"nodeSelector": {"gpu-pools/pool": "serving"}, "containers": [{"name": "c", "image": "a:1"}]}
    trial.api().create(BUDGETS, budget)
    trial.api().create(PODS, {"metadata": {"name": "stays", "labels": labels}, "spec": spec})
    trial.wait_until(lambda: trial.get(f"{PODS}/stays")["status"]["phase"] == "Running", "the pod runs")


def _size(trial: Trial, size: str) -> None:
    trial.edit(lambda config: config["gpu-pools:pools"][0].update(vmSize=size))


def _made(trial: Trial) -> set[str]:
    """The GPU pools that Azure has."""
    return {one["name"] for one in AzureCloud(trial.folder).read()["pools"].values()} - {"system"}


def _machines(trial: Trial) -> set[str]:
    return {node["metadata"]["uid"] for node in trial.nodes("serving")}


def _marked(trial: Trial) -> Iterator[dict[str, Any]]:
    for node in trial.nodes():
        if text := node["metadata"].get("annotations", {}).get(ANNOTATION):
            yield json.loads(text)


def _serve(trial: Trial) -> None:
    """A Deployment of REPLICAS, each with a share of a GPU of the pool, and its budget."""
    labels, budget = {"app": "served"}, {"minAvailable": BUDGET, "selector": {"matchLabels": {"app": "served"}}}
    container = {"name": "c", "image": "a:1", "resources": {"limits": {GPU: 1}}}
    pod = {"nodeSelector": {"gpu-pools/pool": "serving"}, "containers": [container]}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    trial.api().create(DEPLOYMENTS, {"metadata": {"name": "served"}, "spec": spec})
    trial.api().create(BUDGETS, {"metadata": {"name": "served"}, "spec": budget})
    trial.wait_until(lambda: _running(trial) == REPLICAS, "the Deployment runs")


def _pods(trial: Trial) -> list[dict[str, Any]]:
    return [pod for pod in trial.api().list(PODS)["items"] if pod["metadata"].get("labels", {}).get("app") == "served"]


def _names(pods: list[dict[str, Any]]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def _running(trial: Trial) -> int:
    return sum(pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in _pods(trial))


def _kill(command: Any) -> None:
    os.killpg(command.pid, signal.SIGKILL)
    command.communicate()


class Served:
    """How many replicas ran at least while something was done, and how many nodes the pool had at most."""

    def __init__(self, trial: Trial) -> None:
        self.fewest, self.most_nodes = REPLICAS, 0
        self._trial, self._end = trial, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.2):
            self.fewest = min(self.fewest, _running(self._trial))
            self.most_nodes = max(self.most_nodes, len(self._trial.nodes("serving")))
