"""Monitors, rules and dashboards on a cluster that exists: refused without a Prometheus Operator, there with it, gone again.

The definitions are those of the stand-in chart, shortened to what these objects use. As in the real ones, what a definition does
not name is pruned, so that a field that does not exist is missing in the cluster.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from gpu_pools.observing.objects import pod_monitor_spec, prometheus_rule_spec, service_monitor_spec
from gpu_pools.rendering.dcgm_exporter import COUNTERS_FILE, counters_config_map, counters_file
from tests.tiers import at_night

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep, at_night("the component is judged elsewhere")]

STACK: Final = """
config:
  gpu-pools:cluster: {platform: existing}
  gpu-pools:sharing: {turns: {timeSlicing: {replicas: 4}}}
  gpu-pools:pools:
    - {name: nb, nodeSelector: {example.com/pool: nb}, gpuModel: a100-80gb, gpusPerNode: 1, count: 1, sharing: turns}
"""
SECTION: Final = {"labels": {"release": "monitoring"}, "runbooks": "https://docs.example.com/runbooks"}
GROUP: Final = "/apis/monitoring.coreos.com/v1/namespaces/gpu-operator"
MONITOR: Final = f"{GROUP}/servicemonitors/gpu-pools-dcgm-exporter"
VERIFIERS: Final = f"{GROUP}/podmonitors/gpu-pools-verifiers"
RULES: Final = f"{GROUP}/prometheusrules/gpu-pools"
MAPS: Final = "/api/v1/namespaces/gpu-operator/configmaps"
EXPORTER: Final = "/apis/apps/v1/namespaces/gpu-operator/daemonsets/nvidia-dcgm-exporter"
#: Of the stand-in chart; the real one brings the same names.
DEFINITIONS: Final = Path(__file__).parents[2] / "sandbox/charts/kube-prometheus-stack/crds/monitoring.coreos.com.yaml"
STACK_NAMESPACE: Final = "/api/v1/namespaces/monitoring"
PROMETHEUS: Final = "/apis/monitoring.coreos.com/v1/namespaces/monitoring/prometheuses/kube-prometheus-stack-prometheus"


_POD: Final = {"containers": [{"name": "op", "image": "mirror.example.com/prometheus-operator/prometheus-operator:v0.80.0"}]}
OTHER: Final = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "prom"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "prom"}},
        "template": {"metadata": {"labels": {"app": "prom"}}, "spec": _POD},
    },
}


def install_definitions(trial: Trial) -> None:
    for definition in yaml.safe_load_all(DEFINITIONS.read_text(encoding="utf-8")):
        trial.api().create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    trial.wait_until(lambda: trial.api().get("/apis/monitoring.coreos.com/v1"), "the API of the new definitions")


def exporter(trial: Trial) -> Any:
    return trial.get(EXPORTER)["spec"]["template"]["spec"]


def test_the_section_comes_and_goes_on_a_cluster_with_a_prometheus_operator(sandbox: Callable[..., Trial]) -> None:
    trial = sandbox(STACK)
    trial.up().ok()
    assert "hostPID" not in exporter(trial)
    before = {step["urn"] for step in trial.exported()["resources"]}

    trial.edit(lambda config: config.update({"gpu-pools:observability": SECTION}))
    refused = trial.engine("preview")
    assert refused.code != 0
    assert "gpu-pools:observability.to: prometheus, and the cluster has no monitoring.coreos.com/v1" in refused.text
    assert "kube-prometheus-stack" in refused.text

    install_definitions(trial)
    trial.up().ok()
    plan = trial.plan()
    monitor, rules = trial.get(MONITOR), trial.get(RULES)
    # Nothing was pruned: every field is one of the real definition.
    assert monitor["spec"] == service_monitor_spec(plan)
    assert rules["spec"] == prometheus_rule_spec(plan)
    assert monitor["metadata"]["labels"] == rules["metadata"]["labels"] == {"release": "monitoring"}
    assert trial.get(f"{MAPS}/{counters_config_map()}")["data"] == {COUNTERS_FILE: counters_file()}
    boards = [one for one in trial.api().list(MAPS)["items"] if one["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
    assert len(boards) == 4
    pod = exporter(trial)
    assert pod["hostPID"] is True
    env = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert env["KUBERNETES_VIRTUAL_GPUS"] == "true"
    assert env["DCGM_EXPORTER_COLLECTORS"] == f"/etc/dcgm-exporter/{COUNTERS_FILE}"
    # What the monitor selects by is there: the Service's label and its port.
    service = trial.get("/api/v1/namespaces/gpu-operator/services/nvidia-dcgm-exporter")
    assert service["metadata"]["labels"]["app"] == "nvidia-dcgm-exporter"
    assert service["spec"]["ports"][0]["name"] == monitor["spec"]["endpoints"][0]["port"]
    trial.engine("preview", "--expect-no-changes").ok()
    # Without verifiers nothing scrapes them.
    assert trial.api().get(VERIFIERS) is None

    trial.edit(lambda config: config.update({"gpu-pools:verification": {}}))
    trial.up().ok()
    monitored, rules = trial.get(VERIFIERS)["spec"], trial.get(RULES)
    assert monitored == pod_monitor_spec(trial.plan())
    assert rules["spec"] == prometheus_rule_spec(trial.plan())
    assert "GpuNodeNotAsDeclared" in str(rules)
    # What it selects by is there: a pod with this label, this port, and the pool's name.
    (verifier,) = trial.api().list("/api/v1/namespaces/gpu-pools-verifier/pods")["items"]
    labels, wanted = verifier["metadata"]["labels"], monitored["selector"]["matchLabels"]
    assert {key: labels.get(key) for key in wanted} == wanted
    assert labels["gpu-pools/pool"] == "nb"
    assert verifier["spec"]["containers"][0]["ports"][0]["name"] == monitored["podMetricsEndpoints"][0]["port"]

    trial.edit(lambda config: config.pop("gpu-pools:verification"))
    trial.edit(lambda config: config.pop("gpu-pools:observability"))
    trial.up().ok()
    for path in (MONITOR, VERIFIERS, RULES, f"{MAPS}/{counters_config_map()}"):
        assert trial.api().get(path) is None, path
    trial.wait_until(lambda: "hostPID" not in exporter(trial), "the exporter as the chart has it")
    assert {step["urn"] for step in trial.exported()["resources"]} == before


def test_a_prometheus_of_the_stack_s_own_comes_first_and_goes_whole(sandbox: Callable[..., Trial]) -> None:
    """On a fresh cluster in one deploy: the chart brings the kinds, monitors and rules follow. Helm leaves the definitions."""
    trial = sandbox(STACK)
    section: dict[str, Any] = {"to": "kube-prometheus-stack"}
    trial.edit(lambda config: config.update({"gpu-pools:observability": section, "gpu-pools:verification": {}}))
    trial.up().ok()
    plan = trial.plan()
    assert trial.get(MONITOR)["spec"] == service_monitor_spec(plan)
    assert trial.get(RULES)["spec"] == prometheus_rule_spec(plan)
    assert trial.get(VERIFIERS)["spec"] == pod_monitor_spec(plan)
    # Who reads: the objects of these two namespaces, and nobody else's.
    spec = trial.get(PROMETHEUS)["spec"]
    (names,) = spec["serviceMonitorNamespaceSelector"]["matchExpressions"]
    assert names == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["monitoring", "gpu-operator"]}
    assert spec["serviceMonitorSelector"] == spec["podMonitorSelector"] == spec["ruleSelector"] == {}
    labels = trial.get(STACK_NAMESPACE)["metadata"]["labels"]
    assert labels["gpu-pools/metrics"] == "true"
    # Grafana reads its own namespace, where the dashboards are.
    boards = trial.api().list(f"{STACK_NAMESPACE}/configmaps")["items"]
    assert len([one for one in boards if one["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]) == 4
    assert trial.api().get("/apis/rbac.authorization.k8s.io/v1/clusterroles/kube-prometheus-stack-grafana-clusterrole") is None
    # Its password is made up in the cluster, and is not in the state.
    secret = trial.get(f"{STACK_NAMESPACE}/secrets/kube-prometheus-stack-grafana")["data"]["admin-password"]
    state = json.dumps(trial.exported())
    assert secret not in state
    assert base64.b64decode(secret).decode() not in state
    trial.engine("preview", "--expect-no-changes").ok()

    section["prometheusStack"] = {"values": {"prometheus": {"prometheusSpec": {"retention": "30d"}}}}
    trial.edit(lambda config: config.update({"gpu-pools:observability": section}))
    trial.up().ok()
    assert trial.get(PROMETHEUS)["spec"]["retention"] == "30d"
    assert trial.get(f"{STACK_NAMESPACE}/secrets/kube-prometheus-stack-grafana")["data"]["admin-password"] == secret

    trial.edit(lambda config: config.pop("gpu-pools:observability"))
    trial.up().ok()
    for path in (MONITOR, VERIFIERS, RULES, STACK_NAMESPACE):
        trial.wait_until(lambda path=path: trial.api().get(path) is None, f"{path} gone")
    kept = trial.api().list("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    assert len([one for one in kept if one["spec"]["group"] == "monitoring.coreos.com"]) == 10

    # Definitions alone are in nobody's way; an operator of somebody else's is, and so is the namespace.
    trial.api().create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}})
    trial.api().create("/apis/apps/v1/namespaces/default/deployments", OTHER)
    trial.edit(lambda config: config.update({"gpu-pools:observability": {"to": "kube-prometheus-stack"}}))
    refused = trial.engine("preview")
    assert refused.code != 0
    assert "has a Prometheus Operator already: Deployment default/prom" in refused.text
    assert "has a namespace monitoring already" in refused.text
    assert "Write `to: prometheus`" in refused.text
