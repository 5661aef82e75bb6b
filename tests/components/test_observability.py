"""Where GPUs are observed: the counters come before the release, the monitors after the operator; nothing without the section."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from components import _monitors_there
from components._monitors_there import _look
from components.gpu_operator import GpuOperator
from components.observability import Observability
from components.platform import GpuPlatform
from gpu_pools.observing.objects import API_VERSION
from gpu_pools.rendering.dcgm_exporter import COUNTERS_FILE, counters_config_map
from gpu_pools.text.errors import InvalidStackError

from .conftest import KUBECONFIG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Recorder

STACK: dict[str, Any] = {
    "cluster": {"platform": "existing", "context": "byo"},
    "sharing": {"turns": {"timeSlicing": {"replicas": 4}}},
    "pools": [{"name": "nb", "nodeSelector": {"p": "a"}, "gpuModel": "a100-80gb", "gpusPerNode": 1, "sharing": "turns"}],
}
ALWAYS = {"ServiceMonitor", "PrometheusRule"}


@pytest.fixture
def deploy(
    run: Callable[[Callable[[], Any]], Recorder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Recorder]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return lambda **more: run(lambda: GpuPlatform("gpu", {**STACK, **more}))  # type: ignore[typeddict-item]


def monitors(recorded: Recorder) -> dict[str, Any]:
    found = {one.inputs["kind"]: one.inputs for one in recorded.resources if one.inputs.get("apiVersion") == API_VERSION}
    assert set(found) <= {*ALWAYS, "PodMonitor"}
    return found


def boards(recorded: Recorder) -> dict[str, Any]:
    maps = [
        one.inputs for one in recorded.of("core/v1:ConfigMap") if "dashboard" in one.inputs.get("metadata", {}).get("name", "")
    ]
    return {one["metadata"]["name"]: one for one in maps}


def test_without_the_section_nothing_is_registered(deploy: Callable[..., Recorder]) -> None:
    recorded = deploy()
    assert monitors(recorded) == {}
    assert boards(recorded) == {}
    assert not [one for one in recorded.resources if "counters" in one.name or "observability" in one.name]
    assert "dcgmExporter" not in recorded.one(":Release", "gpu-operator-release").inputs["values"]


def test_an_empty_section_makes_monitor_rules_and_dashboards(deploy: Callable[..., Recorder]) -> None:
    recorded = deploy(observability={})
    made = monitors(recorded)
    assert set(made) == ALWAYS
    assert {one["metadata"]["namespace"] for one in made.values()} == {"gpu-operator"}
    assert len(boards(recorded)) == 4
    for board in boards(recorded).values():
        assert board["metadata"]["labels"] == {"grafana_dashboard": "1"}
        (text,) = board["data"].values()
        assert json.loads(text)["panels"]


def test_verifiers_are_scraped_and_alerted_on_where_there_are_some(deploy: Callable[..., Recorder]) -> None:
    without = monitors(deploy(observability={}))
    assert set(without) == ALWAYS
    assert "GpuNodeNotAsDeclared" not in str(without["PrometheusRule"])
    found = monitors(deploy(observability={"labels": {"release": "m"}}, verification={}))
    assert found["PodMonitor"]["metadata"]["labels"] == {"release": "m"}
    assert found["PodMonitor"]["spec"]["namespaceSelector"] == {"matchNames": ["gpu-pools-verifier"]}
    assert "GpuNodeNotAsDeclared" in str(found["PrometheusRule"])
    assert "PodMonitor" not in monitors(deploy(observability={"to": "none"}, verification={}))


def test_labels_reach_what_a_prometheus_and_a_grafana_select(deploy: Callable[..., Recorder]) -> None:
    recorded = deploy(observability={"labels": {"release": "mon"}, "dashboard_labels": {"my_board": "yes"}})
    assert [one["metadata"]["labels"] for one in monitors(recorded).values()] == [{"release": "mon"}] * 2
    assert all(one["metadata"]["labels"] == {"my_board": "yes"} for one in boards(recorded).values())


def test_none_configures_the_exporter_alone(deploy: Callable[..., Recorder]) -> None:
    recorded = deploy(observability={"to": "none", "dashboards": False})
    assert monitors(recorded) == {}
    assert boards(recorded) == {}
    assert recorded.one(":Release", "gpu-operator-release").inputs["values"]["dcgmExporter"]["hostPID"] is True


def test_the_counters_are_there_before_the_release_that_names_them(deploy: Callable[..., Recorder]) -> None:
    recorded = deploy(observability={})
    (counters,) = [one for one in recorded.of(":ConfigMap") if COUNTERS_FILE in (one.inputs.get("data") or {})]
    assert counters.inputs["metadata"]["name"] == counters_config_map()
    assert counters.inputs["immutable"] is True
    values = recorded.one(":Release", "gpu-operator-release").inputs["values"]
    assert values["dcgmExporter"]["config"] == {"name": counters_config_map()}
    assert counters.name in recorded.depends_on("gpu-operator-release")


def test_monitors_come_after_the_operator_and_rules_after_the_monitor(deploy: Callable[..., Recorder]) -> None:
    recorded = deploy(observability={})
    assert "gpu-observability-monitor" in recorded.depends_on("gpu-observability-rules")
    assert "gpu-operator-release" in recorded.depends_on("gpu-observability-monitor")


def test_it_works_alone(run: Callable[[Callable[[], Any]], Recorder]) -> None:
    config: Any = {"observability": {"labels": {"release": "mon"}}, "cluster": {"platform": "existing"}}
    pool: Any = {**STACK["pools"][0], "sharing": {"time_slicing": {"replicas": 4}}}
    found: dict[str, Any] = {}

    def program() -> None:
        operator = GpuOperator("op", {"pools": [pool], "config": config})
        made = Observability("seen", {"pools": [pool], "config": config}, pulumi.ResourceOptions(depends_on=[operator]))
        for key in ("monitor", "rules", "dashboards"):
            getattr(made, key).apply(lambda value, key=key: found.update({key: value}))

    recorded = run(program)
    assert set(monitors(recorded)) == ALWAYS
    assert found["monitor"] == "gpu-pools-dcgm-exporter"
    assert found["rules"] == "gpu-pools"
    assert len(found["dashboards"]) == 4


def test_alone_and_without_the_section_it_says_what_is_missing(run: Callable[[Callable[[], Any]], Recorder]) -> None:
    def program() -> None:
        with pytest.raises(InvalidStackError, match=r"Observability\(seen\): has no section gpu-pools:observability"):
            Observability("seen", {"config": STACK})

    assert run(program).resources == []


class TestTheLookAtTheCluster:
    def test_a_cluster_with_the_api_is_let_pass(self) -> None:
        _look(lambda: True)

    def test_a_cluster_without_it_is_refused_with_a_remedy(self) -> None:
        with pytest.raises(InvalidStackError) as told:
            _look(lambda: False)
        (problem,) = told.value.problems
        assert problem.path == "gpu-pools:observability.to"
        assert "has no monitoring.coreos.com/v1" in problem.message
        assert "kube-prometheus-stack" in problem.remedy
        assert "to: none" in problem.remedy

    def test_a_cluster_that_cannot_be_asked_stops_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        said: list[str] = []
        monkeypatch.setattr(_monitors_there._log, "warn", said.append)

        def refuse() -> bool:
            raise ConnectionError("secret-address")

        _look(refuse)
        assert said == ["not looked for before the deploy: a Prometheus Operator (ConnectionError)"]

    def test_it_is_looked_for_before_the_monitor_only(self, deploy: Callable[..., Recorder]) -> None:
        recorded = deploy(observability={})
        hooked = {one.name for one in recorded.requests.values() if "gpu-observability-monitors-there" in str(one.hooks)}
        assert hooked == {"gpu-observability-monitor"}


def test_dashboards_are_the_same_text_in_every_process() -> None:
    program = (
        "import json, hashlib\n"
        "from tests.observing import fleets\n"
        "from gpu_pools.observing.objects import dashboard_config_maps, prometheus_rule_spec\n"
        "plan = fleets.plan_of()\n"
        "print(hashlib.sha256(json.dumps([dashboard_config_maps(plan), prometheus_rule_spec(plan)]).encode()).hexdigest())\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
