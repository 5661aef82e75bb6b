"""The comment, JSON and SARIF of three real changes; a change of them is shown by their difference in git."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_pools.changes.steps import read_preview
from gpu_pools.cli.main import main

from .stacks import BEFORE, CHANGES, PRICES, after, pods

HERE = Path(__file__).parent
BLOCKED = {"replicas": 0, "layout": 1, "vm-size": 1}


@pytest.mark.parametrize("change", BLOCKED)
def test_three_changes_as_they_are_shown(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("before.yaml").write_text(BEFORE)
    Path("Pulumi.shop.yaml").write_text(after(change))
    Path("prices.yaml").write_text(PRICES)
    Path("pods.json").write_text(pods())
    told = ["--prices", "prices.yaml", "--pods", "pods.json", "--against", "what is deployed"]
    out = ["--markdown", "shown.md", "--json", "shown.json", "--sarif", "shown.sarif"]
    preview = str(HERE / "previews" / f"{change}.jsonl")
    assert main(["changes", preview, "--before", "before.yaml", "--after", "Pulumi.shop.yaml", *told, *out]) == BLOCKED[change]
    for kind in ("md", "json", "sarif"):
        assert Path(f"shown.{kind}").read_text() == (HERE / "golden" / f"{change}.{kind}").read_text()


@pytest.mark.parametrize("change", CHANGES)
def test_no_rule_stops_a_change_of_our_own_stack(change: str) -> None:
    preview = read_preview(change, (HERE / "previews" / f"{change}.jsonl").read_text())
    assert {one.level for one in preview.findings} == {"advisory"}


def test_sarif_points_to_the_pool_in_the_stack_file() -> None:
    log = json.loads((HERE / "golden" / "vm-size.sarif").read_text())
    (run,) = log["runs"]
    (found,) = [one for one in run["results"] if one["ruleId"] == "ends-pods-without-acknowledgement"]
    assert found["level"] == "error"
    place = found["locations"][0]["physicalLocation"]
    lines = after("vm-size").splitlines()
    assert "name: train" in lines[place["region"]["startLine"] - 1]
    assert {one["ruleId"] for one in run["results"]} == {rule["id"] for rule in run["tool"]["driver"]["rules"]}
