"""Nodes that have something of ours and are in no pool: whoever takes a node's labels off hides nothing by that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpu_pools.cli import evidence as command
from gpu_pools.cli.main import main
from gpu_pools.drift.nodes import nodes_of
from gpu_pools.evidence.document import evidence_json
from gpu_pools.evidence.page import evidence_page
from gpu_pools.evidence.table import evidence_table
from gpu_pools.evidence.verdicts import Stray, Verdict
from tests.evidence import fleets

if TYPE_CHECKING:
    from collections.abc import Callable


def without_label(fleet: fleets.Fleet, pool: str = "mig") -> dict[str, Any]:
    """A node of a pool loses the label that its pool selects."""
    node = fleet.node(pool)
    del node["metadata"]["labels"]["pool"]
    return node


def test_a_broken_node_is_not_hidden_by_taking_its_label_off() -> None:
    """Attack: the label of the pool is taken off a node that differs: `differs, 1` became `proven, 0`."""
    fleet = fleets.fleet(2)
    fleets.put_report(fleet.node("mig"), *fleets.broken("mig", "mig-0"))
    assert fleet.judged().verdict is Verdict.DIFFERS
    without_label(fleet)
    found = fleet.judged()
    assert found.strays == (
        Stray("mig-0", "mig", ("annotation gpu-pools/verification", "condition GpuSharingVerified"), Verdict.DIFFERS),
    )
    assert (found.verdict, found.verdict.exit_code) == (Verdict.DIFFERS, 1)


def _only(keep: str) -> Callable[[dict[str, Any]], None]:
    def change(node: dict[str, Any]) -> None:
        if keep != "condition":
            node["status"]["conditions"] = [one for one in node["status"]["conditions"] if one["type"] != "GpuSharingVerified"]
        if keep != "report":
            del node["metadata"]["annotations"]["gpu-pools/verification"]
        if keep == "label":
            node["metadata"]["labels"]["gpu-pools/pool"] = "mig"
        if keep == "change":
            node["metadata"]["annotations"]["gpu-pools/change"] = "{}"

    return change


@pytest.mark.parametrize(
    ("keep", "pool", "traces"),
    [
        ("condition", "", ("condition GpuSharingVerified",)),
        ("report", "mig", ("annotation gpu-pools/verification",)),
        ("label", "mig", ("label gpu-pools/pool=mig",)),
        ("change", "", ("annotation gpu-pools/change",)),
    ],
)
def test_each_trace_alone_is_told(keep: str, pool: str, traces: tuple[str, ...]) -> None:
    fleet = fleets.fleet(2)
    _only(keep)(without_label(fleet))
    found = fleet.judged()
    assert found.strays == (Stray("mig-0", pool, traces, Verdict.CANNOT_TELL),)
    assert found.verdict.exit_code == 2
    table, page = evidence_table(found, colour=False), evidence_page(found)
    for text in (table, page):
        assert "no pool selects it" in text
        assert "mig-0" in text
        assert "W92" in text
    (told,) = evidence_json(found)["strays"]
    assert (told["name"], told["verdict"], told["incidents"]) == ("mig-0", "cannot tell", ["W92"])
    assert [(one.node, one.place) for one in nodes_of(found).drift] == [("mig-0", "the labels of its pool")]


def test_a_node_without_traces_and_one_of_another_stack_are_no_difference() -> None:
    fleet = fleets.fleet()
    assert fleet.judged().strays == ()
    assert "strays" not in evidence_json(fleet.judged())
    fleet.nodes.append({"metadata": {"name": "other", "labels": {"gpu-pools/pool": "of-another-stack"}}})
    found = fleet.judged()
    assert [(stray.name, stray.verdict) for stray in found.strays] == [("other", None)]
    assert found.verdict is Verdict.PROVEN
    assert "not of this stack's pools" in evidence_table(found, colour=False)
    assert nodes_of(found).drift == ()


@pytest.mark.parametrize("label", ["mig", "of-another-stack"])
def test_a_label_does_not_speak_against_the_report(label: str) -> None:
    """Attack: the label that names the pool is set to one of another stack; the report still says whose the node is."""
    fleet = fleets.fleet(2)
    without_label(fleet)["metadata"]["labels"]["gpu-pools/pool"] = label
    (stray,) = fleet.judged().strays
    assert (stray.pool, stray.verdict) == ("mig", Verdict.CANNOT_TELL)


@pytest.mark.parametrize(("options", "code"), [([], 3), (["--all-nodes"], 2)])
def test_after_a_deploy_a_pool_that_lacks_a_node_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], code: int
) -> None:
    """Attack: every trace is taken off a broken node: its pool then lacks a node, which pipelines let pass after a deploy."""
    fleet = fleets.fleet()
    fleet.outputs["verification"]["pools"]["mig"]["minNodes"] = 2
    monkeypatch.setattr(command, "_collect", lambda _: fleet.judged())
    assert main(["evidence", "shop", *options]) == code
    assert ("nodes are missing: mig has 1 of 2 nodes" in capsys.readouterr().err) is (code == 2)


def test_a_pool_that_may_be_empty_passes_after_a_deploy(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = fleets.fleet()
    fleet.outputs["verification"]["pools"]["mig"]["minNodes"] = 0
    fleet.nodes = [node for node in fleet.nodes if node["metadata"]["name"] != "mig-0"]
    monkeypatch.setattr(command, "_collect", lambda _: fleet.judged())
    assert main(["evidence", "shop", "--all-nodes"]) == 3


def test_hostile_names_in_traces_stay_text() -> None:
    fleet = fleets.fleet()
    node = {"metadata": {"name": "x\x1b[2J<b>", "annotations": {"gpu-pools/\u202ex<img src=x>": 1, "gpu-pools/verification": 7}}}
    fleet.nodes.append(node)
    found = fleet.judged()
    assert found.strays[0].verdict is Verdict.CANNOT_TELL
    assert "\x1b" not in evidence_table(found, colour=False)
    assert "<img" not in evidence_page(found)
    assert json.dumps(evidence_json(found)).isascii()
