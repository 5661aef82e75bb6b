"""Ten nodes change their layout in turn while pods work on them that count what they lose: none, or what was declared to be.

The API server with its evictions, the controllers and the engine are real. The pods' kubelets are simulated, and end pods as a
real one does (sandbox/machines/ending.py; tests/engine/test_real_node.py holds both to the same steps). Each pod keeps a ledger
of its work outside of it (sandbox/machines/work.py): who is killed in the midst of it cannot have signed off.

The tests share a stack, and run in the order they are written. They are no part of CI: GPU_POOLS_TEST_ALL=1 runs them. Two
processors that run other tests too bring ten nodes up in seven minutes or more.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

from gpu_pools.changes.blast import blast_radius
from gpu_pools.changes.steps import Preview
from sandbox.cluster.node_tools import find_platform_tools
from sandbox.machines import work
from sandbox.machines.ending import ENDS_AFTER, NEVER
from sandbox.stack import checkpoint, recovery
from sandbox.stack.engine import Engine
from sandbox.stack.stand_ins import attached
from sandbox.stack.state import prepare
from sandbox.system.progress import Progress
from tests.engine.marks import ON_NODES
from tests.engine.served import BUDGETS, PODS, kill
from tests.engine.test_rollout import (
    MIXED,
    SEVEN,
    SLICE,
    _allocatable,
    _declare,
    _leases,
    _marks,
    _nothing_left,
)
from tests.engine.trial import PROJECT
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tests.engine.trial import Trial

pytestmark = [*ON_NODES, at_night("ten nodes take half an hour beside other tests")]

STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing, context: byo}
  gpu-pools:operator: {migStrategy: mixed}
  gpu-pools:sharing:
    cut: {mig: {layout: {1g.10gb: 7}}}
  gpu-pools:verification: {deadlineSeconds: 240, intervalSeconds: 10}
  gpu-pools:pools:
    - name: cut
      nodeSelector: {pool: cut}
      gpuModel: a100-80gb
      gpusPerNode: 1
      count: 10
      sharing: cut
      rollout: {maxUnavailable: "25%", drainTimeoutSeconds: 20, podsThatStay: stop}
"""
NODES, AT_ONCE, REPLICAS, LEAST = 10, 3, 20, 16
#: Of the engine; each costs a deploy up to there.
KILLS: Final = 40
#: A deploy that was killed late may come to its end with what is left; the one after it changes all nodes.
MOST_ENDS: Final = 3
LEDGER: Final = "/api/v1/namespaces/default/configmaps/work"
OPERATORS: Final = "/api/v1/namespaces/gpu-operator/pods"
#: What the engine is at while `up` waits for the nodes: the hook of this object waits.
_WAITS: Final = "updating ConfigMap gpu-cut-verification-rolled-out"
_LONGEST: Final = 420


@pytest.fixture(scope="module")
def trial(shared_sandbox: Callable[..., Trial]) -> Trial:
    """Ten nodes, and a Deployment that is to be up to four fifths at any time."""
    made = shared_sandbox(STACK)
    made.up().ok()
    made.api().create(LEDGER.rpartition("/")[0], {"metadata": {"name": "work"}})
    labels = {"app": "served"}
    template = {"metadata": {"labels": labels, "annotations": _works("3")}, "spec": _spec()}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    made.api().create("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "served"}, "spec": spec})
    _budget(made, "served", minAvailable="80%")
    _await_all(made)
    return made


def test_nobody_loses_work_and_a_pod_that_refuses_to_go_keeps_its_node_as_it_is(trial: Trial) -> None:
    node = _refuses(trial, "stays", "3")
    _declare(trial, cut={"mig": {"layout": MIXED}})
    with Watch(trial) as watch:
        failed = trial.up()
        assert failed.code == 1
        assert "9 of 10 nodes are as declared" in failed.text
        assert "default/stays (a bare pod)" in failed.text
        assert len(_with(trial, 4)) == NODES - 1
        assert "default/stays (a bare pod)" in _marks(trial, "stopped")[0]["why"]
        assert _with(trial, 7) == [node], "it works on as before"
        assert not trial.get(f"/api/v1/nodes/{node}")["spec"].get("unschedulable")
        trial.api().delete(f"{BUDGETS}/stays")
        trial.up().ok()
    _ended_well(trial, watch, shares=4)
    assert _lost(trial) == []
    assert watch.evicted >= REPLICAS // 2, "who works on nodes that change is evicted"


def test_a_node_that_fails_leaves_the_others_as_they_are_and_only_what_is_told_is_lost(trial: Trial) -> None:
    """Its GPUs stay in use, so mig-manager fails. On another node a pod is deleted that minds neither its budget nor SIGTERM."""
    before = trial.plan()
    # Longer than budgets may keep pods that do go.
    trial.edit(lambda config: config["gpu-pools:pools"][0]["rollout"].update(podsThatStay="delete", drainTimeoutSeconds=60))
    _declare(trial, cut={"mig": {"layout": SEVEN}})
    radius = blast_radius(Preview((), (), (), complete=True), before, trial.plan())
    told = " ".join(sentence for _, sentences in radius.steps for sentence in sentences)
    assert "do not go in 60 s they are deleted, whatever their disruption budgets say" in told
    node = _refuses(trial, "never", NEVER, grace=3)
    failing = next(one for one in _with(trial, 4) if one != node)
    trial.api().create(OPERATORS, {"metadata": {"name": "in-use"}, "spec": {**_spec(), "nodeName": failing}})
    with Watch(trial) as watch:
        command = trial.start("up", trial.stack)
        trial.wait_until(lambda: "never" in _lost(trial), "the pod is killed", _LONGEST)
        trial.wait_until(lambda: _why(trial, failing), "the failed change is told", _LONGEST)
        trial.wait_until(lambda: len(_with(trial, 7)) == NODES - 1, "the others are changed", _LONGEST)
        trial.wait_until(lambda: set(_leases(trial).values()) == {failing}, "they have given their turns back", 120)
        kill(command)
        trial.api().delete(f"{OPERATORS}/in-use")
        trial.api().delete(f"{BUDGETS}/never")
        trial.up().ok()
    _ended_well(trial, watch, shares=7)
    assert _lost(trial) == ["never"]


def test_killed_at_its_steps_the_engine_harms_nobody(trial: Trial) -> None:
    """After two writes of its state more each time, and while it waits for the nodes after the next step of one of them."""
    trial.edit(lambda config: config["gpu-pools:pools"][0]["rollout"].update(podsThatStay="stop", drainTimeoutSeconds=120))
    layouts = itertools.cycle(((MIXED, 4), (SEVEN, 7)))
    layout, shares = next(layouts)
    _declare(trial, cut={"mig": {"layout": layout}})
    before = _lost(trial)
    with Watch(trial) as watch:
        for number in range(KILLS):
            ends = 0
            while not _killed(trial, writes=1 + 2 * number):
                # It has come to its end: the next layout is what is left to be killed in.
                ends += 1
                assert ends < MOST_ENDS, f"nothing kills it at point {number}"
                _nothing_left(trial)
                layout, shares = next(layouts)
                _declare(trial, cut={"mig": {"layout": layout}})
        trial.up().ok()
    _ended_well(trial, watch, shares)
    assert _lost(trial) == before


@dataclass
class Watch:
    """What becomes of the pods and nodes meanwhile; each change of theirs is seen.

    Attributes:
        trial: whose.
        fewest: replicas that were ready at least, and not about to go.
        most_cordoned: nodes at most that took no pods at the same time.
        evicted: pods that were told to go.
        hurried: those of them that had not the grace that they declare.
    """

    trial: Trial
    fewest: int = REPLICAS
    most_cordoned: int = 0
    evicted: int = 0
    hurried: list[str] = field(default_factory=list)
    _objects: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    _end: threading.Event = field(default_factory=threading.Event, repr=False)
    _threads: list[threading.Thread] = field(default_factory=list, repr=False)

    def __enter__(self) -> Self:
        for path, take in ((PODS, self._pod), ("/api/v1/nodes", self._node)):
            listed = self.trial.api().list(path)
            self._objects |= {one["metadata"]["uid"]: one for one in listed["items"]}
            follow = threading.Thread(target=self._follow, args=(path, listed["metadata"]["resourceVersion"], take), daemon=True)
            self._threads.append(follow)
            follow.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert all(one.is_alive() for one in self._threads), "nobody has watched to the end"
        self._end.set()

    def _follow(self, path: str, version: str, take: Callable[[dict[str, Any]], None]) -> None:
        while not self._end.is_set():
            for event in self.trial.api().watch(path, version):
                found = event["object"]
                version = found["metadata"]["resourceVersion"]
                if self._end.is_set() or event["type"] == "ERROR":
                    return
                if event["type"] != "BOOKMARK":
                    take(event)

    def _pod(self, event: dict[str, Any]) -> None:
        pod, gone = event["object"], event["type"] == "DELETED"
        metadata = pod["metadata"]
        old = self._objects.pop(metadata["uid"], None)
        if not gone:
            self._objects[metadata["uid"]] = pod
        if ENDS_AFTER not in metadata.get("annotations", {}):
            return
        if "deletionTimestamp" in metadata and "deletionTimestamp" not in (old or pod)["metadata"]:
            self.evicted += 1
        # Who has ended is removed without a grace, by its kubelet.
        short = metadata.get("deletionGracePeriodSeconds", 30) < pod["spec"]["terminationGracePeriodSeconds"]
        if (gone or short) and pod["status"]["phase"] not in {"Succeeded", "Failed"}:
            self.hurried.append(f"{metadata['name']}: {pod['status']['phase']}, {metadata.get('deletionGracePeriodSeconds')} s")
        self.fewest = min(self.fewest, sum(map(_is_ready, list(self._objects.values()))))

    def _node(self, event: dict[str, Any]) -> None:
        self._objects[event["object"]["metadata"]["uid"]] = event["object"]
        cordoned = sum(bool(one["spec"].get("unschedulable")) for one in list(self._objects.values()))
        self.most_cordoned = max(self.most_cordoned, cordoned)


def _is_ready(pod: dict[str, Any]) -> bool:
    metadata = pod["metadata"]
    if metadata.get("labels", {}).get("app") != "served" or "deletionTimestamp" in metadata:
        return False
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))


def _ended_well(trial: Trial, watch: Watch, shares: int) -> None:
    _nothing_left(trial)
    assert len(_with(trial, shares)) == NODES
    paused = [node["metadata"]["name"] for node in trial.nodes() if "paused" in " ".join(node["metadata"]["labels"].values())]
    assert paused == []
    assert (watch.hurried, watch.fewest >= LEAST, watch.most_cordoned <= AT_ONCE) == ([], True, True), watch
    _await_all(trial)


def _works(after: str) -> dict[str, str]:
    return {ENDS_AFTER: after, work.LEDGER: "work"}


def _spec(grace: int = 30) -> dict[str, Any]:
    containers = [{"name": "c", "image": "a:1", "resources": {"limits": {SLICE: 1}}}]
    return {"terminationGracePeriodSeconds": grace, "containers": containers}


def _budget(trial: Trial, name: str, **bound: Any) -> None:
    trial.api().create(BUDGETS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, **bound}})


def _refuses(trial: Trial, name: str, after: str, grace: int = 30) -> str:
    """A bare pod that no eviction takes; the node that it is on."""
    _budget(trial, name, maxUnavailable=0)
    metadata = {"name": name, "labels": {"app": name}, "annotations": _works(after)}
    trial.api().create(PODS, {"metadata": metadata, "spec": _spec(grace)})
    trial.wait_until(lambda: trial.get(f"{PODS}/{name}")["status"]["phase"] == "Running", f"{name} runs")
    return str(trial.get(f"{PODS}/{name}")["spec"]["nodeName"])


def _await_all(trial: Trial) -> None:
    trial.wait_until(lambda: sum(map(_is_ready, trial.api().list(PODS)["items"])) == REPLICAS, "the Deployment runs", 120)


def _lost(trial: Trial) -> list[str]:
    present = {pod["metadata"]["uid"] for pod in trial.api().list(PODS)["items"]}
    return work.lost(trial.get(LEDGER), present)


def _with(trial: Trial, shares: int) -> list[str]:
    """The nodes that offer so many."""
    return [node["metadata"]["name"] for node in trial.nodes("cut") if _allocatable(node, SLICE) == shares]


def _why(trial: Trial, node: str) -> bool:
    mark = trial.get(f"/api/v1/nodes/{node}")["metadata"]["annotations"].get("gpu-pools/change", "")
    return "mig-manager's state is failed, also after it was started anew" in mark


def _killed(trial: Trial, writes: int) -> bool:
    """Begin a deploy as `up` does, and kill the engine in the midst of it; whether it lived so long."""
    prepare(trial.sandbox)
    engine = Engine(trial.sandbox, find_platform_tools(Progress()), attached(trial.sandbox))
    recovery.take_over(engine)
    engine = recovery.recover(engine)
    log = trial.base / "killed.log"
    with log.open("wb") as output:
        command = subprocess.Popen(
            engine._command(["up", "--yes", "--skip-preview"]),
            cwd=PROJECT,
            env=engine.environment(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    if _comes_to(trial, command, writes):
        os.killpg(command.pid, signal.SIGKILL)
        command.wait()
        recovery.end_engines(trial.sandbox, Progress())
        return True
    assert command.returncode == 0, log.read_text(errors="replace")
    return False


def _comes_to(trial: Trial, command: subprocess.Popen[bytes], writes: int) -> bool:
    """Wait for the moment to kill it; whether that came before its end."""
    states: set[tuple[int, ...]] = set()
    waits, steps, due = False, "", 0.0
    while command.poll() is None:
        state = _state(trial)
        if state and state not in states:
            states.add(state)
            if len(states) > writes:
                return True
            waits = _WAITS in checkpoint.pending(trial.sandbox)
        if waits and time.monotonic() > due:
            found = _steps(trial)
            if steps and found != steps:
                return True
            steps, due = found, time.monotonic() + 0.2
        time.sleep(0.01)
    return False


def _state(trial: Trial) -> tuple[int, ...]:
    """By what one write of the engine's state can be told from another; nothing while it is exchanged."""
    with contextlib.suppress(FileNotFoundError):
        stat = trial.sandbox.state_file.stat()
        return (stat.st_mtime_ns, stat.st_ino)
    return ()


def _steps(trial: Trial) -> str:
    """What the changes of the nodes have come to."""
    shown = ("nvidia.com/mig.config", "nvidia.com/mig.config.state")
    return str([
        (node["metadata"]["annotations"].get("gpu-pools/change"), [node["metadata"]["labels"].get(key) for key in shown])
        for node in trial.nodes("cut")
    ])  # fmt: skip
