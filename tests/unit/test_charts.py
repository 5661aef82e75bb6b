"""Chart values: which are known, which are derived and so not the user's, and how overrides are merged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_pools.stack.charts import (
    NFD_WITHIN,
    VERSIONS,
    ChartSource,
    check_values,
    merge_values,
    overridden_environment,
    parse_nfd,
    parse_operator,
    refused_choices,
    refused_combinations,
)
from gpu_pools.text.errors import Problem, Problems
from tests.examples import examples
from tests.unit.stacks import aks, existing, magnum, plan_of

OPERATOR_DERIVED = {
    "mig.strategy": "gpu-pools:operator.migStrategy",
    "devicePlugin.config": "gpu-pools:sharing",
    "devicePlugin.enabled": "nothing: without the plugin nothing is advertised",
    "gfd.enabled": "nothing: without gpu-feature-discovery MPS never starts and labels are missing",
    "migManager.config": "gpu-pools:sharing",
    "migManager.enabled": "partitionedBy of the pools",
    "driver.enabled": "gpu-pools:operator.driver, or driver of the pools",
    "toolkit.enabled": "gpu-pools:operator.driver, or driver of the pools",
    "operator.runtimeClass": "gpu-pools:operator.driver, or driver of the pools",
    "daemonsets.tolerations": "taints of the pools",
    "nfd.enabled": "gpu-pools:nodeFeatureDiscovery",
    "clusterPolicy.deployCR": "nothing: the plan needs the ClusterPolicy",
    "gpuCluster.deployCR": "nothing: this project does not use DRA",
}
NFD_DERIVED = {
    "worker.tolerations": "taints of the pools",
    "master.enableTaints": "taints of the pools",
    "master.extraLabelNs": "labels of the pools",
    "master.config.extraLabelNs": "labels of the pools",
    "master.config.enableTaints": "taints of the pools",
    "master.config.informerPageSize": "nothing: with pages nfd-master may miss nodes for minutes",
    "master.enable": "nothing: without the master no label reaches a node",
    "worker.enable": "nothing: without workers no GPU is found",
}


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

    def test_variables_merge_by_name_and_objects_come_after(self) -> None:
        base = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "extraObjects": [1]}
        overrides = {"env": [{"name": "B", "value": "3"}, "odd"], "extraObjects": [2]}
        assert merge_values(base, overrides) == {
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, "odd"],
            "extraObjects": [1, 2],
        }
        assert merge_values(base, {"env": None, "extraObjects": {}}) == {"env": None, "extraObjects": {}}
        assert merge_values({}, overrides) == overrides
        assert merge_values({"other": [1], "env": {"a": 1}}, {"other": [2], "env": [1]}) == {"other": [2], "env": [1]}

    def test_a_mapping_and_something_else_replace_each_other(self) -> None:
        assert merge_values({"a": {"b": 1}}, {"a": None}) == {"a": None}
        assert merge_values({"a": 1}, {"a": {"b": 1}}) == {"a": {"b": 1}}


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

    @pytest.mark.parametrize("version", VERSIONS["gpu-operator"])
    @pytest.mark.parametrize(
        "values",
        [
            {"validator": {"driver": {"env": []}, "toolkit": {"env": []}, "cuda": {"env": []}, "version": "v1"}},
            {"driver": {"args": [], "livenessProbe": {"periodSeconds": 60}, "startupProbe": {"successThreshold": 1}}},
            {"dcgmExporter": {"config": {"name": "mine"}, "service": {"type": "ClusterIP"}}},
            {"nodeStatusExporter": {"env": []}, "gfd": {"args": []}, "operator": {"labels": {"any": "key"}}},
            {"nameOverride": "a", "fullnameOverride": "b"},
            {"node-feature-discovery": {"worker": {"daemonsetAnnotations": {"any": "key"}}, "image": {"tag": "v1"}}},
        ],
        ids=str,
    )
    def test_values_that_only_templates_name_pass(self, values: dict[str, Any], version: str) -> None:
        problems = Problems()
        check_values(values, "gpu-operator", version, "v", problems)
        assert not _paths(problems)

    @pytest.mark.parametrize(
        ("dotted", "first"),
        [
            ("hostPaths.kubeletRootDir", "v26.7.0"),
            ("operator.metrics.serviceMonitor.enabled", "v26.7.0"),
            ("dcgmExporter.podLabelAllowlistRegex", "v26.3.3"),
            ("dcgmExporter.hpcJobMapping.enabled", "v25.10.1"),
        ],
    )
    def test_a_value_of_a_newer_chart_is_unknown_to_an_older_one(self, dotted: str, first: str) -> None:
        for version in VERSIONS["gpu-operator"]:
            problems = Problems()
            check_values(_nested(dotted, value=True), "gpu-operator", version, "v", problems)
            newer = VERSIONS["gpu-operator"].index(version) <= VERSIONS["gpu-operator"].index(first)
            assert bool(_paths(problems)) is not newer, version

    @pytest.mark.parametrize(
        "values",
        [
            {"grafana": {"route": {"any": {"enabled": True}}, "persistence": {"storageClassName": "fast"}}},
            {"kube-state-metrics": {"prometheus": {"monitor": {"interval": "30s"}}, "priorityClassName": "high"}},
            {"prometheusOperator": {"logLevel": "debug", "podDisruptionBudget": {"maxUnavailable": 1}}},
            {"additionalPrometheusRules": [], "prometheus": {"ingress": {"pathType": "Prefix"}}},
        ],
        ids=str,
    )
    def test_templates_of_the_prometheus_stack_and_its_charts_name_more_too(self, values: dict[str, Any]) -> None:
        problems = Problems()
        check_values(values, "kube-prometheus-stack", "88.5.3", "v", problems)
        assert not _paths(problems)

    @pytest.mark.parametrize(
        ("values", "path"),
        [
            ({"driver": {"livenessProbe": {"period": 1}}}, "v.driver.livenessProbe.period"),
            ({"validator": {"toolkit": {"args": []}}}, "v.validator.toolkit.args"),
            ({"node-feature-discovery": {"wroker": {}}}, "v.node-feature-discovery.wroker"),
        ],
    )
    def test_what_no_template_reads_is_still_unknown(self, values: dict[str, Any], path: str) -> None:
        problems = Problems()
        check_values(values, "gpu-operator", "v26.7.0", "v", problems)
        assert _paths(problems) == [path]

    def test_each_operator_s_chart_has_the_keys_of_the_nfd_in_it(self) -> None:
        assert set(NFD_WITHIN) == set(VERSIONS["gpu-operator"])
        assert NFD_WITHIN[VERSIONS["gpu-operator"][0]] == VERSIONS["node-feature-discovery"][0]

    def test_of_a_file_of_the_user_s_own_the_remedy_is_another(self) -> None:
        problems = Problems()
        check_values({"a": 1}, "gpu-operator", "v99", "v", problems, keys={"other-one": None})
        (problem,) = problems.found
        assert problem.remedy.endswith("If the chart's templates read it all the same, add the key to the file of `valuesFile`.")

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


def _removed(setting: str) -> str:
    """What to do with a value that a setting decides, or nothing."""
    why = setting.removeprefix("nothing: ")
    return f"Remove it: {why}." if why != setting else f"Remove it; it is decided by {setting}."


class TestDerived:
    @pytest.mark.parametrize("value", [True, False, "x", None, []], ids=str)
    @pytest.mark.parametrize("dotted", OPERATOR_DERIVED)
    def test_operator_values_of_the_plan_are_refused(self, dotted: str, value: object) -> None:
        problems = Problems()
        parse_operator({"values": _nested(dotted, value)}, "o", problems)
        assert _removed(OPERATOR_DERIVED[dotted]) in [
            problem.remedy for problem in problems.found if problem.path == f"o.values.{dotted}"
        ]

    @pytest.mark.parametrize("dotted", NFD_DERIVED)
    def test_nfd_values_of_the_plan_are_refused(self, dotted: str) -> None:
        problems = Problems()
        parse_nfd({"values": _nested(dotted, value=False)}, "n", problems)
        (problem,) = problems.found
        assert (problem.path, problem.remedy) == (f"n.values.{dotted}", _removed(NFD_DERIVED[dotted]))

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

    @pytest.mark.parametrize(
        ("key", "written", "remedy"),
        [
            ("repository", "oci://m.example/x", "Write it under `oci`: `chart: {oci: oci://m.example/x}`."),
            ("oci", "https://m.example", "Write it under `repository`: `chart: {repository: https://m.example}`."),
            ("oci", "http://m.example", "Write it under `repository`: `chart: {repository: http://m.example}`."),
            ("repository", "ftp://m.example", "Choose another."),
            ("oci", "oci:/x", "Choose another."),
            ("oci", "oci://a b", "Choose another."),
            ("oci", "https", "Choose another."),
            ("repository", "oci", "Choose another."),
            ("repository", "https://a b", "Choose another."),
        ],
    )
    def test_a_source_under_the_wrong_key_is_told_the_right_one(self, key: str, written: str, remedy: str) -> None:
        problems = Problems()
        parse_operator({"chart": {key: written}}, "o", problems)
        assert _paths(problems) == [f"o.chart.{key}"]
        assert problems.found[0].remedy == remedy

    def test_an_image_of_the_labellers_has_a_tag(self) -> None:
        problems = Problems()
        parse_nfd({"markerImage": "busybox"}, "n", problems)
        (problem,) = problems.found
        assert problem.allowed == "an image with a tag or digest, e.g. registry.example.com/busybox:1.37"

    def test_a_source_of_plain_http_is_a_repository(self) -> None:
        problems = Problems()
        assert parse_operator({"chart": {"repository": "http://m.example"}}, "o", problems).chart.source.repository
        assert not _paths(problems)

    @pytest.mark.parametrize("section", [7, {"chart": 7}], ids=str)
    def test_what_is_no_mapping_leaves_the_default(self, section: object) -> None:
        problems = Problems()
        assert parse_nfd(section, "n", problems).chart.source.repository
        assert len(problems) == 1

    @pytest.mark.parametrize(("seconds", "good"), [(1, True), (3600, True), (0, False), (3601, False)])
    def test_how_often_kubelets_look(self, seconds: int, good: bool) -> None:  # noqa: FBT001
        problems = Problems()
        parse_operator({"kubeletSyncSeconds": seconds}, "o", problems)
        assert _paths(problems) == ([] if good else ["o.kubeletSyncSeconds"])

    def test_of_an_operator_that_is_there_nothing_of_a_chart_is_said(self) -> None:
        problems = Problems()
        written = {"install": False, "version": "v26.7.0", "chart": {"path": "x"}, "values": {}}
        assert parse_operator(written, "o", problems).adopted
        assert _paths(problems) == ["o.version", "o.chart", "o.values"]
        assert parse_operator({**written, "install": True}, "o", problems).adopted is False
        assert len(problems) == 3

    def test_values_of_nfd_that_take_its_labels_away(self) -> None:
        problems = Problems()
        parse_nfd({"values": {"worker": {"config": {"core": {"noPublish": True}}}}}, "n", problems)
        assert problems.found == (
            Problem(
                "n.values.worker.config.core.noPublish",
                "true: no label of NFD reaches a node (W40)",
                "false",
                "Change it, or leave it out: the chart takes it, and nothing would work afterwards.",
            ),
        )

    def test_a_place_in_a_list_is_told_by_its_number(self) -> None:
        problems = Problems()
        parse_operator({"values": {"gfd": {"env": [{"name": "A"}, {"name": "B=C"}]}}}, "o", problems)
        assert _paths(problems) == ["o.values.gfd.env[1]"]


class TestOverrides:
    """What would win over the plan, and what chart and cluster refuse."""

    @pytest.mark.parametrize(
        ("values", "found"),
        [
            *(
                ({operand: {"env": [{"name": "OTHER"}, {"name": name}]}}, [((operand, "env", 1), name)])
                for operand, names in (
                    ("devicePlugin", ("MIG_STRATEGY", "CONFIG_FILE")),
                    ("gfd", ("MIG_STRATEGY", "CONFIG_FILE")),
                    ("migManager", ("CONFIG_FILE",)),
                )
                for name in names
            ),
            ({"migManager": {"env": [{"name": "MIG_STRATEGY"}]}}, []),
            ({"toolkit": {"env": [{"name": "CONFIG_FILE"}]}}, []),
            ({"gfd": {"env": ["MIG_STRATEGY", {}]}}, []),
            ({"gfd": {"env": {"name": "MIG_STRATEGY"}}}, []),
            ({"gfd": "env"}, []),
            ({"gfd": {"args": ["--x", "--mig-strategy=none"]}}, [(("gfd", "args", 1), "--mig-strategy")]),
            ({"gfd": {"args": ["--config-file", 7]}}, [(("gfd", "args", 0), "--config-file")]),
            ({"gfd": {"args": "--mig-strategy=none"}}, []),
        ],
        ids=str,
    )
    def test_variables_and_arguments_that_would_win(self, values: dict[str, Any], found: list[object]) -> None:
        assert list(overridden_environment(values)) == found

    @pytest.mark.parametrize(
        ("dotted", "choices"),
        [
            ("mig.strategy", ("none", "single", "mixed")),
            ("daemonsets.updateStrategy", ("RollingUpdate", "OnDelete")),
            ("driver.kernelModuleType", ("auto", "open", "proprietary")),
            ("sandboxWorkloads.defaultWorkload", ("container", "vm-passthrough", "vm-vgpu")),
            ("sandboxWorkloads.mode", ("kubevirt", "kata")),
        ],
    )
    def test_choices_of_the_cluster_policy(self, dotted: str, choices: tuple[str, ...]) -> None:
        for value in (*choices, "", None):
            assert not list(refused_choices(_nested(dotted, value)))
        assert list(refused_choices(_nested(dotted, "other"))) == [(dotted, "other")]
        problems = Problems()
        parse_operator({"values": _nested(dotted, "other")}, "o", problems)
        (told,) = (problem for problem in problems.found if "Kubernetes" in problem.message)
        assert (told.allowed, told.remedy) == (" | ".join(choices), "Choose one of those.")

    @pytest.mark.parametrize(
        ("values", "found"),
        [
            ({}, []),
            ({"cdi": {"nriPluginEnabled": True}}, []),
            ({"cdi": {"nriPluginEnabled": False, "enabled": False}}, []),
            ({"cdi": {"nriPluginEnabled": True, "enabled": False}}, ["needs cdi.enabled (W42)"]),
            ({"cdi": {"nriPluginEnabled": True}, "toolkit": {"enabled": False}}, ["needs toolkit.enabled (W42)"]),
            (
                {"gpuCluster": {"deployCR": True}},
                [
                    "excludes clusterPolicy.deployCR, which is true by default",
                    "needs driver.nvidiaDriverCRD.enabled, which is false by default",
                ],
            ),
            ({"gpuCluster": {"deployCR": False}}, []),
            (
                {"gpuCluster": {"deployCR": True}, "clusterPolicy": {"deployCR": False}, "driver": {"enabled": False}},
                [],
            ),
            (
                {
                    "gpuCluster": {"deployCR": True},
                    "clusterPolicy": {"deployCR": False},
                    "driver": {"nvidiaDriverCRD": {"enabled": True}},
                },
                [],
            ),
        ],
        ids=str,
    )
    def test_combinations_that_the_chart_refuses(self, values: dict[str, Any], found: list[str]) -> None:
        told = list(refused_combinations(values))
        assert [why for _, why in told] == found
        assert {place for place, _ in told} <= {"cdi.nriPluginEnabled" if "cdi" in values else "gpuCluster.deployCR"}

    @pytest.mark.parametrize("driver", ["operator", "preinstalled", None])
    def test_a_toolkit_that_the_operator_does_not_install_is_off(self, driver: str | None) -> None:
        problems = Problems()
        parse_operator({"driver": driver, "values": {"cdi": {"nriPluginEnabled": True}}}, "o", problems)
        assert _paths(problems) == (["o.values.cdi.nriPluginEnabled"] if driver == "preinstalled" else [])

    @pytest.mark.parametrize(
        ("version", "good"), [("580", True), (580, True), (None, True), (True, False), ([], False), ({}, False)], ids=str
    )
    def test_a_version_is_a_text(self, version: object, good: bool) -> None:  # noqa: FBT001
        problems = Problems()
        parse_operator({"values": {"driver": {"repository": "a", "image": "b", "version": version}}}, "o", problems)
        assert any("is not a version" in problem.message for problem in problems.found) is not good

    @pytest.mark.parametrize(
        "open_", ["resources", "nodeSelector", "affinity", "labels", "annotations", "securityContext", "podSecurityContext"]
    )
    def test_keys_below_what_kubernetes_defines_are_nobodys(self, open_: str) -> None:
        problems = Problems()
        for chart, place in (("gpu-operator", "daemonsets"), ("node-feature-discovery", "worker")):
            values = {place: {open_: {"any": {"key": 1}}}}
            check_values(values, chart, VERSIONS[chart][0], "v", problems)  # type: ignore[arg-type, index]
        assert [path for path in _paths(problems) if path.endswith(("any", "key"))] == []

    def test_all_siblings_of_an_unknown_key_are_told(self) -> None:
        problems = Problems()
        check_values({"sandboxWorkloads": {"xyzzy": 1}}, "gpu-operator", "v26.7.0", "v", problems)
        (problem,) = problems.found
        assert problem.allowed == "enabled, defaultWorkload, mode"

    def test_a_number_as_a_key_is_unknown_too(self) -> None:
        problems = Problems()
        check_values({7: 1}, "gpu-operator", "v26.7.0", "v", problems)  # type: ignore[dict-item]
        assert _paths(problems) == ["v.7"]
