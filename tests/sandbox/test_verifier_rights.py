"""What a verifier's own token can do, tried with a real API server: its node's condition, annotation and taint, nothing else.

And what the startup taint is: how nodes get it from the same API server, and how the verifier takes it away under these rights.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.allocation.device_plugin import DEVICE_PLUGIN_CONFIG_MAP
from gpu_pools.proof.verifier_rights import (
    ANNOTATION,
    CONDITION,
    FIELD_MANAGER,
    MOST_ANNOTATION,
    MOST_MESSAGE,
    POLICY,
    ROLE,
    STARTUP_TAINT,
    VERIFIER_NAMESPACE,
    cluster_rules,
    namespace_rules,
    policy_binding_spec,
    policy_spec,
)
from gpu_pools.rendering.startup_taint import POLICY as ADMISSION
from gpu_pools.rendering.startup_taint import admission_binding_spec, admission_policy_spec
from gpu_pools.stack.kubernetes_names import OPERATOR_NAMESPACE
from gpu_pools.verifier.api import Api
from gpu_pools.verifier.causes import CAUSES
from gpu_pools.verifier.findings import Findings, Where
from gpu_pools.verifier.node import NodeReader
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.reading import Unreadable
from gpu_pools.verifier.untaint import untaint
from sandbox.cluster import control_plane as cluster
from sandbox.system import processes
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.programs

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
REFUSED = 403
LONGEST_WAIT = 60
NODE, OTHER = "gpu-1", "gpu-2"
NODES = "/api/v1/nodes"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
STARTUP = {"key": STARTUP_TAINT, "value": "true", "effect": "NoSchedule"}
SKU = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
READY = {
    "type": "Ready",
    "status": "True",
    "lastHeartbeatTime": "2026-02-02T00:00:00Z",
    "lastTransitionTime": "2026-02-02T00:00:00Z",
}
VERIFIED = {**READY, "type": CONDITION, "reason": "Holds", "message": "as declared"}


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any

    @property
    def words(self) -> str:
        return str(self.body.get("message", ""))


@dataclass(frozen=True)
class User:
    """Whoever asks: the administrator by certificate, or a token."""

    at: cluster.Cluster
    token: str = ""

    def __call__(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Answer:
        if self.token and method == "PATCH" and "fieldManager" not in path:
            # As the verifier calls itself.
            path += f"{'&' if '?' in path else '?'}fieldManager={FIELD_MANAGER}"
        context = ssl.create_default_context(cadata=self.at.ca_pem)
        headers = {"Content-Type": kind, "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        else:
            pki = self.at.folder / "pki"
            context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        connection = http.client.HTTPSConnection(self.at.server.removeprefix("https://"), timeout=LONGEST_WAIT, context=context)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return Answer(response.status, json.loads(text) if text.startswith(b"{") else {"message": text.decode()})

    def ok(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        answer = self(method, path, body, kind)
        assert answer.status < 300, answer
        return answer.body


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("rights") / "cluster"
    made = User(cluster.boot(folder, "rights", find_tools(Progress()), machines=False))
    # It would call nodes without a kubelet unreachable after a while.
    processes.stop(made.at.folder, ["kube-controller-manager"])
    _grant(made)
    _fill(made)
    _until_enforced(made)
    yield made
    cluster.erase(folder)


def _grant(admin: User) -> None:
    for namespace in (VERIFIER_NAMESPACE, OPERATOR_NAMESPACE):
        admin.ok("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    admin.ok("POST", f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/serviceaccounts", {"metadata": {"name": "verifier"}})
    subjects = [{"kind": "ServiceAccount", "name": "verifier", "namespace": VERIFIER_NAMESPACE}]
    places = {"ClusterRole": {RBAC: cluster_rules()}}
    places["Role"] = {f"{RBAC}/namespaces/{namespace}": rules for namespace, rules in namespace_rules().items()}
    for kind, granted in places.items():
        for base, rules in granted.items():
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ROLE}
            admin.ok("POST", f"{base}/{kind.lower()}s", {"metadata": {"name": ROLE}, "rules": rules})
            binding = {"metadata": {"name": ROLE}, "roleRef": reference, "subjects": subjects}
            admin.ok("POST", f"{base}/{kind.lower()}bindings", binding)
    admission = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    admin.ok("POST", f"{admission}ies", {"metadata": {"name": POLICY}, "spec": policy_spec()})
    admin.ok("POST", f"{admission}ybindings", {"metadata": {"name": POLICY}, "spec": policy_binding_spec()})


def _fill(admin: User) -> None:
    """Two nodes, a pod of the verifier on each, a secret of everybody's interest, and the device plugin's configuration."""
    for name in (NODE, OTHER):
        metadata = {"name": name, "labels": {"pool": "a"}, "annotations": {"other": "1"}}
        admin.ok("POST", NODES, {"metadata": metadata})
        # The API server gives newborn nodes a taint of its own.
        admin.ok("PATCH", f"{NODES}/{name}", {"spec": {"taints": [STARTUP, SKU]}}, MERGE)
        images = [{"names": ["a:1"], "sizeBytes": 5}]
        status = {"capacity": {"nvidia.com/gpu": "4k"}, "conditions": [READY], "images": images}
        admin.ok("PATCH", f"{NODES}/{name}/status", {"status": status}, MERGE)
        spec = {"nodeName": name, "serviceAccountName": "verifier", "containers": [{"name": "v", "image": "python:3.12"}]}
        admin.ok(
            "POST", f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods", {"metadata": {"name": f"verifier-{name}"}, "spec": spec}
        )
    for namespace in (VERIFIER_NAMESPACE, OPERATOR_NAMESPACE):
        admin.ok("POST", f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "key"}, "data": {"a": "YQ=="}})
    for name in (DEVICE_PLUGIN_CONFIG_MAP, "other"):
        admin.ok("POST", f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/configmaps", {"metadata": {"name": name}, "data": {"a": "b"}})


def _token(admin: User, bound_to: str | None) -> str:
    """A token of the verifier's account, as the kubelet of a node gets one for its pod; or one that is bound to nothing."""
    spec: dict[str, Any] = {"expirationSeconds": 3600}
    if bound_to:
        pod = admin.ok("GET", f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods/verifier-{bound_to}")["metadata"]
        spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod["name"], "uid": pod["uid"]}
    path = f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/serviceaccounts/verifier/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str(admin.ok("POST", path, body)["status"]["token"])


def _until_enforced(admin: User) -> None:
    """The API server takes a new policy up a moment later."""
    nobody = User(admin.at, _token(admin, None))
    deadline = threading.Event()
    timer = threading.Timer(LONGEST_WAIT, deadline.set)
    timer.start()
    while (
        nobody("PATCH", f"{NODES}/{OTHER}?dryRun=All", {"metadata": {"annotations": {ANNOTATION: "x"}}}, MERGE).status != REFUSED
    ):
        assert not deadline.wait(0.1), "the policy is not enforced"
    timer.cancel()


@pytest.fixture
def verifier(admin: User) -> User:
    """The verifier of NODE."""
    return User(admin.at, _token(admin, NODE))


@pytest.fixture
def node(admin: User) -> Iterator[Any]:
    """NODE as it was before the test; and it is put back if the test could change it."""
    before = admin.ok("GET", f"{NODES}/{NODE}")
    yield before
    now = admin.ok("GET", f"{NODES}/{NODE}")
    before["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
    admin.ok("PUT", f"{NODES}/{NODE}", before)
    before["metadata"].pop("resourceVersion")
    admin.ok("PUT", f"{NODES}/{NODE}/status", before)


# --- what it may ------------------------------------------------------------------------------------------


def test_it_writes_its_condition_beside_the_others_and_changes_it(admin: User, verifier: User, node: Any) -> None:
    for status in ("False", "True", "Unknown"):
        body = {"status": {"conditions": [{**VERIFIED, "status": status}]}}
        verifier.ok("PATCH", f"{NODES}/{NODE}/status", body, STRATEGIC)
        found = admin.ok("GET", f"{NODES}/{NODE}")["status"]["conditions"]
        assert {one["type"]: one["status"] for one in found} == {"Ready": "True", CONDITION: status}
    assert node["status"]["conditions"] == [READY]


def test_it_writes_its_annotation(admin: User, verifier: User, node: Any) -> None:
    body = {"metadata": {"annotations": {ANNOTATION: "x" * MOST_ANNOTATION}}}
    verifier.ok("PATCH", f"{NODES}/{NODE}/status", body, MERGE)
    verifier.ok("PATCH", f"{NODES}/{NODE}/status", {"metadata": {"annotations": {ANNOTATION: "{}"}}}, MERGE)
    assert admin.ok("GET", f"{NODES}/{NODE}")["metadata"]["annotations"] == {**node["metadata"]["annotations"], ANNOTATION: "{}"}


def test_it_removes_the_startup_taint_and_cannot_put_it_back(admin: User, verifier: User, node: Any) -> None:
    assert node["spec"]["taints"] == [STARTUP, SKU]
    verifier.ok("PATCH", f"{NODES}/{NODE}", {"spec": {"taints": [SKU]}}, MERGE)
    assert admin.ok("GET", f"{NODES}/{NODE}")["spec"]["taints"] == [SKU]
    answer = verifier("PATCH", f"{NODES}/{NODE}", {"spec": {"taints": [STARTUP, SKU]}}, MERGE)
    assert (answer.status, "removes the taint" in answer.words) == (REFUSED, True), answer


# --- the startup taint ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interrupted(Api):
    """Somebody writes to the node between the verifier's look and its removal."""

    meanwhile: Callable[[], None]

    def get(self, path: str, **query: str) -> dict[str, Any]:
        found = super().get(path, **query)
        self.meanwhile()
        return found


@pytest.fixture
def reader(admin: User, verifier: User, tmp_path: Path) -> NodeReader:
    """As the verifier's program reads NODE, with its own token."""
    (tmp_path / "token").write_text(verifier.token)
    (tmp_path / "ca.crt").write_text(admin.at.ca_pem)
    return NodeReader(Api(admin.at.server, tmp_path / "token", tmp_path / "ca.crt"), NODE)


def _asserted(reader: NodeReader, verdict: str) -> Assertion:
    findings = Findings()
    if verdict == "differs":
        findings.differs(Where("node"), "allocatable", 4, 1, next(iter(CAUSES)))
    if verdict == "unknown":
        findings.cannot_tell(Where("node"), "readings", "two equal ones", "different ones", "unsteady")
    return Assertion(findings, Observation(Unreadable("not looked at"), None, reader.read(None)), 2, 0.5)


def _taints(admin: User) -> Any:
    return admin.ok("GET", f"{NODES}/{NODE}")["spec"].get("taints")


def test_the_program_removes_the_taint_after_a_pass_and_leaves_the_others(admin: User, reader: NodeReader, node: Any) -> None:
    assert node["spec"]["taints"] == [STARTUP, SKU]
    assert untaint(reader, STARTUP_TAINT, _asserted(reader, "holds")) is None
    assert _taints(admin) == [SKU]
    assert untaint(reader, STARTUP_TAINT, _asserted(reader, "holds")) is None


def test_the_last_taint_may_go(admin: User, reader: NodeReader, node: Any) -> None:
    admin.ok("PATCH", f"{NODES}/{NODE}", {"spec": {"taints": [STARTUP]}}, MERGE)
    assert untaint(reader, STARTUP_TAINT, _asserted(reader, "holds")) is None
    assert _taints(admin) is None
    assert node["spec"]["taints"]


@pytest.mark.parametrize("verdict", ["differs", "unknown"])
def test_without_a_pass_the_taint_stays(admin: User, reader: NodeReader, verdict: str) -> None:
    assert untaint(reader, STARTUP_TAINT, _asserted(reader, verdict)) is None
    assert _taints(admin) == [STARTUP, SKU]


def test_nobodys_taint_is_lost_where_somebody_taints_the_node_at_the_same_moment(
    admin: User, reader: NodeReader, node: Any
) -> None:
    assertion, new = _asserted(reader, "holds"), {"key": "maintenance", "effect": "NoSchedule"}
    api = reader.api

    def taint() -> None:
        if new not in _taints(admin):
            admin.ok("PATCH", f"{NODES}/{NODE}", {"spec": {"taints": [new, *node["spec"]["taints"]]}}, MERGE)

    busy = NodeReader(Interrupted(api.server, api.token_file, api.ca_file, taint), NODE)
    assert untaint(busy, STARTUP_TAINT, assertion) is None
    assert _taints(admin) == [new, SKU]


def test_a_removal_that_is_overtaken_again_and_again_is_told(admin: User, reader: NodeReader, node: Any) -> None:
    assertion, api = _asserted(reader, "holds"), reader.api

    def reorder() -> None:
        admin.ok("PATCH", f"{NODES}/{NODE}", {"spec": {"taints": _taints(admin)[::-1]}}, MERGE)

    trouble = untaint(NodeReader(Interrupted(api.server, api.token_file, api.ca_file, reorder), NODE), STARTUP_TAINT, assertion)
    assert trouble
    assert f"the taint {STARTUP_TAINT} cannot be removed" in trouble
    assert len(_taints(admin)) == len(node["spec"]["taints"])


def test_a_removal_that_is_refused_is_told(admin: User, reader: NodeReader) -> None:
    trouble = untaint(NodeReader(reader.api, OTHER), STARTUP_TAINT, _asserted(reader, "holds"))
    assert trouble
    assert f"the taint {STARTUP_TAINT} cannot be removed" in trouble
    assert "its own node only" in trouble
    assert admin.ok("GET", f"{NODES}/{OTHER}")["spec"]["taints"] == [STARTUP, SKU]


@pytest.fixture(scope="module")
def registered(admin: User) -> Callable[..., list[Any]]:
    """Tells the taints that a node gets when it registers, once pools a and b have the startup taint."""
    path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic"
    admin.ok("POST", f"{path}ies", {"metadata": {"name": ADMISSION}, "spec": admission_policy_spec()})
    for pool in ("a", "b"):
        spec = admission_binding_spec({"agentpool": pool})
        admin.ok("POST", f"{path}ybindings", {"metadata": {"name": f"{ADMISSION}-{pool}"}, "spec": spec})

    def taints(labels: Mapping[str, str], *own: Any) -> list[Any]:
        body = {"metadata": {"name": "new", "labels": labels}, "spec": {"taints": own} if own else {}}
        found: list[Any] = admin.ok("POST", f"{NODES}?dryRun=All", body)["spec"]["taints"]
        # The API server gives newborn nodes a taint of its own.
        return [taint for taint in found if taint["key"] != "node.kubernetes.io/not-ready"]

    deadline = threading.Event()
    timer = threading.Timer(LONGEST_WAIT, deadline.set)
    timer.start()
    while not all(taints({"agentpool": pool}) for pool in ("a", "b")):
        assert not deadline.wait(0.1), "the policy is not in force"
    timer.cancel()
    return taints


def test_nodes_of_a_pool_register_with_the_taint_beside_their_own(registered: Callable[..., list[Any]]) -> None:
    tainted = {"key": STARTUP_TAINT, "effect": "NoSchedule"}
    assert registered({"agentpool": "a", "zone": "1"}) == [tainted]
    assert registered({"agentpool": "b"}, SKU) == [SKU, tainted]
    assert registered({"agentpool": "b"}, STARTUP) == [STARTUP]


def test_nodes_of_nobody_else_are(registered: Callable[..., list[Any]]) -> None:
    assert registered({"agentpool": "system"}) == registered({}) == []
    assert registered({"agentpool": "system"}, SKU) == [SKU]


def test_a_node_that_is_there_gets_no_taint_again(registered: Callable[..., list[Any]], admin: User, node: Any) -> None:
    assert registered({"agentpool": "a"})
    admin.ok("PATCH", f"{NODES}/{NODE}", {"metadata": {"labels": {"agentpool": "a"}}, "spec": {"taints": [SKU]}}, MERGE)
    assert _taints(admin) == [SKU]
    assert node["spec"]["taints"] == [STARTUP, SKU]


def test_it_reads_what_it_compares(verifier: User) -> None:
    for path in (
        f"{NODES}/{NODE}",
        f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods?fieldSelector=spec.nodeName%3D{NODE}",
        "/api/v1/namespaces/kube-system/pods",
        f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/configmaps/{DEVICE_PLUGIN_CONFIG_MAP}",
        f"{NODES}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3D{NODE}",
    ):
        assert verifier("GET", path).status == 200, path


# --- what it may not --------------------------------------------------------------------------------------

_LABEL = {"metadata": {"labels": {"nvidia.com/gpu.deploy.device-plugin": "false"}}}
REFUSED_PATCHES: Mapping[str, tuple[str, object]] = {
    "a label": ("", _LABEL),
    "a label, through the status": ("/status", _LABEL),
    "removing a label": ("", {"metadata": {"labels": {"pool": None}}}),
    "removing a label, through the status": ("/status", {"metadata": {"labels": {"pool": None}}}),
    "another annotation": ("", {"metadata": {"annotations": {"other": "2"}}}),
    "removing another annotation": ("", {"metadata": {"annotations": {"other": None}}}),
    "a new annotation beside its own": ("", {"metadata": {"annotations": {ANNOTATION: "{}", "new": "1"}}}),
    "another annotation, through the status": ("/status", {"metadata": {"annotations": {"new": "1"}}}),
    "a finalizer": ("", {"metadata": {"finalizers": ["example.com/held"]}}),
    "an owner": ("", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}}),
    "unschedulable": ("", {"spec": {"unschedulable": True}}),
    "a provider's id": ("", {"spec": {"providerID": "evil://1"}}),
    "removing another taint": ("", {"spec": {"taints": [STARTUP]}}),
    "removing all taints": ("", {"spec": {"taints": None}}),
    "a new taint": ("", {"spec": {"taints": [STARTUP, SKU, {"key": "a", "effect": "NoExecute"}]}}),
    "another effect of the startup taint": ("", {"spec": {"taints": [{**STARTUP, "effect": "NoExecute"}, SKU]}}),
    "removing the startup taint, and more": ("", {"spec": {"taints": [SKU], "unschedulable": True}}),
    "another condition": ("/status", {"status": {"conditions": [{**READY, "status": "False"}, VERIFIED]}}),
    "only its own condition": ("/status", {"status": {"conditions": [VERIFIED]}}),
    "a new condition": ("/status", {"status": {"conditions": [READY, {**READY, "type": "DiskPressure"}]}}),
    "capacity": ("/status", {"status": {"capacity": {"nvidia.com/gpu": "8k"}}}),
    "allocatable": ("/status", {"status": {"allocatable": {"nvidia.com/gpu": "8k"}}}),
    "an address": ("/status", {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}}),
    "no images": ("/status", {"status": {"images": None}}),
}


@pytest.mark.parametrize("what", REFUSED_PATCHES)
def test_nothing_else_of_its_own_node(admin: User, verifier: User, what: str) -> None:
    part, body = REFUSED_PATCHES[what]
    before = admin.ok("GET", f"{NODES}/{NODE}")
    # The administrator may: what is refused is a change, and it is refused to the verifier.
    admin.ok("PATCH", f"{NODES}/{NODE}{part}?dryRun=All", body, MERGE)
    answer = verifier("PATCH", f"{NODES}/{NODE}{part}", body, MERGE)
    assert answer.status == REFUSED, answer
    assert f"ValidatingAdmissionPolicy '{POLICY}'" in answer.words
    assert "a verifier changes" in answer.words
    assert admin.ok("GET", f"{NODES}/{NODE}") == before


ALLOWED_AT_HOME: Mapping[str, tuple[str, object, str]] = {
    "annotation": ("/status", {"metadata": {"annotations": {ANNOTATION: "{}"}}}, MERGE),
    "condition": ("/status", {"status": {"conditions": [VERIFIED]}}, STRATEGIC),
    "taint": ("", {"spec": {"taints": [SKU]}}, MERGE),
}


@pytest.mark.parametrize("what", ALLOWED_AT_HOME)
def test_nothing_of_another_node(admin: User, verifier: User, what: str) -> None:
    part, body, kind = ALLOWED_AT_HOME[what]
    verifier.ok("PATCH", f"{NODES}/{NODE}{part}?dryRun=All", body, kind)
    before = admin.ok("GET", f"{NODES}/{OTHER}")
    answer = verifier("PATCH", f"{NODES}/{OTHER}{part}", body, kind)
    assert (answer.status, "its own node only" in answer.words) == (REFUSED, True), answer
    assert admin.ok("GET", f"{NODES}/{OTHER}") == before


@pytest.mark.parametrize("what", ALLOWED_AT_HOME)
def test_a_token_that_is_bound_to_no_pod_changes_no_node(admin: User, what: str) -> None:
    part, body, kind = ALLOWED_AT_HOME[what]
    answer = User(admin.at, _token(admin, None))("PATCH", f"{NODES}/{NODE}{part}", body, kind)
    assert (answer.status, "its own node only" in answer.words) == (REFUSED, True), answer


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/secrets"),
        ("GET", f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/secrets"),
        ("GET", f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/secrets/key"),
        ("GET", f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/secrets/key"),
        ("GET", f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/configmaps"),
        ("GET", f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/configmaps/other"),
        ("GET", "/api/v1/pods"),
        ("GET", f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods/verifier-{OTHER}/exec?command=sh"),
        ("GET", f"{NODES}/{NODE}/proxy/pods"),
        ("GET", f"{NODES}"),
        ("DELETE", f"{NODES}/{NODE}"),
        ("DELETE", f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/configmaps/{DEVICE_PLUGIN_CONFIG_MAP}"),
        ("PUT", f"{NODES}/{NODE}"),
        ("PUT", f"{NODES}/{NODE}/status"),
        ("POST", NODES),
        ("POST", f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/pods"),
        ("POST", f"/api/v1/namespaces/{VERIFIER_NAMESPACE}/serviceaccounts/verifier/token"),
        ("POST", f"{RBAC}/clusterrolebindings"),
    ],
)
def test_no_other_request_is_granted(verifier: User, method: str, path: str) -> None:
    answer = verifier(method, path, {} if method in {"POST", "PUT"} else None)
    assert (answer.status, "cannot" in answer.words) == (REFUSED, True), answer


def test_others_are_none_of_the_policys_business(admin: User, node: Any) -> None:
    admin.ok("PATCH", f"{NODES}/{NODE}", _LABEL, MERGE)
    assert "nvidia.com/gpu.deploy.device-plugin" not in node["metadata"]["labels"]


# --- attacks with a verifier's own token, on its own node ---------------------------------------------------

_BIG: Mapping[str, tuple[str, object, str]] = {
    "an annotation of 200 KiB": ("/status", {"metadata": {"annotations": {ANNOTATION: "x" * 200 * 1024}}}, "16384 bytes"),
    "an annotation of one character too many": (
        "/status",
        {"metadata": {"annotations": {ANNOTATION: "x" * (MOST_ANNOTATION + 1)}}},
        "16384 bytes",
    ),
    "an annotation of 16,000 letters of four bytes": (
        "/status",
        {"metadata": {"annotations": {ANNOTATION: "\U0001f600" * 16_000}}},
        "16384 bytes",
    ),
    "an annotation of one byte too many": (
        "/status",
        {"metadata": {"annotations": {ANNOTATION: "\u20ac" * (MOST_ANNOTATION // 3) + "xx"}}},
        "16384 bytes",
    ),
    "a report past the status": ("", {"metadata": {"annotations": {ANNOTATION: "{}"}}}, "is written with the status"),
    "a message of 1.2 MiB": ("/status", {"status": {"conditions": [READY, {**VERIFIED, "message": "m" * 1200 * 1024}]}}, "1024"),
    "a message of one character too many": (
        "/status",
        {"status": {"conditions": [READY, {**VERIFIED, "message": "m" * (MOST_MESSAGE + 1)}]}},
        "1024 bytes",
    ),
    "a message of one byte too many": (
        "/status",
        {"status": {"conditions": [READY, {**VERIFIED, "message": "ä" * (MOST_MESSAGE // 2) + "m"}]}},
        "1024 bytes",
    ),
    "a reason as long as a message": (
        "/status",
        {"status": {"conditions": [READY, {**VERIFIED, "reason": "R" * 1000}]}},
        "one condition",
    ),
    "a status that is none": ("/status", {"status": {"conditions": [READY, {**VERIFIED, "status": "Maybe"}]}}, "one condition"),
    "five conditions of its type": ("/status", {"status": {"conditions": [READY, *[VERIFIED] * 5]}}, "has one condition"),
}


@pytest.mark.parametrize("what", _BIG)
def test_attack_growing_the_node_object(admin: User, verifier: User, what: str) -> None:
    """Write more of what a verifier may write than a verifier does: everybody who watches nodes would get it."""
    part, body, words = _BIG[what]
    before = admin.ok("GET", f"{NODES}/{NODE}")
    admin.ok("PATCH", f"{NODES}/{NODE}{part}?dryRun=All", body, MERGE)
    answer = verifier("PATCH", f"{NODES}/{NODE}{part}", body, MERGE)
    assert (answer.status, words in answer.words) == (REFUSED, True), answer
    assert admin.ok("GET", f"{NODES}/{NODE}") == before


_FORGED: Mapping[str, Any] = {
    "manager": "nfd-master",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
}
_LABELS: Mapping[str, Any] = {"f:metadata": {"f:labels": {"f:pool": {}}}}


def _writers(node: Any) -> Mapping[str, list[dict[str, Any]]]:
    """Name -> managedFields that claim to be what others have written."""
    own = node["metadata"]["managedFields"]
    return {
        "none": [{}],
        "another writer of a label": [*own, {**_FORGED, "fieldsV1": _LABELS}],
        "itself as writer of a label": [*own, {**_FORGED, "manager": FIELD_MANAGER, "fieldsV1": _LABELS}],
        "the oldest as writer of a label": [*own, {**_FORGED, "manager": "ancient-changes", "fieldsV1": _LABELS}],
        "another time": [{**one, "time": "2026-01-01T00:00:00Z"} for one in own],
        "another name": [{**one, "manager": f"{one['manager']}-x"} for one in own],
        "a megabyte of its own": [
            *own,
            {**_FORGED, "manager": FIELD_MANAGER, "fieldsV1": {"f:status": {f"f:{number}": {} for number in range(50_000)}}},
        ],
    }


@pytest.mark.parametrize(
    "what",
    [
        "none",
        "another writer of a label",
        "itself as writer of a label",
        "the oldest as writer of a label",
        "another time",
        "another name",
        "a megabyte of its own",
    ],
)
@pytest.mark.parametrize("taint", [False, True])
def test_attack_forging_who_wrote_a_label(admin: User, verifier: User, node: Any, what: str, taint: bool) -> None:  # noqa: FBT001
    """Set managedFields, also together with the removal that is allowed: `setBy` of the reports comes from there."""
    admin.ok("PATCH", f"{NODES}/{NODE}?fieldManager=kubelet", {"metadata": {"labels": {"pool": "b"}}}, MERGE)
    before = admin.ok("GET", f"{NODES}/{NODE}")
    body: dict[str, Any] = {"metadata": {"managedFields": _writers(before)[what]}}
    if taint:
        body["spec"] = {"taints": [SKU]}
    answer = verifier("PATCH", f"{NODES}/{NODE}", body, MERGE)
    after = admin.ok("GET", f"{NODES}/{NODE}")
    assert answer.status == REFUSED, answer
    assert after["metadata"]["managedFields"] == before["metadata"]["managedFields"]
    assert node["metadata"]["name"] == NODE


@pytest.mark.parametrize("name", ["", "kubelet", "nfd-master", "gpu-pools-verifier2"])
@pytest.mark.parametrize("part", ["", "/status"])
def test_attack_writing_under_another_name(admin: User, verifier: User, name: str, part: str) -> None:
    """Name another field manager, or none, so that the User-Agent counts: the node would tell that it was somebody else."""
    body: dict[str, Any] = {"status": {"conditions": [VERIFIED]}} if part else {"spec": {"taints": [SKU]}}
    before = admin.ok("GET", f"{NODES}/{NODE}")
    answer = verifier("PATCH", f"{NODES}/{NODE}{part}?fieldManager={name}", body, STRATEGIC)
    assert (answer.status, "as the field manager" in answer.words) == (REFUSED, True), answer
    assert admin.ok("GET", f"{NODES}/{NODE}") == before


def test_where_many_have_written_to_the_node_a_verifier_still_can(admin: User, verifier: User, node: Any) -> None:
    """The API server keeps ten writers apart and throws the oldest together; that is not a forgery."""
    for number in range(12):
        label = {"metadata": {"labels": {f"a{number}": "b"}}}
        admin.ok("PATCH", f"{NODES}/{NODE}?fieldManager=somebody-{number}", label, MERGE)
    verifier.ok("PATCH", f"{NODES}/{NODE}/status", {"status": {"conditions": [VERIFIED]}}, STRATEGIC)
    verifier.ok("PATCH", f"{NODES}/{NODE}", {"spec": {"taints": [SKU]}}, MERGE)
    found = admin.ok("GET", f"{NODES}/{NODE}")
    assert found["spec"]["taints"] == [SKU]
    assert "ancient-changes" in {one["manager"] for one in found["metadata"]["managedFields"]}
    forged = [*found["metadata"]["managedFields"], {**_FORGED, "manager": "kubelet", "fieldsV1": _LABELS}]
    answer = verifier("PATCH", f"{NODES}/{NODE}", {"metadata": {"managedFields": forged}}, MERGE)
    assert answer.status == REFUSED, answer
    assert node["spec"]["taints"] == [STARTUP, SKU]
