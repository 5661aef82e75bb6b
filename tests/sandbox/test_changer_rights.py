"""What a changer's token can do, tried with a real API server by the program's own writes: its node in turn, little else."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.proof import changer_rights
from gpu_pools.proof.changer_rights import changer_policy_binding_spec, changer_policy_spec, changer_rules, slot_rules
from gpu_pools.proof.verifier_pods import VERIFIER_APP
from gpu_pools.proof.verifier_rights import (
    CHANGE_ANNOTATION,
    CHANGER,
    POLICY,
    VERIFIER_NAMESPACE,
    cluster_rules,
    policy_binding_spec,
    policy_spec,
)
from gpu_pools.stack.kubernetes_names import DEVICE_PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL, OPERATOR_NAMESPACE
from gpu_pools.verifier.api import Api, ApiError
from gpu_pools.verifier.changer.change import Change, Manner, target_of
from gpu_pools.verifier.changer.commands import Release, keep
from gpu_pools.verifier.changer.living_node import LivingNode
from gpu_pools.verifier.changer.rollout_slots import RolloutSlots
from gpu_pools.verifier.changer.rollout_steps import Holder, Mark, Target, read_mark
from gpu_pools.verifier.findings import Findings
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.reading import Unreadable
from sandbox.cluster import control_plane as cluster
from sandbox.system import processes
from sandbox.system.patience import Patience
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.sandbox.test_verifier_rights import LONGEST_WAIT, MERGE, NODE, NODES, OTHER, RBAC, REFUSED, User
from tests.verifier.nodes import healthy, plan_and_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.programs

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
WORK: Final = "/api/v1/namespaces/team"
MARK: Final = Mark("x=y", cordoned=True, since="now")


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("changer") / "cluster"
    try:
        made = User(cluster.boot(folder, "changer", find_tools(Progress()), machines=False))
        # It would call nodes without a kubelet unreachable after a while, and evict their pods.
        processes.stop(made.at.folder, ["kube-controller-manager"])
        for namespace in (VERIFIER_NAMESPACE, OPERATOR_NAMESPACE, "team"):
            made.ok("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for namespace in (OPERATOR_NAMESPACE, "team", "kube-system"):
            # The controller-manager would have made them.
            made("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
        _grant(made)
        for name in (NODE, OTHER):
            made.ok("POST", NODES, {"metadata": {"name": name, "labels": {"pool": "a"}}})
            for account in (CHANGER, "verifier"):
                spec = {"nodeName": name, "serviceAccountName": account, "containers": [{"name": "v", "image": "python:3.12"}]}
                pod = {"metadata": {"name": f"{account}-{name}"}, "spec": spec}
                made.ok("POST", f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods", pod)
        other = User(made.at, _token(made, CHANGER, NODE))
        labels = {"metadata": {"labels": {"x": "y"}}}
        _until(lambda: other("PATCH", f"{NODES}/{NODE}?dryRun=All", labels, MERGE).status == REFUSED, "the policy of nodes")
        _pod(made, "probe", OTHER)
        _until(lambda: other("DELETE", f"{WORK}/pods/probe?dryRun=All").status == REFUSED, "the policy of pods")
        yield made
    finally:
        cluster.erase(folder)


def _until(holds: Callable[[], bool], what: str) -> None:
    """The API server takes a new policy up a moment later."""
    deadline = Patience(LONGEST_WAIT)
    while not holds():
        assert not deadline.is_over(), f"not enforced: {what}"
        time.sleep(0.1)


def _grant(admin: User) -> None:
    place = f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/serviceaccounts"
    for account in (CHANGER, "verifier"):
        admin.ok("POST", place, {"metadata": {"name": account}})
        _bind(admin, "ClusterRole", f"all-{account}", cluster_rules(), RBAC, account)
    _bind(admin, "ClusterRole", changer_rights.ROLE, changer_rules(), RBAC, CHANGER)
    _bind(admin, "Role", changer_rights.ROLE, slot_rules(), f"{RBAC}/namespaces/{VERIFIER_NAMESPACE}", CHANGER)
    policies = {POLICY: (policy_spec(changers=True), policy_binding_spec())}
    policies[changer_rights.POLICY] = changer_policy_spec(), changer_policy_binding_spec()
    for name, (spec, binding) in policies.items():
        admin.ok("POST", f"{ADMISSION}ies", {"metadata": {"name": name}, "spec": spec})
        admin.ok("POST", f"{ADMISSION}ybindings", {"metadata": {"name": name}, "spec": binding})


def _bind(admin: User, kind: str, name: str, rules: list[dict[str, Any]], base: str, account: str) -> None:
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": VERIFIER_NAMESPACE}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    admin.ok("POST", f"{base}/{kind.lower()}s", {"metadata": {"name": name}, "rules": rules})
    admin.ok("POST", f"{base}/{kind.lower()}bindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects})


def _token(admin: User, account: str, node: str) -> str:
    pod = admin.ok("GET", f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods/{account}-{node}")["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["name"], "uid": pod["uid"]}
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "boundObjectRef": bound},
    }
    path = f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/serviceaccounts/{account}/token"
    return str(admin.ok("POST", path, body)["status"]["token"])


def _pod(
    admin: User,
    name: str,
    node: str,
    *,
    gpus: int = 1,
    namespace: str = "team",
    labels: Mapping[str, str] | None = None,
    grace: int = 0,
) -> Holder:
    limits = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "a:1", **limits}], "terminationGracePeriodSeconds": grace}
    metadata = {"name": name, "labels": dict(labels or {})}
    made = admin.ok("POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": metadata, "spec": spec})["metadata"]
    return Holder(namespace, name, made["uid"], "", {"nvidia.com/gpu": gpus})


def _api(admin: User, token: str, folder: Path) -> Api:
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_text(admin.at.ca_pem)
    return Api(admin.at.server, folder / "token", folder / "ca.crt")


@pytest.fixture
def changer(admin: User) -> User:
    return User(admin.at, _token(admin, CHANGER, NODE))


@pytest.fixture
def node(admin: User, changer: User, tmp_path: Path) -> LivingNode:
    """As the program of NODE changes it, with its own token."""
    return LivingNode(_api(admin, changer.token, tmp_path), NODE, OPERATOR_NAMESPACE)


def test_it_marks_cordons_labels_and_gives_back(admin: User, node: LivingNode) -> None:
    before = admin.ok("GET", f"{NODES}/{NODE}")
    # Somebody else has set them before, as NFD does.
    old = {DEVICE_PLUGIN_CONFIG_LABEL: "old", MIG_CONFIG_LABEL: "old"}
    admin.ok("PATCH", f"{NODES}/{NODE}?fieldManager=nfd-master", {"metadata": {"labels": old}}, MERGE)
    node.mark(node.read(), MARK, cordoned=True)
    node.set_labels(node.read(), {DEVICE_PLUGIN_CONFIG_LABEL: "a", MIG_CONFIG_LABEL: "b"})
    found = admin.ok("GET", f"{NODES}/{NODE}")
    assert found["spec"]["unschedulable"]
    assert found["metadata"]["labels"][MIG_CONFIG_LABEL] == "b"
    assert node.give_back(node.read())
    assert not node.give_back(node.read())
    found = admin.ok("GET", f"{NODES}/{NODE}")
    assert "unschedulable" not in found["spec"]
    assert CHANGE_ANNOTATION not in found["metadata"].get("annotations", {})
    assert found["spec"] == before["spec"]


def test_who_had_cordoned_the_node_before_finds_it_cordoned(admin: User, node: LivingNode) -> None:
    admin.ok("PATCH", f"{NODES}/{NODE}", {"spec": {"unschedulable": True}}, MERGE)
    node.mark(node.read(), replace(MARK, cordoned=False), cordoned=True)
    node.give_back(node.read())
    assert admin.ok("GET", f"{NODES}/{NODE}")["spec"]["unschedulable"]
    admin.ok("PATCH", f"{NODES}/{NODE}", {"spec": {"unschedulable": None}}, MERGE)


def test_nothing_is_written_to_a_node_that_has_changed(admin: User, node: LivingNode) -> None:
    read = node.read()
    admin.ok("PATCH", f"{NODES}/{NODE}", {"metadata": {"annotations": {"other": "1"}}}, MERGE)
    with pytest.raises(ApiError) as refused:
        node.mark(read, MARK, cordoned=True)
    assert refused.value.status == 409


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"pool": "b"}}},
        {"metadata": {"labels": {"pool": None}}},
        {"metadata": {"annotations": {"other": "x"}}},
        {"metadata": {"annotations": {CHANGE_ANNOTATION: "x" * 9000}}},
        {"metadata": {"finalizers": ["a/b"]}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
        {"spec": {"podCIDR": "10.0.0.0/24"}},
    ],
)
def test_nothing_else_of_its_own_node(changer: User, body: dict[str, Any]) -> None:
    answer = changer("PATCH", f"{NODES}/{NODE}", body, MERGE)
    assert answer.status == REFUSED, answer


@pytest.mark.parametrize("body", [{"spec": {"unschedulable": True}}, {"metadata": {"labels": {MIG_CONFIG_LABEL: "x"}}}])
def test_nothing_of_another_node_and_nothing_by_a_verifier_without_rollout(
    admin: User, changer: User, body: dict[str, Any]
) -> None:
    assert changer("PATCH", f"{NODES}/{OTHER}", body, MERGE).status == REFUSED
    verifier = User(admin.at, _token(admin, "verifier", NODE))
    assert verifier("PATCH", f"{NODES}/{NODE}", body, MERGE).status == REFUSED


def test_it_deletes_pods_that_hold_gpus_of_its_own_node_alone(admin: User, node: LivingNode) -> None:
    mine, others, idle = _pod(admin, "mine", NODE), _pod(admin, "others", OTHER), _pod(admin, "idle", NODE, gpus=0)
    assert "of its own node only" in node.delete(others)
    assert "hold GPUs" in node.delete(idle)
    assert node.delete(replace(mine, uid="another")) != ""
    assert [str(one) for one in node.holders()] == ["team/mine (a bare pod)"]
    assert node.delete(mine) == node.delete(mine) == ""
    assert node.holders() == ()


def test_it_starts_mig_manager_anew_on_its_own_node_alone(admin: User, node: LivingNode) -> None:
    app, place = {"app": "nvidia-mig-manager"}, f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods"
    for name in (NODE, OTHER):
        _pod(admin, f"mig-{name}", name, gpus=0, namespace=OPERATOR_NAMESPACE, labels=app)
    _pod(admin, "toolkit", NODE, gpus=0, namespace=OPERATOR_NAMESPACE)
    node.restart_mig_manager()
    assert {pod["metadata"]["name"] for pod in admin.ok("GET", place)["items"]} == {f"mig-{OTHER}", "toolkit"}


def test_the_mps_daemon_is_restarted_only_where_the_rollout_needs_it(admin: User, node: LivingNode) -> None:
    app, place = {"app": "nvidia-device-plugin-mps-control-daemon"}, f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods"
    for name in (NODE, OTHER):
        _pod(admin, f"mps-{name}", name, gpus=0, namespace=OPERATOR_NAMESPACE, labels=app)
    with pytest.raises(ApiError, match="and those of mig-manager, only"):
        node.restart_mps_daemon()
    path = f"{ADMISSION}ies/{changer_rights.POLICY}"
    admin.ok("PATCH", path, {"spec": changer_policy_spec(mps=True)}, MERGE)
    try:
        _until(lambda: _restarts_mps(node), "the wider policy")
        left = {pod["metadata"]["name"] for pod in admin.ok("GET", place)["items"] if pod["metadata"].get("labels") == app}
        assert left == {f"mps-{OTHER}"}
    finally:
        admin.ok("PATCH", path, {"spec": changer_policy_spec()}, MERGE)


def _restarts_mps(node: LivingNode) -> bool:
    try:
        node.restart_mps_daemon()
    except ApiError:
        return False
    return True


def test_it_evicts_within_disruption_budgets_and_not_what_runs_the_cluster(admin: User, node: LivingNode) -> None:
    pod = _pod(admin, "served", NODE, labels={"app": "served"})
    budget = {"metadata": {"name": "served"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "served"}}}}
    admin.ok("POST", "/apis/policy/v1/namespaces/team/poddisruptionbudgets", budget)
    # Of a pod that does not run yet no budget holds (kubernetes, registry/core/pod/storage/eviction.go).
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    admin.ok("PATCH", f"{WORK}/pods/served/status", running, MERGE)
    assert "disruption budget" in node.evict(pod, only_ask=True)
    assert "disruption budget" in node.evict(pod)
    admin.ok("DELETE", "/apis/policy/v1/namespaces/team/poddisruptionbudgets/served")
    assert node.evict(pod, only_ask=True) == ""
    assert str(pod) in [str(one) for one in node.holders()], "it was only asked"
    assert node.evict(pod) == node.evict(pod) == ""
    system = _pod(admin, "system", NODE, namespace="kube-system")
    assert "evicts nothing in kube-system" in node.evict(system)
    assert node.delete(system) == ""


@pytest.mark.parametrize("staying", ["wait", "delete"])
def test_a_pod_that_its_budget_keeps_is_waited_for_or_deleted_with_its_grace(
    admin: User, node: LivingNode, capsys: pytest.CaptureFixture[str], staying: str
) -> None:
    # No kubelet runs here: a deleted pod stays until it is said to have ended, as one does that uses its grace.
    pod = _pod(admin, f"keeps-{staying}", NODE, labels={"app": staying}, grace=30)
    budget = {"metadata": {"name": staying}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": staying}}}}
    budgets = "/apis/policy/v1/namespaces/team/poddisruptionbudgets"
    admin.ok("POST", budgets, budget)
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    admin.ok("PATCH", f"{WORK}/pods/{pod.name}/status", running, MERGE)
    admin.ok(
        "PATCH", f"{NODES}/{NODE}", {"metadata": {"labels": {DEVICE_PLUGIN_CONFIG_LABEL: "old", MIG_CONFIG_LABEL: None}}}, MERGE
    )
    target = Target({DEVICE_PLUGIN_CONFIG_LABEL: f"new-{staying}"}, {})
    slots = RolloutSlots(node.api, VERIFIER_NAMESPACE, "stay", "1", NODE)
    seconds = iter(range(0, 1_000, 5))
    change = Change(target, node, slots, Manner(20, staying, 60), lambda: True, now=lambda: float(next(seconds)))
    change.sleep = lambda _: None

    def found() -> dict[str, Any]:
        return admin.ok("GET", f"{WORK}/pods/{pod.name}")["metadata"]

    for _ in range(15):
        assert not change.look()
    assert "these pods did not go in 20 s" in capsys.readouterr().err
    why = str(read_mark(node.read()["metadata"]["annotations"][CHANGE_ANNOTATION]).why)
    assert str(pod) in why
    assert "disruption budget" in why
    if staying == "wait":
        assert "are waited for" in why
        assert "deletionTimestamp" not in found()
        admin.ok("DELETE", f"{budgets}/{staying}")
        change.look()
    else:
        assert "are deleted, whatever their disruption budgets say" in why
    assert found()["deletionGracePeriodSeconds"] == 30
    for _ in range(5):
        assert not change.look(), "it is given its grace"
    assert node.read()["metadata"]["labels"][DEVICE_PLUGIN_CONFIG_LABEL] == "old"
    admin.ok("DELETE", f"{WORK}/pods/{pod.name}", {"gracePeriodSeconds": 0})
    change.run()
    assert node.read()["metadata"]["labels"][DEVICE_PLUGIN_CONFIG_LABEL] == f"new-{staying}"
    Release(node, slots).run()
    assert not slots.mine()
    assert "unschedulable" not in node.read()["spec"]


def test_what_a_tenant_writes_into_a_pod_is_not_believed(admin: User, node: LivingNode) -> None:
    """Attack: the API server takes each of these pods from whoever may create pods in one namespace; only two come back."""
    labels = {"app": "agents"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "a:1"}]}}
    body = {"metadata": {"name": "agents"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    agents = admin.ok("POST", "/apis/apps/v1/namespaces/team/daemonsets", body)["metadata"]["uid"]
    here = admin.ok("GET", f"{NODES}/{NODE}")["metadata"]["uid"]

    def written(name: str, count: str, owner: tuple[str, str, str, str], **annotations: str) -> None:
        keys = ("apiVersion", "kind", "name", "uid")
        metadata = {
            "name": name,
            "annotations": annotations,
            "ownerReferences": [{**dict(zip(keys, owner, strict=True)), "controller": True}],
        }
        containers = [{"name": "c", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": count}}}]
        # A mirror pod may name no account, so nobody's token is in it.
        spec = {"nodeName": NODE, "containers": containers, "automountServiceAccountToken": False}
        admin.ok("POST", f"{WORK}/pods", {"metadata": metadata, "spec": spec})

    of_node = ("v1", "Node", NODE, here)
    written("forged-node", "1k", of_node)
    written("forged-set", "1e3", ("apps/v1", "DaemonSet", "agents", here))
    written("gone-set", "2", ("apps/v1", "DaemonSet", "others", agents))
    written("foreign-set", "2", ("evil.example/v1", "DaemonSet", "agents", agents))
    written("real-set", "1", ("apps/v1", "DaemonSet", "agents", agents))
    written("mirror", "1", of_node, **{"kubernetes.io/config.mirror": "1a2b"})
    try:
        found = {one.name: (one.owner, one.holds["nvidia.com/gpu"]) for one in node.holders() if one.namespace == "team"}
        assert found == {
            "forged-node": ("", 1000),
            "forged-set": ("", 1000),
            "gone-set": ("", 2),
            "foreign-set": ("", 2),
            "real-set": ("DaemonSet", 1),
            "mirror": ("Node", 1),
        }
    finally:
        for name in ("forged-node", "forged-set", "gone-set", "foreign-set", "real-set", "mirror"):
            admin("DELETE", f"{WORK}/pods/{name}?gracePeriodSeconds=0")


def test_of_two_nodes_one_gets_the_turn_and_it_is_inherited_from_a_node_that_is_gone(admin: User, node: LivingNode) -> None:
    def slots(name: str) -> RolloutSlots:
        return RolloutSlots(node.api, VERIFIER_NAMESPACE, "a", "1", name)

    admin.ok("POST", NODES, {"metadata": {"name": "short-lived"}})
    assert slots("short-lived").take()
    assert not slots(NODE).take()
    assert (slots("short-lived").mine(), slots(NODE).mine()) == (True, False)
    admin.ok("DELETE", f"{NODES}/short-lived")
    assert slots(NODE).take()
    assert not slots(OTHER).take()
    slots(OTHER).free()
    assert slots(NODE).mine()
    slots(NODE).free()
    assert slots(OTHER).take()


def test_a_turn_of_a_time_with_more_of_them_counts_and_is_freed(node: LivingNode) -> None:
    def slots(name: str, count: int) -> RolloutSlots:
        return RolloutSlots(node.api, VERIFIER_NAMESPACE, "many", str(count), name)

    assert [slots(name, 2).take() for name in (OTHER, NODE)] == [True, True]
    slots(OTHER, 2).free()
    assert slots(NODE, 1).mine()
    assert not slots(OTHER, 1).take(), "one is changing still"
    slots(NODE, 1).free()
    assert slots(OTHER, 1).take()
    assert not RolloutSlots(node.api, VERIFIER_NAMESPACE, "man", "1", OTHER).mine()


def test_a_share_is_one_of_the_nodes_that_the_pools_daemon_set_counts(admin: User, node: LivingNode) -> None:
    def slots(name: str) -> RolloutSlots:
        return RolloutSlots(node.api, VERIFIER_NAMESPACE, "share", "25%", name)

    labels = {"app": "share"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "a:1"}]}}
    metadata = {"name": f"{VERIFIER_APP}-share"}
    path = f"/apis/apps/v1/namespaces/{VERIFIER_NAMESPACE}/daemonsets"
    admin.ok("POST", path, {"metadata": metadata, "spec": {"selector": {"matchLabels": labels}, "template": template}})
    for counted, taken in ((4, [True, False]), (5, [True, True, False])):
        status = {"currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0, "desiredNumberScheduled": counted}
        admin.ok("PATCH", f"{path}/{metadata['name']}/status", {"status": status}, MERGE)
        names = [NODE, OTHER, "third"][: len(taken)]
        if "third" in names:
            admin.ok("POST", NODES, {"metadata": {"name": "third"}})
        assert [slots(name).take() for name in names] == taken
        for name in names:
            slots(name).free()


def test_the_time_is_the_api_servers(node: LivingNode) -> None:
    assert abs(node.api.clock() - time.time()) < 30


def test_no_other_request_is_granted(changer: User) -> None:
    for method, path in (
        ("GET", "/api/v1/secrets"),
        ("POST", f"{WORK}/pods"),
        ("DELETE", f"{WORK}/pods"),
        ("DELETE", f"{NODES}/{NODE}"),
        ("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{VERIFIER_NAMESPACE}/leases/change-a-0"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"),
        ("GET", f"/apis/apps/v1/namespaces/{VERIFIER_NAMESPACE}/daemonsets"),
        ("PATCH", f"/apis/apps/v1/namespaces/{VERIFIER_NAMESPACE}/daemonsets/x"),
        ("GET", "/apis/apps/v1/namespaces/kube-system/daemonsets"),
        ("DELETE", "/apis/apps/v1/namespaces/kube-system/daemonsets/x"),
    ):
        answer = changer(method, path, {} if method == "POST" else None)
        assert answer.status == REFUSED, (method, path, answer)


def test_it_sets_labels_again_that_somebody_has_removed_or_overwritten_where_no_pod_is_harmed(
    admin: User, node: LivingNode
) -> None:
    for namespace in ("team", "kube-system", "default"):
        admin.ok("DELETE", f"/api/v1/namespaces/{namespace}/pods")
    one = healthy(*plan_and_pool({"mig": {"layout": {"1g.10gb": 7}}}))
    target, labels = target_of(one.expected), one.kubernetes.labels
    gone = {key: value for key, value in labels.items() if key not in target.labels}
    asked: list[bool] = []

    def kept(seen: Mapping[str, str], on_node: Mapping[str, str | None], *, nvml: bool) -> str | None:
        admin.ok("PATCH", f"{NODES}/{NODE}", {"metadata": {"labels": dict(on_node)}}, MERGE)
        observation = Observation(Unreadable("not looked at"), None, replace(one.kubernetes, labels=seen))
        return keep(node, target, lambda: asked.append(nvml) or nvml, Assertion(Findings(), observation, 1, 0.1))

    def has() -> bool:
        return target.labels.items() <= node.read()["metadata"]["labels"].items()

    none: dict[str, str | None] = dict.fromkeys(target.labels)
    assert kept(labels, none, nvml=True) is None, "the assertion has seen them"
    assert not has()
    node.mark(node.read(), MARK, cordoned=True)
    assert kept(gone, none, nvml=True) is None
    assert not has(), "a change is on its way"
    node.give_back(node.read())
    assert f"no {DEVICE_PLUGIN_CONFIG_LABEL}" in str(kept(gone, none, nvml=False))
    assert has()
    other = {DEVICE_PLUGIN_CONFIG_LABEL: "another"}
    assert f"{DEVICE_PLUGIN_CONFIG_LABEL}=another" in str(kept({**labels, **other}, {**other}, nvml=False))
    assert has()
    assert asked == [], "nobody holds a GPU"
    holder = _pod(admin, "holds", NODE)
    assert kept(gone, none, nvml=False) is None
    assert not has(), "that would end a pod"
    assert kept({**labels, **other}, {**other}, nvml=True) is None
    assert not has(), "that may end a pod, whatever NVML says now"
    assert "set again" in str(kept(gone, none, nvml=True))
    assert has()
    assert asked[0] is False
    assert asked[-1] is True
    node.delete(holder)
