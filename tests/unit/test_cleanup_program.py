"""The program that cleans nodes, asking an HTTPS server that answers as an API server does.

More of what it takes away, and what not, is in test_node_cleanup.py.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.rendering.hook_jobs import program_text
from gpu_pools.verifier.hook_programs import cleanup_program, pod_api
from gpu_pools.verifier.hook_programs.cleanup_program import LOOKS, clean, leftovers, main, tie_definitions
from gpu_pools.verifier.hook_programs.node_traces import CONDITION, STARTUP_TAINT
from gpu_pools.verifier.hook_programs.pod_api import request
from sandbox.system.pki import make_pki

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandbox.system.pki import Pki

NODES = "/api/v1/nodes"
STRANGE = {"type": "Ready", "status": "True"}
OURS = {"type": CONDITION, "status": "False"}


def node(name: str, labels: dict[str, str], conditions: list[dict[str, str]] | None = None) -> dict[str, Any]:
    metadata = {"name": name, "resourceVersion": "7", "labels": labels}
    return {"metadata": metadata, "spec": {}, "status": {"conditions": conditions}}


class Server(ThreadingHTTPServer):
    """Its nodes and those that come with a later look, what it was asked, how often it answers 409 before it patches."""

    def __init__(self, pki: Pki, address: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, 0), _Answering)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pki["apiserver.crt"], pki["apiserver.key"])
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str, str, Any]] = []
        self.headers: list[tuple[str, str]] = []
        self.hosts: list[str] = []
        self.conflicts = 0
        self.arriving: dict[int, dict[str, Any]] = {}
        #: Path -> what is there besides nodes, or what is listed there.
        self.others: dict[str, dict[str, Any]] = {}

    def have(self, *nodes: dict[str, Any]) -> None:
        self.nodes = {one["metadata"]["name"]: one for one in nodes}


class _Answering(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.path != NODES:
            found = self.server.others.get(self.path)
            self._answer(404 if found is None else 200, found or {})
            return
        self._kept(None)
        looks = sum(method == "GET" for method, *_ in self.server.asked)
        if late := self.server.arriving.get(looks):
            self.server.have(*self.server.nodes.values(), late)
        self._answer(200, {"items": list(self.server.nodes.values())})

    def do_PATCH(self) -> None:
        patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._kept(patch)
        if self.server.conflicts:
            self.server.conflicts -= 1
            self._answer(409, {"message": "the object has been modified"})
            return
        if self.path in self.server.others:
            self.server.others[self.path]["metadata"] |= patch["metadata"]
            self._answer(200, self.server.others[self.path])
            return
        name = self.path.removeprefix(f"{NODES}/").removesuffix("/status")
        found = self.server.nodes[name]
        if self.path.endswith("/status"):
            found["status"]["conditions"] = [one for one in found["status"]["conditions"] if one["type"] != CONDITION]
        else:
            labels = patch["metadata"]["labels"]
            found["metadata"]["labels"] = {key: value for key, value in found["metadata"]["labels"].items() if key not in labels}
        self._answer(200, found)

    def _kept(self, patch: Any) -> None:
        self.server.asked.append((self.command, self.path, self.headers.get("Content-Type", ""), patch))
        self.server.headers.append((self.headers["Authorization"], self.headers["Accept"]))
        self.server.hosts.append(self.headers["Host"])

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("cleanup") / "pki", "::1")


@pytest.fixture(params=["127.0.0.1"])
def server(pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Server]:
    """An API server, and this process as a pod of its cluster."""
    with Server(pki, request.param) as started:
        threading.Thread(target=started.serve_forever, args=(0.02,)).start()
        (tmp_path / "token").write_text("abc\n", encoding="ascii")
        (tmp_path / "ca.crt").write_text(pki.text("ca.crt"), encoding="ascii")
        monkeypatch.setattr(pod_api, "ACCOUNT", tmp_path)
        monkeypatch.setattr(cleanup_program, "PAUSE_SECONDS", 0)
        monkeypatch.setattr(sys, "argv", ["-c", "gpu-operator", "all"])
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", request.param)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(started.server_address[1]))
        yield started
        started.shutdown()


def test_each_trace_is_taken_away_by_one_request_and_a_second_quiet_look_ends_it(server: Server) -> None:
    server.have(
        node("strange", {"team": "red"}, [STRANGE]),
        node("labelled", {"team": "red", "nvidia.com/mig.config": "x"}, [STRANGE]),
        node("verified", {"team": "red"}, [STRANGE, OURS]),
        node("both", {"nvidia.com/mig.config": "x"}, [OURS]),
    )
    assert main() == 0
    labels = {"resourceVersion": "7", "labels": {"nvidia.com/mig.config": None}, "annotations": {}}
    condition = {"status": {"conditions": [{"type": CONDITION, "$patch": "delete"}]}}
    merge, strategic = "application/merge-patch+json", "application/strategic-merge-patch+json"
    look = ("GET", NODES, "", None)
    assert server.asked == [
        look,
        ("PATCH", f"{NODES}/labelled", merge, {"metadata": labels}),
        ("PATCH", f"{NODES}/verified/status", strategic, condition),
        ("PATCH", f"{NODES}/both", merge, {"metadata": labels}),
        ("PATCH", f"{NODES}/both/status", strategic, condition),
        look,
        look,
    ]
    assert set(server.headers) == {("Bearer abc", "application/json")}
    assert server.nodes["labelled"] == node("labelled", {"team": "red"}, [STRANGE])


def test_a_node_that_changed_meanwhile_is_looked_at_again(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    server.have(node("a", {"nvidia.com/mig.config": "x"}, [OURS]), node("b", {"nvidia.com/mig.config": "x"}))
    server.conflicts = 1
    assert [*clean("all")] == ["a", "b"]
    assert capfd.readouterr().err == f'{NODES}/a: 409 b\'{{"message": "the object has been modified"}}\'\n'
    assert [*clean("all")] == ["a"]
    assert clean("all") == {}


def test_in_a_cloud_nodes_of_pools_go_and_are_left_alone(server: Server) -> None:
    server.have(
        node("ours", {"gpu-pools/pool": "a", "nvidia.com/gpu.present": "true"}, [OURS]),
        node("theirs", {"nvidia.com/gpu.present": "true"}, [STRANGE]),
    )
    assert [*clean("others")] == ["theirs"]
    assert [*clean("all")] == ["ours"]


def test_nodes_that_never_come_to_rest_are_a_failure_that_names_who_writes(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    written = node("a", {"nvidia.com/mig.config": "x", "nvidia.com/gpu.present": "true"})
    fields = {"f:metadata": {"f:labels": {"f:nvidia.com/mig.config": {}}}}
    written["metadata"]["managedFields"] = [{"manager": "nfd-master", "fieldsV1": fields}, {"manager": "kubelet"}]
    server.have(written)
    server.conflicts = LOOKS
    assert main() == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert "a: nvidia.com/mig.config (by nfd-master), nvidia.com/gpu.present (by nobody known)" in last
    assert [method for method, *_ in server.asked] == ["GET", "PATCH"] * LOOKS


def test_quiet_looks_count_only_one_after_the_other(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that is just ending may write once more, after a look that found nothing."""
    monkeypatch.setattr(cleanup_program, "PAUSE_SECONDS", 0.1)
    server.have(node("a", {}))
    server.arriving[2] = node("late", {"nvidia.com/mig.config": "x"})
    began = time.monotonic()
    assert main() == 0
    assert [method for method, *_ in server.asked] == ["GET", "GET", "PATCH", "GET", "GET"]
    # It gives them time, after each look but the last.
    assert time.monotonic() - began >= 0.3


def test_a_node_that_has_no_status_yet_is_no_reason_to_stop(server: Server) -> None:
    young = {"metadata": {"name": "young"}, "spec": {}}
    server.have(young, node("a", {}))
    assert clean("all") == {}


def test_no_proxy_of_the_pod_is_asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    server.have(node("a", {}))
    assert [one["metadata"]["name"] for one in request(NODES)["items"]] == ["a"]


def test_a_server_that_the_cluster_s_authority_did_not_sign_is_not_told_the_token(server: Server, tmp_path: Path) -> None:
    other = make_pki(tmp_path / "other", "::1")
    (tmp_path / "ca.crt").write_text(other.text("ca.crt"), encoding="ascii")
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        request(NODES)
    assert server.asked == []


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
@pytest.mark.parametrize("server", ["::1"], indirect=True)
def test_an_address_of_ipv6_is_written_in_brackets(server: Server) -> None:
    server.have(node("a", {}))
    assert [one["metadata"]["name"] for one in request(NODES)["items"]] == ["a"]
    assert server.hosts == [f"[::1]:{server.server_address[1]}"]


SPACE = "/api/v1/namespaces/gpu-operator"


def definitions(server: Server, **made: str) -> set[str]:
    """Definitions by name, and which of them stay when the namespace goes."""
    for name, at in made.items():
        spec = {"versions": [{"name": "v1beta1", "storage": False}, {"name": "v1", "storage": True}]}
        metadata = {"creationTimestamp": at, "resourceVersion": "1", "ownerReferences": [{"uid": "other"}]}
        server.others.setdefault(_definition(name), {"metadata": metadata, "spec": spec})
    tie_definitions("gpu-operator")
    owners = {name: server.others[_definition(name)]["metadata"]["ownerReferences"] for name in made}
    assert all({"uid": "other"} in found for found in owners.values())
    return {name for name, found in owners.items() if OWNER not in found}


def _definition(name: str) -> str:
    return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}.nvidia.com"


OWNER = {"apiVersion": "v1", "kind": "Namespace", "name": "gpu-operator", "uid": "u"}
POLICIES = "/apis/nvidia.com/v1/clusterpolicies?limit=1"


def test_definitions_go_with_the_namespace_that_came_with_the_release_and_have_no_objects(server: Server) -> None:
    server.others[SPACE] = {"metadata": {"creationTimestamp": "2026-01-01T10:00:00Z", "uid": "u"}}
    server.others["/apis/nvidia.com/v1/nvidiadrivers?limit=1"] = {"items": [{}]}
    server.others[POLICIES] = {"items": []}
    late, early = "2026-01-01T10:00:00Z", "2026-01-01T09:59:59Z"
    made = {"clusterpolicies": late, "nvidiadrivers": late, "gpuclusters": early, "others": late}
    assert definitions(server, **made) == {"nvidiadrivers", "gpuclusters", "others"}
    server.asked.clear()
    assert definitions(server, **made) == {"nvidiadrivers", "gpuclusters", "others"}
    assert server.asked == [], "nothing is written twice"


def test_a_definition_that_is_used_again_is_kept(server: Server) -> None:
    """After a destroy that was interrupted and given up."""
    server.others[SPACE] = {"metadata": {"creationTimestamp": "2026-01-01T10:00:00Z", "uid": "u"}}
    assert definitions(server, clusterpolicies="2026-01-01T10:00:00Z") == set()
    server.others[POLICIES] = {"items": [{}]}
    assert definitions(server, clusterpolicies="2026-01-01T10:00:00Z") == {"clusterpolicies"}


def test_without_the_namespace_nobody_knows_whose_definitions_are(server: Server) -> None:
    assert definitions(server, clusterpolicies="2026-01-01T10:00:00Z") == {"clusterpolicies"}


def _as_a_pod_does(**environment: str) -> subprocess.CompletedProcess[str]:
    program = program_text("cleanup_program.py")
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, "gpu-operator", "all"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_pod_runs_it_with_python_alone(server: Server, tmp_path: Path) -> None:
    server.have(node("a", {"nvidia.com/mig.config": "x"}))
    ended = _as_a_pod_does(ACCOUNT_FOLDER=str(tmp_path))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert [method for method, *_ in server.asked] == ["GET", "PATCH", "GET", "GET"]
    assert clean("all") == {}


def test_its_account_is_where_kubelets_put_it(server: Server) -> None:
    ended = _as_a_pod_does()
    assert ended.returncode == 1
    assert "No such file or directory: '/var/run/secrets/kubernetes.io/serviceaccount/token'" in ended.stderr
    assert server.asked == []


@pytest.mark.parametrize("value", ["true", "", "paused-for-mig-change", "paused-for-driver-upgrade"])
def test_a_part_that_was_switched_off_by_hand_stays_off(value: str) -> None:
    key = "nvidia.com/gpu.deploy.dcgm"
    patch = leftovers(node("a", {key: value, f"{key}-exporter": "false"}))
    assert patch == {"metadata": {"resourceVersion": "7", "labels": {key: None}, "annotations": {}}}


def test_the_last_taint_goes_with_the_list_and_what_is_missing_is_no_mistake() -> None:
    bare: dict[str, Any] = {"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"taints": [{"key": STARTUP_TAINT}]}}
    gone = {"resourceVersion": "7", "labels": {}, "annotations": {}}
    assert leftovers(bare) == {"metadata": gone, "spec": {"taints": None}}
    assert leftovers({**bare, "spec": {"taints": None}}) is None
    noted = {**bare["metadata"], "annotations": {"nvidia.com/gpu-driver-upgrade.x": "1", "other": "1"}}
    assert leftovers({"metadata": noted, "spec": {}}) == {
        "metadata": {**gone, "annotations": {"nvidia.com/gpu-driver-upgrade.x": None}}
    }
