"""The old nodes of a pool are emptied: on an API server that is played here, with its budgets and its failures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpu_pools.proof.emptying import Emptying, NotEmptiedError
from gpu_pools.stack.kubernetes_names import POOL_LABEL, REPLACEMENT_LABEL
from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.changer.living_node import ANNOTATION


@dataclass
class Cluster:
    """Nodes and pods; `stays` names pods that a budget keeps, `away` how many requests the server does not answer.

    And `conflicts` says how many writes meet a node that somebody else has written to since it was read.
    """

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    stays: set[str] = field(default_factory=set)
    away: int = 0
    conflicts: int = 0
    forbidden: bool = False
    seconds: float = 0.0
    told: list[str] = field(default_factory=list)

    def node(self, name: str, replacement_id: str | None, pool: str = "gpu", *, cordoned: bool = False) -> None:
        labels = {POOL_LABEL: pool, **({} if replacement_id is None else {REPLACEMENT_LABEL: replacement_id})}
        metadata = {"name": name, "resourceVersion": "1", "labels": labels, "annotations": {}}
        self.nodes[name] = {"metadata": metadata, "spec": {"unschedulable": True} if cordoned else {}}

    def pod(self, name: str, node: str, owner: str = "ReplicaSet", phase: str = "Running") -> None:
        owners = [{"kind": owner, "name": "agents", "uid": "agents-1", "controller": True}] if owner else []
        metadata = {"namespace": "default", "name": name, "uid": name, "ownerReferences": owners}
        if owner == "Node":
            metadata["annotations"] = {"kubernetes.io/config.mirror": "1a2b"}
        self.pods[name] = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self._answers(path)
        if path == "/api/v1/pods":
            return {"items": list(self.pods.values())}
        if "/daemonsets/" in path:
            return self._daemon_set(path)
        terms = query["labelSelector"].split(",")
        return {"items": [one for one in self.nodes.values() if all(_fits(term, one["metadata"]["labels"]) for term in terms)]}

    def _daemon_set(self, path: str) -> dict[str, Any]:
        if path != "/apis/apps/v1/namespaces/default/daemonsets/agents":
            raise ApiError(f"GET {path}", 404, "not found")
        return {"metadata": {"name": "agents", "uid": "agents-1"}}

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._answers(path)
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError(f"PATCH {path}", 409, "the object has been modified")
        node = self.nodes[path.rpartition("/")[2]]
        for key, value in body["metadata"].get("annotations", {}).items():
            node["metadata"]["annotations"].pop(key, None)
            if value is not None:
                node["metadata"]["annotations"][key] = value
        if "spec" in body:
            node["spec"] = {key: value for key, value in body["spec"].items() if value}
        return node

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._answers(path)
        name = body["metadata"]["name"]
        if name in self.stays:
            raise ApiError(f"POST {path}", 429, "Cannot evict pod as it would violate the pod's disruption budget.")
        if name not in self.pods:
            raise ApiError(f"POST {path}", 404, "not found")
        del self.pods[name]
        return {}

    def delete(self, path: str, uid: str) -> dict[str, Any]:
        raise AssertionError((path, uid))

    def _answers(self, path: str) -> None:
        if self.forbidden:
            raise ApiError(path, 403, "forbidden")
        if self.away:
            self.away -= 1
            raise ApiError(path, None, "connection refused")

    def emptying(self, replacement_id: str = "new", seconds: float = 100) -> Emptying:
        return Emptying(self, "gpu", replacement_id, seconds, self.told.append, now=lambda: self.seconds, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def cordoned(self) -> set[str]:
        return {name for name, node in self.nodes.items() if node["spec"].get("unschedulable")}


def _fits(term: str, labels: dict[str, str]) -> bool:
    if "!=" in term:
        key, _, value = term.partition("!=")
        return labels.get(key) != value
    key, equals, value = term.partition("=")
    return labels.get(key) == value if equals else key in labels


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.node("old-1", "old")
    made.node("old-2", "old")
    made.node("new-1", "new")
    made.node("other", "old", pool="other")
    made.node("unlabelled", None)
    for name in made.nodes:
        made.pod(f"on-{name}", name)
    return made


def test_pods_are_left_alone_while_no_node_is_proven_that_could_take_them(cluster: Cluster) -> None:
    """The autoscaler has taken the new one away, or it never came so far."""
    emptying = cluster.emptying()
    emptying.proven = True
    for conditions in ([], [{"type": "GpuSharingVerified", "status": "False"}], [{"type": "Ready", "status": "True"}]):
        cluster.nodes["new-1"]["status"] = {"conditions": conditions}
        with pytest.raises(NotEmptiedError, match=r"pool gpu has no proven node but old ones.*default/on-old-1"):
            emptying.run()
        assert cluster.cordoned() == set()
    cluster.nodes["new-1"]["status"] = {"conditions": [{"type": "GpuSharingVerified", "status": "True"}]}
    emptying.run()
    assert set(cluster.pods) == {"on-new-1", "on-other", "on-unlabelled"}


def test_where_nobody_is_to_go_nothing_needs_to_be_proven(cluster: Cluster) -> None:
    cluster.pods.clear()
    emptying = cluster.emptying()
    emptying.proven = True
    emptying.run()
    assert cluster.cordoned() == {"old-1", "old-2"}


def test_old_nodes_are_cordoned_and_emptied_and_no_others(cluster: Cluster) -> None:
    cluster.emptying().run()
    assert cluster.cordoned() == {"old-1", "old-2"}
    assert set(cluster.pods) == {"on-new-1", "on-other", "on-unlabelled"}
    assert cluster.told[0].startswith("pool gpu: 2 pods are to leave 2 old nodes")
    assert cluster.told[-1] == "pool gpu: no pod is left on its 2 old nodes"


def test_nodes_of_several_replaced_pools_go_together(cluster: Cluster) -> None:
    cluster.node("failed", "between")
    cluster.pod("on-failed", "failed")
    cluster.emptying().run()
    assert "on-failed" not in cluster.pods


def test_what_comes_back_by_itself_or_is_over_stays(cluster: Cluster) -> None:
    cluster.pod("daemon", "old-1", "DaemonSet")
    cluster.pod("static", "old-1", "Node")
    cluster.pod("over", "old-1", "Job", "Succeeded")
    cluster.emptying().run()
    assert {"daemon", "static", "over"} <= set(cluster.pods)


def test_a_pod_cannot_stay_by_an_owner_that_it_has_made_up(cluster: Cluster) -> None:
    """Attack: a tenant's pod names the node, or a DaemonSet that does not exist, as its controller, to veto the node's change."""
    cluster.pod("node", "old-1", "Node")
    del cluster.pods["node"]["metadata"]["annotations"]
    cluster.pod("gone", "old-1", "DaemonSet")
    cluster.pods["gone"]["metadata"]["ownerReferences"][0]["name"] = "gone"
    cluster.pod("other-uid", "old-1", "DaemonSet")
    cluster.pods["other-uid"]["metadata"]["ownerReferences"][0]["uid"] = "agents-0"
    cluster.pod("path", "old-1", "DaemonSet")
    cluster.pods["path"]["metadata"]["ownerReferences"][0]["name"] = "agents/../../x?"
    cluster.pod("of-another-group", "old-1", "DaemonSet")
    cluster.pods["of-another-group"]["metadata"]["ownerReferences"][0]["apiVersion"] = "evil.example/v1"
    cluster.emptying().run()
    assert not {"node", "gone", "other-uid", "path", "of-another-group"} & set(cluster.pods)


def test_a_pod_that_cannot_be_read_is_named_and_ends_no_look(cluster: Cluster) -> None:
    """Attack: one odd object in a list of pods; the others still go, and the deploy says which one it was."""
    cluster.pods["odd"] = {"metadata": {"namespace": "tenant", "name": "odd", "uid": "odd"}, "spec": None}
    cluster.stays = {"odd"}
    with pytest.raises(NotEmptiedError, match=r"tenant/odd \(cannot be read, so it may hold GPUs"):
        cluster.emptying().run()
    assert set(cluster.pods) == {"odd", "on-new-1", "on-other", "on-unlabelled"}


def test_a_pod_that_stays_fails_it_and_is_named_with_what_stands_against_it(cluster: Cluster) -> None:
    cluster.pod("bare", "old-1", "")
    cluster.stays = {"bare"}
    with pytest.raises(NotEmptiedError, match=r"did not go in 100 s: default/bare \(a bare pod\): .* disruption budget") as error:
        cluster.emptying().run()
    assert "so nothing of it is deleted" in str(error.value)
    assert 100 <= cluster.seconds <= 115
    assert cluster.cordoned() == {"old-1", "old-2"}


def test_an_api_server_that_is_away_for_a_time_is_waited_for(cluster: Cluster) -> None:
    cluster.away = 3
    cluster.emptying().run()
    assert "on-old-1" not in cluster.pods


def test_one_that_stays_away_fails_it(cluster: Cluster) -> None:
    cluster.away = 10_000
    with pytest.raises(NotEmptiedError, match="connection refused"):
        cluster.emptying().run()


def test_a_missing_right_fails_it_at_once(cluster: Cluster) -> None:
    cluster.forbidden = True
    with pytest.raises(NotEmptiedError, match="forbidden"):
        cluster.emptying().run()
    assert cluster.seconds == 0


def test_a_node_that_comes_meanwhile_is_cordoned_and_emptied(cluster: Cluster) -> None:
    cluster.stays = {"on-old-1"}
    emptying = cluster.emptying()

    def later(seconds: float) -> None:
        cluster.seconds += seconds
        cluster.stays = set()
        if "old-3" not in cluster.nodes:
            cluster.node("old-3", "old")
            cluster.pod("on-old-3", "old-3")

    emptying.sleep = later
    emptying.run()
    assert "on-old-3" not in cluster.pods
    assert "old-3" in cluster.cordoned()


def test_what_is_wanted_again_is_given_back_but_what_others_have_cordoned(cluster: Cluster) -> None:
    cluster.node("theirs", "old", cordoned=True)
    cluster.emptying("new").run()
    assert "theirs" in cluster.cordoned()
    cluster.emptying("old").give_back()
    assert cluster.cordoned() == {"theirs"}
    assert all(ANNOTATION not in node["metadata"]["annotations"] for node in cluster.nodes.values())


@pytest.mark.parametrize(("conflicts", "given"), [(1, True), (4, True), (5, False)])
def test_others_may_write_to_a_node_that_is_given_back(cluster: Cluster, conflicts: int, *, given: bool) -> None:
    cluster.emptying("new").run()
    cordoned, cluster.conflicts = cluster.cordoned(), conflicts
    if given:
        cluster.emptying("old").give_back()
        assert len(cluster.cordoned()) < len(cordoned)
        return
    with pytest.raises(NotEmptiedError, match="could not be given back"):
        cluster.emptying("old").give_back()
    assert cluster.cordoned() == cordoned


def test_changed_once_more_what_was_cordoned_for_it_is_still_uncordoned(cluster: Cluster) -> None:
    cluster.emptying("new").run()
    cluster.emptying("newer").run()
    assert cluster.cordoned() == {"old-1", "old-2", "new-1"}
    assert json.loads(cluster.nodes["old-1"]["metadata"]["annotations"][ANNOTATION])["to"] == "succeeded by newer"
    cluster.emptying("old").give_back()
    assert cluster.cordoned() == {"new-1"}


def test_a_mark_of_a_change_in_place_is_not_taken_away(cluster: Cluster) -> None:
    mark = json.dumps({"to": "nvidia.com/mig.config=x", "cordoned": True, "since": ""})
    cluster.nodes["new-1"]["metadata"]["annotations"][ANNOTATION] = mark
    cluster.emptying("new").give_back()
    assert cluster.nodes["new-1"]["metadata"]["annotations"][ANNOTATION] == mark


def test_where_nothing_is_old_nothing_is_said(cluster: Cluster) -> None:
    for name in ("old-1", "old-2"):
        del cluster.nodes[name]
    cluster.emptying().run()
    assert cluster.told == []
    assert cluster.cordoned() == set()
