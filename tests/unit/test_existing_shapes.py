"""The same values and configs in every shape that people keep them in are judged alike, and on the lines of the user's file.

Each input of the other tests of `check` is wrapped in every shape, and the findings are compared: all of them, but for their
paths. What is on a finding's line must be the same, too. What a wrapper itself is wrong about is tested below.
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

import pytest

from gpu_pools.existing.check import check_file
from gpu_pools.existing.documents import UnreadableFileError
from gpu_pools.existing.imported import import_files, import_texts
from gpu_pools.existing.layers import Merged, split_name
from gpu_pools.existing.releases import typed
from gpu_pools.text.yaml_text import load_yaml
from tests.unit.existing_files import DATA, DECODED, FIXTURES, check_text, config_map, found, mig, plugin, sliced

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_pools.existing.check import Checked

FLUX: Final = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: gpu}\nspec:\n"
OLD_FLUX: Final = FLUX.replace("helm.toolkit.fluxcd.io/v2", "helm.fluxcd.io/v1")
ARGO: Final = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: gpu}\nspec:\n"
RANCHER: Final = "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: gpu}\nspec:\n"
RANCHER_CONFIG: Final = RANCHER.replace("HelmChart", "HelmChartConfig")
CHARTS: Final = {"operator": "gpu-operator", "plugin": "nvidia-device-plugin"}


def below(head: str, text: str, depth: int) -> str:
    return head + textwrap.indent(text, "  " * depth)


#: Name -> (what stands before the values, with CHART for the chart's name; the depth of the values below it).
VALUES: Final = {
    "Flux": (f"{FLUX}  chart: {{spec: {{chart: CHART}}}}\n  values:\n", 2),
    "Flux, the first version": (f"{OLD_FLUX}  chart: {{name: CHART}}\n  values:\n", 2),
    "Flux, the chart as another object": (f"{FLUX}  chartRef: {{name: my-CHART}}\n  values:\n", 2),
    "Argo CD, an object": (f"{ARGO}  source:\n    chart: CHART\n    helm:\n      valuesObject:\n", 4),
    "Argo CD, a text": (f"{ARGO}  source:\n    chart: CHART\n    helm:\n      values: |\n", 4),
    "Argo CD, several sources": (
        f"{ARGO}  sources:\n  - {{ref: values, repoURL: a}}\n  - chart: CHART\n    helm:\n      valuesObject:\n",
        4,
    ),
    "k3s, a text": (f"{RANCHER}  chart: nvidia/CHART\n  valuesContent: |-\n", 2),
    "k3s, a mapping": (f"{RANCHER}  chart: oci://registry/CHART\n  values:\n", 2),
    "k3s, a config beside its chart": (f"{RANCHER}  chart: CHART\n---\n{RANCHER_CONFIG}  valuesContent: |-\n", 2),
    "k3s, a config alone": (RANCHER_CONFIG.replace("gpu}", "CHART}") + "  valuesContent: |-\n", 2),
    "an umbrella chart": ("global: {a: b}\nother: {enabled: true}\nCHART:\n  enabled: true\n", 1),
    "an umbrella chart in Flux": (f"{FLUX}  chart: {{spec: {{chart: ./charts/all}}}}\n  values:\n    CHART:\n", 3),
    "a List": (
        below("apiVersion: v1\nkind: List\nitems:\n-\n", f"{FLUX}  chart: {{spec: {{chart: CHART}}}}\n  values:\n", 1),
        3,
    ),
}


def shaped(shape: str, text: str, chart: str) -> str:
    head, depth = VALUES[shape]
    return below(head.replace("CHART", chart), text, depth)


def documents(path: Path) -> list[str]:
    return [text for text in re.split(r"^---.*\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE) if text.strip()]


def inputs() -> dict[str, tuple[str, str]]:
    """Name -> (text, chart) of all chart values that tests of `check` read from files."""
    named = {}
    for path in (*sorted((DATA / "judged").glob("*.yaml")), *(DATA / name for name in FIXTURES)):
        for number, text in enumerate(documents(path)):
            value = load_any(text)
            if not isinstance(value, dict) or "kind" in value:
                continue
            config = value.get("config")
            of_plugin = isinstance(config, dict) and {"map", "default", "name"} & config.keys()
            kind = "operator" if {"devicePlugin", "migManager", "mig"} & value.keys() else "plugin" if of_plugin else ""
            if kind:
                named[f"{path.stem}-{number}"] = (text, CHARTS[kind])
    return named


def load_any(text: str) -> Any:
    try:
        return load_yaml(text)
    except Exception:  # noqa: BLE001 - some of the inputs are meant to be refused
        return None


INPUTS: Final = inputs()


def facts(checked: Checked, text: str, folder: Path) -> list[tuple[str, str, str, tuple[str, ...], str]]:
    """What is found, without the paths, and with what stands on the line of each finding; unread wrappers are left out."""
    lines = text.splitlines()
    return sorted(
        (
            finding.severity,
            finding.message.replace(str(folder), ""),
            finding.really,
            finding.versions,
            lines[finding.line - 1].strip() if finding.line else "",
        )
        for finding in checked.findings
    )


def test_there_are_inputs_of_both_charts() -> None:
    assert {chart for _, chart in INPUTS.values()} == set(CHARTS.values())
    assert len(INPUTS) > 20


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("shape", VALUES)
def test_chart_values_are_judged_alike_in_every_shape(shape: str, name: str, tmp_path: Path) -> None:
    text, chart = INPUTS[name]
    wrapped = shaped(shape, text, chart)
    plain, inside = check_text(tmp_path, text), check_text(tmp_path, wrapped)
    assert [kind.partition(" of ")[0] for _, kind in inside.documents] == [kind for _, kind in plain.documents]
    mine, theirs = facts(plain, text, tmp_path), facts(inside, wrapped, tmp_path)
    assert [fact[:4] for fact in theirs] == [fact[:4] for fact in mine]
    # A finding about the values as a whole is on the line where they begin.
    whole = {line for line in (fact[4] for fact in theirs) if line in wrapped.removesuffix(text).splitlines()[-1:]}
    moved = [(here[4], there[4]) for here, there in zip(mine, theirs, strict=True) if here[4] != there[4]]
    assert all(there in whole or there.endswith((":", "|", "|-")) for _, there in moved), moved


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("shape", VALUES)
def test_chart_values_are_imported_alike_from_every_shape(shape: str, name: str, tmp_path: Path) -> None:
    text, chart = INPUTS[name]
    wrapped = import_texts({"file": shaped(shape, text, chart)})
    plain = import_texts({"file": text})
    assert wrapped.sharing == plain.sharing
    assert {loss.why for loss in plain.lost} <= {loss.why for loss in wrapped.lost}
    assert not [loss for loss in wrapped.lost if str(tmp_path) in loss.path]


CONFIGS: Final = [
    *(plugin(body) for body, _ in DECODED),
    *(sliced(f"name: nvidia.com/gpu, replicas: {count}") for count in (0, 1, 2, 4.5)),
    sliced("name: nvidia.com/gpu, replicas: 2, rename: a, devices: all"),
    plugin("flags: {plugin: {migStrategy: mixed}}\nsharing:\n  mps:\n    resources:\n    - name: gpu\n      replicas: 17\n"),
]
MIG_CONFIGS: Final = [
    mig(entries)
    for entries in (
        "{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}",
        "{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}",
        "{devices: all, mig-enabled: false}, {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}",
        "{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 3}}",
        "{devices: all, mig-enabled: true, mig-devices: {9g.1gb: 1}}",
        "{devices: all, mig-enabled: true, typo: 1}",
    )
]


def as_texts(key: str, text: str) -> dict[str, str]:
    """The same config under one key of a ConfigMap: as texts of several styles, and wrongly without one."""
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: gpu-operator}\ndata:\n"
    quoted = json.dumps(text)
    return {
        "literal": f"{head}  {key}: |\n{textwrap.indent(text, '    ')}",
        "stripped": f"{head}  {key}: |-\n{textwrap.indent(text, '    ')}",
        "quoted": f"{head}  {key}: {quoted}\n",
        "JSON": json.dumps(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "gpu-operator"}, "data": {key: text}}
        ),
        "a mapping": f"{head}  {key}:\n{textwrap.indent(text, '    ')}",
        "all in one text": f"{head.removesuffix(chr(10))} |-\n  {key}: |\n{textwrap.indent(text, '    ')}",
        "without a name": f"{head}{textwrap.indent(text, '  ')}",
    }


#: Shapes that Kubernetes refuses; the config in them is judged all the same.
REFUSED: Final = {"a mapping": "is not a text", "all in one text": "`data` is one text", "without a name": "without a name"}


@pytest.mark.parametrize("shape", as_texts("a", "version: v1\n"))
@pytest.mark.parametrize(
    ("key", "text"), [*(("one", text) for text in CONFIGS), *(("config.yaml", text) for text in MIG_CONFIGS)]
)
def test_a_config_in_a_config_map_is_judged_as_by_itself(shape: str, key: str, text: str, tmp_path: Path) -> None:
    plain = check_text(tmp_path, text)
    wrapped = as_texts(key, text)[shape]
    if shape == "without a name" and not any(isinstance(entry, dict) for entry in load_any(text).values()):
        pytest.skip("a mapping of texts is what a ConfigMap must be")
    inside = check_text(tmp_path, wrapped)
    # What a ConfigMap under the operator needs besides.
    beside = ("there is no config `all-disabled`", "there is no key config.yaml")
    mine = [fact[:4] for fact in facts(plain, text, tmp_path)]
    theirs = [fact[:4] for fact in facts(inside, wrapped, tmp_path) if not any(words in fact[1] for words in beside)]
    refused = [fact for fact in theirs if "Kubernetes refuses the ConfigMap" in fact[2]]
    assert [fact for fact in theirs if fact not in refused] == mine
    assert [(severity, REFUSED[shape] in message) for severity, message, *_ in refused] == [("crash", True)] * (shape in REFUSED)


@pytest.mark.parametrize("shape", [shape for shape in as_texts("a", "version: v1\n") if shape != "JSON"])
def test_a_line_in_a_config_map_is_the_users(shape: str, tmp_path: Path) -> None:
    text = as_texts("one", CONFIGS[-1])[shape]
    (finding,) = [each for each in check_text(tmp_path, text).findings if "17" in each.message]
    assert finding.line is not None
    expected = 5 if shape == "quoted" else next(n for n, line in enumerate(text.splitlines(), 1) if "replicas" in line)
    assert finding.line == expected


def inline(operand: str, data: str) -> str:
    return f"{operand}:\n  config:\n    create: true\n    name: x\n    data{data}"


@pytest.mark.parametrize(
    ("operand", "key", "text"),
    [*(("devicePlugin", "one", text) for text in CONFIGS), *(("migManager", "config.yaml", text) for text in MIG_CONFIGS)],
)
def test_an_inline_config_is_judged_as_one_in_a_config_map_beside_the_values(
    operand: str, key: str, text: str, tmp_path: Path
) -> None:
    values = "mig: {strategy: single}\n"
    config = textwrap.indent(text, "        ")
    given = check_text(tmp_path, values + inline(operand, f":\n      {key}: |\n{config}"))
    beside = check_text(tmp_path, f"{values}---\n{as_texts(key, text)['literal']}")
    without = ("but no default", "needs a default", "without default")
    mine = [(f.severity, f.message, f.really, f.versions) for f in given.findings if f.path.startswith(f"{operand}.config.data")]
    theirs = [(f.severity, f.message, f.really, f.versions) for f in beside.findings if ".data" in f.path]
    assert not any(words in message for _, message, *_ in mine for words in without)
    assert sorted(mine) == sorted(theirs)
    for wrong in (f":\n      {key}:\n{config}", f": |-\n      {key}: |\n{config}", f":\n{textwrap.indent(text, '      ')}"):
        if wrong.count("\n") and load_any(text) and not any(isinstance(entry, dict) for entry in load_any(text).values()):
            continue
        found_here = check_text(tmp_path, values + inline(operand, wrong)).findings
        here = [(f.severity, f.message, f.really, f.versions) for f in found_here if f.path.startswith(f"{operand}.config.data")]
        refused = [fact for fact in here if "Kubernetes refuses the ConfigMap" in fact[2]]
        rest = sorted(fact for fact in here if fact not in refused and "there is no key" not in fact[1])
        assert (len(refused), rest) == (1, sorted(mine)), wrong


# --- one wrapper at a time ---------------------------------------------------------------------------------------------------

BAD_DEFAULT: Final = 'devicePlugin: {config: {create: true, name: x, default: nope, data: {good: "version: v1"}}}'


def argo(helm: str, version: str = "v26.7.0") -> str:
    return below(
        f"{ARGO}  source:\n    chart: gpu-operator\n    targetRevision: {version}\n    helm:\n", textwrap.dedent(helm), 3
    )


def test_argo_cds_parameters_win_over_its_values_and_the_place_is_theirs(tmp_path: Path) -> None:
    text = argo(
        """
        valuesObject:
          mig: {strategy: mixed}
        parameters:
        - {name: mig.strategy, value: sometimes}
        """
    )
    finding = found(check_text(tmp_path, text), "crash", "spec.source.helm.parameters[0]")
    assert finding.line == text[: text.index("sometimes")].count("\n") + 1
    assert '"sometimes" is not a value of mig.strategy' in finding.message


def test_argo_cds_parameters_are_enough(tmp_path: Path) -> None:
    checked = check_text(tmp_path, argo("parameters:\n- {name: mig.strategy, value: sometimes}\n"))
    assert found(checked, "crash", "spec.source.helm.parameters[0]")
    checked = check_text(tmp_path, argo("parameters:\n- {name: 'devicePlugin.env[0].name', value: MIG_STRATEGY}\n"))
    assert "MIG_STRATEGY is set by hand" in found(checked, "overridden", "spec.source.helm.parameters[0]").message


@pytest.mark.parametrize(
    ("name", "severity"),
    [("driver..enabled", "ignored"), ("[0]", "ignored"), ("driver[x]", "crash"), ("mig.strategy.a", "crash")],
)
def test_a_name_that_leads_nowhere_is_said(name: str, severity: str, tmp_path: Path) -> None:
    helm = f"valuesObject:\n  mig: {{strategy: mixed}}\nparameters:\n- {{name: '{name}', value: a}}\n"
    (finding,) = check_text(tmp_path, argo(helm)).findings
    assert (finding.severity, finding.path) == (severity, "spec.source.helm.parameters[0]")


def test_argo_cds_values_beside_an_object_count_for_nothing(tmp_path: Path) -> None:
    text = argo("values: |\n  mig: {strategy: sometimes}\nvaluesObject:\n  mig: {strategy: mixed}\n")
    (finding,) = check_text(tmp_path, text).findings
    assert (finding.severity, finding.path) == ("overridden", "spec.source.helm.values")


def test_argo_cds_source_beside_sources_counts_for_nothing(tmp_path: Path) -> None:
    text = (
        argo("valuesObject:\n  mig: {strategy: sometimes}\n") + "  sources:\n  - {chart: gpu-operator, targetRevision: v26.7.0}\n"
    )
    (finding,) = check_text(tmp_path, text).findings
    assert (finding.severity, finding.path) == ("overridden", "spec.source")


@pytest.mark.parametrize(("value", "wins"), [("true", True), ('"true"', True), ("maybe", False)])
def test_a_parameter_has_the_type_that_helm_gives_it(value: str, wins: bool, tmp_path: Path) -> None:  # noqa: FBT001
    helm = f"valuesObject:\n  {BAD_DEFAULT.replace('create: true', 'create: false').replace('nope', 'good')}\nparameters:\n"
    text = argo(f"{helm}- {{name: devicePlugin.config.create, value: {value}}}\n")
    assert ("without `create: true`" not in str(check_text(tmp_path, text).findings)) is wins


def test_a_text_in_place_of_a_mapping_and_the_other_way_round_are_refused(tmp_path: Path) -> None:
    text = below(f"{FLUX}  chart: {{spec: {{chart: gpu-operator}}}}\n  values: |\n", BAD_DEFAULT, 2)
    checked = check_text(tmp_path, text)
    assert "Kubernetes refuses" in found(checked, "crash", "spec.values").really
    assert found(checked, "crash", "spec.values.devicePlugin.config.default")
    checked = check_text(tmp_path, below(f"{RANCHER}  chart: gpu-operator\n  valuesContent:\n", BAD_DEFAULT, 2))
    assert "Kubernetes refuses" in found(checked, "crash", "spec.valuesContent").really
    assert found(checked, "crash", "spec.valuesContent.devicePlugin.config.default")


def test_values_that_are_no_mapping_or_no_yaml_are_refused(tmp_path: Path) -> None:
    for content in ("[1, 2]", "a: ["):
        checked = check_text(tmp_path, below(f"{RANCHER}  chart: gpu-operator\n  valuesContent: |\n", content, 2))
        assert found(checked, "crash", "spec.valuesContent")


def test_of_k3s_the_config_wins_over_the_chart_and_set_over_both(tmp_path: Path) -> None:
    chart = below(f"{RANCHER}  chart: gpu-operator\n  valuesContent: |\n", "mig: {strategy: single}\nnfd: {enabled: true}\n", 2)
    config = below(f"---\n{RANCHER_CONFIG}  valuesContent: |\n", "mig: {strategy: sometimes}\n", 2)
    checked = check_text(tmp_path, chart + config)
    assert [place for place, _ in checked.documents] == ["[0].spec.valuesContent"]
    finding = found(checked, "crash", "[1].spec.valuesContent.mig.strategy")
    assert finding.line == (chart + config)[: (chart + config).index("sometimes")].count("\n") + 1
    chart += "  set: {mig.strategy: mixed}\n"
    assert not check_text(tmp_path, chart + config).findings
    chart += "    # a number of Helm's\n"
    checked = check_text(tmp_path, chart.replace("mig.strategy: mixed", "mig.strategy: never") + config)
    assert found(checked, "crash", '[0].spec.set["mig.strategy"]')


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (FLUX + "  chart: {spec: {chart: gpu-operator}}\n  valuesFrom: [{kind: Secret, name: a}]\n", "spec.valuesFrom[0]"),
        (argo("valueFiles: [$values/a.yaml]\n"), "spec.source.helm.valueFiles[0]"),
        (argo("fileParameters: [{name: a, path: b}]\n"), "spec.source.helm.fileParameters[0]"),
        (RANCHER + "  chart: gpu-operator\n  valuesSecrets: [{name: a}]\n", "spec.valuesSecrets[0]"),
        (RANCHER_CONFIG.replace("gpu}", "gpu-operator}") + "  valuesSecrets: [{name: a}]\n", "spec.valuesSecrets[0]"),
    ],
)
def test_values_that_lie_elsewhere_are_named_and_not_read(text: str, path: str, tmp_path: Path) -> None:
    assert "is not read" in found(check_text(tmp_path, text), "unknown", path).message
    assert "not read" in next(loss.why for loss in import_texts({"f": text}).lost if loss.path == path)


@pytest.mark.parametrize(
    ("head", "place"),
    [
        (FLUX + "  chart: {spec: {chart: gpu-operator, version: VERSION}}\n  values:\n", "spec.chart.spec.version"),
        (
            ARGO + "  source:\n    chart: gpu-operator\n    targetRevision: VERSION\n    helm:\n     valuesObject:\n",
            "spec.source.targetRevision",
        ),
        (RANCHER + "  chart: gpu-operator\n  version: VERSION\n  valuesContent: |\n", "spec.version"),
    ],
)
def test_the_version_of_the_chart_is_that_of_the_object(head: str, place: str, tmp_path: Path) -> None:
    text = below(head, "extraObjects: []\n", 4)
    assert not check_text(tmp_path, text.replace("VERSION", "v26.7.0")).findings
    for version in ("v25.3.4", "25.3.4"):
        (finding,) = check_text(tmp_path, text.replace("VERSION", version)).findings
        assert "the chart v25.3.4 has no value `extraObjects`" in finding.message
    assert check_text(tmp_path, text.replace("VERSION", "v25.3.4")).versions == ("0.17",)
    for unknown in ("v22.9.0", '">=25"'):
        finding = found(check_text(tmp_path, text.replace("VERSION", unknown)), "unknown", place)
        assert "is not known here" in finding.message


def test_the_version_of_an_umbrella_chart_says_nothing(tmp_path: Path) -> None:
    text = below(
        f"{FLUX}  chart: {{spec: {{chart: all, version: 0.1.0}}}}\n  values:\n    gpu-operator:\n", "nfd: {enabled: true}\n", 3
    )
    assert not check_text(tmp_path, text).findings


def test_below_an_alias_the_operator_is_known_by_its_sections(tmp_path: Path) -> None:
    sections = "driver: {enabled: false}\nmigManager: {config: {default: other}}\n"
    assert found(check_text(tmp_path, below("accelerators:\n", sections, 1)), "crash", "accelerators.migManager.config.default")
    for other in ("operator: {a: b}\ndriver: {a: b}\n", "gfd: {a: b}\n"):
        with pytest.raises(UnreadableFileError, match="holds nothing that is known"):
            check_text(tmp_path, below("accelerators:\n", other, 1))


@pytest.mark.parametrize("chart", ["cert-manager", "prometheus-operator"])
def test_values_of_another_chart_are_nobodys_business(chart: str, tmp_path: Path) -> None:
    other = below(f"{FLUX}  chart: {{spec: {{chart: {chart}}}}}\n  values:\n", "operator: {image: 5}\nnfd: [1]\n", 2)
    with pytest.raises(UnreadableFileError, match="HelmRelease gpu"):
        check_text(tmp_path, other)
    checked = check_text(tmp_path, f"{other}---\n{plugin('sharing: {}')}")
    assert "HelmRelease gpu is not checked" in found(checked, "unknown", "[0]").message


def test_keys_given_twice_in_values_of_another_chart_are_nobodys_business_either(tmp_path: Path) -> None:
    other = below(f"{RANCHER}  chart: traefik\n  valuesContent: |\n", "a: 1\na: 2\n", 2)
    checked = check_text(tmp_path, f"{other}---\n{plugin('sharing: {}')}")
    assert [finding.message for finding in checked.findings if finding.severity != "unknown"] == []
    ours = below(f"{RANCHER}  chart: gpu-operator\n  valuesContent: |\n", "nfd: {}\nnfd: {}\n", 2)
    assert found(check_text(tmp_path, ours), "overridden", "spec.valuesContent.nfd").line == ours.count("\n")


def test_a_chart_without_values_is_known_and_has_nothing_to_lose() -> None:
    text = f"{FLUX}  chart: {{spec: {{chart: gpu-operator, version: v26.7.0}}}}\n"
    imported = import_texts({"f": text})
    assert imported.sharing == {}
    assert not [loss for loss in imported.lost if loss.value == {}]


def test_values_in_a_config_map_are_read(tmp_path: Path) -> None:
    text = config_map("v", values__yaml=f"mig: {{strategy: mixed}}\n{BAD_DEFAULT}\n")
    checked = check_text(tmp_path, text)
    finding = found(checked, "crash", 'data["values.yaml"].devicePlugin.config.default')
    assert text.splitlines()[(finding.line or 0) - 1].strip() == BAD_DEFAULT
    with pytest.raises(UnreadableFileError, match="holds nothing that is known"):
        check_text(tmp_path, config_map("v", values__yaml="operator: {a: b}\nnfd: {c: d}\n"))


def test_a_config_map_beside_a_wrapper_is_held_against_its_values(tmp_path: Path) -> None:
    wrapper = below(
        f"{FLUX}  chart: {{spec: {{chart: gpu-operator}}}}\n  values:\n", "devicePlugin: {config: {name: s, default: x}}\n", 2
    )
    checked = check_text(tmp_path, config_map("s", good="version: v1\n") + "---\n" + wrapper)
    assert found(checked, "crash", "[1].spec.values.devicePlugin.config.default").allowed == "good"


def test_an_import_says_what_is_around_the_values(tmp_path: Path) -> None:
    path = tmp_path / "release.yaml"
    config = textwrap.indent(sliced("name: nvidia.com/gpu, replicas: 4"), " " * 12)
    path.write_text(
        f"{FLUX}  interval: 5m\n  chart: {{spec: {{chart: gpu-operator}}}}\n  values:\n    devicePlugin:\n      config:\n"
        f"        data:\n          four: |\n{config}",
        encoding="utf-8",
    )
    imported = import_files([str(path)])
    assert list(imported.sharing) == ["four"]
    assert imported.declarations[0].source.endswith("release.yaml: spec.values.devicePlugin.config.data.four")
    assert {loss.path for loss in imported.lost} == {"metadata", "spec.interval", "spec.chart"}


# --- merging ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("False", False), ("null", None), ("4", 4), ("-4", -4), ("0", 0), ("04", "04"), ("4.5", "4.5"), ("", ""),
        ("a,b", "a,b"), ("{a, 2}", ["a", 2]), ("{}", [""]), ("9" * 40, "9" * 40), ("٣", "٣"),
    ],
)  # fmt: skip
def test_a_value_of_set_has_the_type_that_helm_gives_it(text: str, value: object) -> None:
    assert typed(text) == value
    assert type(typed(text)) is type(value)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a[0].b", ("a", 0, "b")),
        ("a[1][2]", ("a", 1, 2)),
        (r"a\.b.c", ("a.b", "c")),
        (r"a\.", ("a.",)),
        ("node-feature-discovery.worker", ("node-feature-discovery", "worker")),
        ("", None),
        (".a", None),
        ("a[x]", None),
        ("[0]", None),
    ],
)
def test_the_name_of_a_value_is_followed_as_helm_does(name: str, keys: tuple[str | int, ...] | None) -> None:
    assert split_name(name) == keys


def test_later_values_win_and_their_places_are_kept() -> None:
    merged = Merged()
    merged.add({"a": {"b": 1, "c": [1, 2]}, "d": 1}, ("one",))
    merged.add({"a": {"c": [3]}, "d": {"e": 1}}, ("two",))
    assert merged.set("a.c[1].f", 5, ("three",))
    assert merged.value == {"a": {"b": 1, "c": [3, {"f": 5}]}, "d": {"e": 1}}
    assert merged.places["a", "b"] == ("one", "a", "b")
    assert merged.places["a", "c", 0] == ("two", "a", "c", 0)
    assert merged.places["a", "c", 1, "f"] == ("three",)
    assert ("d", "e") in merged.places
    assert not merged.set("a.b.c[x]", 1, ("four",))


@pytest.mark.parametrize("name", ["a[99999].b", "a[0]", "[0]", "a..b", "a.b.c", "a.b[0]"])
def test_a_name_that_leads_nowhere_sets_nothing(name: str) -> None:
    merged = Merged()
    merged.add({"a": {"b": 1}}, ())
    assert not merged.set(name, 1, ("x",))
    assert merged.value == {"a": {"b": 1}}


def test_the_files_of_the_tests_are_checked_as_one_file_each() -> None:
    for name in FIXTURES:
        assert check_file(str(DATA / name)).documents
