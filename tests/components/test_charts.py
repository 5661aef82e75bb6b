"""NFD, the GPU operator and pool labels, used alone by another program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.components.gpu_operator.node_features import NodeFeatureDiscovery, PoolLabels
from gpu_pools.components.gpu_operator.operator import GpuOperator
from gpu_pools.text.errors import InvalidStackError

from .conftest import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[Callable[[], Any]], Recorder]


def config(**sections: Any) -> dict[str, Any]:
    """Sections of a stack, as another program would pass them."""
    return {
        "cluster": {"platform": "aks"},
        "sharing": {"nb": {"timeSlicing": {"replicas": 4}}, "mig": {"mig": {"layout": {"1g.10gb": 7}}}},
        "pools": [
            {"name": "a", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "nb", "taints": ["sku=gpu:NoSchedule"]},
            {"name": "b", "vmSize": "Standard_NC24ads_A100_v4", "count": 1, "sharing": "mig"},
        ],
        **sections,
    }


class TestGpuOperator:
    """The operator and its ConfigMaps."""

    def test_config_maps_have_the_names_that_the_values_refer_to(self, run: Run) -> None:
        recorded = run(lambda: GpuOperator("op", {"config": config()}))
        plugin = recorded.one("ConfigMap", "op-device-plugin").inputs
        parted = recorded.one("ConfigMap", "op-mig-parted").inputs
        values = recorded.one("Release").inputs["values"]
        assert plugin["metadata"] == {"name": values["devicePlugin"]["config"]["name"], "namespace": "gpu-operator"}
        assert parted["metadata"]["name"] == values["migManager"]["config"]["name"]
        assert "all-disabled" in yaml.safe_load(parted["data"]["config.yaml"])["mig-configs"]

    def test_each_key_is_a_resource_of_its_own_so_that_it_can_outlive_what_declared_it(self, run: Run) -> None:
        recorded = run(lambda: GpuOperator("op", {"config": config()}))
        values = recorded.one("Release").inputs["values"]["devicePlugin"]["config"]
        patches = [one for one in recorded.of("ConfigMapPatch") if one.inputs["metadata"]["name"] == values["name"]]
        keys = [key for patch in patches for key in patch.inputs["data"]]
        assert [patch.name for patch in patches] == [f"op-config-{key}" for key in keys]
        assert len(keys) == 3
        assert values["default"] in keys
        assert "data" not in recorded.one("ConfigMap", "op-device-plugin").inputs
        assert list(recorded.options("op-device-plugin").ignoreChanges) == ["data"], "stacks of versions before have keys in it"
        assert all("op-device-plugin" in recorded.depends_on(patch.name) for patch in patches)

    @pytest.mark.parametrize("preview", [False, True])
    def test_the_mig_parted_file_has_what_is_declared_and_what_is_still_there(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, *, preview: bool
    ) -> None:
        was = "- devices: all\n  mig-enabled: true\n  mig-devices:\n    3g.40gb: 2\n"
        ask = Recorder.new_resource

        def living(self: Recorder, args: Any) -> Any:
            found, outputs = ask(self, args)
            return found, {**outputs, "data": {"was": was}} if args.name == "op-mig-layouts-live" else outputs

        monkeypatch.setattr(Recorder, "new_resource", living)
        recorded = run(lambda: GpuOperator("op", {"config": config()}), preview=preview)
        layouts = yaml.safe_load(recorded.one("ConfigMap", "op-mig-parted").inputs["data"]["config.yaml"])["mig-configs"]
        (patch,) = [one for one in recorded.of("ConfigMapPatch") if one.name.startswith("op-layout-")]
        ((key, text),) = patch.inputs["data"].items()
        assert layouts.keys() == {"all-disabled", key, "was"}
        assert (layouts[key], layouts["was"]) == (yaml.safe_load(text), yaml.safe_load(was))

    def test_whoever_waits_for_the_operator_waits_for_the_kubelets_too(self, run: Run) -> None:
        recorded = run(lambda: GpuOperator("op", {"config": config(operator={"kubeletSyncSeconds": 20})}))
        wait = recorded.one("DaemonSet", "op-key-wait").inputs
        assert wait["spec"]["minReadySeconds"] == 32
        patches = {one.name for one in recorded.of("ConfigMapPatch")}
        assert {"op-mig-parted", *(name for name in patches if "-config-" in name)} <= recorded.depends_on("op-key-wait")
        assert recorded.options("op-key-wait").customTimeouts.update == "332s"

    def test_the_release_waits_for_the_config_maps_and_never_uninstalls_on_failure(self, run: Run) -> None:
        recorded = run(lambda: GpuOperator("op", {"config": config()}))
        assert {"op-device-plugin", "op-mig-parted"} <= recorded.depends_on("op-release")
        inputs = recorded.one("Release").inputs
        assert (inputs["atomic"], inputs["cleanupOnFail"], inputs["name"]) == (False, True, "gpu-operator")

    @pytest.mark.parametrize(
        ("source", "chart", "repository"),
        [
            ({"repository": "https://charts.example.com"}, "gpu-operator", {"repo": "https://charts.example.com"}),
            ({"oci": "oci://example.com/charts/gpu-operator"}, "oci://example.com/charts/gpu-operator", None),
            ({"path": "charts/gpu-operator.tgz"}, "charts/gpu-operator.tgz", None),
        ],
    )
    def test_the_chart_may_come_from_three_kinds_of_places(
        self, run: Run, source: dict[str, str], chart: str, repository: object
    ) -> None:
        inputs = run(lambda: GpuOperator("op", {"config": config(operator={"chart": source})})).one("Release").inputs
        assert (inputs["chart"], inputs.get("repositoryOpts")) == (chart, repository)

    def test_overrides_are_merged_last_and_visible(self, run: Run) -> None:
        seen: list[Any] = []

        def program() -> None:
            overridden = config(operator={"values": {"dcgmExporter": {"enabled": False}}})
            GpuOperator("op", {"config": overridden}).overrides.apply(seen.append)

        inputs = run(program).one("Release").inputs
        assert inputs["values"]["dcgmExporter"] == {"enabled": False}
        assert seen == [{"dcgmExporter": {"enabled": False}}]

    def test_a_value_that_the_chart_lacks_is_refused(self, run: Run) -> None:
        def program() -> None:
            with pytest.raises(InvalidStackError, match="has no value `dcgmExportr`"):
                GpuOperator("op", {"config": config(operator={"values": {"dcgmExportr": {}}})})

        assert run(program).resources == []

    def test_values_from_an_encrypted_section_stay_secret(self, run: Run) -> None:
        recorded = run(lambda: GpuOperator("op", {"config": config(), "secret_values": True}))
        assert recorded.is_secret("op-release", "values")

    def test_the_namespace_admits_privileged_pods(self, run: Run) -> None:
        metadata = run(lambda: GpuOperator("op", {"config": config()})).one("Namespace").inputs["metadata"]
        assert metadata["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}


def test_nfd_workers_tolerate_the_taints_of_all_pools(run: Run) -> None:
    values = run(lambda: NodeFeatureDiscovery("nfd", {"config": config()})).one("Release").inputs["values"]
    assert {"key": "sku", "operator": "Exists", "effect": "NoSchedule"} in values["worker"]["tolerations"]


class TestAlone:
    """Components of a program, without a stack file."""

    def test_an_nfd_that_is_there_is_not_installed_beside_itself(self, run: Run) -> None:
        def program() -> None:
            with pytest.raises(InvalidStackError, match="does nothing but install one"):
                NodeFeatureDiscovery("nfd", {"config": {**config(), "node_feature_discovery": {"install": False}}})

        assert run(program).resources == []

    def test_problems_name_the_key_of_the_config_as_it_was_written(self, run: Run) -> None:
        def program() -> None:
            with pytest.raises(InvalidStackError) as refused:
                NodeFeatureDiscovery("nfd", {"config": {**config(), "node_feature_discovery": {"instal": False}}})
            (problem,) = refused.value.problems
            assert problem.path == "NodeFeatureDiscovery(nfd).config.node_feature_discovery.instal"

        assert run(program).resources == []


class TestPoolLabels:
    """The rule and the labeller of one pool."""

    ARGS: Any = {  # noqa: RUF012 - read only
        "namespace": "gpu-operator",
        "pool": {
            "name": "mps",
            "node_selector": {"example.com/pool": "mps"},
            "gpu_model": "NVIDIA L40S",
            "gpus_per_node": 1,
            "sharing": {"mps": {"replicas": 4}},
            "taints": ["nvidia.com/gpu=true:NoSchedule"],
        },
    }

    def test_the_rule_puts_the_labels_of_the_plan(self, run: Run) -> None:
        (rule,) = run(lambda: PoolLabels("mps", self.ARGS)).one("NodeFeatureRule").inputs["spec"]["rules"]
        assert rule["labels"]["gpu-pools/pool"] == "mps"
        assert rule["labels"]["nvidia.com/device-plugin.config"].startswith("mps-4-")
        assert "taints" not in rule, "the taints of an existing cluster are its owner's"

    def test_the_labeller_runs_on_the_pool_s_nodes_only_and_tolerates_their_taints(self, run: Run) -> None:
        inputs = run(lambda: PoolLabels("mps", self.ARGS)).one("DaemonSet").inputs
        pod = inputs["spec"]["template"]["spec"]
        assert inputs["metadata"] == {"name": "gpu-pools-marker-mps", "namespace": "gpu-operator"}
        assert pod["nodeSelector"] == {"example.com/pool": "mps"}
        assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        assert pod["containers"][0]["env"] == [{"name": "GPU_POOLS_POOL", "value": "mps"}]

    def test_the_image_can_come_from_a_site_of_one_s_own(self, run: Run) -> None:
        inputs = run(lambda: PoolLabels("mps", {**self.ARGS, "image": "mirror.example.com/busybox"})).one("DaemonSet").inputs
        assert inputs["spec"]["template"]["spec"]["containers"][0]["image"] == "mirror.example.com/busybox"
