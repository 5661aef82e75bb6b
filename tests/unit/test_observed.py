"""`up --observe` without programs: who is scraped by the pods' network, how a configuration is brought here, what is refused."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import socket
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.plan.planning import plan_config
from gpu_pools.proof.verifier_pods import PORT as VERIFIER_PORT
from sandbox.cluster import node_tools
from sandbox.observing import operator
from sandbox.observing.on_nodes import APP
from sandbox.observing.pod_network import PORT, PodNetwork, Pods
from sandbox.stack import observed
from sandbox.stack.state import Sandbox
from sandbox.system import peers
from sandbox.system.errors import SandboxError
from tests.observing import fleets

if TYPE_CHECKING:
    from pathlib import Path

RULES: Final = {"gpu-operator-gpu-pools.yaml": "groups: []\n"}
WRITTEN: Final = {
    "global": {"external_labels": {"prometheus_replica": "$(POD_NAME)"}},
    "rule_files": ["/etc/prometheus/rules/prometheus-sandbox-rulefiles-0/*.yaml"],
    "scrape_configs": [
        {
            "job_name": "serviceMonitor/gpu-operator/gpu-pools-dcgm-exporter/0",
            "kubernetes_sd_configs": [{"role": "endpointslice", "namespaces": {"names": ["gpu-operator"]}}],
            "relabel_configs": [{"target_label": "__tmp_hash", "replacement": "$(SHARD)"}],
        }
    ],
    "alerting": {"alertmanagers": []},
}


class Cluster:
    """An API server that has these objects, by path."""

    def __init__(self, **objects: Any) -> None:
        self.objects = objects

    def get(self, path: str) -> Any:
        return self.objects.get(path.rpartition("/")[2])

    def list(self, path: str) -> Any:
        address = path.rpartition("=")[2]
        return {"items": [pod for pod in self.objects["pods"] if pod["status"]["podIP"] == address]}


def test_of_what_the_operator_writes_only_places_are_changed(tmp_path: Path) -> None:
    packed = base64.b64encode(gzip.compress(json.dumps(WRITTEN).encode())).decode()
    maps = {"prometheus-sandbox": {"data": {"prometheus.yaml.gz": packed}}, "prometheus-sandbox-rulefiles-0": {"data": RULES}}
    found = operator.written(Cluster(**maps))  # type: ignore[arg-type]
    assert found is not None
    configuration, rules = found
    assert rules == RULES
    beside = {"job_name": "beside", "static_configs": [{"targets": ["beside:1"]}]}
    here = operator.here(configuration, tmp_path / "kubeconfig", tmp_path / "rules", "http://127.0.0.1:1", [beside])
    job, other = here["scrape_configs"]
    assert other == {**beside, "proxy_url": "http://127.0.0.1:1"}
    assert job == {
        "job_name": "serviceMonitor/gpu-operator/gpu-pools-dcgm-exporter/0",
        "proxy_url": "http://127.0.0.1:1",
        "kubernetes_sd_configs": [
            {
                "role": "endpointslice",
                "namespaces": {"names": ["gpu-operator"]},
                "kubeconfig_file": str(tmp_path / "kubeconfig"),
            }
        ],
        "relabel_configs": [{"target_label": "__tmp_hash", "replacement": "0"}],
    }
    assert here["global"] == {"external_labels": {"prometheus_replica": "prometheus-sandbox-0"}}
    assert here["rule_files"] == [str(tmp_path / "rules" / "*.yaml")]
    assert "alerting" not in here


@pytest.mark.parametrize("missing", ["prometheus-sandbox", "prometheus-sandbox-rulefiles-0"])
def test_what_the_operator_has_not_written_is_waited_for(missing: str) -> None:
    there: dict[str, Any] = {"prometheus-sandbox": {"data": {}}, "prometheus-sandbox-rulefiles-0": {"data": {}}}
    del there[missing]
    assert operator.written(Cluster(**there)) is None  # type: ignore[arg-type]


def _pod(address: str, phase: str = "Running", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "team", "uid": "u", "labels": labels},
        "spec": {"nodeName": "n"},
        "status": {"phase": phase, "podIP": address},
    }


@pytest.mark.parametrize(
    ("address", "port"),
    [("10.0.0.1", PORT), ("10.0.0.2", PORT), ("10.0.0.3", 80), ("10.0.0.4", VERIFIER_PORT), ("10.0.0.9", PORT)],
    ids=["not an exporter", "not running", "another port", "a verifier of another namespace", "nobody"],
)
def test_nobody_else_is_reached(address: str, port: int) -> None:
    pods = [
        _pod("10.0.0.1", app="other"),
        _pod("10.0.0.2", "Pending", app=APP),
        _pod("10.0.0.3", app=APP),
        _pod("10.0.0.4", **{"app.kubernetes.io/name": "gpu-pools-verifier"}),
    ]
    with pytest.raises(ConnectionRefusedError, match="no pod that tells metrics"):
        Pods(Cluster(pods=pods), None).answer(address, port)  # type: ignore[arg-type]


def test_a_name_is_not_an_address() -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        Pods(Cluster(pods=[]), None).answer("10.0.0.1,spec.nodeName=x", PORT)  # type: ignore[arg-type]


def test_the_way_to_the_pods_is_an_http_proxy() -> None:
    def answer(address: str, port: int) -> bytes:
        if port != PORT:
            raise ConnectionRefusedError(address)
        return f'up{{address="{address}"}} 1\n'.encode()

    network = PodNetwork(peers.listening(0), answer)
    try:
        for port, status, body in ((PORT, 200, b'up{address="10.1.2.3"} 1\n'), (1, 502, b"")):
            connection = http.client.HTTPConnection("127.0.0.1", network.socket.getsockname()[1], timeout=10)
            connection.request("GET", f"http://10.1.2.3:{port}/metrics")
            got = connection.getresponse()
            assert got.status == status
            assert got.read().startswith(body)
            connection.close()
    finally:
        network.shutdown()
        network.server_close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(network.server_address, 1)  # type: ignore[arg-type]


@pytest.fixture
def possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_tools, "obstacle", lambda: None)


def _choose(tmp_path: Path, section: dict[str, Any], *, real_nodes: bool = False) -> Sandbox:
    sandbox = Sandbox("s", tmp_path, tmp_path / "Pulumi.s.yaml")
    config = {**fleets.stack(pools=("turns",)), "gpu-pools:observability": section}
    observed.choose(sandbox, plan_config(config), real_nodes=real_nodes)
    return sandbox


@pytest.mark.usefixtures("possible")
def test_what_is_chosen_is_remembered(tmp_path: Path) -> None:
    assert _choose(tmp_path, {}).observed.exists()


@pytest.mark.usefixtures("possible")
@pytest.mark.parametrize("to", ["none", "kube-prometheus-stack"])
def test_metrics_that_another_one_reads_are_refused(tmp_path: Path, to: str) -> None:
    with pytest.raises(SandboxError) as refused:
        _choose(tmp_path, {"to": to})
    assert f"to: {to}" in refused.value.message
    assert not (tmp_path / "observed").exists()


@pytest.mark.usefixtures("possible")
def test_real_nodes_have_no_exporter_that_answers(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="real node"):
        _choose(tmp_path, {}, real_nodes=True)


def test_without_a_simulated_nvml_there_is_nothing_to_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_tools, "obstacle", lambda: "no gcc")
    with pytest.raises(SandboxError, match="no gcc"):
        _choose(tmp_path, {})
