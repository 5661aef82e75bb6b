"""What `check` makes of chart values in several places is what the real helm makes of them: order, types and names of `--set`."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_pools.existing.layers import Merged, is_empty_name
from gpu_pools.existing.releases import typed
from sandbox.system.progress import Progress
from sandbox.toolchain.find import find_tools

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.programs

TEMPLATE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {values: {{ toJson .Values | quote }}}\n"
FIRST = {"a": {"b": 1, "c": [1, {"d": 2}], "e": "x"}, "f": True}


@pytest.fixture(scope="module")
def helm() -> Path:
    return find_tools(Progress(), only={"helm"}).helm


def by_helm(helm: Path, folder: Path, files: list[dict[str, Any]], settings: list[str], option: str) -> dict[str, Any] | None:
    """The values as a template sees them; None where helm refuses."""
    (folder / "templates").mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: a\nversion: 0.1.0\n")
    (folder / "templates" / "map.yaml").write_text(TEMPLATE)
    command = [str(helm), "template", "a", str(folder)]
    for number, values in enumerate(files):
        path = folder / f"{number}.json"
        path.write_text(json.dumps(values))
        command += ["--values", str(path)]
    said = subprocess.run(
        [*command, *(part for one in settings for part in (option, one))], capture_output=True, text=True, check=False
    )
    return json.loads(yaml.safe_load(said.stdout)["data"]["values"]) if said.returncode == 0 else None


def without_nulls(value: object) -> object:
    """Helm takes a null for "no value" where the chart has no default."""
    if isinstance(value, dict):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    return [without_nulls(entry) for entry in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "files",
    [
        [FIRST, {"a": {"b": 2}}],
        [FIRST, {"a": {"c": [3]}, "f": {"g": 1}}],
        [FIRST, {"a": None}],
        [FIRST, {"a": {"e": None}}, {"a": {"e": "y"}}],
        [{"a": 1}, FIRST],
    ],
)
def test_values_are_merged_as_helm_does(files: list[dict[str, Any]], helm: Path, tmp_path: Path) -> None:
    merged = Merged()
    for number, values in enumerate(files):
        merged.add(values, (str(number),))
    assert without_nulls(merged.value) == without_nulls(by_helm(helm, tmp_path, files, [], "--set"))


@pytest.mark.parametrize(
    "setting",
    [
        "a.b=2", "a.b=true", "a.b=TRUE", "a.b=null", "a.b=07", "a.b=0", "a.b=-3", "a.b=1.5", "a.b=", "a.b=text",
        "a.c[0]=9", "a.c[1].d=9", "a.c[3]=9", "a.c[1].new=9", r"a\.b=1", "new.deep.er=1", "new[0].name=x", "a.e.f=1", "f.g=1",
        "a.c={x,2}", "a.c={}", "a={}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("option", ["--set", pytest.param("--set-string", marks=pytest.mark.sweep)])
def test_a_setting_is_what_helm_makes_of_it(setting: str, option: str, helm: Path, tmp_path: Path) -> None:
    name, _, text = setting.partition("=")
    merged = Merged()
    merged.add(FIRST, ())
    kept = merged.set(name, typed(text) if option == "--set" else text, ("set",))
    real = by_helm(helm, tmp_path, [FIRST], [setting], option)
    if option == "--set-string" and text.startswith("{"):
        pytest.skip("a list of texts; Argo CD and k3s have it, and no value of these charts is one")
    assert kept == (real is not None)
    if real is not None:
        assert without_nulls(merged.value) == without_nulls(real)


@pytest.mark.parametrize("name", ["[0]", "a[x]", "a[99999999].b", "a..b", ".a", "a."])
def test_a_name_that_leads_nowhere_is_refused_or_passed_over(name: str, helm: Path, tmp_path: Path) -> None:
    merged = Merged()
    merged.add(FIRST, ())
    assert not merged.set(name, 1, ("set",))
    assert by_helm(helm, tmp_path, [FIRST], [f"{name}=1"], "--set") == (FIRST if is_empty_name(name) else None)
