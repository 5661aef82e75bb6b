"""Monitors, rules and dashboards on a cluster that exists: refused without a Prometheus Operator, there with it, gone again.

The definitions are those of prometheus-operator v0.93.0 (example/prometheus-operator-crd), shortened to what these objects use.
As there, what a definition does not name is pruned, so that a field that does not exist is missing in the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.observing.objects import pod_monitor_spec, prometheus_rule_spec, service_monitor_spec
from gpu_pools.rendering.dcgm_exporter import COUNTERS_FILE, counters_config_map, counters_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.trial import Trial

pytestmark = [pytest.mark.engine, pytest.mark.programs, pytest.mark.sweep]

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
DURATION: Final = r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
TEXT: Final = {"type": "string"}
TIME: Final = {"type": "string", "pattern": DURATION}
TEXTS: Final = {"type": "object", "additionalProperties": TEXT}
RELABELING: Final = {
    "type": "object",
    "properties": {
        "action": {
            "type": "string",
            "default": "replace",
            "enum": ["replace", "keep", "drop", "labeldrop", "labelkeep", "labelmap"],
        },
        "regex": TEXT,
        "replacement": TEXT,
        "sourceLabels": {"type": "array", "items": {"type": "string"}},
        "targetLabel": TEXT,
    },
}
ENDPOINTS: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "port": TEXT,
            "path": TEXT,
            "interval": TIME,
            "scrapeTimeout": TIME,
            "honorLabels": {"type": "boolean"},
            "relabelings": {"type": "array", "items": RELABELING},
        },
    },
}
SELECTOR: Final = {"type": "object", "properties": {"matchLabels": TEXTS}}
PODS_SPEC: Final = {
    "type": "object",
    "required": ["selector"],
    "properties": {
        "namespaceSelector": {"type": "object", "properties": {"matchNames": {"type": "array", "items": TEXT}}},
        "selector": SELECTOR,
        "podMetricsEndpoints": ENDPOINTS,
    },
}
MONITOR_SPEC: Final = {
    "type": "object",
    "required": ["endpoints", "selector"],
    "properties": {
        "jobLabel": TEXT,
        "selector": SELECTOR,
        "attachMetadata": {"type": "object", "properties": {"node": {"type": "boolean"}}},
        "endpoints": ENDPOINTS,
    },
}
RULE: Final = {
    "type": "object",
    "required": ["expr"],
    "properties": {
        "alert": TEXT,
        "annotations": TEXTS,
        "expr": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
        "for": TIME,
        "keep_firing_for": {**TIME, "minLength": 1},
        "labels": TEXTS,
        "record": TEXT,
    },
}
RULES_SPEC: Final = {
    "type": "object",
    "properties": {
        "groups": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string", "minLength": 1}, "rules": {"type": "array", "items": RULE}},
            },
            "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-list-type": "map",
        }
    },
}


def definition(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    plural, group = f"{kind.lower()}s", "monitoring.coreos.com"
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def install_definitions(trial: Trial) -> None:
    for kind, spec in (("ServiceMonitor", MONITOR_SPEC), ("PodMonitor", PODS_SPEC), ("PrometheusRule", RULES_SPEC)):
        trial.api().create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(kind, spec))
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
