"""The stand-in charts against the real ones: of the values of the project's own stacks both make the same objects that count.

The real ones are folders in GPU_POOLS_REAL_CHARTS, each under its chart's name, as `helm pull --untar` makes them (of a chart out
of a repository of sources the version is to be set, as its release does). What is compared is what decides: the ClusterPolicy,
rights, rules and configurations, what the programs are started with. Labels of charts and probes are not.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from gpu_pools.observing.prometheus_stack import prometheus_stack_values
from gpu_pools.plan.planning import plan_config
from gpu_pools.stack.charts import NFD_WITHIN, VERSIONS, unknown_values
from gpu_pools.stack.stack_file import read_stack_file
from sandbox.providers.chart_sources import STAND_INS
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools
from tests.conformance.chart_templates import read_values

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.programs, pytest.mark.sweep]

REAL: Final = os.environ.get("GPU_POOLS_REAL_CHARTS", "")
STACKS: Final = sorted((Path(__file__).parents[2] / "stacks").glob("Pulumi.*.yaml"))
OPERATOR, NFD, PROMETHEUS = "gpu-operator", "node-feature-discovery", "kube-prometheus-stack"
#: Without a cluster helm takes it for one of Kubernetes 1.20, which the newer charts refuse.
KUBERNETES: Final = "1.36.0"
Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def helm() -> Path:
    return find_tools(Progress(), only={"helm"}).helm


def rendered(helm: Path, folder: Path, chart: str, values: dict[str, Any], place: Path) -> Objects:
    file = place / "values.json"
    file.write_text(json.dumps(values))
    command = [helm, "template", chart, folder / chart, "--namespace", chart, "--values", file, "--kube-version", KUBERNETES]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    objects = [obj for obj in yaml.safe_load_all(said.stdout) if obj]
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


def both(helm: Path, chart: str, values: dict[str, Any], place: Path) -> tuple[Objects, Objects]:
    """What the stand-in and the real one make."""
    if not REAL:
        pytest.skip("no real charts on this machine: GPU_POOLS_REAL_CHARTS=<folder with gpu-operator and node-feature-discovery>")
    return tuple(rendered(helm, folder, chart, values, place) for folder in (STAND_INS, Path(REAL)))  # type: ignore[return-value]


def without_nothing(value: Any) -> Any:
    """Without what is empty: by defaulting of the API server `{}`, null and what is absent come to the same."""
    if isinstance(value, dict):
        kept = {key: without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, {}, [])}
    return [without_nothing(item) for item in value] if isinstance(value, list) else value


def rights(objects: Objects, kind: str) -> set[tuple[str, str, str]]:
    rules = [rule for (found, _), obj in objects.items() if found == kind for rule in obj["rules"] or []]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule.get("apiGroups", [])
        for resource in rule.get("resources", [])
        for verb in rule["verbs"]
    }


def started(objects: Objects) -> Iterator[tuple[str, Any]]:
    """What each program is started with, and under whose name."""
    for (kind, name), obj in sorted(objects.items()):
        if kind not in {"Deployment", "DaemonSet"}:
            continue
        spec = obj["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        names = {entry["name"]: entry.get("value") or entry.get("valueFrom") for entry in container.get("env") or []}
        what = [container["image"], container.get("command"), sorted(container.get("args") or []), names]
        yield f"{kind} {name}", [*what, spec["serviceAccountName"], without_nothing(spec.get("tolerations"))]


@pytest.mark.parametrize("stack", STACKS, ids=lambda path: path.name)
def test_the_operator_s_chart_makes_the_same_policy_of_each_stack(helm: Path, stack: Path, tmp_path: Path) -> None:
    values = plan_config(read_stack_file(stack)).operator_values
    ours, theirs = both(helm, OPERATOR, json.loads(json.dumps(values, default=dict)), tmp_path)
    key = ("ClusterPolicy", "cluster-policy")
    assert without_nothing(ours[key]["spec"]) == without_nothing(theirs[key]["spec"])
    assert dict(started(ours)) == dict(started(theirs))
    for kind in ("Role", "ClusterRole"):
        assert rights(ours, kind) == rights(theirs, kind)
    rules = [{name: obj["spec"] for (kind, name), obj in found.items() if kind == "NodeFeatureRule"} for found in (ours, theirs)]
    assert rules[0] == rules[1]


@pytest.mark.parametrize("stack", STACKS, ids=lambda path: path.name)
def test_nfd_s_chart_makes_the_same_of_each_stack(helm: Path, stack: Path, tmp_path: Path) -> None:
    values = plan_config(read_stack_file(stack)).nfd_values
    ours, theirs = both(helm, NFD, json.loads(json.dumps(values, default=dict)), tmp_path)
    assert dict(started(ours)) == dict(started(theirs))
    for kind in ("Role", "ClusterRole"):
        assert rights(ours, kind) == rights(theirs, kind)
    texts = [{name: obj["data"] for (kind, name), obj in found.items() if kind == "ConfigMap"} for found in (ours, theirs)]
    parsed = [{n: {k: yaml.safe_load(t) for k, t in data.items()} for n, data in one.items()} for one in texts]
    assert parsed[0] == parsed[1]


@pytest.mark.parametrize("registry", [{}, {"mirror": "registry.example.com/all", "pullSecret": "pull"}], ids=["", "mirrored"])
def test_kube_prometheus_stack_makes_the_same_of_what_is_read(helm: Path, registry: dict[str, str], tmp_path: Path) -> None:
    """Who reads what: the Prometheus' selectors, its rights and Grafana's, and what the sidecar looks for."""
    config = read_stack_file(Path(__file__).parents[2] / "stacks" / "Pulumi.byo.yaml")
    config = {**config, "gpu-pools:registry": registry, "gpu-pools:observability": {"to": PROMETHEUS}}
    ours, theirs = both(helm, PROMETHEUS, prometheus_stack_values(plan_config(config)), tmp_path)
    for key in [key for key in ours if key[0] in {"ClusterRole", "Role"}]:
        assert rights({key: ours[key]}, key[0]) == rights({key: theirs[key]}, key[0])
    missing = {("ClusterRole", "kube-prometheus-stack-grafana-clusterrole")}
    assert not missing & (ours.keys() | theirs.keys())
    key = ("Prometheus", "kube-prometheus-stack-prometheus")
    spec = ours[key]["spec"]
    assert {name: theirs[key]["spec"].get(name) for name in spec} == spec
    for name in ("kube-prometheus-stack-operator", "kube-prometheus-stack-grafana"):
        pods = [found["Deployment", name]["spec"]["template"]["spec"] for found in (ours, theirs)]
        assert pods[0].get("imagePullSecrets") == pods[1].get("imagePullSecrets")
        told = [{one["name"]: (one["image"], _known(one, pods[0])) for one in pod["containers"]} for pod in pods]
        assert told[0] == told[1]
    assert set(ours["Secret", "kube-prometheus-stack-grafana"]["data"]) <= set(
        theirs["Secret", "kube-prometheus-stack-grafana"]["data"]
    )


@pytest.mark.parametrize("chart", [OPERATOR, NFD, PROMETHEUS])
def test_the_table_of_value_keys_has_what_values_and_templates_of_the_chart_name(chart: str) -> None:
    if not REAL:
        pytest.skip("no real charts on this machine: GPU_POOLS_REAL_CHARTS=<folder with gpu-operator and node-feature-discovery>")
    folder = Path(REAL) / chart
    version = str(yaml.safe_load((folder / "Chart.yaml").read_text())["version"])
    if version not in {*VERSIONS[chart], *(NFD_WITHIN.values() if chart == NFD else ())}:  # type: ignore[index]
        pytest.skip(f"the version {version} of {chart} is not known")
    named = [_nested(path) for path in read_values(folder)]
    assert len(named) > 100
    for values in [yaml.safe_load((folder / "values.yaml").read_text()), *named]:
        assert not list(unknown_values(values, chart, version))  # type: ignore[arg-type]


def _nested(path: tuple[str, ...]) -> dict[str, Any]:
    value: Any = None
    for part in reversed(path):
        value = {part: value}
    return value  # type: ignore[no-any-return]


def _known(container: dict[str, Any], stand_in: dict[str, Any]) -> list[Any]:
    """Arguments and variables, as far as the stand-in has them."""
    (own,) = [one for one in stand_in["containers"] if one["name"] == container["name"]]
    names = {one["name"] for one in own.get("env", [])}
    variables = [one for one in container.get("env", []) if one["name"] in names]
    return [sorted(set(container.get("args", [])) & set(own.get("args", []))), sorted(variables, key=lambda one: one["name"])]
