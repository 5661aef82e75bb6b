"""The Kubernetes side against a real API server, with a real service account's token and no more rights than needed."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.proof.node_expectation import node_expectation
from gpu_pools.verifier import archive
from gpu_pools.verifier.api import Api
from gpu_pools.verifier.causes import CAUSES
from gpu_pools.verifier.compare_node import compare_node
from gpu_pools.verifier.evidence import ANNOTATION, Origin, mark
from gpu_pools.verifier.findings import Findings, Verdict, Where
from gpu_pools.verifier.node import ApiFailure, NodeReader
from gpu_pools.verifier.observation import Assertion, Observation
from gpu_pools.verifier.reading import Unreadable
from gpu_pools.verifier.watch import follow
from sandbox.cluster import control_plane as cluster
from sandbox.system import processes
from sandbox.system.pki import make_pki
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.patience import scaled
from tests.verifier import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.verifier.conftest import Bench

pytestmark = pytest.mark.programs

NODE, OTHER = "gpu-1", "gpu-2"
#: 2 x 500 replicas: the API server writes the count as 1k.
SHARING: dict[str, Any] = {"timeSlicing": {"replicas": 500}}
PLAN, POOL = nodes.plan_and_pool(SHARING, count=2)
LONGEST_WAIT = 60
ORIGIN = Origin("e" * 64, "f" * 64, 300.0)
RULES = {
    "nodes": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "watch"], "resourceNames": [NODE]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"], "resourceNames": [NODE]},
    ],
    "gpu-operator": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["gpu-pools-device-plugin"]},
    ],
    "kube-system": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
}


@dataclass(frozen=True)
class Admin:
    """The cluster's administrator."""

    at: cluster.Cluster

    def __call__(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        context = ssl.create_default_context(cadata=self.at.ca_pem)
        pem = self.at.folder / "admin-client.pem"
        if not pem.exists():
            pem.write_text(self.at.client_cert_pem + self.at.client_key_pem)
        context.load_cert_chain(pem)
        connection = http.client.HTTPSConnection(self.at.server.removeprefix("https://"), timeout=LONGEST_WAIT, context=context)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": kind})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        assert response.status < 300, answer
        return answer

    def patch(self, path: str, body: object) -> Any:
        return self("PATCH", path, body, "application/merge-patch+json")


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    folder = tmp_path_factory.mktemp("verified") / "cluster"
    made = Admin(cluster.boot(folder, "verified", find_tools(Progress()), machines=False))
    _fill(made)
    yield made
    cluster.erase(folder)


def _fill(admin: Admin) -> None:
    """Two healthy nodes, the operands of the first, their configuration, and the verifier's account."""
    for namespace in ("gpu-operator", "verifier"):
        admin("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for namespace in ("gpu-operator", "kube-system"):
        _until_account(admin, namespace)
    # It would call nodes without a kubelet unreachable after a while.
    processes.stop(admin.at.folder, ["kube-controller-manager"])
    texts = dict(PLAN.device_plugin_configs)
    admin("POST", "/api/v1/namespaces/gpu-operator/configmaps", {"metadata": {"name": "gpu-pools-device-plugin"}, "data": texts})
    wanted = nodes.kubernetes_of(PLAN, POOL, NODE)
    for name in (NODE, OTHER):
        admin("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": dict(wanted.labels)}})
        amounts = {resource: str(count) for resource, count in wanted.allocatable.items()}
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": nodes.STARTED, "lastTransitionTime": nodes.STARTED}
        admin.patch(
            f"/api/v1/nodes/{name}/status", {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}
        )
    assert isinstance(wanted.pods, tuple)
    for pod in wanted.pods:
        _pod(admin, pod.namespace, pod.name, pod.app)
    _account(admin)


def _pod(admin: Admin, namespace: str, name: str, app: str, node: str = NODE) -> None:
    container = app.removesuffix("-daemonset")
    spec = {"nodeName": node, "automountServiceAccountToken": False, "containers": [{"name": container, "image": f"{app}:v1"}]}
    body = {"metadata": {"name": name, "labels": {"app": app}}, "spec": {**spec, "serviceAccountName": "default"}}
    path = f"/api/v1/namespaces/{namespace}"
    admin("POST", f"{path}/pods", body)
    running = {"name": container, "image": "x", "imageID": "", "ready": True, "restartCount": 0}
    running |= {"state": {"running": {"startedAt": nodes.STARTED}}}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [running]}
    admin.patch(f"{path}/pods/{name}/status", {"status": status})


def _until_account(admin: Admin, namespace: str) -> None:
    """The controller-manager makes a namespace's default account a moment later."""
    while not any(
        one["metadata"]["name"] == "default" for one in admin("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts")["items"]
    ):
        threading.Event().wait(0.05)


def _account(admin: Admin) -> None:
    admin("POST", "/api/v1/namespaces/verifier/serviceaccounts", {"metadata": {"name": "verifier"}})
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    subject = [{"kind": "ServiceAccount", "name": "verifier", "namespace": "verifier"}]
    for where, rules in RULES.items():
        kind = "ClusterRole" if where == "nodes" else "Role"
        base = rbac if where == "nodes" else f"{rbac}/namespaces/{where}"
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "verifier"}
        admin("POST", f"{base}/{kind.lower()}s", {"metadata": {"name": "verifier"}, "rules": rules})
        admin(
            "POST",
            f"{base}/{kind.lower()}bindings",
            {"metadata": {"name": "verifier"}, "roleRef": reference, "subjects": subject},
        )


@pytest.fixture
def account(admin: Admin, tmp_path: Path) -> Path:
    """A folder as the kubelet mounts it."""
    path = "/api/v1/namespaces/verifier/serviceaccounts/verifier/token"
    token = admin(
        "POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    )
    (tmp_path / "token").write_text(token["status"]["token"] + "\n")
    (tmp_path / "ca.crt").write_text(admin.at.ca_pem)
    return tmp_path


@pytest.fixture
def api(admin: Admin, account: Path) -> Api:
    return Api(admin.at.server, account / "token", account / "ca.crt")


def compared(api: Api, name: str = NODE) -> Findings:
    node = nodes.healthy(PLAN, POOL, NODE)
    findings = Findings()
    compare_node(node.expected, NodeReader(api, name).read(node.expected.node), node.nvml, findings)
    return findings


def causes(findings: Findings) -> list[str]:
    return [finding.cause.key for finding in (*findings.differences, *findings.unknown)]


def test_a_healthy_node_reads_as_it_is_and_passes(api: Api) -> None:
    expected = nodes.healthy(PLAN, POOL, NODE).expected.node
    assert expected
    assert expected.allocatable == {"nvidia.com/gpu": 1000}
    read = NodeReader(api, NODE).read(expected)
    assert read.allocatable == {"nvidia.com/gpu": 1000}
    findings = compared(api)
    assert findings.verdict is Verdict.HOLDS, causes(findings)
    assert read == NodeReader(api, NODE).read(expected)


def test_the_whole_program_reads_its_own_node(
    admin: Admin, api: Api, account: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put(nodes.machine_of(POOL, NODE))
    archive.main([str(account / "verifier.pyz")])
    (account / "expect.json").write_text(json.dumps(node_expectation(PLAN, POOL)))
    host, _, port = admin.at.server.removeprefix("https://").partition(":")
    for name, value in {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "NODE_NAME": NODE}.items():
        monkeypatch.setenv(name, value)
    # A proxy must not stand between a pod and its own API server.
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    command = [sys.executable, str(account / "verifier.pyz"), "assert", "--expect", str(account / "expect.json")]
    command += ["--account", str(account), "--pause", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=scaled(LONGEST_WAIT))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    path = f"/api/v1/nodes/{NODE}"
    admin.patch(path, {"metadata": {"labels": {"nvidia.com/device-plugin.config": None}}})
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=scaled(LONGEST_WAIT))
        assert done.returncode == 1
        assert "label nvidia.com/device-plugin.config is missing" in done.stdout
    finally:
        admin.patch(path, {"metadata": {"labels": {"nvidia.com/device-plugin.config": POOL.config_key}}})
    assert compared(api).verdict is Verdict.HOLDS


def test_another_node_is_none_of_its_business(api: Api) -> None:
    findings = compared(api, OTHER)
    assert findings.verdict is Verdict.CANNOT_TELL
    assert causes(findings) == ["api-permission"]
    assert 'cannot get resource "nodes" in API group "" at the cluster scope' in findings.unknown[0].observed


def test_a_pod_of_another_node_does_not_count(admin: Admin, api: Api) -> None:
    _pod(admin, "gpu-operator", "nvidia-device-plugin-daemonset-other", "nvidia-device-plugin-daemonset", OTHER)
    assert compared(api).verdict is Verdict.HOLDS


def test_a_second_device_plugin_is_found_in_kube_system(admin: Admin, api: Api) -> None:
    _pod(admin, "kube-system", "nvidia-device-plugin-static", "static-nvidia-device-plugin")
    try:
        assert causes(compared(api)) == ["two-plugins"]
    finally:
        admin("DELETE", "/api/v1/namespaces/kube-system/pods/nvidia-device-plugin-static", {"gracePeriodSeconds": 0})


def test_an_edited_configuration_is_found(admin: Admin, api: Api) -> None:
    path = "/api/v1/namespaces/gpu-operator/configmaps/gpu-pools-device-plugin"
    admin.patch(path, {"data": {POOL.config_key: "version: v1\n"}})
    try:
        assert causes(compared(api)) == ["config-edited"]
    finally:
        admin.patch(path, {"data": dict(PLAN.device_plugin_configs)})


def test_a_crashing_operand_is_told_in_its_own_words(admin: Admin, api: Api) -> None:
    wanted = nodes.kubernetes_of(PLAN, POOL, NODE).pods
    assert isinstance(wanted, tuple)
    plugin = next(pod for pod in wanted if pod.device_plugin)
    path = f"/api/v1/namespaces/gpu-operator/pods/{plugin.name}"
    before = admin("GET", path)["status"]
    crashed = {"exitCode": 1, "reason": "Error", "message": "number of replicas must be >= 2", "startedAt": nodes.STARTED}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
    one = {**before["containerStatuses"][0], "ready": False, "state": {"waiting": waiting}}
    one |= {"lastState": {"terminated": {**crashed, "finishedAt": nodes.STARTED}}}
    changed = {"conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [one]}
    admin.patch(f"{path}/status", {"status": changed})
    try:
        (finding,) = compared(api).differences
        assert finding.cause.key == "operand-crashing"
        assert finding.observed == "container nvidia-device-plugin: CrashLoopBackOff: number of replicas must be >= 2"
    finally:
        admin.patch(f"{path}/status", {"status": before})


def test_a_server_that_is_away_is_no_difference(api: Api) -> None:
    findings = compared(replace(api, server="https://127.0.0.1:1"))
    assert causes(findings) == ["api-unreachable"]


def test_a_server_of_another_authority_is_not_believed(api: Api, account: Path, tmp_path: Path) -> None:
    (account / "ca.crt").write_text(make_pki(tmp_path / "other", "10.96.0.1").text("ca.crt"))
    findings = compared(api)
    assert causes(findings) == ["api-unreachable"]
    assert "CERTIFICATE_VERIFY_FAILED" in findings.unknown[0].observed


def test_a_token_that_does_not_count_is_a_defect_of_the_pod(api: Api, account: Path) -> None:
    (account / "token").write_text("nonsense")
    assert causes(compared(api)) == ["api-permission"]


def test_a_token_that_is_not_there_is_no_difference(api: Api, account: Path) -> None:
    (account / "token").unlink()
    assert compared(api).verdict is Verdict.CANNOT_TELL


def test_what_the_role_lacks_is_named(admin: Admin, api: Api) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/gpu-operator/roles/verifier"
    admin.patch(path, {"rules": RULES["gpu-operator"][1:]})
    try:
        expected = nodes.healthy(PLAN, POOL, NODE).expected.node
        read = NodeReader(api, NODE).read(expected)
        assert isinstance(read.pods, ApiFailure)
        assert 'cannot list resource "pods"' in read.pods.message
        assert causes(compared(api)) == ["api-permission"]
    finally:
        admin.patch(path, {"rules": RULES["gpu-operator"]})


class Heard(Api):
    """Counts the events that were worked off."""

    def watch(self, path: str, seconds: int, **query: str) -> Iterator[dict[str, Any]]:
        for event in super().watch(path, seconds, **query):
            yield event
            HEARD.release()


HEARD = threading.Semaphore(0)


def test_a_change_of_the_node_is_followed_and_a_heartbeat_is_not(admin: Admin, api: Api) -> None:
    changed = threading.Event()
    node = NodeReader(Heard(api.server, api.token_file, api.ca_file), NODE)
    threading.Thread(target=follow, args=(node, changed.set), daemon=True).start()
    assert HEARD.acquire(timeout=LONGEST_WAIT)
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-02-02T00:00:00Z", "lastTransitionTime": nodes.STARTED}
    admin.patch(f"/api/v1/nodes/{NODE}/status", {"status": {"conditions": [beat]}})
    assert HEARD.acquire(timeout=LONGEST_WAIT)
    assert not changed.is_set()
    try:
        admin.patch(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"gpu-pools/pool": "another"}}})
        assert changed.wait(scaled(LONGEST_WAIT))
    finally:
        admin.patch(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"gpu-pools/pool": POOL.name}}})


# --- the condition ----------------------------------------------------------------------------------------


def assertion_of(*differences: str) -> Assertion:
    findings = Findings()
    for field in differences:
        findings.differs(Where("node"), field, 4, 1, next(iter(CAUSES)))
    return Assertion(findings, Observation(Unreadable("not looked at"), None, None), 2, 0.5)


def conditions(admin: Admin, name: str = NODE) -> dict[str, Any]:
    return {one["type"]: one for one in admin("GET", f"/api/v1/nodes/{name}")["status"]["conditions"]}


def annotation(admin: Admin) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(admin("GET", f"/api/v1/nodes/{NODE}")["metadata"]["annotations"][ANNOTATION])
    return found


def test_the_verdict_stands_on_the_node_beside_what_others_say(admin: Admin, api: Api) -> None:
    node, expected = NodeReader(api, NODE), nodes.healthy(PLAN, POOL, NODE).expected
    ready = conditions(admin)["Ready"]
    assert mark(node, ORIGIN, expected, assertion_of("allocatable")) is None
    found = conditions(admin)
    assert (found["GpuSharingVerified"]["status"], found["GpuSharingVerified"]["reason"]) == ("False", "Differs")
    assert "allocatable is 1, expected 4" in found["GpuSharingVerified"]["message"]
    assert found["Ready"] == ready
    report = annotation(admin)
    assert (report["verdict"], report["differences"][0]["field"]) == ("differs", "allocatable")
    assert report["time"] == found["GpuSharingVerified"]["lastHeartbeatTime"]
    assert mark(node, ORIGIN, expected, assertion_of()) is None
    assert conditions(admin)["GpuSharingVerified"]["status"] == "True"
    assert (annotation(admin)["verdict"], annotation(admin)["expectation"]) == ("holds", ORIGIN.expectation)


def test_what_others_annotate_stays_and_where_no_annotation_fits_the_condition_still_does(admin: Admin, api: Api) -> None:
    node, expected = NodeReader(api, NODE), nodes.healthy(PLAN, POOL, NODE).expected
    assert mark(node, ORIGIN, expected, assertion_of()) is None
    before = annotation(admin)
    # All annotations together may have 256 KiB.
    full = "x" * (256 * 1024 - len(json.dumps(before)) - 200)
    admin.patch(f"/api/v1/nodes/{NODE}", {"metadata": {"annotations": {"big": full}}})
    try:
        trouble = mark(node, ORIGIN, expected, assertion_of(*(f"field {number}" for number in range(9))))
        assert trouble
        assert f"the annotation {ANNOTATION} cannot be written" in trouble
        assert conditions(admin)["GpuSharingVerified"]["status"] == "False"
        assert annotation(admin) == before
    finally:
        admin.patch(f"/api/v1/nodes/{NODE}", {"metadata": {"annotations": {"big": None, "other": "1"}}})
    assert mark(node, ORIGIN, expected, assertion_of()) is None
    assert admin("GET", f"/api/v1/nodes/{NODE}")["metadata"]["annotations"]["other"] == "1"


def test_a_verdict_that_stays_has_a_new_heartbeat_and_the_old_transition(admin: Admin, api: Api) -> None:
    node, expected = NodeReader(api, NODE), nodes.healthy(PLAN, POOL, NODE).expected
    past = "2026-01-01T00:00:00Z"
    old = {"type": "GpuSharingVerified", "status": "True", "lastTransitionTime": past, "lastHeartbeatTime": past}
    admin("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": {"conditions": [old]}}, "application/strategic-merge-patch+json")
    assert mark(node, ORIGIN, expected, assertion_of()) is None
    found = conditions(admin)["GpuSharingVerified"]
    assert found["lastTransitionTime"] == past
    assert found["lastHeartbeatTime"] > past


def test_a_condition_that_may_not_be_written_is_told(api: Api) -> None:
    expected = nodes.healthy(PLAN, POOL, NODE).expected
    trouble = mark(NodeReader(api, OTHER), ORIGIN, expected, assertion_of())
    assert trouble
    assert "the condition GpuSharingVerified cannot be written" in trouble
    assert "cannot get resource" in trouble
