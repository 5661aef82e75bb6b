"""The program that takes MIG back: what it decides of a node, and a whole run, ended after each of its requests and begun anew.

Against the API server and with mig-manager's stand-in it runs in tests/engine/test_leaving.py. Here the cluster is a model: NFD
takes its labels away once a rule has gone, and mig-manager follows its label, or fails while a pod holds a GPU.
"""

from __future__ import annotations

import copy
import email.message
import json
import subprocess
import sys
import urllib.error
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.rendering.hook_jobs import program_text
from gpu_pools.rendering.node_leaving import READERS
from gpu_pools.verifier.hook_programs import leave_program, node_traces
from gpu_pools.verifier.hook_programs.leave_program import (
    ABSENT,
    ABSENT_SECONDS,
    ASKED,
    BEGINS_SECONDS,
    BY_NFD,
    CONFIG,
    DONE,
    FAILED,
    FORGET,
    GOING,
    LET_GO,
    MARKED,
    MEND,
    OFF,
    PAUSED,
    PENDING_SECONDS,
    POOL,
    SET,
    SILENT_ANEW_SECONDS,
    SILENT_SECONDS,
    STARTING,
    STATE,
    STOPPED,
    UP,
    WAIT,
    holds,
    leaves,
    main,
    next_step,
    state_of,
    waits_for,
)
from gpu_pools.verifier.hook_programs.node_traces import CONDITION, LEAVING, PLUGIN
from tests.clock import set_clock

if TYPE_CHECKING:
    from collections.abc import Callable

ENDS_SECONDS = 20.0
LAYOUT, KEY, SLICE = "7x1g.10gb-0a1b2c3d", "mig-0a1b2c3d", "nvidia.com/mig-1g.10gb"
POOLS = {"cut": {"p": "cut"}, "ts": {"p": "ts"}}


def node(labels: dict[str, str], notes: dict[str, str] | None = None, name: str = "n") -> dict[str, Any]:
    metadata = {"name": name, "resourceVersion": "1", "labels": labels, "annotations": notes or {}}
    return {"metadata": metadata, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def pod(name: str, on: str, wants: Any = None, **metadata: Any) -> dict[str, Any]:
    limits = {"limits": {SLICE: 1}} if wants is None else wants
    return {
        "metadata": {"namespace": "default", "name": name, **metadata},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": limits}]},
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize(
    ("config", "state", "left", "begun", "step"),
    [
        (LAYOUT, "success", "", "", SET),
        (None, "failed", "", "", SET),
        # Whoever is at something else would end it first.
        (LAYOUT, "pending", "", "", MEND),
        (OFF, "success", "", "", DONE),
        (OFF, "success", "", SET, DONE),
        # mig-manager has never done anything there: GPUs without MIG, a driver that never came up.
        (None, None, "", "", DONE),
        (OFF, None, "", "", DONE),
        # It was asked, by this run or by one that was interrupted.
        (OFF, None, ASKED, SET, WAIT),
        (OFF, "pending", ASKED, SET, WAIT),
        (OFF, None, ASKED, "", MEND),
        (OFF, "pending", ASKED, "", MEND),
        (OFF, "failed", ASKED, "", MEND),
        # The answer to what the label was before.
        (OFF, "failed", ASKED, SET, MEND),
        (OFF, "failed", ASKED, MEND, FAILED),
        (LAYOUT, "success", ASKED, SET, SET),
    ],
)
def test_each_step_follows_from_the_node(config: str | None, state: str | None, left: str, begun: str, step: str) -> None:
    labels = {key: value for key, value in ((CONFIG, config), (STATE, state)) if value is not None}
    assert next_step(node(labels, {LEAVING: left} if left else {}), begun) == step


@pytest.mark.parametrize(
    ("state", "begun", "seconds", "step"),
    [
        (None, SET, SILENT_SECONDS, WAIT),
        (None, SET, SILENT_SECONDS + 1, MEND),
        # It is at work, or waits for a client of its own.
        ("pending", SET, PENDING_SECONDS, WAIT),
        # It has given up, and says nothing of it.
        ("pending", SET, PENDING_SECONDS + 1, MEND),
        ("pending", MEND, PENDING_SECONDS + 1, FAILED),
        # A new process looks at the label in any case, once driver and toolkit are there.
        (None, MEND, SILENT_ANEW_SECONDS, WAIT),
        (None, MEND, SILENT_ANEW_SECONDS + 1, FAILED),
    ],
)
def test_a_mig_manager_that_says_nothing_is_started_anew_once(state: str | None, begun: str, seconds: float, step: str) -> None:
    labels = {CONFIG: OFF} | ({} if state is None else {STATE: state})
    assert next_step(node(labels, {LEAVING: ASKED}), begun, seconds) == step


@pytest.mark.parametrize(
    ("state", "manager", "seconds", "step"),
    [
        # What the old one says while it ends is no answer, and it is taken away before the new one begins.
        ("success", GOING, 1.0, WAIT),
        ("success", STARTING, 1.0, FORGET),
        ("failed", ABSENT, 1.0, FORGET),
        ("success", UP, 1.0, DONE),
        (None, STARTING, SILENT_ANEW_SECONDS, WAIT),
        (None, STARTING, SILENT_ANEW_SECONDS + 1, FAILED),
        (None, ABSENT, ABSENT_SECONDS, WAIT),
        (None, ABSENT, ABSENT_SECONDS + 1, FAILED),
    ],
)
def test_only_a_new_mig_manager_answers_once_the_old_one_was_ended(
    state: str | None, manager: str, seconds: float, step: str
) -> None:
    labels = {CONFIG: OFF} | ({} if state is None else {STATE: state})
    assert next_step(node(labels, {LEAVING: ASKED}), MEND, seconds, manager) == step


def test_clients_that_a_failed_change_has_left_paused_come_back_with_a_new_mig_manager() -> None:
    paused = node({CONFIG: OFF, STATE: "success", "nvidia.com/gpu.deploy.device-plugin": PAUSED}, {LEAVING: ASKED})
    assert [next_step(paused, begun) for begun in ("", SET, MEND)] == [MEND, MEND, DONE]
    assert next_step(paused, SET, 0.0, ABSENT) == DONE
    unasked = node(paused["metadata"]["labels"])
    assert [next_step(unasked, "", 0.0, manager) for manager in (UP, ABSENT)] == [MEND, DONE]


@pytest.mark.parametrize("manager", [GOING, STARTING, UP, ABSENT])
def test_a_node_of_which_nobody_asked_is_let_go_if_mig_is_off_already(manager: str) -> None:
    assert next_step(node({CONFIG: OFF, STATE: "success"}, {LEAVING: MARKED}), "", 0.0, manager) == DONE


@pytest.mark.parametrize("begun", ["", SET, MEND])
def test_a_node_that_reboots_keeps_that_word(begun: str) -> None:
    """By it mig-manager knows that it must not reboot once more."""
    reboots = node({CONFIG: OFF, STATE: "rebooting"}, {LEAVING: ASKED})
    assert {next_step(reboots, begun, 0.0, manager) for manager in (GOING, STARTING, UP, ABSENT)} == {WAIT}
    assert next_step(node({CONFIG: LAYOUT, STATE: "rebooting"}), begun) == SET


def test_who_takes_over_waits_for_a_mig_manager_that_runs() -> None:
    answered = node({CONFIG: OFF, STATE: "success"}, {LEAVING: ASKED})
    assert [next_step(answered, "", 0.0, manager) for manager in (GOING, STARTING, UP, ABSENT)] == [WAIT, FORGET, DONE, DONE]


@pytest.mark.parametrize(
    ("config", "manager", "seconds", "step"),
    [
        (LAYOUT, UP, BEGINS_SECONDS, WAIT),
        (LAYOUT, UP, BEGINS_SECONDS + 1, DONE),
        (LAYOUT, STARTING, 0.0, DONE),
        (LAYOUT, ABSENT, 0.0, DONE),
        (None, UP, 0.0, DONE),
        (OFF, UP, 0.0, DONE),
    ],
)
def test_a_mig_manager_that_was_just_given_a_layout_is_waited_for(
    config: str | None, manager: str, seconds: float, step: str
) -> None:
    assert next_step(node({} if config is None else {CONFIG: config}, {LEAVING: MARKED}), "", seconds, manager) == step


@pytest.mark.parametrize(
    ("pods", "old", "state"),
    [
        ([], "", ABSENT),
        ([("a", True, False)], "", UP),
        ([("a", False, False)], "", STARTING),
        ([("a", True, False)], "a", GOING),
        ([("a", True, True)], "", GOING),
        ([("b", True, False)], "a", UP),
    ],
)
def test_what_pod_of_mig_manager_is_there(pods: list[tuple[str, bool, bool]], old: str, state: str) -> None:
    found = [
        {
            "metadata": {"uid": uid, **({"deletionTimestamp": "now"} if ends else {})},
            "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
        }
        for uid, ready, ends in pods
    ]
    assert state_of(found, frozenset({old})) == state


def test_what_keeps_a_pod_from_beginning_is_as_its_containers_say_it() -> None:
    waiting = [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}, {"state": {"running": {}}}]
    assert waits_for([{"status": {"containerStatuses": waiting}}]) == "ImagePullBackOff"
    init = [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    assert waits_for([{"status": {"containerStatuses": waiting, "initContainerStatuses": init}}]) == (
        "CrashLoopBackOff, ImagePullBackOff"
    )
    assert waits_for([{}]) == "it has not begun"


def test_as_long_as_nfd_sets_the_label_it_is_not_set() -> None:
    labels = {CONFIG: LAYOUT, STATE: "success"}
    assert next_step(node(labels, {BY_NFD: f"other,{CONFIG}"}), "") == LET_GO
    assert next_step(node(labels, {f"instance.{BY_NFD}": CONFIG}), "") == LET_GO
    assert next_step(node(labels, {BY_NFD: f"{CONFIG}.state"}), "") == SET


@pytest.mark.parametrize(
    ("labels", "notes", "goes", "removed"),
    [
        ({"p": "cut", POOL: "cut"}, {}, True, False),
        ({"p": "other", POOL: "other"}, {}, False, True),
        ({"p": "other"}, {LEAVING: MARKED}, False, True),
        # Its pool has gone, and another one takes it.
        ({"p": "ts", POOL: "other"}, {LEAVING: MARKED}, True, False),
        ({"p": "other"}, {}, False, False),
        ({}, {}, False, False),
    ],
)
def test_which_nodes_leave(labels: dict[str, str], notes: dict[str, str], goes: bool, removed: bool) -> None:  # noqa: FBT001
    assert leaves(node(labels, notes), "all", POOLS) is goes
    assert leaves(node(labels, notes), "removed", POOLS) is removed


@pytest.mark.parametrize(
    ("wants", "phase", "found"),
    [
        ({"limits": {"nvidia.com/gpu": 1}}, "Running", True),
        ({"requests": {"nvidia.com/gpu.shared": "1"}}, "Pending", True),
        ({"limits": {"nvidia.com/gpu": "0"}}, "Running", False),
        ({"limits": {"nvidia.com/gpu": "0k"}, "requests": {"nvidia.com/gpu": 0}}, "Running", False),
        ({"limits": {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "1k"}}, "Running", True),
        ({"limits": {"nvidia.com/gpu": "500m"}}, "Running", True),
        ({"limits": {"nvidia.com/gpu": "many"}}, "Running", True),
        ({"limits": {"nvidia.com/gpu": 1}}, "Succeeded", False),
        ({"limits": {"nvidia.com/gpu": 1}}, "Failed", False),
        ({"limits": {"cpu": 1, "example.com/gpu": 1}, "claims": [{"name": "gpu"}]}, "Running", False),
        ({}, "Running", False),
    ],
)
def test_which_pods_hold_gpus(wants: dict[str, Any], phase: str, found: bool) -> None:  # noqa: FBT001
    one = pod("a", "n", wants)
    one["status"]["phase"] = phase
    assert holds(one) is found
    one["spec"]["initContainers"], one["spec"]["containers"] = one["spec"]["containers"], [{"name": "c"}]
    assert holds(one) is found


class Cut(BaseException):
    """The pod is killed."""


class Cluster:
    """What the program asks, and what NFD and mig-manager make of it between two of its requests."""

    def __init__(self) -> None:
        self.nodes = {
            "a": _labelled("a", "cut", LAYOUT),
            "b": _labelled("b", "gone", LAYOUT),
            # Its labels are its changer's.
            "c": _labelled("c", "gone", LAYOUT, nfd=False),
            "d": node({"p": "ts", POOL: "ts", PLUGIN: "time-slicing-4-0a1b2c3d"}, name="d"),
            "e": node({"p": "none"}, name="e"),
        }
        self.layouts = {"a": LAYOUT, "b": LAYOUT, "c": LAYOUT}
        #: A NodeFeatureRule of somebody else's; {} for none.
        self.others_rule: dict[str, Any] = {}
        self.rules = {f"gpu-pools-{pool}": pool for pool in ("cut", "gone", "ts")} | {"somebody-elses": "x"}
        #: Those that have a DaemonSet of verifiers, and a pod of it.
        self.verifiers, self.verifying = ["cut", "gone"], {"cut", "gone"}
        self.pods: list[dict[str, Any]] = []
        #: Nodes whose mig-manager fails, does not notice its label, or is at another one, until it is started anew.
        self.fails: set[str] = set()
        self.deaf: set[str] = set()
        self.busy: set[str] = set()
        #: Node -> how often mig-manager's pod was made anew; those whose pod ends, or has not begun.
        self.managers = dict.fromkeys(self.layouts, 0)
        self.ending: set[str] = set()
        self.beginning: set[str] = set()
        #: What the Job has been given as the reason for which it fails.
        self.reasons: list[str] = []
        self.policies = [{}]
        self.written: list[tuple[str, str]] = []
        self.allowed: int | None = None
        self.version = 1
        self.now = self.took = 0.0

    def request(self, path: str, body: Any = None, kind: str = "merge-patch", method: str | None = None) -> dict[str, Any]:
        del kind
        path = path.partition("?")[0]
        if body is None and method is None:
            return {"items": copy.deepcopy(self._listed(path))}
        if self.allowed is not None and len(self.written) == self.allowed:
            raise Cut
        if "/jobs/" in path:
            self.reasons += [one["reason"] for one in body["status"]["conditions"] if one["type"] == "FailureTarget"]
            return {}
        self.written.append((method or "PATCH", path))
        name = path.rpartition("/")[2]
        if path.startswith(leave_program.RULES):
            del self.rules[name]
        elif "/daemonsets/" in path:
            self.verifiers.remove(name.removeprefix("gpu-pools-verifier-"))
        elif path.endswith("/status"):
            self.nodes[path.split("/")[-2]]["status"]["conditions"].pop()
        elif "/pods/" in path:
            self.ending.add(name.removeprefix("mig-manager-"))
        else:
            self._patch(self.nodes[name]["metadata"], body["metadata"])
            self.nodes[name]["spec"] |= body.get("spec", {})
        return {}

    def sleep(self, seconds: float) -> None:
        """NFD and mig-manager act only while the program waits: the longest time for something to go wrong."""
        self.now += seconds
        # Its pod writes once more when it ends, which is later than MIG is off.
        ending = self.verifying - {*self.verifiers} if self.now > ENDS_SECONDS else set()
        for pool in ending:
            for one in self.nodes.values():
                if one["metadata"]["labels"].get("p") == pool:
                    _verified(one)
        self.verifying = self.verifying - ending
        for name, one in self.nodes.items():
            metadata = one["metadata"]
            if metadata["annotations"].get(BY_NFD) and metadata["labels"].get(POOL) not in self.rules.values():
                for key in metadata["annotations"].pop(BY_NFD).split(","):
                    metadata["labels"].pop(key, None)
            self._manage(name, metadata["labels"])

    def _manage(self, name: str, labels: dict[str, str]) -> None:
        """It answers a label once: what it says stays until it is asked anew. The last word of one that ends is of before."""
        if name in self.ending:
            self.ending.remove(name)
            if name in self.busy:
                labels[STATE] = "success"
            for of in (self.fails, self.deaf, self.busy):
                of.discard(name)
            self.managers[name] += 1
            self.beginning.add(name)
            return
        self.beginning.discard(name)
        if name in self.busy:
            labels.setdefault(STATE, "pending")
        if name not in self.layouts or name in self.deaf or labels.get(STATE) or CONFIG not in labels:
            return
        if name in self.fails or any(one["spec"]["nodeName"] == name and holds(one) for one in self.pods):
            labels[STATE] = "failed"
        else:
            self.layouts[name], labels[STATE] = labels[CONFIG], "success"

    def _listed(self, path: str) -> list[Any]:
        if path == leave_program.POLICIES:
            return self.policies
        if path == leave_program.RULES:
            named = self.rules.items()
            ours = [{"metadata": {"name": rule}, "spec": {"rules": [{"name": f"gpu-pools {pool}"}]}} for rule, pool in named]
            return [*ours, *([self.others_rule] if self.others_rule else [])]
        if path == "/api/v1/pods":
            return self.pods
        if "/gpu-pools-verifier/" in path:
            sets, there = path.endswith("/daemonsets"), self.verifiers if path.endswith("/daemonsets") else self.verifying
            pods = [{"metadata": {"labels": {POOL: pool}, "name": f"gpu-pools-verifier-{pool}"}} for pool in there]
            return [{**one, "spec": {"template": one}} for one in pods] if sets else pods
        if path.endswith("/pods"):
            return [_manager(name, made, ready=name not in self.beginning) for name, made in self.managers.items()]
        assert path == leave_program.NODES
        return list(self.nodes.values())

    def _patch(self, metadata: dict[str, Any], change: dict[str, Any]) -> None:
        if change.get("resourceVersion", metadata["resourceVersion"]) != metadata["resourceVersion"]:
            raise urllib.error.HTTPError("", 409, "changed", email.message.Message(), None)
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        for part in ("labels", "annotations"):
            for key, value in change.get(part, {}).items():
                metadata[part].pop(key, None)
                if value is not None:
                    metadata[part][key] = value


def _manager(name: str, made: int, *, ready: bool) -> dict[str, Any]:
    metadata = {"name": f"mig-manager-{name}", "uid": f"{name}-{made}"}
    return {"metadata": metadata, "spec": {"nodeName": name}, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}


def _labelled(name: str, pool: str, layout: str, *, nfd: bool = True) -> dict[str, Any]:
    labels = {"p": pool, POOL: pool, PLUGIN: KEY, CONFIG: layout, STATE: "success"}
    found = node(labels, {BY_NFD: ",".join([POOL, PLUGIN, CONFIG] if nfd else [POOL])}, name)
    if not nfd:
        found["metadata"]["annotations"]["gpu-pools/change"] = '{"to": "x", "cordoned": true}'
        found["spec"]["unschedulable"] = True
    return _verified(found)


def _verified(found: dict[str, Any]) -> dict[str, Any]:
    """As its verifier marks it."""
    found["metadata"]["annotations"]["gpu-pools/verification"] = "{}"
    found["status"]["conditions"] = [*found["status"]["conditions"][:1], {"type": CONDITION, "status": "True"}]
    return found


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the program in a cluster, up to so many writes."""

    def ended(cluster: Cluster, stage: str, pools: dict[str, Any] = POOLS, writes: int | None = None) -> int:
        cluster.allowed, cluster.written = writes, []
        monkeypatch.setattr(leave_program, "request", cluster.request)
        monkeypatch.setattr(node_traces, "request", cluster.request)
        set_clock(monkeypatch, leave_program, sleep=cluster.sleep, monotonic=lambda: cluster.now)
        monkeypatch.setattr(sys, "argv", ["-c", stage, "gpu-operator", json.dumps(pools), "the-job"])
        code, cluster.took = main(), cluster.now
        # What is still under way then comes to its end.
        cluster.sleep(1.0)
        cluster.sleep(2 * ENDS_SECONDS)
        return code

    return ended


def test_a_removed_pool_gives_its_nodes_back_wherever_it_was_interrupted(run: Callable[..., int]) -> None:
    whole = Cluster()
    others = copy.deepcopy([whole.nodes[name] for name in "ade"])
    assert run(whole, "removed") == 0
    writes = len(whole.written)
    assert writes >= 7
    for count in range(writes):
        cut = Cluster()
        with pytest.raises(Cut):
            run(cut, "removed", writes=count)
        assert run(cut, "removed") == 0
        for cluster in (cut, whole):
            assert cluster.layouts == {"a": LAYOUT, "b": OFF, "c": OFF}
            assert [cluster.nodes[name] for name in "ade"] == others
            assert cluster.nodes["b"]["metadata"]["labels"] == {"p": "gone", CONFIG: OFF, STATE: "success"}
            assert cluster.nodes["b"]["metadata"]["annotations"] == {}
            assert PLUGIN not in cluster.nodes["c"]["metadata"]["labels"]
            assert cluster.nodes["c"]["metadata"]["annotations"] == {}
            assert cluster.nodes["c"]["spec"] == {"unschedulable": None}
            assert [len(one["status"]["conditions"]) for one in cluster.nodes.values()] == [2, 1, 1, 1, 1]
            assert cluster.verifiers == ["cut"]
            assert sorted(cluster.rules) == ["gpu-pools-cut", "gpu-pools-ts", "somebody-elses"]


def test_a_stack_gives_all_its_nodes_back_wherever_it_was_interrupted(run: Callable[..., int]) -> None:
    def cluster() -> Cluster:
        found = Cluster()
        # The engine has taken the rules before the operator.
        found.rules = {"somebody-elses": "x"}
        return found

    whole, pools = cluster(), {name: {"p": name} for name in ("cut", "gone", "ts")}
    assert run(whole, "all", pools) == 0
    for count in range(len(whole.written)):
        cut = cluster()
        with pytest.raises(Cut):
            run(cut, "all", pools, writes=count)
        assert run(cut, "all", pools) == 0
        assert whole.layouts == cut.layouts == dict.fromkeys("abc", OFF)
        assert sorted(cut.rules) == ["somebody-elses"]


def test_pods_that_hold_gpus_are_named_and_nothing_is_changed(run: Callable[..., int], capfd: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    owner = [{"kind": "ReplicaSet", "controller": True}]
    cluster.pods = [pod("x", "b"), pod("y", "c", ownerReferences=owner), pod("elsewhere", "a"), pod("idle", "b", {})]
    assert run(cluster, "removed") == STOPPED
    assert cluster.written == []
    said = capfd.readouterr().err
    assert "b: default/x (a bare pod); c: default/y (of a ReplicaSet)." in said
    assert cluster.reasons == [said.strip()]
    assert "elsewhere" not in said
    assert "idle" not in said


def test_a_pod_that_is_ending_is_waited_for_but_not_for_ever(run: Callable[..., int]) -> None:
    cluster = Cluster()
    cluster.pods = [pod("x", "b", deletionTimestamp="2026-01-01T00:00:00Z")]
    assert run(cluster, "removed") == STOPPED
    assert cluster.took > leave_program.ENDING_SECONDS
    assert cluster.written == []


def test_mig_manager_is_started_anew_once_and_its_second_failure_is_told(
    run: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    for fault in ("fails", "deaf"):
        cluster = Cluster()
        setattr(cluster, fault, {"b"})
        assert run(cluster, "removed") == 0
        assert cluster.layouts["b"] == OFF
        assert [path.rpartition("/")[2] for _, path in cluster.written if "/pods/" in path] == ["mig-manager-b"]

    cluster = Cluster()
    cluster.rules.pop("gpu-pools-gone")
    fails = pod("came-late", "b")
    real = cluster.sleep

    def comes(seconds: float) -> None:
        cluster.pods = [fails]
        real(seconds)

    cluster.sleep = comes  # type: ignore[method-assign]
    assert run(cluster, "removed") == STOPPED
    assert "b: MIG could not be taken back; pods hold its GPUs: b: default/came-late" in capfd.readouterr().err


def test_a_change_that_is_under_way_is_not_taken_for_the_answer(run: Callable[..., int]) -> None:
    whole = Cluster()
    whole.busy = {"b"}
    whole.nodes["b"]["metadata"]["labels"].pop(STATE)
    assert run(whole, "removed") == 0
    assert whole.layouts["b"] == OFF
    for count in range(len(whole.written)):
        cut = Cluster()
        cut.busy = {"b"}
        cut.nodes["b"]["metadata"]["labels"].pop(STATE)
        with pytest.raises(Cut):
            run(cut, "removed", writes=count)
        assert run(cut, "removed") == 0
        assert cut.layouts["b"] == OFF


def test_a_mig_manager_that_is_not_there_is_named_with_what_keeps_it_away(run: Callable[..., int]) -> None:
    cluster = Cluster()
    cluster.managers.pop("b")
    cluster.layouts.pop("b")
    cluster.nodes["b"]["metadata"]["labels"][leave_program.DEPLOY] = "false"
    assert run(cluster, "removed") == STOPPED
    (reason,) = cluster.reasons
    assert "no pod of nvidia-mig-manager is there (the node's label nvidia.com/gpu.deploy.mig-manager is false)" in reason
    assert cluster.took < leave_program.ALL_SECONDS
    # As the message says it: its GPUs stay as they are.
    assert f"kubectl annotate --overwrite node b {LEAVING}=as-is. " in reason
    assert reason.endswith("To keep the pool instead put it back, and run `pulumi up --refresh`.")
    cluster.nodes["b"]["metadata"]["annotations"][LEAVING] = "as-is"
    assert run(cluster, "removed") == 0
    assert cluster.nodes["b"]["metadata"]["annotations"] == {}


def test_a_long_reason_is_cut(run: Callable[..., int]) -> None:
    cluster = Cluster()
    cluster.pods = [pod(f"pod-{number}-{'x' * 90}", "b") for number in range(20)]
    assert run(cluster, "removed") == STOPPED
    (reason,) = cluster.reasons
    assert len(reason) < leave_program.TOLD_CHARACTERS + 50
    assert reason.endswith("(all of it: kubectl describe)")


def test_a_node_that_is_not_ready_or_never_ends_is_named(run: Callable[..., int], capfd: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    cluster.nodes["b"]["status"]["conditions"][0]["status"] = "Unknown"
    cluster.layouts.pop("b")
    assert run(cluster, "removed") == STOPPED
    assert "b: not ready. Nothing of the operator has gone" in capfd.readouterr().err
    assert cluster.took < leave_program.ALL_SECONDS

    cluster = Cluster()
    cluster.nodes["c"]["metadata"]["annotations"][f"others.{BY_NFD}"] = CONFIG
    assert run(cluster, "removed") == STOPPED
    assert "c: NFD has not removed the label nvidia.com/mig.config in 300 s, and no NodeFeatureRule" in capfd.readouterr().err
    assert leave_program.NFD_SECONDS < cluster.took < leave_program.ALL_SECONDS


@pytest.mark.parametrize("stage", ["removed", "all"])
@pytest.mark.parametrize("entry", [{"labels": {CONFIG: "all-1g.10gb"}}, {"labelsTemplate": f"a=b\n {CONFIG}=x\n"}])
def test_a_rule_of_others_that_sets_the_label_ends_the_wait_and_is_named(
    run: Callable[..., int], capfd: pytest.CaptureFixture[str], entry: dict[str, Any], stage: str
) -> None:
    cluster = Cluster()
    cluster.nodes["c"]["metadata"]["annotations"][f"others.{BY_NFD}"] = CONFIG
    cluster.others_rule = {"metadata": {"name": "their-mig"}, "spec": {"rules": [{"name": "theirs", **entry}]}}
    pools = POOLS if stage == "removed" else {name: {"p": name} for name in ("cut", "gone", "ts")}
    if stage == "all":
        cluster.rules = {}
    assert run(cluster, stage, pools) == STOPPED
    assert cluster.took < leave_program.NAMED_SECONDS + 20
    said = capfd.readouterr().err
    assert "c: waiting until NFD removes the label nvidia.com/mig.config" in said
    assert "c: NFD still sets the label nvidia.com/mig.config after 60 s, since it is named by NodeFeatureRule their-mig." in said
    assert [reason for reason in cluster.reasons if "their-mig" in reason]


def test_a_rule_of_others_that_sets_the_pools_label_is_named_too(run: Callable[..., int]) -> None:
    cluster = Cluster()
    cluster.nodes["c"]["metadata"]["annotations"][f"others.{BY_NFD}"] = POOL
    cluster.others_rule = {"metadata": {"name": "their-pool"}, "spec": {"rules": [{"name": "x", "labels": {POOL: "gone"}}]}}
    assert run(cluster, "removed") == STOPPED
    assert [reason for reason in cluster.reasons if "label gpu-pools/pool" in reason and "their-pool" in reason]
    assert cluster.took < leave_program.ALL_SECONDS


def test_pods_of_verifiers_that_do_not_end_are_named(run: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    monkeypatch.setitem(globals(), "ENDS_SECONDS", 1e9)
    assert run(cluster, "removed") == STOPPED
    assert [reason for reason in cluster.reasons if "pods of verifiers did not end: gpu-pools-verifier-gone" in reason]


def test_without_the_operator_there_is_nothing_to_do(run: Callable[..., int]) -> None:
    cluster = Cluster()
    cluster.policies = []
    assert run(cluster, "all") == 0
    assert cluster.written == []


def test_its_text_has_the_reader_of_amounts_and_runs_with_python_alone() -> None:
    program = program_text("leave_program.py", READERS)
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", program, "neither"], capture_output=True, text=True, check=False)
    assert "ImportError" not in ended.stderr
    assert "SyntaxError" not in ended.stderr
    assert "NameError" not in ended.stderr
    space: dict[str, Any] = {"__name__": "leave"}
    exec(compile(program, "leave", "exec"), space)  # noqa: S102 - our own
    assert space["holds"](pod("a", "n", {"limits": {"nvidia.com/gpu": "1k"}}))
    assert space["names_of_setters"]([{"metadata": {"name": "r"}, "spec": {"rules": [{"labels": {"a": "b"}}]}}], "a") == ["r"]
    assert "{{" not in program
