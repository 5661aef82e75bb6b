"""Where GPUs are observed: the counters come before the release, the monitors after the operator; nothing without the section."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pulumi
import pytest

from gpu_pools.components.gpu_operator.operator import GpuOperator
from gpu_pools.components.observability import monitors_there
from gpu_pools.components.observability.monitors_there import _add_on_off, _look, _look_for_another, _wait
from gpu_pools.components.observability.observability import Observability
from gpu_pools.components.platform import GpuPlatform
from gpu_pools.observing.azure_monitor import azure_rule_groups
from gpu_pools.observing.objects import API_VERSION, rule_groups
from gpu_pools.observing.prometheus_stack import prometheus_stack_values
from gpu_pools.plan.planning import plan_config
from gpu_pools.platforms.aks.inputs import cluster_inputs
from gpu_pools.rendering.dcgm_exporter import COUNTERS_FILE, counters_config_map
from gpu_pools.stack.charts import unknown_values
from gpu_pools.text.errors import InvalidStackError
from sandbox.clouds import azure_observing
from tests.clock import set_clock

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
#: The pools of a cluster that exists, in a stack file's words.
ELSEWHERE: dict[str, Any] = {"gpu-pools:sharing": STACK["sharing"], "gpu-pools:pools": STACK["pools"]}
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


class TestAPrometheusOfTheStacksOwn:
    @pytest.fixture
    def recorded(self, deploy: Callable[..., Recorder]) -> Recorder:
        return deploy(observability={"to": "kube-prometheus-stack"}, verification={})

    def test_the_chart_comes_before_what_needs_its_kinds(self, recorded: Recorder) -> None:
        release = recorded.one(":Release", "gpu-observability-release")
        assert release.inputs["chart"] == "kube-prometheus-stack"
        assert release.inputs["version"] == "88.5.3"
        assert "gpu-observability-namespace" in recorded.depends_on("gpu-observability-release")
        for one in ("monitor", "verifiers", "rules"):
            assert "gpu-observability-release" in recorded.depends_on(f"gpu-observability-{one}")
        assert set(monitors(recorded)) == {*ALWAYS, "PodMonitor"}

    def test_its_namespace_may_scrape_the_verifiers_and_holds_the_dashboards(self, recorded: Recorder) -> None:
        namespace = recorded.one(":Namespace", "gpu-observability-namespace").inputs["metadata"]
        assert namespace["name"] == "monitoring"
        assert namespace["labels"]["gpu-pools/metrics"] == "true"
        assert {one["metadata"]["namespace"] for one in boards(recorded).values()} == {"monitoring"}
        assert {one["metadata"]["namespace"] for one in monitors(recorded).values()} == {"gpu-operator"}

    def test_a_second_operator_is_looked_for_and_the_kinds_are_not(self, recorded: Recorder) -> None:
        hooked = {one.name for one in recorded.requests.values() if "gpu-observability-prometheus-there" in str(one.hooks)}
        assert hooked == {"gpu-observability-namespace"}
        assert not [one for one in recorded.requests.values() if "monitors-there" in str(one.hooks)]

    def test_what_aks_shows_nobody_is_not_looked_for_there(self) -> None:
        config: Any = {
            "gpu-pools:cluster": {"platform": "aks"},
            "gpu-pools:sharing": {"whole": {"exclusive": {}}},
            "gpu-pools:pools": [{"name": "a", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "whole"}],
            "gpu-pools:observability": {"to": "kube-prometheus-stack"},
        }
        values = prometheus_stack_values(plan_config(config, complete=False))
        assert values["kubeEtcd"] == values["kubeProxy"] == {"enabled": False}
        existing = prometheus_stack_values(plan_config({**config, "gpu-pools:cluster": {"platform": "existing"}, **ELSEWHERE}))
        assert "kubeEtcd" not in existing

    def test_images_come_from_a_registry_of_one_s_own(self, deploy: Callable[..., Recorder]) -> None:
        registry = {"mirror": "registry.example.com/all", "username": "robot", "password": "secret", "pull_secret": "pull"}
        recorded = deploy(observability={"to": "kube-prometheus-stack"}, registry=registry)
        values = recorded.one(":Release", "gpu-observability-release").inputs["values"]
        assert values["global"] == {"imageRegistry": "registry.example.com/all", "imagePullSecrets": [{"name": "pull"}]}
        assert recorded.one(":Secret", "gpu-observability-pull-secret").inputs["metadata"]["namespace"] == "monitoring"

    def test_its_values_are_values_of_the_chart(self) -> None:
        config: Any = {**{f"gpu-pools:{key}": value for key, value in STACK.items()}}
        config["gpu-pools:observability"] = {"to": "kube-prometheus-stack", "dashboardLabels": {"board": "yes"}}
        config["gpu-pools:registry"] = {"mirror": "registry.example.com/all", "pullSecret": "pull"}
        values = prometheus_stack_values(plan_config(config))
        assert list(unknown_values(values, "kube-prometheus-stack", "88.5.3")) == []
        assert values["grafana"]["sidecar"]["dashboards"] == {"searchNamespace": "", "label": "board", "labelValue": "yes"}

    @pytest.mark.parametrize(
        ("operators", "taken", "told"), [(["a/op"], False, 1), ([], True, 1), (["a/op"], True, 2), ([], False, 0)]
    )
    def test_all_that_is_in_the_way_is_told_at_once(self, operators: list[str], *, taken: bool, told: int) -> None:
        if not told:
            _look_for_another("monitoring", lambda: (operators, taken))
            return
        with pytest.raises(InvalidStackError) as error:
            _look_for_another("monitoring", lambda: (operators, taken))
        assert len(error.value.problems) == told
        assert all("`to: prometheus`" in one.remedy for one in error.value.problems)

    def test_a_cluster_that_cannot_be_asked_stops_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        said: list[str] = []
        monkeypatch.setattr(monitors_there.log, "warn", said.append)

        def refuse() -> tuple[list[str], bool]:
            raise ConnectionError("secret-address")

        _look_for_another("monitoring", refuse)
        assert said == ["not looked for before the deploy: a Prometheus Operator that the cluster has already (ConnectionError)"]


GROUPS = "/subscriptions/s/resourceGroups"
ADMINS = "0f3e7a52-8c1d-4c58-9d0b-3f6a2b7c9e11"
ON_AKS: dict[str, Any] = {
    "cluster": {"platform": "aks", "name": "small", "location": "westeurope", "checkCloud": False, "tags": {"team": "ml"}},
    "sharing": {"turns": {"timeSlicing": {"replicas": 4}}},
    "pools": [{"name": "nb", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "turns"}],
}


class TestAzure:
    @pytest.fixture
    def made(self, run: Callable[[Callable[[], Any]], Recorder]) -> Callable[..., Recorder]:
        def alone(args: dict[str, Any] | None = None, **azure: Any) -> Recorder:
            config: Any = {**ON_AKS, "observability": {"to": "azure", "azure": azure}, "verification": {}}
            return run(lambda: Observability("seen", {"config": config, **(args or {"cluster_id": "/the/cluster"})}))  # type: ignore[typeddict-item]

        return alone

    def test_all_of_the_way_is_made_for_a_cluster_of_ones_own(self, made: Callable[..., Recorder]) -> None:
        recorded = made()
        for kind in ("AzureMonitorWorkspace", "DataCollectionEndpoint", "DataCollectionRule"):
            inputs = recorded.one(f":{kind}").inputs
            assert inputs["location"] == "westeurope"
            assert inputs["resourceGroupName"] == "small"
        association = recorded.one(":DataCollectionRuleAssociation").inputs
        assert association["resourceUri"] == "/the/cluster"
        assert recorded.of(":Grafana") == []
        assert recorded.of(":RoleAssignment") == []

    def test_of_a_cluster_that_is_there_only_what_reads_is_made(self, made: Callable[..., Recorder]) -> None:
        workspace = f"{GROUPS}/ops/providers/Microsoft.Monitor/accounts/one"
        recorded = made({"cluster_name": "theirs", "resource_group_name": "g"}, workspace=workspace, location="northeurope")
        kinds = {one.type.rpartition(":")[2] for one in recorded.resources}
        assert not kinds & {
            "AzureMonitorWorkspace",
            "DataCollectionEndpoint",
            "DataCollectionRule",
            "DataCollectionRuleAssociation",
        }
        for group in recorded.of(":PrometheusRuleGroup"):
            assert group.inputs["scopes"] == [workspace]
            assert group.inputs["location"] == "northeurope"
            assert group.inputs["clusterName"] == "theirs"

    def test_monitors_are_of_azures_kinds_and_rules_are_not_in_the_cluster(self, made: Callable[..., Recorder]) -> None:
        kinds = {one.inputs["kind"]: one.inputs["apiVersion"] for one in made().resources if "apiVersion" in one.inputs}
        assert kinds["ServiceMonitor"] == kinds["PodMonitor"] == "azmonitoring.coreos.com/v1"
        assert "PrometheusRule" not in kinds

    def test_a_grafana_is_made_for_who_may_open_it(self, made: Callable[..., Recorder]) -> None:
        recorded = made(grafana_admins=[ADMINS])
        grafana = recorded.one(":Grafana").inputs
        assert len(grafana["workspaceName"]) <= 23
        assert grafana["identity"] == {"type": "SystemAssigned"}
        roles = {one.inputs["principalType"]: one.inputs for one in recorded.of(":RoleAssignment")}
        assert roles["Group"]["principalId"] == ADMINS
        assert set(roles) == {"Group", "ServicePrincipal"}

    def test_rule_groups_are_within_azures_limits(self, made: Callable[..., Recorder]) -> None:
        plan = plan_config({f"gpu-pools:{key}": value for key, value in {**ON_AKS, "verification": {}}.items()}, complete=False)
        by_name = {one.inputs["ruleGroupName"]: one.inputs for one in made().of(":PrometheusRuleGroup")}
        # They are registered side by side, in any order.
        groups = [by_name[name] for name in azure_rule_groups(plan, "small")]
        for group in groups:
            for alert in [rule for rule in group["rules"] if "severity" in rule]:
                # The mocks have no whole numbers.
                alert["severity"] = int(alert["severity"])
            azure_observing._check_rule_group({**group, "scopes": [f"{GROUPS}/g/providers/Microsoft.Monitor/accounts/a"]})
        rules = [rule for group in groups for rule in group["rules"]]
        assert all(rule["labels"]["cluster"] == "small" for rule in rules)
        wanted = [rule for group in rule_groups(plan) for rule in group["rules"]]
        assert [rule["expression"] for rule in rules] == [rule["expr"] for rule in wanted]
        kept = [(rule["alert"], f"PT{rule.get('keep_firing_for', '10m').upper()}") for rule in wanted if "alert" in rule]
        assert len(set(dict(kept).values())) > 1
        assert [(one["alert"], one["resolveConfiguration"]["timeToResolve"]) for one in rules if "alert" in one] == kept

    @pytest.mark.parametrize("pools", range(1, 12))
    def test_however_many_pools_no_group_is_too_large_and_no_rule_is_lost(self, pools: int) -> None:
        many = [{**ON_AKS["pools"][0], "name": f"p{index}"} for index in range(pools)]
        config: Any = {**ON_AKS, "pools": many, "observability": {"to": "azure"}}
        plan = plan_config({f"gpu-pools:{key}": value for key, value in config.items()}, complete=False)
        groups = azure_rule_groups(plan, "small")
        scopes = [f"{GROUPS}/g/providers/Microsoft.Monitor/accounts/a"]
        for group in groups.values():
            azure_observing._check_rule_group({**group, "scopes": scopes})
        rules = [rule["expression"] for group in groups.values() for rule in group["rules"]]
        assert rules == [rule["expr"] for group in rule_groups(plan) for rule in group["rules"]]

    def test_the_add_on_is_on_without_being_asked_for(self) -> None:
        config: Any = {f"gpu-pools:{key}": value for key, value in ON_AKS.items()}
        assert plan_config(config, complete=False).settings.cluster.options.monitoring is None  # type: ignore[union-attr]
        config["gpu-pools:observability"] = {"to": "azure"}
        cluster = plan_config(config, complete=False).settings.cluster
        assert cluster_inputs(cluster.options)["azureMonitorProfile"] == {"metrics": {"enabled": True}}  # type: ignore[union-attr]

    def test_its_kinds_are_waited_for_and_not_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[bool] = []
        set_clock(monkeypatch, monitors_there, sleep=lambda _: None)
        monkeypatch.setattr("pulumi.runtime.is_dry_run", lambda: False)
        _wait(lambda: asked.append(True) or len(asked) > 3)  # type: ignore[func-returns-value]
        assert len(asked) == 4
        _wait(lambda: asked.append(True) is not None, longest=50)  # type: ignore[func-returns-value]
        assert len(asked) == 9
        monkeypatch.setattr("pulumi.runtime.is_dry_run", lambda: True)
        _wait(lambda: pytest.fail("asked in a preview"))

    def test_a_cluster_of_somebody_elses_without_them_is_refused(self) -> None:
        with pytest.raises(InvalidStackError, match="--enable-azure-monitor-metrics"):
            _look(lambda: False, _add_on_off())


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
        monkeypatch.setattr(monitors_there.log, "warn", said.append)

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
