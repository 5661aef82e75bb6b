"""A real Kubernetes plugin without a network installs the stand-in charts: the engine's copy of the stack file names them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpu_pools.plan.planning import plan_config
from sandbox.providers.chart_sources import STAND_INS
from sandbox.stack.offline_charts import missing_charts, with_charts

OPERATOR, NFD = "gpu-pools:operator", "gpu-pools:nodeFeatureDiscovery"
CONFIG: dict[str, Any] = {
    "gpu-pools:cluster": {"platform": "existing", "context": "byo"},
    "gpu-pools:sharing": {"sliced": {"timeSlicing": {"replicas": 4}}},
    "gpu-pools:pools": [
        {"name": "a", "nodeSelector": {"p": "a"}, "gpuModel": "NVIDIA A10", "gpusPerNode": 1, "sharing": "sliced"}
    ],
}
BOTH = {"operator": STAND_INS / "gpu-operator", "nodeFeatureDiscovery": STAND_INS / "node-feature-discovery"}
PROMETHEUS: dict[str, Any] = {
    "gpu-pools:observability": {"to": "kube-prometheus-stack", "prometheusStack": {"values": {"crds": {}}}}
}


def never(_: str) -> bool:
    return False


def test_the_stack_then_plans_the_same_from_charts_that_are_there() -> None:
    config = {**CONFIG, OPERATOR: {"values": {"dcgm": {"enabled": True}}}}
    text = with_charts(yaml.safe_dump({"encryptionsalt": "v1:a:b", "config": config}), missing_charts(plan_config(config), never))
    document = yaml.safe_load(text)
    assert "encryptionsalt: v1:a:b" in text.splitlines()
    before, after = plan_config(config), plan_config(document["config"])
    assert after.settings.operator.chart.source.path == str(BOTH["operator"])
    assert after.settings.nfd.chart.source.path == str(BOTH["nodeFeatureDiscovery"])
    assert (after.operator_values, after.nfd_values) == (before.operator_values, before.nfd_values)
    assert missing_charts(after, never) == {}


def test_a_chart_below_a_key_of_a_section_is_named_there_and_the_rest_stays() -> None:
    config = {**CONFIG, **PROMETHEUS}
    text = with_charts(yaml.safe_dump({"config": config}), missing_charts(plan_config(config), never))
    found = yaml.safe_load(text)["config"]["gpu-pools:observability"]
    folder = str(STAND_INS / "kube-prometheus-stack")
    section = {"values": {"crds": {}}, "chart": {"path": folder}}
    assert found == {"to": "kube-prometheus-stack", "prometheusStack": section}
    assert plan_config(yaml.safe_load(text)["config"]).settings.observability.prometheus_stack.source.path == folder


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, BOTH),
        ({OPERATOR: {"install": False}, NFD: {"install": False}}, {}),
        ({OPERATOR: {"chart": {"path": "mine"}}}, {"nodeFeatureDiscovery": BOTH["nodeFeatureDiscovery"]}),
        ({OPERATOR: {"chart": {"oci": "oci://mirror.example/gpu-operator"}}}, BOTH),
        (PROMETHEUS, {**BOTH, "observability.prometheusStack": STAND_INS / "kube-prometheus-stack"}),
        ({"gpu-pools:observability": {}}, BOTH),
    ],
    ids=["defaults", "of another owner", "a folder", "a registry", "Prometheus", "a Prometheus that is there"],
)
def test_only_charts_that_would_be_fetched_are_missing(more: dict[str, Any], expected: dict[str, Any]) -> None:
    assert missing_charts(plan_config({**CONFIG, **more}), never) == expected


def test_what_answers_is_fetched() -> None:
    assert missing_charts(plan_config(CONFIG), lambda _: True) == {}


def test_an_encrypted_section_stays_as_it_is() -> None:
    text = yaml.safe_dump({"config": {OPERATOR: {"secure": "v1:x"}}})
    assert yaml.safe_load(with_charts(text, BOTH))["config"][OPERATOR] == {"secure": "v1:x"}
