"""Properties of `check` and `import`: no file ends them in any other way than documented, and nothing is lost in silence."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_pools.cli.main import main
from gpu_pools.existing.imported import import_files
from gpu_pools.text.yaml_text import load_yaml
from tests.examples import examples
from tests.unit.existing_files import DATA, FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 60),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        [
            "v1",
            "all",
            "none",
            "mixed",
            "nvidia.com/gpu",
            "nvidia.com/mig-1g.10gb",
            "0x20B210DE",
            "60s",
            "version: v1",
            "sharing: [",
        ]
    ),
)
_WORDS = st.sampled_from(
    [
        "version",
        "flags",
        "sharing",
        "timeSlicing",
        "mps",
        "resources",
        "name",
        "replicas",
        "devices",
        "rename",
        "renameByDefault",
        "migStrategy",
        "plugin",
        "gfd",
        "imex",
        "channelIDs",
        "mig-configs",
        "device-filter",
        "mig-enabled",
        "mig-devices",
        "1g.10gb",
        "3g.40gb",
        "devicePlugin",
        "migManager",
        "mig",
        "strategy",
        "config",
        "data",
        "create",
        "default",
        "map",
        "kind",
        "apiVersion",
        "metadata",
        "namespace",
        "items",
        "spec",
        "daemonsets",
        "tolerations",
        "key",
        "driver",
        "config.yaml",
    ]
)
_DOCUMENTS = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(_WORDS, st.text(max_size=4), st.integers(), st.booleans()), inner, max_size=4),
    ),
    max_leaves=25,
)
_VALUES = {"devicePlugin": {"config": {"name": "x", "create": True, "data": {"a": "version: v1"}}}, "mig": {"strategy": "mixed"}}
_PARAMETERS = [{"name": "mig.strategy", "value": "single"}, {"name": "devicePlugin.env[0].name", "value": "A"}]
#: Objects that hold chart values, as they should be.
_WRAPPERS: list[dict[str, Any]] = [
    {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": "a"},
        "spec": {
            "chart": {"spec": {"chart": "gpu-operator", "version": "v26.7.0"}},
            "values": _VALUES,
            "valuesFrom": [{"kind": "Secret", "name": "s"}],
        },
    },
    {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "a"},
        "spec": {
            "source": {
                "chart": "gpu-operator",
                "targetRevision": "v26.7.0",
                "helm": {"valuesObject": _VALUES, "values": "mig: {}", "parameters": _PARAMETERS, "valueFiles": ["a"]},
            }
        },
    },
    {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "spec": {"sources": [{"chart": "gpu-operator", "helm": {"valuesObject": _VALUES, "parameters": _PARAMETERS}}]},
    },
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "helm.cattle.io/v1",
                "kind": "HelmChart",
                "metadata": {"name": "a"},
                "spec": {
                    "chart": "gpu-operator",
                    "valuesContent": yaml.safe_dump(_VALUES),
                    "values": _VALUES,
                    "set": {"mig.strategy": "single", "nfd.enabled": True},
                },
            },
            {
                "apiVersion": "helm.cattle.io/v1",
                "kind": "HelmChartConfig",
                "metadata": {"name": "a"},
                "spec": {"valuesContent": "mig: {strategy: single}", "valuesSecrets": [{"name": "s"}]},
            },
        ],
    },
    {"global": {}, "gpu-operator": {"enabled": True, **_VALUES}},
]
_QUICK = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_CARRIED = re.compile(
    r"sharing\.(timeSlicing|mps)\.(resources\[\d+\]\.(name|replicas)|renameByDefault|failRequestsGreaterThanOne)"
)


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    return code, capsys.readouterr().out


def _ends_as_documented(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "any.yaml"
    path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    code, out = _run(capsys, "check", "--json", str(path))
    checked = json.loads(out)
    assert code == (2 if checked["errors"] else 1 if checked["findings"] else 0)
    assert _run(capsys, "check", str(path))[0] == code
    imported_code, out = _run(capsys, "import", "--json", str(path))
    imported = json.loads(out)
    assert imported_code == (2 if imported["errors"] else 0 if imported["sharing"] else 1)
    assert (imported_code == 2) == (code == 2)
    _, section = _run(capsys, "import", str(path))
    if code != 2:
        assert load_yaml(section)["config"]["gpu-pools:sharing"] == imported["sharing"]


@given(_DOCUMENTS)
@_QUICK
def test_no_document_ends_a_command_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str], document: Any) -> None:
    _ends_as_documented(yaml.safe_dump(document, allow_unicode=True), tmp_path, capsys)


@given(_DOCUMENTS, st.sampled_from(_WRAPPERS), st.data())
@_QUICK
def test_no_object_that_holds_values_ends_a_command_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: Any, wrapper: dict[str, Any], data: st.DataObject
) -> None:
    """Whatever stands in one of its places, beside the rest as it should be."""
    whole = copy.deepcopy(wrapper)
    places = [place for place in _places(whole) if place]
    *above, last = data.draw(st.sampled_from(places))
    target: Any = whole
    for key in above:
        target = target[key]
    target[last] = document
    _ends_as_documented(yaml.safe_dump(whole, allow_unicode=True), tmp_path, capsys)


def _places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, entry in entries for place in _places(entry, (*path, key)))]


@given(st.text(alphabet=st.sampled_from(list("abc:-[]{}&*!|>'\"#%@`, \n\t0x2.~<=?")), max_size=60))
@_QUICK
def test_no_text_ends_a_command_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    _ends_as_documented(text, tmp_path, capsys)


def _spoil(draw: st.DrawFn, value: Any) -> Any:
    """The value with one part of it replaced by anything."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: _spoil(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], _spoil(draw, value[index]), *value[index + 1 :]]
    if isinstance(value, str) and ":" in value and draw(st.booleans()):
        return yaml.safe_dump(_spoil(draw, yaml.safe_load(value)))
    return draw(_DOCUMENTS)


@st.composite
def _spoiled(draw: st.DrawFn) -> str:
    documents = list(yaml.safe_load_all((DATA / draw(st.sampled_from(FIXTURES))).read_text(encoding="utf-8")))
    return yaml.safe_dump_all([_spoil(draw, document) for document in documents], allow_unicode=True)


@given(_spoiled())
@_QUICK
def test_no_spoiled_file_from_the_field_ends_a_command_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    _ends_as_documented(text, tmp_path, capsys)


_ENTRY = st.fixed_dictionaries(
    {"name": st.sampled_from(["gpu", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "other"]), "replicas": st.integers(0, 60)},
    optional={"rename": st.sampled_from(["small", "nvidia.com/gpu.shared"]), "devices": st.sampled_from(["all", [0], 1])},
)
_BLOCK = st.fixed_dictionaries(
    {"resources": st.lists(_ENTRY, max_size=2)},
    optional={"renameByDefault": st.booleans(), "failRequestsGreaterThanOne": st.booleans(), "typo": st.just(1)},
)
_CONFIG = st.fixed_dictionaries(
    {"version": st.just("v1")},
    optional={
        "flags": st.fixed_dictionaries(
            {},
            optional={
                "migStrategy": st.sampled_from(["none", "single", "mixed", "typo"]),
                "gdsEnabled": st.booleans(),
                "gfd": st.fixed_dictionaries({}, optional={"oneshot": st.booleans()}),
            },
        ),
        "sharing": st.fixed_dictionaries({}, optional={"timeSlicing": _BLOCK, "mps": _BLOCK}),
        "imex": st.just({"channelIDs": [0]}),
        "typo": st.just({"inner": 1}),
    },
)


def _leaves(value: Any, path: str = "") -> list[str]:
    if isinstance(value, dict):
        return [leaf for key, entry in value.items() for leaf in _leaves(entry, f"{path}.{key}" if path else key)]
    if isinstance(value, list) and path.endswith("resources"):
        return [leaf for index, entry in enumerate(value) for leaf in _leaves(entry, f"{path}[{index}]")]
    return [] if path.endswith(".devices") and value == "all" else [path]


@given(_CONFIG)
@_QUICK
def test_every_setting_is_carried_over_or_said_to_be_lost(tmp_path: Path, config: dict[str, Any]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    imported = import_files([str(path)])
    for leaf in _leaves(config):
        said = any(leaf == loss.path or leaf.startswith((f"{loss.path}.", f"{loss.path}[")) for loss in imported.lost)
        carried = bool(imported.declarations) and _CARRIED.fullmatch(leaf)
        assert said or carried or leaf == "version", (leaf, imported)
