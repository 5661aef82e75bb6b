"""Attacks by text through whole commands: a hostile text in any field of any file that they read, and what comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_pools.cli.main import main
from gpu_pools.evidence.verdicts import Snapshot
from gpu_pools.text.yaml_text import load_yaml
from tests.changes.stacks import BEFORE, PRICES, after, pods
from tests.evidence.fleets import NOW, spoil
from tests.evidence.test_showing import Page, check_harmless
from tests.examples import examples
from tests.hostile import LIVE, WORST, forge, harmful, spoiled, told
from tests.unit.test_cli import FILE, MIG_FILE, ROOT
from tests.unit.test_cli import STACK as AKS

SLOW = settings(
    deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
PREVIEWS = ROOT / "tests" / "changes" / "previews"
EVENTS = [json.loads(line) for line in (PREVIEWS / "vm-size.jsonl").read_text().splitlines()]
LEVELS = {"none", "note", "warning", "error"}


def _file(folder: Path, name: str, document: Any) -> str:
    """As YAML in ASCII: a half letter of a pair is an escape there, as in what an attacker writes."""
    path = folder / name
    path.write_text(yaml.dump(document), encoding="utf-8", errors="surrogatepass")
    return str(path)


def _check(code: int, out: str, error: str, codes: set[int]) -> None:
    assert code in codes, error
    assert not harmful(out + error)
    assert "Traceback" not in error


@SLOW
@given(data=st.data())
def test_any_field_of_a_stack_file(data: st.DataObject, tmp_path: Path) -> None:
    """Tries it through plan, expect and check."""
    path = _file(tmp_path, "Pulumi.x.yaml", data.draw(spoiled(data.draw(st.sampled_from([load_yaml(AKS), load_yaml(BEFORE)])))))
    for command in (("plan", path), ("plan", path, "--json"), ("expect", path, "tr"), ("check", path), ("import", path)):
        code, out, error = told(main, *command)
        _check(code, out, error, {0, 1, 2})
        if "--json" in command:
            assert json.loads(out)


@SLOW
@given(data=st.data())
def test_any_field_of_an_existing_config(data: st.DataObject, tmp_path: Path) -> None:
    """Tries it through check and import; what import prints means what the file says."""
    source = data.draw(st.sampled_from([FILE, MIG_FILE]))
    path = _file(tmp_path, "x.yaml", data.draw(spoiled(next(yaml.safe_load_all((ROOT / source).read_text(encoding="utf-8"))))))
    for command in (("check", path), ("check", path, "--json"), ("import", path, path), ("import", path, "--json")):
        code, out, error = told(main, *command)
        _check(code, out, error, {0, 1, 2})
        if "--json" in command:
            assert json.loads(out)
        elif command[0] == "import":
            yaml.safe_load(out)


@pytest.mark.parametrize("text", WORST)
def test_the_command_line_itself(text: str) -> None:
    """Tries it by names of files, pools, models, sizes, layouts and commands."""
    lines = [("plan", text), ("expect", "stacks/Pulumi.byo.yaml", text), ("layouts", text), ("change", "a100-80gb", text, text)]
    lines += [
        ("models", text),
        ("sizes", text),
        ("check", text),
        ("check", FILE, "--mig-parted", text),
        ("import", text),
        (text,),
    ]
    for line in lines:
        if "\0" in "".join(line) or "\ud800" in "".join(line):
            continue  # no shell hands these on
        _check(*told(main, *line), {1, 2})
    for program in ("changes", "evidence"):
        _check(*told(main, program, text, "--outputs", text, "--after", text), {2})


@SLOW
@given(data=st.data())
def test_any_field_of_an_event_a_pod_and_both_stack_files(data: st.DataObject, tmp_path: Path) -> None:
    """Tries it through changes: a terminal, a comment, SARIF and JSON."""
    events = data.draw(spoiled(EVENTS))
    (tmp_path / "events").write_text("\n".join(map(json.dumps, events)))
    (tmp_path / "pods").write_text(json.dumps(data.draw(spoiled(json.loads(pods())))))
    (tmp_path / "prices").write_text(PRICES)
    stacks = [load_yaml(text) for text in (BEFORE, after("vm-size"))]
    if data.draw(st.booleans()):
        stacks = [data.draw(spoiled(one)) for one in stacks]
    before, later = (_file(tmp_path, name, one) for name, one in zip(("before.yaml", "Pulumi.a b:c.yaml"), stacks, strict=True))
    said = data.draw(st.sampled_from(WORST))
    outs = [str(tmp_path / name) for name in ("json", "sarif")]
    for one in outs:
        Path(one).unlink(missing_ok=True)
    line = [str(tmp_path / "events"), "--before", before, "--after", later, "--pods", str(tmp_path / "pods"), "--against", said]
    line += ["--stack", said, "--prices", str(tmp_path / "prices"), "--json", outs[0], "--sarif", outs[1]]
    code, out, error = told(main, "changes", *line)
    _check(code, out, error, {0, 1, 2})
    if code != 2:
        _check_comment(out)
        _check_sarif(Path(outs[1]).read_text())
        assert json.loads(Path(outs[0]).read_text())
        assert Path(outs[0]).read_text().isascii()


def _check_comment(text: str) -> None:
    assert text.startswith("<!-- gpu-pools preview of ")
    own = {"<details>", "<details open>", "</details>"}
    for token in forge().parse(text):
        if token.type == "html_block":
            first, *rest = token.content.split("\n")
            assert first in own or (first.startswith("<!-- gpu-pools") and first.count("-->") == 1)
            assert all(line in {"", *own} or line.startswith("<summary>") for line in rest)
        for inside in token.children or ():
            assert inside.type not in {"link_open", "image"}
            assert inside.type != "html_inline" or inside.content == "<br>"
            assert inside.type != "text" or not LIVE.search(inside.content)


def _check_sarif(text: str) -> None:
    """What SARIF 2.1.0 demands of a log such as ours."""
    assert text.isascii()
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    for result in run["results"]:
        assert result["ruleId"] in rules
        assert result["level"] in LEVELS
        assert not harmful(result["message"]["text"].replace("\n", ""))
        assert "](" not in result["message"]["text"]
        (place,) = result["locations"]
        assert place["physicalLocation"]["region"]["startLine"] >= 1
        assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("/Pulumi.a%20b%3Ac.yaml")


@SLOW
@given(data=st.data())
def test_any_field_of_a_cluster_and_of_a_stack_s_outputs(data: st.DataObject, tmp_path: Path) -> None:
    """Tries it through evidence: nodes, reports of verifiers and NVML in them, ConfigMaps, outputs; a table, a page and JSON."""
    seen = data.draw(spoil())
    outputs = tmp_path / "outputs"
    outputs.write_text(json.dumps({**seen.outputs, "kubeconfig": "clusters: []"}))
    page, document = tmp_path / "page.html", tmp_path / "evidence.json"
    page.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        # A cluster that answers is in tests/evidence/test_program.py.
        patch.setattr("gpu_pools.cli.evidence.look", lambda *_: Snapshot(NOW, seen.nodes, seen.config_maps))
        code, out, error = told(main, "evidence", "--outputs", str(outputs), "--html", str(page), "--json", str(document))
    _check(code, out, error, {0, 1, 2, 3})
    if page.exists():
        check_harmless(Page(page.read_text(encoding="utf-8")))
        assert document.read_text(encoding="utf-8").isascii()
        assert json.loads(document.read_text(encoding="utf-8"))["verdict"]
