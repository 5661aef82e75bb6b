"""Who wrote what has drifted, and what the verifiers say, as drift. The reports are the verifier's own."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.drift.beside import _Writers, with_cluster
from gpu_pools.drift.judged import Drift, Judged, Up, Verdict, known_writer
from gpu_pools.drift.nodes import Nodes, nodes_of
from gpu_pools.drift.paths import steps_of
from gpu_pools.drift.showing import drift_json, drift_text
from gpu_pools.drift.undeployed import read_preview
from gpu_pools.drift.writers import Writer, azure_writer, writer_of
from gpu_pools.kubernetes_api.cluster_api import ClusterApi
from gpu_pools.kubernetes_api.login import Kubeconfig
from gpu_pools.text.errors import InvalidStackError
from gpu_pools.verifier.findings import Findings, Where
from tests.api_server import ApiServer, Refusal, kubeconfig
from tests.evidence import fleets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: As the API server writes them; the status is another writer's.
MANAGED: Final[list[dict[str, Any]]] = [
    {
        "manager": "pulumi-kubernetes-1",
        "operation": "Apply",
        "time": "2026-03-01T08:00:00Z",
        "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:team/x": {}}}},
    },
    {
        "manager": "kubectl-edit",
        "operation": "Update",
        "time": "2026-03-04T11:00:00Z",
        "fieldsV1": {"f:data": {"f:b": {}}, "f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"c"}': {}}}}}},
    },
    {
        "manager": "kubelet",
        "operation": "Update",
        "time": "2026-03-04T12:00:00Z",
        "subresource": "status",
        "fieldsV1": {"f:data": {"f:b": {}}},
    },
]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data.a", "pulumi-kubernetes-1"),
        ("data.b", "kubectl-edit"),
        ('metadata.labels["team/x"]', "pulumi-kubernetes-1"),
        ("spec.template.spec.containers[0].image", "kubectl-edit"),
        ("data.gone", None),
        ("spec.replicas", None),
    ],
)
def test_the_last_one_who_wrote_the_field_is_named(path: str, name: str | None) -> None:
    writer = writer_of(MANAGED, steps_of(path))
    assert (writer and writer.name) == name


def test_a_writer_is_told_with_how_and_when() -> None:
    writer = writer_of(MANAGED, ("data", "b"))
    assert writer == Writer("kubectl-edit", "Update", "2026-03-04T11:00:00Z", "field")
    assert str(writer) == "kubectl-edit (Update, 2026-03-04T11:00:00Z)"
    nameless = writer_of([{"fieldsV1": {"f:data": {"f:b": {}}}}], ("data", "b"))
    assert nameless == Writer("unknown", "", "")
    assert str(nameless) == "unknown"
    without_time = {"manager": "a", "fieldsV1": {"f:data": {"f:b": {}}}}
    named = writer_of([without_time, MANAGED[1]], ("data", "b"))
    assert named
    assert named.name == "kubectl-edit", "one without a time is the older one"


def test_managed_fields_of_no_known_shape_name_nobody() -> None:
    for odd in ([{}], [{"fieldsV1": []}], [{"fieldsV1": {"f:data": None}}], []):
        assert writer_of(odd, ("data", "a")) is None
    assert writer_of(MANAGED, ()) is None


def test_azure_tells_who_changed_the_resource_and_not_which_property() -> None:
    data = {"lastModifiedBy": "ann@example.com", "lastModifiedByType": "User", "lastModifiedAt": "2026-03-04T11:00:00Z"}
    writer = azure_writer({"systemData": data})
    assert str(writer) == "ann@example.com (User, 2026-03-04T11:00:00Z), the last to change any of it"
    assert writer == Writer("ann@example.com", "User", "2026-03-04T11:00:00Z", "resource")
    assert azure_writer({"systemData": {"lastModifiedBy": "x"}}) == Writer("x", "", "", "resource")
    assert azure_writer({}) is azure_writer({"systemData": {"createdBy": "x"}}) is None


@pytest.mark.parametrize(
    ("name", "up"),
    [("kubectl-edit", Up.UPDATES), ("before-first-apply", Up.UPDATES), ("helm", Up.CONFLICTS), ("my-kubectl", Up.CONFLICTS)],
)
def test_who_wrote_it_decides_whether_the_plugin_takes_the_field_over(name: str, up: Up) -> None:
    one = Judged(difference=None, up=Up.DEPENDS)  # type: ignore[arg-type]
    assert known_writer(one, Writer(name, "Update", "")).up is up
    assert known_writer(one, None).up is Up.DEPENDS
    assert known_writer(replace(one, up=Up.REFUSES), Writer(name, "Update", "")).up is Up.REFUSES


KINDS: Final = {
    "resources": [
        {"name": "namespaces", "kind": "Namespace", "namespaced": False},
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
        {"name": "configmaps/status", "kind": "ConfigMap", "namespaced": True},
    ]
}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    made = ApiServer()
    made.items |= {"v1": KINDS, "keys": {"metadata": {"managedFields": [*MANAGED, 1]}}}
    yield made
    made.shutdown()
    made.server_close()


def _object(name: str = "keys", kind: str = "ConfigMap", **namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **namespace}}


def test_an_object_that_has_drifted_is_asked_who_wrote_it_once(server: ApiServer) -> None:
    writers = _Writers(ClusterApi(Kubeconfig(server.kubeconfig)))
    for _ in range(2):
        assert writers.managed(_object(namespace="gpu-operator")) == MANAGED
    assert server.asked == ["/api/v1", "/api/v1/namespaces/gpu-operator/configmaps/keys"]
    writers.managed(_object(kind="Namespace"))
    writers.managed({**_object(), "apiVersion": "apps/v1"})
    assert server.asked[2:] == ["/api/v1/namespaces/keys", "/apis/apps/v1", "/apis/apps/v1/namespaces/default/configmaps/keys"]


@pytest.mark.parametrize("answer", [404, Refusal(403, "no"), b"", [], {}, {"metadata": {}}, {"metadata": {"managedFields": 1}}])
@pytest.mark.parametrize("last", ["keys", "v1"])
def test_where_that_cannot_be_read_nobody_is_named(server: ApiServer, last: str, answer: Any) -> None:
    server.items[last] = answer
    assert _Writers(ClusterApi(Kubeconfig(server.kubeconfig))).managed(_object()) == []


@pytest.mark.parametrize("outputs", [{}, {"apiVersion": "v1"}, _object(kind="Other"), {**_object(), "metadata": None}])
def test_what_is_no_object_of_the_cluster_is_not_asked_for(server: ApiServer, outputs: dict[str, Any]) -> None:
    assert _Writers(ClusterApi(Kubeconfig(server.kubeconfig))).managed(outputs) == []
    assert set(server.asked) <= {"/api/v1"}


def test_where_the_nodes_cannot_be_read_it_cannot_be_told(server: ApiServer) -> None:
    server.items["nodes"] = Refusal(403, "nodes is forbidden")
    outputs = {**fleets.fleet().outputs, "kubeconfig": kubeconfig(server.server_address[1], "byo")}
    (failure, *_) = with_cluster(_drift(Nodes()), outputs).nodes.failures
    assert "nodes is forbidden. Ask" in failure
    assert "for the right to list nodes" in failure


# --- nodes ------------------------------------------------------------------------------------------------


def _drift(nodes: Nodes) -> Drift:
    return Drift("shop", (), nodes=nodes)


def test_nodes_that_are_proven_are_no_drift() -> None:
    nodes = nodes_of(fleets.fleet(2).judged())
    assert (nodes.drift, nodes.failures, nodes.proven) == ((), (), 6)
    assert _drift(nodes).verdict is Verdict.NONE
    assert "Nodes that their verifiers have proven: 6" in drift_text(_drift(nodes))


def test_a_node_that_differs_is_drift_with_its_finding_who_set_it_and_what_helps() -> None:
    fleet = fleets.fleet()
    findings = Findings()
    findings.differs(Where("GPU 0", 0, "GPU-1"), "state", "present", "lost", "gpu-lost")
    findings.differs(Where("node"), "label x", "a", "b", "label-other")
    _report(fleet, findings, {"label x": "kubectl-label"})
    nodes = nodes_of(fleet.judged())
    assert [(one.place, one.repairable, one.writer) for one in nodes.drift] == [
        ("GPU 0 (GPU-1): state", True, ""),
        ("node: label x", True, "kubectl-label"),
    ]
    assert _drift(nodes).verdict is Verdict.DRIFT
    shown = drift_text(_drift(nodes))
    name = fleet.node("ts")["metadata"]["name"]
    assert f"nothing: gpu-pools repair {name}" in shown
    assert "kubectl-label" in shown
    assert "shop: drift in 2 places" in shown
    told = json.loads(drift_json(_drift(nodes)))
    assert (told["exitCode"], told["nodes"]["drift"][0]["cause"][:16]) == (1, "the GPU fell off")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda fleet: fleet.node("ts")["metadata"]["annotations"].clear(), "no report"),
        (lambda fleet: fleet.report(fleet.node("ts"), lambda one: one.update(program="0" * 64)), "stale"),
        (lambda fleet: fleet.node("ts")["status"]["conditions"].clear(), "no condition"),
        (lambda fleet: fleet.config_maps.clear(), "is not there"),
        (lambda fleet: fleet.nodes.clear(), "0 of 1 nodes"),
    ],
)
def test_what_says_nothing_is_never_green(change: Callable[[fleets.Fleet], object], why: str) -> None:
    fleet = fleets.fleet()
    for pool in fleet.outputs["verification"]["pools"].values():
        pool["minNodes"] = 1
    change(fleet)
    nodes = nodes_of(fleet.judged())
    assert any(why in one for one in nodes.failures), nodes
    assert _drift(nodes).verdict is Verdict.CANNOT_TELL


def test_an_old_report_is_never_green() -> None:
    nodes = nodes_of(fleets.fleet().judged(fleets.NOW + dt.timedelta(hours=1)))
    assert len(nodes.failures) == 3
    assert _drift(nodes).verdict is Verdict.CANNOT_TELL


def test_a_stack_without_verification_says_so_and_is_no_drift() -> None:
    drift = _drift(Nodes(note="No verifier looks at this stack's GPUs"))
    assert drift.verdict is Verdict.NONE
    assert "No verifier looks" in drift_text(drift)


def test_another_program_in_the_cluster_is_drift() -> None:
    fleet = fleets.fleet()
    fleet.outputs["verification"]["program"]["sha256"] = "0" * 64
    nodes = nodes_of(fleet.judged())
    assert nodes.drift[0].place == "the verifiers' program"
    assert _drift(nodes).verdict is Verdict.DRIFT


def _report(fleet: fleets.Fleet, findings: Findings, set_by: dict[str, str]) -> None:
    """The node of `ts` says this."""
    node = fleet.node("ts")
    fleets.put_report(node, *fleets.reported("ts", node["metadata"]["name"], findings))
    fleet.report(node, lambda document: document["observed"].update(setBy=set_by))


# --- declared ---------------------------------------------------------------------------------------------

PREVIEW: Final = {
    "steps": [
        {"op": "same", "urn": "urn:pulumi:shop::gpu-pools::pulumi:pulumi:Stack::s"},
        {
            "op": "update",
            "urn": "urn:pulumi:shop::gpu-pools::gpu-pools:index:GpuPlatform$azure-native:containerservice:AgentPool::nb-pool",
            "detailedDiff": {"maxCount": {"kind": "update"}, "count": {"kind": "update"}},
        },
        {"op": "read", "urn": "urn:pulumi:shop::gpu-pools::kubernetes:core/v1:ConfigMap::live"},
        {"op": "create", "urn": "urn:pulumi:shop::gpu-pools::kubernetes:core/v1:ConfigMap::new", "detailedDiff": None},
    ]
}


def test_what_is_declared_and_not_deployed_is_drift() -> None:
    found = read_preview("p", json.dumps(PREVIEW))
    assert [(one.name, one.op, one.properties) for one in found] == [
        ("nb-pool", "update", ("count", "maxCount")),
        ("new", "create", ()),
    ]
    drift = replace(_drift(Nodes()), undeployed=found)
    assert drift.verdict is Verdict.DRIFT
    assert "AgentPool nb-pool  update   count, maxCount" in drift_text(drift)
    assert json.loads(drift_json(drift))["undeployed"][0]["name"] == "nb-pool"


def test_a_state_that_is_as_declared_is_none_and_one_that_was_not_asked_is_null() -> None:
    assert replace(_drift(Nodes()), undeployed=()).verdict is Verdict.NONE
    assert json.loads(drift_json(_drift(Nodes())))["undeployed"] is None


@pytest.mark.parametrize("text", ["", "[]", '{"steps": [{}]}', '{"steps": 1}'])
def test_what_is_not_a_preview_is_refused(text: str) -> None:
    with pytest.raises(InvalidStackError, match="it is not a preview"):
        read_preview("p", text)
