"""The comment: nothing of others can break it or reach out of it, and it always fits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import assume, example, given, settings

from gpu_pools.changes.blast import blast_radius
from gpu_pools.changes.markdown import comment
from gpu_pools.changes.report_basis import ReportBasis
from gpu_pools.changes.steps import Finding, Preview
from gpu_pools.changes.workloads import Asking
from gpu_pools.cli.main import main
from gpu_pools.plan.planning import plan_config
from gpu_pools.text.incidents import named
from tests.hostile import LIVE, forge, harmful, texts

from .stacks import BEFORE, after
from .test_pools import SEVEN, SLICED, plan

if TYPE_CHECKING:
    from gpu_pools.changes.blast import BlastRadius

HERE = Path(__file__).parent
TWO, ONE = plan(SLICED, pools=2), plan(SLICED)


def _radius(*findings: Finding, asking: tuple[Asking, ...] = ()) -> BlastRadius:
    return blast_radius(Preview((), findings), TWO, ONE, asking=asking)


def _with(text: str) -> str:
    asking = (Asking(text, "nvidia.com/gpu"),)
    return comment(
        "shop",
        _radius(Finding(text, "mandatory", text, text), Finding("b", "advisory", "y", text), asking=asking),
        ReportBasis(text, text),
    )


@settings(deadline=None)
@given(texts())
@example("\n- proven: all nodes\nC01")
def test_texts_of_others_stay_texts(text: str) -> None:
    """Whatever a policy, a pod or who previews says: the comment has the parts that it has with calm words, and nothing lives."""
    lines = len(text.strip().splitlines())
    assume(lines)
    # An id of an incident is explained below, in our own words, whoever names it.
    calmly = "\n".join([" ".join(["x", *named([_with(f"x{text}")])]), *["x"] * (lines - 1)])
    shown, calm = (forge().parse(one) for one in (_with(f"x{text}"), _with(calmly)))
    assert [one.type for one in shown] == [one.type for one in calm]
    assert not harmful(_with(text))
    assert [one.content for one in shown if one.type == "html_block"] == [one.content for one in calm if one.type == "html_block"]
    for one in shown:
        for inside in one.children or ():
            assert inside.type in {
                "text",
                "code_inline",
                "softbreak",
                "text_special",
                "html_inline",
                "strong_open",
                "strong_close",
                "em_open",
                "em_close",
            }
            assert inside.type != "html_inline" or inside.content == "<br>"
            assert inside.type == "code_inline" or not LIVE.search(inside.content)


def test_findings_stand_by_level_and_mandatory_ones_block() -> None:
    text = comment("shop", _radius(Finding("a", "mandatory", "x", "m"), Finding("b", "advisory", "y", "n")), ReportBasis())
    assert text.index("Policies that stop it: 1") < text.index("Policies that advise: 1")
    assert "- a: x" in text
    assert "(blocked)" in text.splitlines()[1]


def test_a_comment_too_long_is_cut_and_says_so() -> None:
    many = [Finding("rule", "advisory", "x", "word " * 200) for _ in range(100)]
    text = comment("shop", _radius(*many), ReportBasis())
    assert len(text) < 65_536
    assert text.endswith("_Cut: the JSON document has all of it._\n")


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (ReportBasis("", ""), "_Running pods were looked at, besides the stack's own workloads._"),
        (
            ReportBasis("the sandbox", "nobody may"),
            "_Previewed against the sandbox. Running pods were not looked at: nobody may._",
        ),
    ],
)
def test_it_ends_with_what_was_looked_at(seen: ReportBasis, told: str) -> None:
    assert comment("shop", _radius(), seen).splitlines()[-1] == told


@pytest.mark.parametrize(("section", "told"), [({"deadlineSeconds": 900}, "each has 15 minutes to be"), ({"enabled": False}, "")])
def test_how_long_a_deploy_waits_for_a_node_is_told(section: dict[str, object], told: str) -> None:
    stack = yaml.safe_load(after("replicas"))["config"] | {"gpu-pools:verification": section}
    before, later = plan_config(yaml.safe_load(BEFORE)["config"]), plan_config(stack)
    text = comment("shop", blast_radius(Preview(()), before, later), ReportBasis())
    assert ("verifiers ask" in text) == bool(told)
    assert told in text


def test_another_mig_strategy_is_told_because_it_concerns_every_pool() -> None:
    uneven = plan({"mig": {"layout": {"3g.40gb": 1, "2g.20gb": 2}}})
    told = [comment("shop", blast_radius(Preview(()), before, uneven), ReportBasis()) for before in (plan(SEVEN), uneven)]
    assert ["strategy of the cluster changes, single → mixed" in text for text in told] == [True, False]


def test_the_first_line_says_which_comment_it_is() -> None:
    assert comment("shop", _radius(), ReportBasis()).startswith("<!-- gpu-pools preview of shop -->\n")


class TestCommand:
    """``python -m gpu_pools changes``."""

    @pytest.fixture(autouse=True)
    def _files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("before.yaml").write_text(BEFORE)
        Path("after.yaml").write_text(after("vm-size"))

    def _run(self, *arguments: str) -> int:
        preview = str(HERE / "previews" / "vm-size.jsonl")
        return main(["changes", preview, "--before", "before.yaml", "--after", "after.yaml", *arguments])

    def test_it_prints_the_comment_and_ends_with_1_where_the_change_is_blocked(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self._run("--stack", "shop") == 1
        assert "nobody acknowledged it" in capsys.readouterr().out

    def test_an_acknowledged_replacement_is_let_through(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._run()
        section = self._entry(capsys).replace("…", "nobody trains this week")
        Path("after.yaml").write_text(after("vm-size") + section)
        assert self._run() == 0
        assert "Acknowledged: nobody trains this week" in capsys.readouterr().out

    def _entry(self, capsys: pytest.CaptureFixture[str]) -> str:
        """The very entry that the comment shows."""
        (found,) = re.findall(r"```yaml\n(.*?)```", capsys.readouterr().out, re.DOTALL)
        return str(found)

    def test_an_acknowledgement_that_stood_there_before_is_used_up(self, capsys: pytest.CaptureFixture[str]) -> None:
        """So whoever goes to and fro acknowledges each way anew, with a reason of its own."""
        self._run()
        section = self._entry(capsys).replace("…", "nobody trains this week")
        Path("before.yaml").write_text(BEFORE + section)
        Path("after.yaml").write_text(after("vm-size") + section)
        assert self._run("--json", "told.json") == 1
        (told,) = json.loads(Path("told.json").read_text())["endings"]
        assert (told["acknowledged"], told["acknowledgementUsedUp"]) == (None, True)
        assert "it is used up" in capsys.readouterr().out
        Path("after.yaml").write_text(after("vm-size") + section.replace("this week", "next week either"))
        assert self._run() == 0

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--pods", "nowhere"),
            ("--prices", "nowhere"),
            ("--before", "nowhere"),
            ("--after", "nowhere"),
            ("--pods", "after.yaml"),
        ],
    )
    def test_a_wrong_document_ends_with_2(self, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
        assert self._run(*arguments) == 2
        assert capsys.readouterr().out == ""

    def test_all_wrong_documents_are_told_at_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("before.yaml").write_text("config: {gpu-pools:cluster: {platform: moon}}")
        Path("prices.yaml").write_text("currency: EUR\nperHour: {small: 0}\n")
        assert self._run("--after", "nowhere", "--pods", "before.yaml", "--prices", "prices.yaml") == 2
        told = capsys.readouterr().err.splitlines()
        problems = [line for line in told if line.startswith("- ")]
        assert told[0] == f"{len(problems)} problems in what was given; nothing was judged."
        for begins in (
            "- nowhere: ",
            "- before.yaml: gpu-pools:cluster.platform: ",
            "- before.yaml: it is not a list of pods",
            "- prices.yaml: perHour.small is not a price",
        ):
            assert [line.startswith(begins) for line in problems].count(True) == 1, begins

    def test_it_says_why_nobody_looked_at_running_pods(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self._run("--no-pods", "the cluster is away", "--json", "c.json") == 1
        assert capsys.readouterr().out.endswith("_Running pods were not looked at: the cluster is away._\n")
        assert json.loads(Path("c.json").read_text())["runningPods"] == {"lookedAt": False, "whyNot": "the cluster is away"}

    def test_limits_of_a_change_block_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self._run("--max-more-gpus", "1") == 1
        assert "the change adds up to 2 GPUs; allowed: 1" in capsys.readouterr().out
