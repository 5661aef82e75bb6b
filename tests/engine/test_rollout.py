"""A pool that changes in place: node after node, within disruption budgets, with pods that refuse, killed, failed and taken back.

The tests share a stack on an existing cluster, and run in the order they are written. What drains and sets labels is the real
program in the verifiers' pods; scheduler, DaemonSet controller and eviction API are Kubernetes' own.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import pytest
import yaml

from gpu_pools.plan.rollouts import rollout_seconds
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.proof.verifier_rights import VERIFIER_NAMESPACE
from gpu_pools.verifier.changer.windows import DAYS
from sandbox.cluster.api_errors import ApiError
from tests.engine.marks import ON_NODES
from tests.engine.served import BUDGETS, PODS, cordoned, kill, marked, running, served
from tests.engine.trial import LONGEST_COMMAND
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tests.engine.trial import Trial

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
    - {name: ts, nodeSelector: {pool: ts}, gpuModel: NVIDIA A10, gpusPerNode: 1, count: 2, sharing: sliced, rollout: {}}
    - name: cut
      nodeSelector: {pool: cut}
      gpuModel: a100-80gb
      gpusPerNode: 1
      count: 3
      sharing: cut
      rollout: {drainTimeoutSeconds: 120}
"""
SEVEN, MIXED = {"1g.10gb": 7}, {"1g.10gb": 4, "3g.40gb": 1}
SLICE: Final = "nvidia.com/mig-1g.10gb"
REPLICAS, BUDGET = 7, 6
VERIFIERS: Final = f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{VERIFIER_NAMESPACE}/leases"


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    made = shared_sandbox(STACK)
    made.up().ok()
    return made


def test_nodes_that_join_are_not_cordoned_and_an_unchanged_stack_changes_nothing(trial: Trial) -> None:
    assert _leases(trial) == {}
    _nothing_left(trial)
    assert trial.planned_steps() == []


def test_a_living_pool_that_gets_a_rollout_keeps_its_pods_and_its_layout(trial: Trial) -> None:
    declared = [pool["rollout"] for pool in _pools(trial)]
    trial.edit(lambda config: [pool.pop("rollout") for pool in config["gpu-pools:pools"]])
    trial.up().ok()
    holders = {name: _hold(trial, name, resource, pool=name) for name, resource in (("ts", "nvidia.com/gpu"), ("cut", SLICE))}
    trial.edit(lambda config: [pool.update(rollout=one) for pool, one in zip(config["gpu-pools:pools"], declared, strict=True)])
    with Watch(trial) as watch:
        trial.up().ok()
    assert watch.cordoned == set()
    assert {name: trial.get(f"{PODS}/{name}")["metadata"]["uid"] for name in holders} == holders
    _nothing_left(trial)
    for name in holders:
        trial.api().delete(f"{PODS}/{name}")


def test_more_replicas_harm_nobody(trial: Trial) -> None:
    holder = _hold(trial, "sliced", "nvidia.com/gpu", pool="ts")
    _declare(trial, sliced={"timeSlicing": {"replicas": 8}})
    # As the pipelines do it: held to the plan of a preview, which does not know which generation is to be proven.
    plan = str(trial.base / "plan.json")
    trial.engine("preview", "--save-plan", plan).ok()
    with Watch(trial) as watch:
        run = trial.engine("up", "--yes", "--skip-preview", "--plan", plan).ok()
    assert "pool ts: 2 of 2 nodes are as declared" in run.text
    assert watch.cordoned == set()
    assert trial.get(f"{PODS}/sliced")["metadata"]["uid"] == holder
    assert {_allocatable(node, "nvidia.com/gpu") for node in trial.nodes("ts")} == {8}
    trial.api().delete(f"{PODS}/sliced")


def test_outside_of_its_windows_a_layout_does_not_change_and_the_deploy_says_when(trial: Trial) -> None:
    before = _daemon_set(trial)
    day = DAYS[(time.gmtime().tm_wday + 3) % 7]
    window = {"day": day, "startTime": "02:00", "durationHours": 4}
    trial.edit(lambda config: config["gpu-pools:pools"][1]["rollout"].update(windows=[window]))
    _declare(trial, cut={"mig": {"layout": MIXED}})
    seen = trial.preview().ok()
    assert "this deploy would be refused now" in seen.text
    refused = trial.up()
    assert refused.code == 1
    assert "none of them is open" in refused.text
    assert f"{day} 02:00 4h +00:00" in refused.text
    assert "T02:00:00Z on" in refused.text
    assert _daemon_set(trial) == before
    assert (_leases(trial), _marks(trial, "to")) == ({}, [])
    trial.edit(lambda config: config["gpu-pools:pools"][1]["rollout"].pop("windows"))


def test_a_layout_changes_node_after_node_within_the_budget(trial: Trial) -> None:
    _serve(trial)
    _declare(trial, cut={"mig": {"layout": MIXED}})
    with Watch(trial) as watch:
        trial.up().ok()
    assert watch.cordoned == {1}
    assert watch.fewest >= BUDGET
    assert watch.away <= 1, "GPUs of one node at a time"
    assert {_allocatable(node, SLICE) for node in trial.nodes("cut")} == {4}
    trial.wait_until(lambda: running(trial) == REPLICAS, "all replicas run again")
    _nothing_left(trial)
    # What mig-parted's file keeps of the old layout goes with the next update (test_keys.py).
    trial.up().ok()


def test_a_pod_that_refuses_ends_the_deploy_and_the_old_declaration_takes_it_back(trial: Trial) -> None:
    """Long before the rollout's time is over, which is longer than a command of a trial may take."""
    _stay(trial)
    trial.edit(lambda config: config["gpu-pools:pools"][1]["rollout"].update(drainTimeoutSeconds=15))
    assert _longest(trial) > LONGEST_COMMAND
    _declare(trial, cut={"mig": {"layout": SEVEN}})
    failed = trial.up()
    assert failed.code == 1
    said = _said(failed.text)
    # Whose turn comes first is left to Kubernetes.
    assert re.search(r"pool cut: its rollout stands still: [012] of 3 nodes are as declared, and of 1 the change failed", said)
    assert "default/stays (a bare pod)" in said
    assert "disruption budget" in said
    assert "deploy the old declaration" in said
    node = trial.get(f"{PODS}/stays")["spec"]["nodeName"]
    seen = trial.get(f"/api/v1/nodes/{node}")
    assert not seen["spec"].get("unschedulable"), "it works on as before"
    assert _allocatable(seen, SLICE) == 4
    assert node in _leases(trial).values()

    _declare(trial, cut={"mig": {"layout": MIXED}})
    trial.up().ok()
    assert trial.get(f"{PODS}/stays")["spec"]["nodeName"] == node
    _nothing_left(trial)
    trial.api().delete(f"{BUDGETS}/stays")
    trial.api().delete(f"{PODS}/stays")


@at_night("more changes of the same pool, a minute each")
def test_a_node_whose_gpus_stay_in_use_ends_the_deploy_and_the_next_one_goes_on(trial: Trial) -> None:
    """mig-manager fails there: the user is a pod of the operator's namespace, which is not drained."""
    trial.edit(lambda config: config["gpu-pools:pools"][1]["rollout"].update(drainTimeoutSeconds=60))
    (node, *others) = [one["metadata"]["name"] for one in trial.nodes("cut")]
    _hold(trial, "in-use", SLICE, namespace="gpu-operator", node=node)
    _declare(trial, cut={"mig": {"layout": SEVEN}})
    failed = trial.up()
    assert failed.code == 1
    assert f"{node}: not changed: mig-manager's state is failed, also after it was started anew" in _said(failed.text)
    generation = _daemon_set(trial)
    done = {name for name in others if _allocatable(trial.get(f"/api/v1/nodes/{name}"), SLICE) == 7}
    assert _leases(trial) == {"change-cut-0": node}, "the others wait"

    trial.api().delete("/api/v1/namespaces/gpu-operator/pods/in-use")
    trial.up().ok()
    assert _daemon_set(trial) == generation, "it went on from there"
    assert {_allocatable(one, SLICE) for one in trial.nodes("cut")} == {7}, done
    _nothing_left(trial)


@at_night("more changes of the same pool, a minute each")
def test_with_its_pods_killed_all_the_time_and_the_engine_too_it_ends_as_declared(trial: Trial) -> None:
    if not served(trial):
        _serve(trial)
    _declare(trial, cut={"mig": {"layout": MIXED}})
    killed = threading.Event()

    def end_pods() -> None:
        while not killed.wait(2.5):
            for pod in trial.api().list(VERIFIERS)["items"]:
                if "-cut-" in pod["metadata"]["name"]:
                    with contextlib.suppress(ApiError):
                        trial.api().delete(f"{VERIFIERS}/{pod['metadata']['name']}")

    killer = threading.Thread(target=end_pods)
    with Watch(trial) as watch:
        command = trial.start("up", trial.stack)
        trial.wait_until(lambda: _leases(trial), "a change begins", 120)
        killer.start()
        time.sleep(25)
        kill(command)
        killed.set()
        killer.join()
        trial.up().ok()
    assert watch.fewest >= BUDGET
    assert {_allocatable(node, SLICE) for node in trial.nodes("cut")} == {4}
    _nothing_left(trial)


def test_a_destroy_leaves_nothing(trial: Trial) -> None:
    trial.api().delete("/apis/apps/v1/namespaces/default/deployments/served")
    trial.api().delete(f"{BUDGETS}/served")
    trial.wait_until(lambda: not served(trial), "the Deployment has gone")
    trial.down().ok()


@dataclass
class Watch:
    """What the nodes and the Deployment show while something is done.

    Attributes:
        trial: whose.
        cordoned: every number of cordoned nodes but 0 that was seen.
        fewest: replicas that ran at least, from when all of them did.
        away: nodes of `cut` at most that offered no GPU at the same time.
    """

    trial: Trial
    cordoned: set[int] = field(default_factory=set)
    fewest: int = REPLICAS
    away: int = 0
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end.set()
        if self._thread:
            self._thread.join()

    def _watch(self) -> None:
        serves = bool(served(self.trial))
        while not self._end.wait(0.2):
            nodes = self.trial.nodes()
            self.cordoned |= {sum(bool(node["spec"].get("unschedulable")) for node in nodes)} - {0}
            self.away = max(self.away, sum(_allocatable(node, SLICE) == 0 for node in self.trial.nodes("cut")))
            if serves:
                self.fewest = min(self.fewest, running(self.trial))


def _pools(trial: Trial) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(trial.file.read_text(encoding="utf-8"))["config"]["gpu-pools:pools"]
    return found


def _said(text: str) -> str:
    """What a deploy says at last of the hook that waits."""
    return [line for line in text.splitlines() if "rolled-out" in line and "failed" in line][-1]


def _longest(trial: Trial) -> int:
    """How long the rollout of `cut` may take, in seconds."""
    plan = trial.plan()
    return rollout_seconds(plan.pools[1], plan.settings.verification)


def _daemon_set(trial: Trial) -> int:
    """How often the DaemonSet that changes `cut` was changed."""
    path = f"/apis/apps/v1/namespaces/{VERIFIER_NAMESPACE}/daemonsets/{VERIFIER_APP}-cut"
    return int(trial.get(path)["metadata"]["generation"])


def _declare(trial: Trial, **sharing: Any) -> None:
    trial.edit(lambda config: config["gpu-pools:sharing"].update(sharing))


def _allocatable(node: dict[str, Any], resource: str) -> int:
    return int(node["status"].get("allocatable", {}).get(resource, 0))


def _serve(trial: Trial) -> None:
    """A Deployment of REPLICAS, each with a MIG instance, and its budget of 80 %."""
    labels = {"app": "served"}
    pod = {"containers": [{"name": "c", "image": "a:1", "resources": {"limits": {SLICE: 1}}}]}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    trial.api().create("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "served"}, "spec": spec})
    _budget(trial)


def _budget(trial: Trial) -> None:
    budget = {"metadata": {"name": "served"}, "spec": {"minAvailable": "80%", "selector": {"matchLabels": {"app": "served"}}}}
    trial.api().create(BUDGETS, budget)
    trial.wait_until(lambda: running(trial) == REPLICAS, "the Deployment runs")


def _hold(trial: Trial, name: str, resource: str, *, namespace: str = "default", pool: str = "", node: str = "") -> str:
    """A bare pod that holds a GPU; its uid."""
    place = {"nodeSelector": {"pool": pool}} if pool else {"nodeName": node} if node else {}
    spec = {"containers": [{"name": "c", "image": "a:1", "resources": {"limits": {resource: 1}}}], **place}
    path = f"/api/v1/namespaces/{namespace}/pods"
    trial.api().create(path, {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})
    trial.wait_until(lambda: trial.get(f"{path}/{name}")["status"]["phase"] == "Running", f"{name} runs")
    return str(trial.get(f"{path}/{name}")["metadata"]["uid"])


def _stay(trial: Trial) -> None:
    """A pod that no eviction takes."""
    budget = {"metadata": {"name": "stays"}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "stays"}}}}
    trial.api().create(BUDGETS, budget)
    _hold(trial, "stays", SLICE)


def _marks(trial: Trial, key: str) -> list[dict[str, Any]]:
    return [mark for mark in marked(trial) if mark.get(key)]


def _leases(trial: Trial) -> dict[str, str]:
    """Turn -> who has it."""
    leases = trial.api().list(LEASES)["items"]
    held = {one["metadata"]["name"]: one["spec"].get("holderIdentity") for one in leases}
    return {name: holder for name, holder in held.items() if holder}


def _nothing_left(trial: Trial) -> None:
    assert _leases(trial) == {}
    assert _marks(trial, "to") == []
    assert cordoned(trial) == []
    assert trial.holds()
