"""Chart values: which are known, which are derived and so not the user's, and how overrides are merged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.stack.charts import VERSIONS, ChartSource, check_values, merge_values, parse_nfd, parse_operator
from gpu_pools.text.errors import Problems
from tests.examples import examples
from tests.unit.stacks import aks, existing, magnum, plan_of

OPERATOR_DERIVED = [
    "mig.strategy",
    "devicePlugin.config",
    "devicePlugin.enabled",
    "gfd.enabled",
    "migManager.config",
    "migManager.enabled",
    "driver.enabled",
    "toolkit.enabled",
    "operator.runtimeClass",
    "daemonsets.tolerations",
    "nfd.enabled",
    "clusterPolicy.deployCR",
    "gpuCluster.deployCR",
]
NFD_DERIVED = ["worker.tolerations", "master.enableTaints", "master.enable", "worker.enable"]


def _nested(dotted: str, value: object) -> dict[str, Any]:
    for part in reversed(dotted.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def _paths(problems: Problems) -> list[str]:
    return [problem.path for problem in problems.found]


class TestMerge:
    def test_mappings_merge_and_the_override_wins(self) -> None:
        assert merge_values({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}, "d": 4}) == {"a": {"b": 1, "c": 3}, "d": 4}

    def test_lists_are_replaced_as_helm_does(self) -> None:
        assert merge_values({"a": [1, 2]}, {"a": [3]}) == {"a": [3]}

    def test_neither_side_is_changed_or_shared(self) -> None:
        base, overrides = {"a": {"b": [1]}}, {"c": {"d": [2]}}
        merged = merge_values(base, overrides)
        merged["a"]["b"].append(0)
        merged["c"]["d"].append(0)
        assert base == {"a": {"b": [1]}}
        assert overrides == {"c": {"d": [2]}}

    @settings(max_examples=examples(60), deadline=None)
    @given(
        st.recursive(
            st.dictionaries(st.sampled_from("abc"), st.integers()),
            lambda inner: st.dictionaries(st.sampled_from("abc"), inner),
            max_leaves=8,
        )
    )
    def test_merging_nothing_or_the_same_changes_nothing(self, values: dict[str, Any]) -> None:
        assert merge_values(values, {}) == merge_values({}, values) == merge_values(values, values) == values


class TestKnownKeys:
    @pytest.mark.parametrize(
        "values",
        [
            {"driver": {"version": "580.65.06", "rdma": {"enabled": True}}},
            {"dcgmExporter": {"serviceMonitor": {"enabled": True, "additionalLabels": {"any": "key"}}}},
            {"daemonsets": {"labels": {"any": "key"}, "annotations": {"another": "one"}}},
            {"toolkit": {"resources": {"limits": {"memory": "1Gi"}}}},
            {"operator": {"affinity": {"podAffinity": {}}, "resources": {"limits": {"example.com/x": 1}}}},
            {"operator": {"nodeSelector": {"kubernetes.io/os": "linux", "pool": "system"}}},
        ],
        ids=str,
    )
    def test_known_values_pass(self, values: dict[str, Any]) -> None:
        problems = Problems()
        check_values(values, "gpu-operator", "v26.7.0", "v", problems)
        assert not _paths(problems)

    def test_every_unknown_key_is_named_with_its_siblings(self) -> None:
        problems = Problems()
        check_values(
            {"driver": {"vershun": 1, "rdma": {"on": True}}, "dcgmExportr": {}}, "gpu-operator", "v26.7.0", "v", problems
        )
        assert _paths(problems) == ["v.driver.vershun", "v.driver.rdma.on", "v.dcgmExportr"]
        assert [problem.remedy for problem in problems.found] == [
            "Did you mean `version`?",
            "Remove it; Helm would silently ignore it.",
            "Did you mean `dcgmExporter`?",
        ]

    @pytest.mark.parametrize("platform", [aks, magnum, existing], ids=["aks", "magnum", "existing"])
    def test_the_values_of_the_plan_are_known_to_the_charts(self, platform: Any) -> None:
        plan = plan_of(platform(sharing={"cut": {"mig": {"layout": {"7g.40gb" if platform is magnum else "7g.80gb": 1}}}}))
        problems = Problems()
        check_values(plan.operator_values, "gpu-operator", VERSIONS["gpu-operator"][0], "operator", problems)
        check_values(plan.nfd_values, "node-feature-discovery", VERSIONS["node-feature-discovery"][0], "nfd", problems)
        assert not _paths(problems)

    @pytest.mark.parametrize("value", [None, False, [], "x"], ids=str)
    def test_a_mapping_of_the_chart_cannot_be_replaced_by_something_else(self, value: object) -> None:
        """``mig: null`` would erase the derived strategy; Helm takes a null for "delete"."""
        problems = Problems()
        parse_operator({"values": {"mig": value, "driver": {"rdma": value}}}, "o", problems)
        assert _paths(problems) == ["o.values.mig", "o.values.driver.rdma"]


class TestDerived:
    @pytest.mark.parametrize("value", [True, False, "x", None, []], ids=str)
    @pytest.mark.parametrize("dotted", OPERATOR_DERIVED)
    def test_operator_values_of_the_plan_are_refused(self, dotted: str, value: object) -> None:
        problems = Problems()
        parse_operator({"values": _nested(dotted, value)}, "o", problems)
        assert f"o.values.{dotted}" in _paths(problems)

    @pytest.mark.parametrize("dotted", NFD_DERIVED)
    def test_nfd_values_of_the_plan_are_refused(self, dotted: str) -> None:
        problems = Problems()
        parse_nfd({"values": _nested(dotted, value=False)}, "n", problems)
        assert _paths(problems) == [f"n.values.{dotted}"]

    def test_what_the_plan_does_not_derive_may_be_set(self) -> None:
        problems = Problems()
        parse_operator({"values": {"driver": {"version": "580"}, "cdi": {"enabled": False}}}, "o", problems)
        assert not _paths(problems)


class TestSections:
    def test_absent_sections_mean_the_defaults(self) -> None:
        problems = Problems()
        operator, nfd = parse_operator(None, "o", problems), parse_nfd(None, "n", problems)
        assert not _paths(problems)
        assert (operator.driver, operator.mig_strategy) == ("operator", None)
        assert (operator.chart.name, operator.chart.version) == ("gpu-operator", "v26.7.0")
        assert operator.chart.source == ChartSource(repository="https://helm.ngc.nvidia.com/nvidia")
        assert not nfd.adopted
        assert (nfd.chart.name, nfd.chart.version) == ("node-feature-discovery", "0.19.0")

    @pytest.mark.parametrize(
        ("chart", "source"),
        [
            ({"repository": "https://mirror.example.com/nvidia"}, ChartSource(repository="https://mirror.example.com/nvidia")),
            (
                {"oci": "oci://registry.example.com/charts/gpu-operator"},
                ChartSource(oci="oci://registry.example.com/charts/gpu-operator"),
            ),
            ({"path": "charts/gpu-operator-v26.7.0.tgz"}, ChartSource(path="charts/gpu-operator-v26.7.0.tgz")),
        ],
    )
    def test_a_chart_comes_from_one_of_three_sources(self, chart: dict[str, str], source: ChartSource) -> None:
        problems = Problems()
        assert parse_operator({"chart": chart}, "o", problems).chart.source == source
        assert not _paths(problems)

    def test_nfd_may_be_there_already(self) -> None:
        assert parse_nfd({"install": False}, "n", Problems()).adopted
