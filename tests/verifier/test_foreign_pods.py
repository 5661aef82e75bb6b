"""Pods that somebody has written against the change of his node: what they say of themselves is not believed.

Each is taken by a real API server as it stands here: it needs the right to create pods in one namespace, and no more.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from gpu_pools.verifier.api import ApiError
from gpu_pools.verifier.changer.change import ChangeError
from gpu_pools.verifier.changer.living_node import LivingNode, holder_of, holders_among
from gpu_pools.verifier.changer.owners import Owners
from gpu_pools.verifier.changer.rollout_slots import RolloutSlots
from gpu_pools.verifier.changer.rollout_steps import Step, Target, harmless, next_step
from gpu_pools.verifier.names import CONFIG_LABEL, MIG_CONFIG_LABEL
from gpu_pools.verifier.quantities import LARGEST
from tests.verifier.pool_world import GPU, LEASES, OPERATORS, POOL, VERIFIERS, Changer, World
from tests.verifier.test_pool_world import finish
from tests.verifier.test_rollout_steps import CUT, SLICED, on

BEFORE: Final = Target({CONFIG_LABEL: "mig-1", MIG_CONFIG_LABEL: "layout-1"}, {"nvidia.com/mig-1g.10gb": 7})
AFTER: Final = Target({CONFIG_LABEL: "mig-2", MIG_CONFIG_LABEL: "layout-3"}, {"nvidia.com/mig-3g.40gb": 2})
MIRROR: Final = {"kubernetes.io/config.mirror": "1a2b"}


def pod(name: str = "x", count: object = "1", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "tenant", "name": name, "uid": f"uid-{name}", **metadata},
        "spec": {"nodeName": "a", "containers": [{"resources": {"limits": {GPU: count}}}]},
        "status": {"phase": "Running"},
    }


def owned(kind: str, name: str = "a", uid: str = "uid-a", **more: Any) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": name, "uid": uid, "controller": True, **more}]}


class Objects(World):
    """A pool with pods that somebody has written, and DaemonSets: (namespace, name) -> uid; None: they may not be read."""

    written: list[dict[str, Any]]
    daemon_sets: dict[tuple[str, str], str] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.written, self.daemon_sets, self.evicted = [], {}, []  # type: ignore[var-annotated]

    def get(self, path: str, **query: str) -> dict[str, Any]:
        parts = path.split("/")
        if parts[-2:-1] == ["daemonsets"] and not parts[-1].startswith("gpu-pools-verifier-"):
            return self._daemon_set(path, parts[5], parts[-1])
        found = super().get(path, **query)
        if path == "/api/v1/pods" and query["fieldSelector"] == "spec.nodeName=a":
            found["items"] += copy.deepcopy(self.written)
        return found

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        for one in self.written:
            if path == f"/api/v1/namespaces/tenant/pods/{one['metadata']['name']}/eviction":
                self.evicted.append(one["metadata"]["name"])
                self.written.remove(one)
                return {}
        return super().create(path, body)

    def _daemon_set(self, path: str, namespace: str, name: str) -> dict[str, Any]:
        if self.daemon_sets is None:
            raise ApiError(f"GET {path}", 403, "forbidden")
        if (namespace, name) not in self.daemon_sets:
            raise ApiError(f"GET {path}", 404, "not found")
        return {"metadata": {"uid": self.daemon_sets[namespace, name]}}


def world() -> Objects:
    made = Objects(("a", "b"))
    for name in made.names:
        made.nodes[name]["metadata"]["labels"] = dict(BEFORE.labels)
        made.applied[name] = "layout-1"
    return made


def holders(made: Objects) -> list[str]:
    return [str(one) for one in LivingNode(made, "a", OPERATORS).holders()]


# --- amounts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "held"), [("1k", 1000), ("1", 1), ("2000m", 2), ("1Ki", 1024), (2, 2)])
def test_a_tenants_amount_in_any_notation_stops_no_look(count: object, held: int) -> None:
    """Attack: a pod with `nvidia.com/gpu: 1k`, which the API server takes, ended every change of its node with a traceback."""
    found = holder_of(pod(count=count))
    assert found is not None
    assert found.holds == {GPU: held}


@pytest.mark.parametrize("count", ["", "-1", "500m", "1Zi", None, [], True, "9" * 200])
def test_what_is_no_count_holds_gpus_and_the_pod_is_named(count: object) -> None:
    """An amount that nobody can read may be any: the node is not changed under such a pod, and the message says whose it is."""
    found = holder_of(pod("odd", count))
    assert found is not None
    assert found.holds == {GPU: LARGEST}
    assert str(found) == "tenant/odd (asks for GPUs by an amount that is not a count)"
    assert not harmless(SLICED[8], on(SLICED[4], holders=(found,)))


def test_zero_holds_nothing_and_a_pod_that_is_over_is_not_read() -> None:
    assert holder_of(pod(count="0")) is None
    assert holder_of({**pod(count="1k"), "status": {"phase": "Failed"}}) is None
    assert holder_of({**pod(count=[]), "status": {"phase": "Succeeded"}}) is None


def test_one_object_that_cannot_be_read_hides_none_of_the_others_and_is_named() -> None:
    """Attack: one odd object in the list of pods; the look goes on, and says which it was."""
    odd = [{"metadata": {"namespace": "tenant", "name": "odd", "uid": "u"}, "spec": None}, {"metadata": None}, None, 7]
    found = [str(one) for one in holders_among([*odd, pod("good")], OPERATORS, Owners(world()))]
    assert found[-1] == "tenant/good (a bare pod)"
    assert found[0].startswith("tenant/odd (cannot be read, so it may hold GPUs: ")
    assert all(one.startswith("unknown/unknown (cannot be read") for one in found[1:-1])
    assert len(found) == 5


def test_a_rollout_goes_on_past_a_pod_that_asks_for_1k() -> None:
    """Attack: the same against a whole rollout; the pod is evicted as any other, and the node comes out changed."""
    made = world()
    made.written = [pod("x", "1k"), {**pod("failed", "1k"), "status": {"phase": "Failed"}}]
    finish(made, [Changer(made, "a", AFTER, "1")])
    assert made.evicted == ["x"]
    assert made.nodes["a"]["metadata"]["labels"].items() >= AFTER.labels.items()


# --- owners -------------------------------------------------------------------------------------------------


def test_a_pod_that_names_its_node_as_its_owner_is_no_static_pod() -> None:
    """Attack: a tenant's pod with a controller of kind Node was taken for a static pod, and vetoed its node's change."""
    made = world()
    made.written = [pod("forged", **owned("Node")), pod("static", annotations=MIRROR, **owned("Node"))]
    assert holders(made) == ["tenant/forged (a bare pod)", "tenant/static (a static pod)"]
    assert [one.owner for one in LivingNode(made, "a", OPERATORS).holders()] == ["", "Node"]


@pytest.mark.parametrize(
    ("sets", "owner"),
    [
        ({("tenant", "agents"): "uid-a"}, "DaemonSet"),
        ({("tenant", "agents"): "uid-b"}, ""),
        ({("other", "agents"): "uid-a"}, ""),
        ({}, ""),
        (None, "DaemonSet"),
    ],
    ids=["there", "another uid", "another namespace", "not there", "not to be read"],
)
def test_a_daemon_set_is_an_owner_where_it_exists(sets: dict[tuple[str, str], str] | None, owner: str) -> None:
    """Attack: a tenant's pod that names a DaemonSet which is not there stood against its node's change."""
    made = world()
    made.daemon_sets, made.written = sets, [pod(**owned("DaemonSet", "agents"))]
    (found,) = LivingNode(made, "a", OPERATORS).holders()
    assert found.owner == owner
    assert ("which is not there" in str(found)) is not owner


def test_an_owner_without_a_uid_is_not_one_that_is_not_there_either() -> None:
    made = world()
    made.written = [pod(**owned("DaemonSet", "agents", uid=""))]
    (found,) = LivingNode(made, "a", OPERATORS).holders()
    assert found.owner == ""


@pytest.mark.parametrize("name", ["", "..", "a/b", "a?b", "a%2fb", "\n", "agents\n", "A", "-a", "a~"])
def test_what_an_owner_is_called_is_no_path(name: str) -> None:
    made = world()
    made.daemon_sets, made.written = {("tenant", name): "uid-a"}, [pod(**owned("DaemonSet", name))]
    (found,) = LivingNode(made, "a", OPERATORS).holders()
    assert found.owner == ""


def test_a_daemon_set_is_found_by_its_whole_name() -> None:
    made = world()
    made.daemon_sets = {("tenant", "my-agents.v1"): "uid-a"}
    made.written = [pod(**owned("DaemonSet", "my-agents.v1", apiVersion="apps/v1"))]
    (found,) = LivingNode(made, "a", OPERATORS).holders()
    assert found.owner == "DaemonSet"


def test_a_daemon_set_of_another_api_is_none() -> None:
    made = world()
    made.daemon_sets = {("tenant", "agents"): "uid-a"}
    made.written = [pod(**owned("DaemonSet", "agents", apiVersion="evil.example/v1"))]
    (found,) = LivingNode(made, "a", OPERATORS).holders()
    assert found.owner == ""


# --- turns --------------------------------------------------------------------------------------------------


def test_a_node_that_cannot_begin_takes_no_turn() -> None:
    """Attack: a node that a pod has blocked kept the pool's only turn, so the whole pool stood."""
    seen = on(CUT["1g"], holders=(holder_of(pod(annotations=MIRROR)),), has_slot=False)  # type: ignore[arg-type]
    assert next_step(CUT["3g"], seen) is Step.BLOCKED
    made = world()
    made.written = [pod("static", annotations=MIRROR)]
    with pytest.raises(ChangeError, match=r"tenant/static \(a static pod\)"):
        Changer(made, "a", AFTER, "1")._change().look()
    assert made.get(LEASES) == {"items": []}
    finish(made, [Changer(made, "b", AFTER, "1")])
    assert made.nodes["b"]["metadata"]["labels"].items() >= AFTER.labels.items()


def test_a_node_that_is_blocked_before_it_has_begun_gives_its_turn_back() -> None:
    made = world()
    slots = RolloutSlots(made, VERIFIERS, POOL, "1", "a")  # type: ignore[arg-type]
    assert slots.take()
    made.written = [pod("static", annotations=MIRROR)]
    with pytest.raises(ChangeError):
        Changer(made, "a", AFTER, "1")._change().look()
    assert not slots.mine()


def test_a_pod_that_names_a_claim_holds_gpus_only_where_there_are_claims() -> None:
    named = {**pod(), "spec": {**pod()["spec"], "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}}
    named["spec"]["containers"] = [{"name": "main"}]
    assert holder_of(named) is None
    found = holder_of(named, claims=True)
    assert found is not None
    assert dict(found.holds) == {"resource claims": 1}
