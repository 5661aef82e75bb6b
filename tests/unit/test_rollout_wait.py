"""When a rollout is over, when it stands still, and what is said meanwhile: DaemonSet, nodes and pods are played here."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpu_pools.proof.rollout_end import Counts, PoolObjects, counts, ends, lost, only_waits, stands_still
from gpu_pools.proof.rollout_wait import NotRolledOutError, Place, RolloutWait
from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.changer.living_node import ANNOTATION
from gpu_pools.verifier.changer.rollout_steps import Mark
from gpu_pools.verifier.names import MIG_STATE_LABEL

PLACE = Place("ns", "verifiers", "app=v", "pool=gpu")
DIFFERS, CANNOT_TELL, KILLED = 1, 2, 137
OVER = {
    "observedGeneration": 7,
    "desiredNumberScheduled": 3,
    "currentNumberScheduled": 3,
    "updatedNumberScheduled": 3,
    "numberAvailable": 3,
    "numberReady": 3,
}


def daemon_set(**status: int) -> dict[str, Any]:
    return {"metadata": {"generation": 7}, "status": {**OVER, **status}}


def container(name: str, code: int, restarts: int, state: str = "waiting", message: str = "it differs") -> dict[str, Any]:
    """Of a pod: it ended with that code last, and what it does now."""
    ended = {"terminated": {"exitCode": code, "reason": "Error", "message": message}}
    now = {"waiting": {"waiting": {"reason": "CrashLoopBackOff"}}, "running": {"running": {}}, "terminated": ended}[state]
    return {"name": name, "restartCount": restarts, "state": now, "lastState": {} if state == "terminated" else ended}


def pod(node: str, *containers: dict[str, Any], uid: str = "", **metadata: str) -> dict[str, Any]:
    return {
        "metadata": {"uid": uid or f"pod-of-{node}", **metadata},
        "spec": {"nodeName": node} if node else {},
        "status": {"initContainerStatuses": list(containers)},
    }


def node(name: str, mark: Mark | None = None, state: str = "success") -> dict[str, Any]:
    annotations = {ANNOTATION: mark.text()} if mark else {}
    return {"metadata": {"name": name, "labels": {MIG_STATE_LABEL: state}, "annotations": annotations}}


def seen(*pods: dict[str, Any], pending: str = "") -> PoolObjects:
    return PoolObjects(daemon_set(), [node("n", state="pending" if pending == "n" else "success")], pods)


# --- over ----------------------------------------------------------------------------------------------------


def test_it_is_over_as_the_provider_and_kubectl_have_it() -> None:
    assert counts(daemon_set()).over
    for less, number in OVER.items():
        assert counts(daemon_set(**{less: number - 1})).over is (less == "desiredNumberScheduled"), less


def test_a_pool_without_nodes_is_over_once_that_was_observed() -> None:
    nothing = dict.fromkeys(OVER, 0)
    assert not counts(daemon_set(**nothing)).over
    assert counts(daemon_set(**{**nothing, "observedGeneration": 7})).over
    assert not counts({"metadata": {"generation": 1}}).over


def test_nodes_with_old_pods_are_not_counted_as_declared() -> None:
    assert counts(daemon_set(updatedNumberScheduled=1)).done == 1
    assert counts(daemon_set(updatedNumberScheduled=1, numberAvailable=2)).done == 0
    assert counts(daemon_set(updatedNumberScheduled=0, numberAvailable=1)).done == 0


# --- lost ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "is_lost"),
    [
        (container("change", DIFFERS, 0), True),
        (container("assert", DIFFERS, 0, "terminated"), True),
        (container("release", DIFFERS, 1, "running"), True),
        # Ends that are no verdict may be a mishap.
        (container("change", CANNOT_TELL, 1), False),
        (container("change", CANNOT_TELL, 2), True),
        (container("assert", KILLED, 2, "running"), False),
        (container("assert", KILLED, 3, "running"), True),
        # It has ended well since, or never badly.
        (container("change", 0, 5, "terminated"), False),
        ({"name": "change", "restartCount": 0, "state": {"running": {}}}, False),
        ({"name": "change", "state": {"waiting": {"reason": "PodInitializing"}}}, False),
    ],
    ids=str,
)
def test_a_node_is_lost_by_a_verdict_or_by_several_other_ends(given: dict[str, Any], is_lost: bool) -> None:  # noqa: FBT001
    assert bool(lost(seen(pod("n", given)), {})) is is_lost


def test_where_mig_manager_still_works_at_it_the_change_goes_on() -> None:
    for restarts, is_lost in ((0, False), (1, False), (2, True)):
        assert bool(lost(seen(pod("n", container("change", DIFFERS, restarts)), pending="n"), {})) is is_lost
    assert lost(seen(pod("n", container("assert", DIFFERS, 0)), pending="n"), {})


def test_what_had_ended_before_does_not_count() -> None:
    """Its cause may have been removed, and the kubelet waits before it tries again."""
    before = ends(seen(pod("n", container("change", DIFFERS, 4))))
    assert lost(seen(pod("n", container("change", DIFFERS, 4))), before) == {}
    assert lost(seen(pod("n", container("change", DIFFERS, 5, "running"))), before) == {}, "the one that was there is told twice"
    assert lost(seen(pod("n", container("change", DIFFERS, 5))), before) == {"n": "it differs"}
    assert lost(seen(pod("n", container("change", DIFFERS, 0), uid="another")), before) == {"n": "it differs"}


def test_nor_does_what_has_begun_before() -> None:
    """It may have met the cause that has been removed since. A first attempt is one of this deploy."""
    before = ends(seen(pod("n", container("change", DIFFERS, 5, "running"))))
    assert lost(seen(pod("n", container("change", DIFFERS, 5))), before) == {}
    assert lost(seen(pod("n", container("change", DIFFERS, 6))), before) == {"n": "it differs"}
    first = {"name": "change", "restartCount": 0, "state": {"running": {}}, "lastState": {}}
    assert lost(seen(pod("n", container("change", DIFFERS, 0))), ends(seen(pod("n", first)))) == {"n": "it differs"}


def test_pods_that_go_or_have_no_node_say_nothing() -> None:
    bad = container("assert", DIFFERS, 0)
    assert lost(seen(pod("n", bad, deletionTimestamp="2026-01-01T00:00:00Z"), pod("", bad)), {}) == {}


def test_the_reason_is_what_the_container_has_said() -> None:
    said = container("change", DIFFERS, 0, message="not changed:\n\x1b[31mpods")
    assert lost(seen(pod("n", said)), {})["n"].startswith("not changed:")
    assert "\x1b" not in lost(seen(pod("n", said)), {})["n"]
    assert lost(seen(pod("n", container("assert", KILLED, 9, message=""))), {}) == {"n": "assert ended with 137 (Error)"}


# --- stands still --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes_lost", "most", "told", "still"),
    [
        (0, 1, Counts(observed=True, nodes=3, updated=1, available=2), False),
        (1, 1, Counts(observed=True, nodes=3, updated=1, available=2), True),
        (1, 1, Counts(observed=False, nodes=3, updated=1, available=2), False),
        (1, 2, Counts(observed=True, nodes=3, updated=2, available=2), False),
        (2, 2, Counts(observed=True, nodes=3, updated=2, available=1), True),
        # A half of three is two.
        (1, "50%", Counts(observed=True, nodes=3, updated=2, available=2), False),
        (2, "50%", Counts(observed=True, nodes=3, updated=2, available=1), True),
        # All others are over, although one more might change.
        (1, 2, Counts(observed=True, nodes=3, updated=3, available=2), True),
        (1, 3, Counts(observed=True, nodes=3, updated=3, available=1), False),
    ],
)
def test_it_stands_still_once_no_other_node_goes_on(nodes_lost: int, most: int | str, told: Counts, still: bool) -> None:  # noqa: FBT001
    assert stands_still(told, nodes_lost, most) is still


# --- windows -------------------------------------------------------------------------------------------------

READY = {"conditions": [{"type": "Ready", "status": "True"}]}
IN_TURN = {"name": "change", "state": {"running": {}}}


def test_it_only_waits_while_no_node_is_being_changed_or_proven() -> None:
    proven = {"metadata": {"uid": "p"}, "spec": {"nodeName": "b"}, "status": READY}
    proves = pod("b", {"name": "change", "state": {"terminated": {"exitCode": 0}}}, {"name": "assert", "state": {"running": {}}})
    assert only_waits(seen(pod("n", IN_TURN), proven))
    assert not only_waits(seen(proven))
    assert not only_waits(seen(pod("n", IN_TURN), proves))
    assert not only_waits(seen(pod("n", container("change", KILLED, 0)), proven))
    for stopped, waits in (((), False), (("u",), True)):
        marked = [node("n", Mark("to", cordoned=True, since="t", stopped=stopped))]
        assert only_waits(PoolObjects(daemon_set(), marked, [pod("n", IN_TURN)])) is waits


# --- waiting -------------------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """What is there, in which order it answers, and what is asked of it."""

    status: dict[str, int] = field(default_factory=lambda: {"updatedNumberScheduled": 1, "numberAvailable": 2, "numberReady": 2})
    nodes: list[dict[str, Any]] = field(default_factory=lambda: [node("a"), node("b"), node("c")])
    pods: list[dict[str, Any]] = field(default_factory=list)
    fails: ApiError | None = None
    seconds: float = 0.0
    told: list[str] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append((path, query))
        if self.fails:
            raise self.fails
        if path.endswith("/daemonsets/verifiers"):
            return daemon_set(**self.status)
        return {"items": self.pods if path.endswith("/pods") else self.nodes}

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError((path, body))

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError((path, body))

    def delete(self, path: str, uid: str) -> dict[str, Any]:
        raise AssertionError((path, uid))

    opens: float = 0.0

    def waits(self, seconds: float = 600, most: int | str = 1, first: float = 0) -> RolloutWait:
        tell, opens = self.told.append, lambda: self.opens
        return RolloutWait(self, "gpu", PLACE, most, seconds, first, tell, opens, now=lambda: self.seconds, wall=lambda: 0.0)


def waited(wait: RolloutWait, cluster: Cluster, seconds: float) -> None:
    """So long, with nothing that happens."""
    until = cluster.seconds + seconds
    while cluster.seconds < until:
        left = wait.look()
        assert left > 0
        cluster.seconds += left


def test_it_ends_once_the_rollout_is_over_and_says_nothing_where_it_was_already() -> None:
    cluster = Cluster(status={})
    assert cluster.waits().look() == 0
    assert cluster.told == []
    assert [path for path, _ in cluster.asked] == ["/apis/apps/v1/namespaces/ns/daemonsets/verifiers"]


def test_it_asks_for_the_pools_nodes_and_the_verifiers_pods_alone() -> None:
    cluster = Cluster()
    cluster.waits().look()
    assert cluster.asked[1:] == [
        ("/api/v1/nodes", {"labelSelector": "pool=gpu"}),
        ("/api/v1/namespaces/ns/pods", {"labelSelector": "app=v"}),
    ]


def test_it_tells_which_node_is_where_when_that_changes_and_seldom_when_not() -> None:
    cluster, mark = Cluster(), Mark("to", cordoned=True, since="2026-01-01T00:00:00Z", why="one pod stays")
    wait = cluster.waits(10_000)
    wait.look()
    cluster.nodes[1] = node("b", mark)
    waited(wait, cluster, 60)
    assert cluster.told == [
        "pool gpu: 0 of 3 nodes are as declared",
        "pool gpu: 0 of 3 nodes are as declared; b is being changed since 2026-01-01T00:00:00Z (one pod stays)",
    ]
    waited(wait, cluster, 600)
    assert len(cluster.told) == 4, "every five minutes"
    cluster.status = {}
    assert wait.look() == 0
    assert cluster.told[-1] == "pool gpu: 3 of 3 nodes are as declared"


def test_a_node_that_fails_ends_it_with_reason_and_remedy_long_before_the_time_is_over() -> None:
    cluster = Cluster()
    wait = cluster.waits(100_000)
    waited(wait, cluster, 20)
    cluster.nodes[0] = node("a", Mark("to", cordoned=True, since="t", stopped=("u",)))
    cluster.pods = [pod("a", container("change", DIFFERS, 0, message="not changed: web/one holds a GPU."))]
    with pytest.raises(NotRolledOutError) as failed:
        wait.look()
    text = str(failed.value)
    assert text.startswith(
        "pool gpu: its rollout stands still: 0 of 3 nodes are as declared, and of 1 the change failed. "
        "a: not changed: web/one holds a GPU. Nodes without a rollout slot"
    )
    assert "deploy again, which goes on from here; or deploy the old declaration" in text
    assert cluster.told[-1].endswith("a was given back as it was since t")


def test_what_is_there_when_it_begins_is_given_another_chance() -> None:
    cluster = Cluster(pods=[pod("a", container("change", DIFFERS, 2))])
    wait = cluster.waits()
    waited(wait, cluster, 30)
    cluster.pods = [pod("a", container("change", DIFFERS, 3))]
    with pytest.raises(NotRolledOutError, match="a: it differs"):
        wait.look()


@pytest.mark.parametrize(
    ("container_name", "mark", "waits"),
    [
        ("assert", None, True),
        ("change", None, True),
        ("assert", Mark("to", cordoned=True, since="t"), False),
    ],
)
def test_a_new_node_may_fail_its_proof_as_long_as_a_first_one_may_take(
    container_name: str,
    mark: Mark | None,
    waits: bool,  # noqa: FBT001
) -> None:
    cluster = Cluster()
    wait = cluster.waits(first=60)
    waited(wait, cluster, 20)
    cluster.nodes[0] = node("a", mark)
    cluster.pods = [pod("a", container(container_name, DIFFERS, 0))]
    if waits:
        waited(wait, cluster, 40)
    with pytest.raises(NotRolledOutError, match="a: it differs"):
        wait.look()


def test_of_a_declaration_that_was_not_observed_nothing_is_judged() -> None:
    """The pods are the old one's then, and those of the new one have had no chance yet."""
    cluster = Cluster(pods=[pod("a", container("change", DIFFERS, 2))])
    cluster.status["observedGeneration"] = 6
    wait = cluster.waits()
    wait.look()
    cluster.pods = [pod("a", container("change", DIFFERS, 3))]
    wait.look()
    cluster.status["observedGeneration"] = 7
    assert wait.look() > 0


def test_one_of_several_turns_is_no_end() -> None:
    cluster = Cluster(status={"updatedNumberScheduled": 2, "numberAvailable": 1, "numberReady": 1})
    wait = cluster.waits(most=2)
    wait.look()
    cluster.pods = [pod("a", container("assert", DIFFERS, 0))]
    waited(wait, cluster, 30)
    cluster.status = {"numberAvailable": 2, "numberReady": 2}
    with pytest.raises(NotRolledOutError, match="2 of 3 nodes are as declared"):
        wait.look()


def test_when_the_time_is_over_it_says_how_far_it_came() -> None:
    cluster = Cluster()
    wait = cluster.waits(60)
    waited(wait, cluster, 60)
    with pytest.raises(
        NotRolledOutError, match=r"was not over in 60 s: 0 of 3 nodes are as declared\. Nodes without a rollout slot"
    ):
        wait.look()


def test_an_api_server_that_is_away_is_waited_for_and_one_that_forbids_is_not() -> None:
    cluster = Cluster(fails=ApiError("GET /x", None, "TimeoutError"))
    wait = cluster.waits(60)
    waited(wait, cluster, 30)
    cluster.fails, cluster.status = None, {}
    assert wait.look() == 0
    cluster.fails = ApiError("GET /x", 403, "no list of pods for you")
    with pytest.raises(NotRolledOutError, match="could not be looked at: GET /x: 403: no list of pods for you"):
        cluster.waits().look()
    cluster.fails = ApiError("GET /x", 503, "away")
    wait = cluster.waits(60)
    waited(wait, cluster, 60)
    with pytest.raises(NotRolledOutError, match="not over in 60 s: GET /x: 503: away"):
        wait.look()


def test_an_annotation_that_cannot_be_read_stops_nothing() -> None:
    cluster = Cluster()
    cluster.nodes[0]["metadata"]["annotations"] = {ANNOTATION: json.dumps(["?"])}
    cluster.waits().look()
    assert cluster.told[0].startswith("pool gpu: 0 of 3 nodes are as declared; a is being changed")


def test_where_waiting_helps_nothing_it_ends_after_several_looks_that_say_so() -> None:
    cluster = Cluster()
    wait = replace(cluster.waits(), in_vain=lambda: "b: nothing on the node helps.", rolls=False)
    wait.look()
    wait.look()
    with pytest.raises(NotRolledOutError) as failed:
        wait.look()
    assert str(failed.value) == (
        "pool gpu: waiting helps nothing: b: nothing on the node helps. Remove the cause and deploy again."
    )


def test_a_state_that_passes_between_two_looks_ends_nothing() -> None:
    cluster = Cluster()
    words = iter(["x", "x", "", "x", "x", ""])
    wait = replace(cluster.waits(), in_vain=lambda: next(words))
    for _ in range(6):
        assert wait.look() > 0


def test_what_a_pool_without_rollout_reports_when_its_time_is_over() -> None:
    cluster = Cluster()
    wait = replace(cluster.waits(60), rolls=False)
    with pytest.raises(
        NotRolledOutError, match=r"not all nodes were as declared in 60 s: .*\. Remove the cause and deploy again\."
    ):
        waited(wait, cluster, 120)


def test_a_window_that_has_closed_is_not_waited_for_where_nothing_goes_on() -> None:
    cluster = Cluster(pods=[pod("a", IN_TURN)], opens=3600.0)
    wait = cluster.waits(100_000)
    waited(wait, cluster, 40)
    cluster.nodes[0] = node("a", Mark("to", cordoned=True, since="t"))
    waited(wait, cluster, 200)
    cluster.nodes[0] = node("a")
    waited(wait, cluster, 60)
    with pytest.raises(NotRolledOutError, match="waits for a window, which opens at 1970-01-01T01:00:00Z: 0 of 3 nodes"):
        wait.look()
    cluster.opens = 0.0
    assert cluster.waits().look() > 0


def test_an_open_window_is_no_end() -> None:
    cluster = Cluster(pods=[pod("a", IN_TURN)])
    waited(cluster.waits(), cluster, 300)
