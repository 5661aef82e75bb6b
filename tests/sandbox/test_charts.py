"""The stand-in charts render what the real ones would, refuse what they refuse, and are found when they should be."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.hardware.operands import brought
from gpu_pools.stack.charts import VERSIONS
from sandbox.providers import chart_sources
from sandbox.providers.chart_sources import STAND_INS, Chart, ChartError, ChartRequest, ChartSources
from sandbox.providers.helm import Releases, resource_names
from sandbox.providers.older_charts import write_older
from sandbox.providers.values import UNKNOWN
from sandbox.system.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NVIDIA = "https://helm.ngc.nvidia.com/nvidia"
Manifest = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def helm() -> str:
    found = os.environ.get("GPU_POOLS_HELM") or shutil.which("helm")
    if not found:
        from sandbox.system.progress import Progress  # noqa: PLC0415
        from sandbox.toolchain.find import find_tools  # noqa: PLC0415  (only where helm must be found or built)

        found = str(find_tools(Progress(), only={"helm"}).helm)
    return found


@pytest.fixture
def render(helm: str, tmp_path: Path) -> Callable[..., Manifest]:
    def rendered(chart: str, values: dict[str, Any]) -> Manifest:
        file = tmp_path / "values.json"
        file.write_text(json.dumps(values))
        command = [helm, "template", "gpu-operator" if "/" in chart else chart, str(STAND_INS / chart), "--namespace", "n"]
        command += ["--values", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        objects = [obj for obj in yaml.safe_load_all(done.stdout) if obj]
        return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}

    return rendered


class TestSources:
    def find(self, request: ChartRequest, *, reachable: bool = False) -> Chart:
        asked = ChartSources(lambda: "/nonexistent/helm", reachable=lambda _: reachable)
        return asked.find(request, {})

    def test_an_unreachable_repository_gives_the_stand_in_of_the_same_version(self) -> None:
        found = self.find(ChartRequest("gpu-operator", "v26.7.0", NVIDIA))
        assert found.stand_in
        assert found.path == STAND_INS / "gpu-operator"

    def test_a_chart_of_a_registry_has_a_stand_in_too(self) -> None:
        request = ChartRequest("oci://registry.k8s.io/nfd/charts/node-feature-discovery", "0.19.0")
        assert self.find(request).stand_in

    @pytest.mark.parametrize("version", VERSIONS["gpu-operator"])
    def test_each_known_version_of_the_operator_has_one(self, version: str) -> None:
        sources = ChartSources(lambda: "/nonexistent/helm", reachable=lambda _: False)
        found = sources.find(ChartRequest("gpu-operator", version, NVIDIA), {})
        assert (found.stand_in, found.version()) == (True, version)
        assert sources.find(ChartRequest("gpu-operator", version.removeprefix("v"), NVIDIA), {}).path == found.path

    @pytest.mark.parametrize("version", ["v26.7.1", "v25.3.3", "latest"])
    def test_another_version_is_not_found(self, version: str) -> None:
        text = f'chart "gpu-operator" version "{version}" not found in {NVIDIA} repository'
        with pytest.raises(ChartError, match=re.escape(text)) as caught:
            self.find(ChartRequest("gpu-operator", version, NVIDIA))
        assert "only a stand-in of version v26.7.0, v26.3.3, v25.10.1, v25.3.4" in str(caught.value)

    def test_an_unknown_chart_is_not_found(self) -> None:
        with pytest.raises(ChartError, match=r'chart "cert-manager" version "v1" not found in .*no stand-in for this chart'):
            self.find(ChartRequest("cert-manager", "v1", "https://charts.jetstack.io"))

    @pytest.mark.parametrize(
        ("chart", "repository"),
        [("oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu", ""), ("dra-driver-nvidia-gpu", NVIDIA)],
    )
    def test_the_chart_of_a_go_module_is_the_real_one(
        self, chart: str, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chart_sources, "find_built", lambda name, _: tmp_path / name)
        found = self.find(ChartRequest(chart, "0.5.0", repository))
        place = tmp_path / "dra-driver-chart" / "dra-driver-nvidia-gpu"
        assert found == Chart(place, of_module=True)

    def test_another_version_of_it_is_not_found(self) -> None:
        with pytest.raises(ChartError, match=r"not found in .*the sandbox has only version 0\.5\.0, out of its Go module"):
            self.find(ChartRequest("dra-driver-nvidia-gpu", "0.4.1", NVIDIA))

    def test_a_module_that_cannot_be_had_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(name: str, _: object) -> Path:
            raise SandboxError(f"{name}: no Go", "Install it.")

        monkeypatch.setattr(chart_sources, "find_built", refuse)
        with pytest.raises(ChartError, match=r"dra-driver-chart: no Go Install it\."):
            self.find(ChartRequest("dra-driver-nvidia-gpu", "0.5.0", NVIDIA))

    def test_a_path_is_taken_as_it_is(self) -> None:
        found = self.find(ChartRequest(str(STAND_INS / "gpu-operator")))
        assert not found.stand_in

    def test_a_path_that_is_missing_is_an_error_without_a_repository(self) -> None:
        with pytest.raises(ChartError, match=r"neither a folder nor an archive .* repositoryOpts.repo is not set"):
            self.find(ChartRequest("./charts/missing.tgz", "v1"))

    def test_each_host_is_asked_once(self) -> None:
        asked: list[str] = []

        def reachable(address: str) -> bool:
            asked.append(address)
            return False

        sources = ChartSources(lambda: "helm", reachable=reachable)
        for _ in range(3):
            sources.find(ChartRequest("gpu-operator", "v26.7.0", NVIDIA), {})
        assert asked == [NVIDIA]


@pytest.mark.parametrize("version", VERSIONS["gpu-operator"])
def test_a_chart_of_each_version_brings_that_version_s_driver_and_definitions(
    version: str, render: Callable[..., Manifest], tmp_path: Path
) -> None:
    chart = STAND_INS / "gpu-operator" if version == VERSIONS["gpu-operator"][0] else write_older(STAND_INS, version, tmp_path)
    policy = render(str(chart), {"nfd": {"enabled": False}})["ClusterPolicy", "cluster-policy"]
    # Before v26.3 some tags end in the image's system.
    assert {name: policy["spec"][name]["version"].partition("-")[0] for name in brought(version)} == brought(version)
    assert policy["spec"]["daemonsets"]["labels"]["helm.sh/chart"] == f"gpu-operator-{version}"
    crd = yaml.safe_load((chart / "crds" / "nvidia.com_clusterpolicies.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    # Computed from the CRDs of the tags.
    assert ("nriPluginEnabled" in spec["cdi"]["properties"]) is (version in {"v26.7.0", "v26.3.3"})
    assert ("kubeletRootDir" in spec["hostPaths"]["properties"]) is (version == "v26.7.0")
    assert ("default" in spec["migManager"]["properties"]["config"]["properties"]["name"]) is version.startswith("v25")
    assert spec["cdi"]["properties"]["enabled"]["default"] is (version != "v25.3.4")


@pytest.mark.sweep
def test_the_real_chart_of_the_dra_driver_runs_its_plugin(helm: str) -> None:
    chart = ChartSources(lambda: helm, reachable=lambda _: False).find(ChartRequest("dra-driver-nvidia-gpu", "0.5.0", NVIDIA), {})
    assert chart.version() == "0.5.0"
    values = ["--set", "gpuResourcesEnabledOverride=true,resources.computeDomains.enabled=false"]
    command = [helm, "template", "dra", str(chart.path), "--namespace", "n", "--kube-version", "1.36.3", *values]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [plugin] = [item for item in yaml.safe_load_all(said) if item and item["kind"] == "DaemonSet"]
    [container] = plugin["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1].rstrip().endswith("gpu-kubelet-plugin -v $(LOG_VERBOSITY)")


def test_resource_names_are_listed_by_kind() -> None:
    manifest = """
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: n}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: n}
---
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
---
"""
    assert resource_names(manifest) == {
        "ClusterPolicy.nvidia.com/nvidia.com/v1": ["cluster-policy"],
        "ConfigMap/v1": ["n/a", "n/b"],
    }


class TestReleaseInputs:
    releases = Releases(threading.Event(), lambda _: None, ChartSources(lambda: "helm", reachable=lambda _: False))

    def check(self, news: dict[str, Any], olds: dict[str, Any] | None = None) -> Any:
        return self.releases.check(olds or {}, news, name="op", seed=b"1", namespace="default")

    def test_the_name_is_made_up_once(self) -> None:
        wanted = {"chart": "gpu-operator", "repositoryOpts": {"repo": NVIDIA}}
        first, failures = self.check(wanted)
        assert not failures
        assert first["version"] == "v26.7.0"
        assert first["name"].startswith("op-")
        assert first["namespace"] == "default"
        assert self.check(wanted, first)[0]["name"] == first["name"]

    @pytest.mark.parametrize(
        ("inputs", "path"),
        [
            ({"chart": "c", "valueYamlFiles": ["x"]}, "valueYamlFiles"),
            ({"chart": "c", "repositoryOpts": {"password": "p"}}, "repositoryOpts.password"),
            ({}, "chart"),
        ],
    )
    def test_what_is_not_supported_is_refused(self, inputs: dict[str, Any], path: str) -> None:
        assert [failure[0] for failure in self.check(inputs)[1]] == [path]

    def test_values_change_in_place_and_the_namespace_does_not(self) -> None:
        old = {"name": "a", "namespace": "n", "values": {"x": 1}}
        assert self.releases.diff(old, {**old, "values": {"x": 2}}).replaces == []
        assert self.releases.diff(old, {**old, "namespace": "m"}).replaces == ["namespace"]
        assert not self.releases.diff(old, dict(old)).changes

    def test_a_chart_is_not_looked_for_while_something_is_unknown(self) -> None:
        inputs, failures = self.check({"chart": "nowhere", "values": UNKNOWN})
        assert not failures
        assert "version" not in inputs

    def test_a_chart_that_is_nowhere_is_refused_before_anything_is_done(self) -> None:
        _, ((path, why),) = self.check({"chart": "nowhere"})
        assert path == "chart"
        assert "chart 'nowhere' not found" in why


@pytest.mark.programs
class TestReachableRepository:
    """A repository that answers is used, and its word is final."""

    @pytest.fixture
    def repository(self, helm: str, tmp_path: Path) -> Iterator[str]:
        folder = tmp_path / "repository"
        package = [helm, "package", str(STAND_INS / "node-feature-discovery"), "--destination", str(folder)]
        subprocess.run(package, check=True, capture_output=True)
        subprocess.run([helm, "repo", "index", str(folder)], check=True, capture_output=True)
        handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()

    def env(self, tmp_path: Path) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_PROXY": "127.0.0.1"}

    def test_the_chart_is_pulled_once(self, helm: str, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        sources = ChartSources(lambda: helm)
        request = ChartRequest("node-feature-discovery", "0.19.0", repository)
        found = sources.find(request, self.env(tmp_path))
        assert not found.stand_in
        assert found.path.name == "node-feature-discovery-0.19.0.tgz"
        assert sources.find(request, self.env(tmp_path)) is found

    def test_a_version_that_it_lacks_is_not_taken_from_the_stand_ins(
        self, helm: str, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        request = ChartRequest("gpu-operator", "v26.7.0", repository)
        with pytest.raises(ChartError, match=r'chart "gpu-operator" version "v26\.7\.0" not found in'):
            ChartSources(lambda: helm).find(request, self.env(tmp_path))


@pytest.mark.programs
class TestGpuOperator:
    def policy(self, render: Callable[..., Manifest], **values: Any) -> dict[str, Any]:
        manifest = render("gpu-operator", {"nfd": {"enabled": False}, **values})
        spec: dict[str, Any] = manifest["ClusterPolicy", "cluster-policy"]["spec"]
        return spec

    def test_the_defaults_are_the_real_charts(self, render: Callable[..., Manifest]) -> None:
        policy = self.policy(render)
        assert policy["mig"] == {"strategy": "single"}
        assert policy["devicePlugin"]["version"] == "v0.20.0"
        assert "config" not in policy["devicePlugin"]
        assert policy["migManager"]["config"] == {"default": "all-disabled"}
        assert policy["daemonsets"]["rollingUpdate"] == {"maxUnavailable": "1"}
        assert policy["driver"]["enabled"] is True
        assert policy["validator"]["version"] == "v26.7.0"

    def test_an_empty_mig_strategy_is_left_out(self, render: Callable[..., Manifest]) -> None:
        assert self.policy(render, mig={"strategy": ""})["mig"] == {}

    def test_configs_are_named_and_made_when_asked(self, render: Callable[..., Manifest]) -> None:
        config = {"create": True, "name": "shared", "default": "one", "data": {"one": "version: v1\n"}}
        values = {"nfd": {"enabled": False}, "devicePlugin": {"config": config}, "migManager": {"config": {"name": "parted"}}}
        manifest = render("gpu-operator", values)
        spec = manifest["ClusterPolicy", "cluster-policy"]["spec"]
        assert spec["devicePlugin"]["config"] == {"name": "shared", "default": "one"}
        assert spec["migManager"]["config"] == {"name": "parted", "default": "all-disabled"}
        assert manifest["ConfigMap", "shared"]["data"] == {"one": "version: v1\n"}

    def test_tolerations_reach_the_operands(self, render: Callable[..., Manifest]) -> None:
        tolerations = [{"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]
        assert self.policy(render, daemonsets={"tolerations": tolerations})["daemonsets"]["tolerations"] == tolerations

    def test_unknown_values_are_ignored_as_helm_does(self, render: Callable[..., Manifest]) -> None:
        assert self.policy(render, devicePlugins={"config": {"name": "typo"}}) == self.policy(render)

    def test_the_operator_runs_its_command_under_its_label(self, render: Callable[..., Manifest]) -> None:
        deployment = render("gpu-operator", {"nfd": {"enabled": False}})["Deployment", "gpu-operator"]
        template = deployment["spec"]["template"]
        assert template["metadata"]["labels"]["app"] == "gpu-operator"
        assert template["spec"]["containers"][0]["command"] == ["gpu-operator"]
        assert template["spec"]["containers"][0]["image"] == "nvcr.io/nvidia/gpu-operator:v26.7.0"

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"nfd": {"enabled": True}}, "set nfd.enabled=false"),
            ({"devicePlugin": {"config": {"create": True, "name": "a"}}}, "non-empty devicePlugin.config.data"),
            ({"devicePlugin": {"config": {"create": True, "data": {"a": "b"}}}}, "non-empty devicePlugin.config.name"),
            ({"migManager": {"config": {"create": True, "name": "a"}}}, "non-empty migManager.config.data"),
            ({"cdi": {"enabled": False, "nriPluginEnabled": True}}, "needs cdi.enabled=true"),
            ({"cdi": {"nriPluginEnabled": True}, "toolkit": {"enabled": False}}, "needs toolkit.enabled=true"),
            ({"gpuCluster": {"deployCR": True}}, "both true"),
            ({"gpuCluster": {"deployCR": True}, "clusterPolicy": {"deployCR": False}}, "driver.nvidiaDriverCRD.enabled=true"),
            ({"driver": {"nvidiaDriverCRD": {"enabled": True}}}, "renders neither GPUCluster nor NVIDIADriver"),
        ],
    )
    def test_it_refuses(self, render: Callable[..., Manifest], values: dict[str, Any], message: str) -> None:
        with pytest.raises(RuntimeError, match=message):
            render("gpu-operator", {"nfd": {"enabled": False}, **values})


@pytest.mark.programs
class TestNodeFeatureDiscovery:
    def test_the_configuration_and_the_taint_switch_reach_the_master(self, render: Callable[..., Manifest]) -> None:
        master = {"enableTaints": True, "config": {"extraLabelNs": ["nvidia.com"]}}
        manifest = render("node-feature-discovery", {"master": master})
        config = manifest["ConfigMap", "node-feature-discovery-master-conf"]["data"]["nfd-master.conf"]
        assert yaml.safe_load(config) == {"extraLabelNs": ["nvidia.com"]}
        container = manifest["Deployment", "node-feature-discovery-master"]["spec"]["template"]["spec"]["containers"][0]
        assert container["command"] == ["nfd-master"]
        assert "-enable-taints" in container["args"]

    def test_taints_are_off_by_default(self, render: Callable[..., Manifest]) -> None:
        manifest = render("node-feature-discovery", {})
        pod = manifest["Deployment", "node-feature-discovery-master"]["spec"]["template"]["spec"]
        assert pod["containers"][0]["args"] == ["-port=8080"]

    def test_the_worker_tolerates_and_reads_feature_files(self, render: Callable[..., Manifest]) -> None:
        tolerations = [{"key": "sku", "operator": "Exists", "effect": "NoSchedule"}]
        manifest = render("node-feature-discovery", {"worker": {"tolerations": tolerations}})
        pod = manifest["DaemonSet", "node-feature-discovery-worker"]["spec"]["template"]["spec"]
        assert pod["tolerations"] == tolerations
        paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
        assert paths["features-d"] == "/etc/kubernetes/node-feature-discovery/features.d/"

    def test_values_of_the_wrong_type_are_refused(self, render: Callable[..., Manifest]) -> None:
        with pytest.raises(RuntimeError, match="enableTaints"):
            render("node-feature-discovery", {"master": {"enableTaints": "yes"}})


@pytest.mark.parametrize(("name", "version"), [("gpu-operator", "v26.7.0"), ("node-feature-discovery", "0.19.0")])
def test_a_stand_in_says_what_it_is(name: str, version: str) -> None:
    chart = yaml.safe_load((STAND_INS / name / "Chart.yaml").read_text())
    assert (chart["name"], chart["version"]) == (name, version)
    assert "STAND-IN" in chart["description"]
    for crd in (STAND_INS / name / "crds").iterdir():
        assert "Apache-2.0" in crd.read_text().splitlines()[1]
